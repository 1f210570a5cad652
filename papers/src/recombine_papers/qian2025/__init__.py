"""Qian et al. 2025: modularity from activity noise."""

# Registration order is the order of tables and reports.
# isort: off
from recombine_papers.qian2025 import modules as modules
from recombine_papers.qian2025 import depth as depth
from recombine_papers.qian2025 import elsewhere as elsewhere
from recombine_papers.qian2025 import extrapolation as extrapolation
from recombine_papers.qian2025 import robustness as robustness
from recombine_papers.qian2025 import samples as samples
