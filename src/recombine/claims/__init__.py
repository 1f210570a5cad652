"""Experiments, claims, records and verdicts: what is measured, and which sentences hold."""
