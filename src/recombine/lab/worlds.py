"""Worlds of the lab: two factors on a grid, with an image or a number for every combination."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recombine.core.error import Refused
from recombine.core.space import grid
from recombine.core.task import Task
from recombine.lab import pictures
from recombine.tasks.bumps import bumps
from recombine.tasks.encode import join, one_hot

PIXELS = 16  # side of a sprite image
CELLS = 32 * 32


@dataclass(frozen=True, eq=False)
class World:
    """A task over two factors, with the words that the page needs."""

    name: str
    title: str
    about: str
    factors: tuple[str, str]
    kind: str  # "image" in gray, "color" image or "number"
    build: Callable[[int], Task]
    combine: str = "add"  # how a factored model joins its parts: add, outer, over
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


def _numbers(function: Callable[[Tensor, Tensor, int], Tensor]) -> Callable[[int], Task]:
    """Build tasks whose target is a number of two one-hot coded values."""

    def build(size: int) -> Task:
        return Task(
            grid(a=size, b=size),
            inputs=join(one_hot(size), one_hot(size)),
            targets=lambda z: function(z[0], z[1], size)[None].float(),
        )

    return build


def _xor(a: Tensor, b: Tensor, size: int) -> Tensor:
    return torch.where((a < size / 2) == (b < size / 2), 0.0, 1.0)


def _context(a: Tensor, b: Tensor, size: int) -> Tensor:
    """Report `a` in one context, and its mirror image in the other; `b` is the context."""
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
    """Answer two independent sines, one of each number; inputs are the plain numbers."""

    def number(z: Tensor) -> Tensor:
        return 4 * z / (size - 1) - 2

    def both(z: Tensor) -> Tensor:
        x = number(z)
        return torch.stack([torch.sin(1.6 * x[0] + 0.4), torch.sin(1.1 * x[1] + 2.0)]) / 2 + 0.5

    return Task(grid(a=size, b=size), inputs=number, targets=both)


def builtin() -> dict[str, World]:
    """Return the worlds that need no table; emoji only where their images are."""
    worlds = [
        World(
            "bumps",
            "A bump at (x, y)",
            "A decoder is told column and row, perfectly disentangled, and must draw the bump.",
            ("x", "y"),
            "image",
            bumps,
            "outer",
        ),
        World(
            "sum",
            "a + b",
            "The sum of two numbers: additive, so few combinations determine all others.",
            ("a", "b"),
            "number",
            _numbers(lambda a, b, n: (a + b) / (2 * n - 2)),
        ),
        World(
            "product",
            "a × b",
            "The product of two numbers: not additive, and kernels underestimate its corners.",
            ("a", "b"),
            "number",
            _numbers(lambda a, b, n: a * b / (n - 1) ** 2),
        ),
        World(
            "maximum",
            "max(a, b)",
            "The larger of two numbers.",
            ("a", "b"),
            "number",
            _numbers(lambda a, b, n: torch.maximum(a, b) / (n - 1)),
        ),
        World(
            "xor",
            "same or different half",
            "Like XOR: neither factor alone says anything. No sum over factors can express it.",
            ("a", "b"),
            "number",
            _numbers(_xor),
        ),
        World(
            "context",
            "a, read in context b",
            "The context decides whether the value counts upwards or downwards.",
            ("a", "b"),
            "number",
            _numbers(_context),
        ),
        World(
            "sprites",
            "a square and a disc",
            "Two sprites move on one small image, the square in front.",
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
            "Twelve letters in twelve fonts: will a new letter take on a known font?",
            ("letter", "font"),
            "image",
            lambda size: pictures.letters(),
            labels=(pictures.SIGNS, pictures.FONTS),
        ),
    ]
    if not pictures.missing_emoji():
        worlds.append(EMOJI)
    return {w.name: w for w in worlds}


EMOJI = World(
    "emoji",
    "people by role and look",
    "Google's emoji of 18 roles in 18 looks, of gender and skin tone: real pictures in color.",
    ("role", "look"),
    "color",
    lambda size: pictures.people(),
    labels=(pictures.ROLES, pictures.LOOKS),
)


def absent() -> list[dict[str, str]]:
    """List worlds that could be there, with a sentence that says how to get them."""
    missing = pictures.missing_emoji()
    return [{"name": EMOJI.name, "title": EMOJI.title, "about": missing}] if missing else []


@dataclass(frozen=True)
class Table:
    """Two factor columns of a table and a number for every row."""

    codes: NDArray[np.int64]  # (rows, 2): level numbers of both factors
    values: NDArray[np.float64]  # (rows,)
    factors: tuple[str, str]
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    source: str = "your.csv"  # the file's name
    target: str = "y"
    fixed: tuple[tuple[str, str], ...] = ()  # other columns held at one value

    @property
    def title(self) -> str:
        """Name the table in a menu."""
        held = "".join(f", {name} = {value}" for name, value in self.fixed)
        return f"your table: {self.target}{held}"


def from_table(table: Table) -> World:
    """Make a world of a table; repeated combinations are averaged, others are missing."""
    codes, values, factors, labels = table.codes, table.values, table.factors, table.labels
    shape = (len(labels[0]), len(labels[1]))
    if min(shape) < 2 or shape[0] * shape[1] > CELLS:
        raise Refused(
            f"The lab shows two factors with 2 or more levels each and at most {CELLS} cells; got "
            f"{shape[0]} × {shape[1]}. Choose other columns or merge levels."
        )
    count, total = np.zeros(shape), np.zeros(shape)
    np.add.at(count, tuple(codes.T), 1)
    np.add.at(total, tuple(codes.T), values)
    measured = count > 0
    mean = np.divide(total, count, out=np.zeros(shape), where=measured)
    low, high = mean[measured].min(), mean[measured].max()
    if not high > low:
        raise Refused("Every combination of the table has the same value; there is nothing to do.")
    scaled = torch.from_numpy(np.where(measured, (mean - low) / (high - low), 0.0)).float()

    def build(size: int) -> Task:
        return Task(
            grid(a=shape[0], b=shape[1]),
            inputs=join(one_hot(shape[0]), one_hot(shape[1])),
            targets=lambda z: _at(scaled, z)[None],
        )

    return World(
        "table",
        table.title,
        f"{int(count.sum())} rows, {int(measured.sum())} of {measured.size} combinations.",
        factors,
        "number",
        build,
        labels=labels,
        measured=measured,
        table=table,
    )


def _at(table: Tensor, z: Tensor) -> Tensor:
    """Look up one cell in a way that `vmap` can batch."""
    rows = (torch.arange(table.shape[0]) == z[0]).float()
    columns = (torch.arange(table.shape[1]) == z[1]).float()
    return rows @ table @ columns
