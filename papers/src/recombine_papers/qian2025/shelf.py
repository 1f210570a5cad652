"""Importing this registers the tasks and measures of the paper."""

from recombine_papers.qian2025 import independent as independent
