"""Figures of liang2025; the report imports them."""

# isort: off
from recombine_papers.liang2025.figures import hidden_square as hidden_square
from recombine_papers.liang2025.figures import reading as reading
from recombine_papers.liang2025.figures import rotation as rotation
from recombine_papers.liang2025.figures import scaling as scaling
