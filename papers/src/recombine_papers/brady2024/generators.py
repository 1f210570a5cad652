"""Facts about the generators of tasks: their kinds, interaction orders and ranges."""

from __future__ import annotations

from typing import Literal

BLOCKS, SIZE = 3, 4  # of image generators: blocks of latents, latents per block


Kind = Literal[
    "disjoint",
    "additive",
    "bilinear",
    "cubic",
    "multiplicative",
    "occluding",
    "softmax",
    "entangled",
    "rotated",
]


BlockKind = Literal["disjoint", "additive", "bilinear", "entangled"]  # of vector generators


# Interaction order between blocks; None if it is infinite.
ORDERS: dict[Kind, int | None] = {
    "disjoint": 0,
    "additive": 1,
    "bilinear": 2,
    "cubic": 3,
    "multiplicative": None,
    "occluding": None,
    "softmax": None,
    "entangled": None,
    "rotated": None,
}
