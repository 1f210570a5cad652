"""Importing this registers the tasks and measures of the paper."""

from recombine_papers.liang2025 import crossfade as crossfade
from recombine_papers.liang2025 import rotated_digits as rotated_digits
