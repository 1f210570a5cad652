"""Importing this registers the tasks and measures of the paper."""

from recombine_papers.brady2024 import block_vectors as block_vectors
from recombine_papers.brady2024 import interacting as interacting
