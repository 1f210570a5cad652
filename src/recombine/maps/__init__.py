"""Composition functions, derivatives of any map, and interfaces of slots."""
