"""Figures of wiedemer2023; the report imports them."""

# isort: off
from recombine_papers.wiedemer2023.figures import sprites as sprites
from recombine_papers.wiedemer2023.figures import slots as slots
from recombine_papers.wiedemer2023.figures import reconstruction as reconstruction
from recombine_papers.wiedemer2023.figures import rank as rank
from recombine_papers.wiedemer2023.figures import vectors as vectors
from recombine_papers.wiedemer2023.figures import inverse as inverse
