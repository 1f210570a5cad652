"""Figures of lippl2025 for the report; importing them loads matplotlib."""

# isort: off
from recombine.papers.lippl2025.figures import kernels as kernels
from recombine.papers.lippl2025.figures import theory as theory
