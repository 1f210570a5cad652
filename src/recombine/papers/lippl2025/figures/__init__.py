"""Figures of lippl2025; the report imports them."""

# isort: off
from recombine.papers.lippl2025.figures import kernels as kernels
from recombine.papers.lippl2025.figures import theory as theory
