"""Audit any model or embedding: errors by combination, reasons, a diagnosis and advice."""
