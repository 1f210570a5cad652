"""Figures as SVG, and what they are made of."""
