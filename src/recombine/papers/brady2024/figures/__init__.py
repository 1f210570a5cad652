"""Figures of brady2024 for the report; importing them loads matplotlib."""

# isort: off
from recombine.papers.brady2024.figures import objects as objects
from recombine.papers.brady2024.figures import theory as theory
from recombine.papers.brady2024.figures import vectors as vectors
