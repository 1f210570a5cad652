"""Spaces of factors, and the sets of combinations that are shown in training."""
