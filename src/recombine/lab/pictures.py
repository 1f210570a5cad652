"""Pictures of two factors: letters in twelve fonts, and people by role and look."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from recombine.spaces.space import grid
from recombine.tasks.banks.bank import load
from recombine.tasks.banks.glyphs import FAMILIES, SLANTS, WEIGHTS
from recombine.tasks.banks.packages import GENDERS, TONES, cached, source
from recombine.tasks.encode import join, one_hot
from recombine.tasks.task import Task

SIDE = 16  # pixels
SIGNS = tuple("ABEGKMQRSaeg")
FONTS = tuple(f"{f} {w} {s}" for f in FAMILIES for w in WEIGHTS for s in SLANTS)
ROLES = (
    *("health_worker", "student", "teacher", "judge", "farmer", "cook", "mechanic"),
    *("factory_worker", "office_worker", "scientist", "technologist", "singer", "artist"),
    *("pilot", "astronaut", "firefighter", "cop", "guardsman"),
)
LOOKS = tuple(f"{g}, {t.replace('_', ' ')}" for g in GENDERS for t in TONES)


def missing_emoji() -> str:
    """Return how to get the images of emoji; '' if they are present."""
    if cached("emoji").exists():
        return ""
    megabytes = source("emoji").megabytes
    return f"Needs its images: run 'recombine data get emoji' ({megabytes:.0f} MB), then reload."


def drawn(name: str, rows: tuple[str, ...]) -> Task:
    """Look up a bank's images by two one-hot codes: its first factor, and all others together."""
    table = _table(name, rows)
    n, m = table.shape[:2]

    def image(z: Tensor) -> Tensor:
        pixels: Tensor = table.to(z.device)[tuple(z.long().unbind())]
        return pixels

    return Task(grid(a=n, b=m), inputs=join(one_hot(n), one_hot(m)), targets=image)


@cache
def _table(name: str, rows: tuple[str, ...]) -> Tensor:
    """Small images of some values of a bank's first factor, (rows, others, …, side, side)."""
    bank = load(name)
    assert bank.space is not None
    first = bank.space.factors[0]
    at = [int(first.encode([row])[0]) for row in rows]
    small = adaptive_avg_pool2d(torch.from_numpy(bank.images), SIDE)
    small = small[:, 0] if small.shape[1] == 1 else small
    table: Tensor = small.unflatten(0, (first.levels or 0, -1))[at]
    return table
