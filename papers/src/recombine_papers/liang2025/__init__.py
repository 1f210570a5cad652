"""Liang et al. 2025: forced rendering of disentangled latents."""

# Registration order is the order of tables and reports.
# isort: off
from recombine_papers.liang2025 import hidden_square as hidden_square
from recombine_papers.liang2025 import failures as failures
from recombine_papers.liang2025 import cures as cures
from recombine_papers.liang2025 import reading as reading
from recombine_papers.liang2025 import rotation as rotation
from recombine_papers.liang2025 import scaling as scaling
