"""Tasks: one file per family; a new file needs its line here."""

from recombine_papers.brady2024 import block_vectors as blocks
from recombine_papers.brady2024 import interacting as interactions
from recombine_papers.liang2025 import rotated_digits as rotation
from recombine_papers.lippl2025 import digit_addition as pictures
from recombine_papers.lippl2025 import symbolic as symbolic
from recombine_papers.qian2025 import independent as modular
from recombine_papers.wiedemer2023 import composed_vectors as vectors

from recombine.tasks import bumps as bumps
from recombine.tasks import image_grid as image_grid
from recombine.tasks import scenes as scenes
from recombine.tasks import sprites as sprites
