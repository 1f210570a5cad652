"""Figures of brady2024; the report imports them."""

# isort: off
from recombine_papers.brady2024.figures import objects as objects
from recombine_papers.brady2024.figures import orders as orders
from recombine_papers.brady2024.figures import attention as attention
from recombine_papers.brady2024.figures import vectors as vectors
