"""Tasks: one file per family; a new file needs its line here."""

from recombine.tasks import blocks as blocks
from recombine.tasks import bumps as bumps
from recombine.tasks import image_grid as image_grid
from recombine.tasks import interactions as interactions
from recombine.tasks import modular as modular
from recombine.tasks import pictures as pictures
from recombine.tasks import rotation as rotation
from recombine.tasks import scenes as scenes
from recombine.tasks import sprites as sprites
from recombine.tasks import symbolic as symbolic
from recombine.tasks import vectors as vectors
