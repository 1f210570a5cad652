"""Tasks: one file a family; a new file needs its line here."""

from recombine.tasks import bumps as bumps
