"""Figures of liang2025 for the report; importing them loads matplotlib."""

# isort: off
from recombine.papers.liang2025.figures import hidden_square as hidden_square
from recombine.papers.liang2025.figures import reading as reading
from recombine.papers.liang2025.figures import rotation as rotation
from recombine.papers.liang2025.figures import scaling as scaling
