"""Foresight: is the referee of tables right about unseen combinations? Ours, not a paper."""

# Registration order is the order of tables and reports.
# isort: off
from recombine_papers.foresight import synthetic as synthetic
from recombine_papers.foresight import real as real
from recombine_papers.foresight import collecting as collecting
