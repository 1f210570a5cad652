"""Importing this registers the tasks and measures of the paper."""

from recombine_papers.lippl2025 import digit_addition as digit_addition
from recombine_papers.lippl2025 import signs as signs
from recombine_papers.lippl2025 import symbolic as symbolic
