"""Figures of lippl2025; the report imports them."""

# isort: off
from recombine_papers.lippl2025.figures import kernels as kernels
from recombine_papers.lippl2025.figures import theory as theory
