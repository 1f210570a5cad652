"""Tasks: one file per family; a new file needs its line here."""


from recombine.tasks import bumps as bumps
from recombine.tasks import image_grid as image_grid
from recombine.tasks import scenes as scenes
from recombine.tasks import sprites as sprites
