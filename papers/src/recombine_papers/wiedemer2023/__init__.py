"""Wiedemer et al. 2023: compositional generalization from first principles."""

# Registration order is the order of tables and reports.
# isort: off
from recombine_papers.wiedemer2023 import sprites as sprites
from recombine_papers.wiedemer2023 import sprites_claims as sprites_claims
from recombine_papers.wiedemer2023 import slots as slots
from recombine_papers.wiedemer2023 import additivity as additivity
from recombine_papers.wiedemer2023 import reconstruction as reconstruction
from recombine_papers.wiedemer2023 import rank as rank
from recombine_papers.wiedemer2023 import vectors as vectors
from recombine_papers.wiedemer2023 import inverse as inverse
