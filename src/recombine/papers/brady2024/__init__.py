"""Brady et al. 2024: interaction asymmetry."""

# Registration order is the order of tables and reports.
# isort: off
from recombine.papers.brady2024 import objects as objects
from recombine.papers.brady2024 import theory as theory
from recombine.papers.brady2024 import vectors as vectors
