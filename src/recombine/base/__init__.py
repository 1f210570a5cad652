"""Spaces, supports, tasks, diagnostics, experiments and claims, and their shared helpers."""
