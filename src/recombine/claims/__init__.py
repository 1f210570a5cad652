"""Experiments, claims, records and verdicts: what is measured, what is said, and whether it holds."""
