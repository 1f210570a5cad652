"""Figures of qian2025; the report imports them."""

# isort: off
from recombine_papers.qian2025.figures import modules as modules
from recombine_papers.qian2025.figures import depth as depth
from recombine_papers.qian2025.figures import elsewhere as elsewhere
from recombine_papers.qian2025.figures import extrapolation as extrapolation
from recombine_papers.qian2025.figures import robustness as robustness
from recombine_papers.qian2025.figures import samples as samples
