"""Housekeeping that Make calls: executed notebooks, and the checks before a release."""
