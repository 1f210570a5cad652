"""Lippl and Stachenfeld 2025: a kernel theory of compositional generalization."""

# Registration order is the order of tables and reports.
# isort: off
from recombine_papers.lippl2025 import kernels as kernels
from recombine_papers.lippl2025 import puzzles as puzzles
from recombine_papers.lippl2025 import networks as networks
from recombine_papers.lippl2025 import images as images
