"""Importing this registers the tasks and measures of the paper."""

from recombine_papers.wiedemer2023 import composed_vectors as composed_vectors
