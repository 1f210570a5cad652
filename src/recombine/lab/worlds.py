"""Worlds of the lab: two factors on a grid, with an image or a number for every combination."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recombine.base.error import Refused
from recombine.lab import pictures
from recombine.spaces.space import grid
from recombine.tables import table as tables
from recombine.tasks.bumps import bumps
from recombine.tasks.encode import join, one_hot
from recombine.tasks.task import Task

PIXELS = 16  # side of a sprite image
CELLS = 32 * 32


@dataclass(frozen=True, eq=False)
class World:
    """A task over two factors, with its texts on the page."""

    name: str
    title: str
    about: str
    factors: tuple[str, str]
    kind: str  # "image" in gray, "color" image or "number"
    build: Callable[[int], Task]
    combine: str = "add"  # how a factored model composes its parts: add, outer, over
    sizes: tuple[int, ...] = (8, 10, 14, 20, 28, 32)
    labels: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    measured: NDArray[np.bool_] | None = None  # cells of a table that have a value
    table: Table | None = None

    def shape(self, size: int) -> tuple[int, int]:
        """Number of levels of both factors."""
        if self.labels:
            return len(self.labels[0]), len(self.labels[1])
        return size, size

    def row(self) -> dict[str, object]:
        """Describe the world for the page."""
        return {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "factors": self.factors,
            "kind": self.kind,
            "sizes": self.sizes,
            "labels": self.labels,
            "measured": None if self.measured is None else self.measured.astype(int).tolist(),
        }


def _numbers(
    name: str, title: str, about: str, function: Callable[[Tensor, Tensor, int], Tensor]
) -> World:
    """Build a world whose target is a number that depends on two one-hot coded values."""

    def build(size: int) -> Task:
        return Task(
            grid(a=size, b=size),
            inputs=join(one_hot(size), one_hot(size)),
            targets=lambda z: function(z[0], z[1], size)[None].float(),
        )

    return World(name, title, about, ("a", "b"), "number", build)


def _xor(a: Tensor, b: Tensor, size: int) -> Tensor:
    return torch.where((a < size / 2) == (b < size / 2), 0.0, 1.0)


def _context(a: Tensor, b: Tensor, size: int) -> Tensor:
    """Return `a` in one context and its mirror image in the other; `b` is the context."""
    return torch.where(b < size / 2, a, size - 1 - a) / (size - 1)


def sprite_pairs(size: int) -> Task:
    """Place a square along the columns and a disc along the rows of one small image."""

    def image(z: Tensor) -> Tensor:
        at = 0.18 + 0.64 * z / (size - 1)
        axis = (torch.arange(PIXELS, device=z.device) + 0.5) / PIXELS
        soft = 24.0
        square = torch.sigmoid(soft * (0.14 - (axis[None, :] - at[0]).abs())) * torch.sigmoid(
            soft * (0.14 - (axis[:, None] - 0.3).abs())
        )
        away = ((axis[None, :] - 0.68) ** 2 + (axis[:, None] - at[1]) ** 2 + 1e-9).sqrt()
        disc = torch.sigmoid(soft * (0.16 - away))
        return torch.maximum(square, disc * (1 - square))

    return Task(
        grid(square=size, disc=size),
        inputs=join(one_hot(size), one_hot(size)),
        targets=image,
    )


def twins(size: int) -> Task:
    """Return two independent sines, one of each number; inputs are the plain numbers."""

    def number(z: Tensor) -> Tensor:
        return 4 * z / (size - 1) - 2

    def sines(z: Tensor) -> Tensor:
        x = number(z)
        return torch.stack([torch.sin(1.6 * x[0] + 0.4), torch.sin(1.1 * x[1] + 2.0)]) / 2 + 0.5

    return Task(grid(a=size, b=size), inputs=number, targets=sines)


def builtin() -> dict[str, World]:
    """Return the worlds that need no table; emoji only where their images are."""
    worlds = [
        World(
            "bumps",
            "A bump at (x, y)",
            "A decoder receives column and row, perfectly disentangled, and must draw the bump.",
            ("x", "y"),
            "image",
            bumps,
            "outer",
        ),
        _numbers(
            "sum",
            "a + b",
            "The sum of two numbers: additive, so few combinations determine all others.",
            lambda a, b, n: (a + b) / (2 * n - 2),
        ),
        _numbers(
            "product",
            "a × b",
            "The product of two numbers: not additive, and kernels underestimate its corners.",
            lambda a, b, n: a * b / (n - 1) ** 2,
        ),
        _numbers(
            "maximum",
            "max(a, b)",
            "The larger of two numbers.",
            lambda a, b, n: torch.maximum(a, b) / (n - 1),
        ),
        _numbers(
            "xor",
            "same or different half",
            "Like XOR: neither factor alone carries information, and no sum over factors fits it.",
            _xor,
        ),
        _numbers(
            "context",
            "a, read in context b",
            "The context b decides whether the value a counts upwards or downwards.",
            _context,
        ),
        World(
            "sprites",
            "a square and a disc",
            "Two sprites move in one small image, the square in front.",
            ("square", "disc"),
            "image",
            sprite_pairs,
            "over",
        ),
        World(
            "twins",
            "two functions at once",
            "Two outputs, a sine of each number: will the network keep them apart?",
            ("a", "b"),
            "number",
            twins,
        ),
        World(
            "glyphs",
            "letters in fonts",
            "Twelve letters in twelve fonts: will the network draw a pair that it has never seen?",
            ("letter", "font"),
            "image",
            lambda size: pictures.drawn("glyphs", pictures.SIGNS),
            labels=(pictures.SIGNS, pictures.FONTS),
        ),
    ]
    if not pictures.missing_emoji():
        worlds.append(EMOJI)
    return {w.name: w for w in worlds}


EMOJI = World(
    "emoji",
    "people by role and look",
    "Google's emoji: 18 roles in 18 looks (gender and skin tone), in color.",
    ("role", "look"),
    "color",
    lambda size: pictures.drawn("emoji", pictures.ROLES),
    labels=(pictures.ROLES, pictures.LOOKS),
)


def absent() -> list[dict[str, str]]:
    """List worlds whose images are missing, with a sentence on how to get them."""
    missing = pictures.missing_emoji()
    return [{"name": EMOJI.name, "title": EMOJI.title, "about": missing}] if missing else []


@dataclass(frozen=True, eq=False)
class Table:
    """A table of two factors and a numeric target."""

    data: tables.Table
    factors: tuple[str, str]  # as the caller named them, perhaps with a rule for bins
    source: str = "your.csv"  # the file's name
    fixed: tuple[tuple[str, str], ...] = ()  # other columns held at one value

    @property
    def title(self) -> str:
        """Name the table in a menu."""
        fixed = "".join(f", {name} = {value}" for name, value in self.fixed)
        return f"your table: {self.data.targets[0]}{fixed}"


def from_table(table: Table) -> World:
    """Make a world of a table; repeated combinations are averaged."""
    data, cells = table.data, table.data.cells
    n, m = shape = data.space.shape
    if data.size > CELLS:
        raise Refused(
            f"The lab shows two factors and at most {CELLS} cells; got {n} × {m}. Choose other "
            "columns or merge levels."
        )
    at, mean = tuple(cells.z.T), cells.y[:, 0]
    low, high = mean.min(), mean.max()
    if not high > low:
        raise Refused("Every combination has the same value, so there is nothing to learn.")
    measured, values = np.zeros(shape, dtype=bool), np.zeros(shape)
    measured[at], values[at] = True, (mean - low) / (high - low)
    scaled = torch.from_numpy(values).float()

    def build(size: int) -> Task:
        return Task(
            grid(a=n, b=m),
            inputs=join(one_hot(n), one_hot(m)),
            targets=lambda z: _at(scaled, z)[None],
        )

    labels = [tuple(label[:40] for label in f.labels) for f in data.space.factors]
    return World(
        "table",
        table.title,
        f"{cells.rows.sum()} rows, {len(cells)} of {data.size} combinations.",
        (data.columns[0], data.columns[1]),
        "number",
        build,
        labels=(labels[0], labels[1]),
        measured=measured,
        table=table,
    )


def _at(table: Tensor, z: Tensor) -> Tensor:
    """Look up one cell, in a form that `vmap` can batch."""
    rows = (torch.arange(table.shape[0]) == z[0]).float()
    columns = (torch.arange(table.shape[1]) == z[1]).float()
    return rows @ table @ columns
