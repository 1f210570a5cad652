"""Tasks of independent parts: sines side by side, a Gaussian hill and a composition of sines."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import final

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from recombine.core.error import Refused
from recombine.core.space import Factor, Mask, Points, Space
from recombine.core.support import Complement, Support, axes
from recombine.core.task import Task, task

REACH = 2.0  # inputs of the independent functions lie within ±REACH


@dataclass(frozen=True)
class Sine:
    """The function a sin(f x + φ) of one number."""

    amplitude: float
    frequency: float
    phase: float

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate it."""
        return self.amplitude * torch.sin(self.frequency * x + self.phase)


def sines(
    count: int = 4, *, slowest: float = 0.4, fastest: float = 1.8, seed: int = 145
) -> tuple[Sine, ...]:
    """Draw sines: a ~ U[0.7, 1], f ~ U[slowest, fastest], φ ~ U[0, 2π] (Qian et al. 2025).

    The first functions of a longer list are those of a shorter one.
    """
    if count < 1 or not 0 <= slowest <= fastest:
        raise Refused(
            f"{count} sines of frequencies {slowest} to {fastest} were asked for; give 1 or more, "
            "and frequencies of which the first is 0 or more and not above the second."
        )
    low, high = (0.7, slowest, 0.0), (1.0, fastest, 2 * pi)
    rows = np.random.default_rng(seed).uniform(low, high, size=(count, 3))
    return tuple(Sine(*map(float, row)) for row in rows)


def line(count: int, reach: float = REACH) -> Space:
    """Build the space of some numbers between -reach and reach.

    >>> print(line(2))
    Space(x1: [-2, 2), x2: [-2, 2))
    """
    if count < 1:
        raise Refused(f"A space of {count} numbers was asked for; give 1 or more.")
    return Space(tuple(Factor(f"x{k + 1}", low=-reach, high=reach) for k in range(count)))


@task
def independent_sines(
    count: int = 4, slowest: float = 0.4, fastest: float = 1.8, seed: int = 145
) -> Task:
    """Give each number its own sine: independent functions side by side.

    The paper has 4 of them; for 8 and 16 its code says `fastest=0.8`.
    """
    parts = sines(count, slowest=slowest, fastest=fastest, seed=seed)
    a, f, phase = torch.tensor([(p.amplitude, p.frequency, p.phase) for p in parts]).T

    def side_by_side(z: Tensor) -> Tensor:
        out: Tensor = a.to(z) * torch.sin(f.to(z) * z + phase.to(z))
        return out

    return Task(line(count), lambda z: z, side_by_side)


@task
def independent_lines(count: int = 4) -> Task:
    """Repeat the numbers that were given: the linear control of independent sines."""
    return Task(line(count), lambda z: z, lambda z: z)


def one_at_a_time(count: int = 4) -> Support:
    """Show points of which at most one number differs from zero, each as often (sparse inputs)."""
    return axes(*[0.0] * count)


@task
def gaussian_hill(sigma: float = 0.5) -> Task:
    """Give the height exp(-r²/2σ²) of a round hill over the square [-1, 1]²."""
    if not sigma > 0:
        raise Refused(f"A hill of width {sigma} was asked for; give a number above 0.")
    return Task(
        line(2, reach=1.0),
        lambda z: z,
        lambda z: torch.exp(-z.square().sum() / (2 * sigma**2))[None],
    )


@final
@dataclass(frozen=True)
class Disk(Support):
    """Points closer to zero than `radius`."""

    radius: float = 1.0

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points lie within the radius."""
        return np.asarray((z**2).sum(axis=1) < self.radius**2)

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw by rejection."""
        return Complement(~self).sample(space, n, rng)

    def __str__(self) -> str:
        return f"disk({self.radius:g})"


@final
@dataclass(frozen=True)
class Quadrants(Support):
    """Points of the plane whose two coordinates have the same sign: x·y > 0."""

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points lie in the two opposite quadrants."""
        if space.dim != 2:
            raise Refused(f"{space} has {space.dim} coordinates; quadrants need 2.")
        return np.asarray(z[:, 0] * z[:, 1] > 0)

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw by rejection."""
        return Complement(~self).sample(space, n, rng)

    def __str__(self) -> str:
        return "quadrants()"


def disk(radius: float = 1.0) -> Support:
    """Show the points closer to zero than `radius`."""
    if not radius > 0:
        raise Refused(f"A disk of radius {radius} is empty; give a number above 0.")
    return Disk(float(radius))


def quadrants() -> Support:
    """Show two opposite quadrants, x·y > 0; ask about `disk()` for the paper's other two.

    >>> split = gaussian_hill().split(
    ...     disk() & quadrants(), query=disk(), n=100, rng=np.random.default_rng(0)
    ... )
    >>> bool((split.held_out.z.prod(axis=1) <= 0).all())
    True
    """
    return Quadrants()


@task
def sine_of_sines(slowest: float = 0.8, fastest: float = 3.6, seed: int = 42) -> Task:
    """Give z = f₃(f₁(x) + f₂(y)), three random sines, over the square [-1, 1]²."""
    first, second, third = sines(3, slowest=slowest, fastest=fastest, seed=seed)
    return Task(line(2, reach=1.0), lambda z: z, lambda z: third(first(z[0]) + second(z[1]))[None])


@final
@dataclass(frozen=True)
class Tiles(Support):
    """A random share of the equal tiles into which every axis of a continuous space is cut."""

    side: int
    share: float
    seed: int = 0

    def chosen(self, dim: int) -> Mask:
        """Mark the tiles that are shown, as a table with one axis a coordinate."""
        count = self.side**dim
        mask = np.zeros(count, dtype=bool)
        order = np.random.default_rng(self.seed).permutation(count)
        mask[order[: round(self.share * count)]] = True
        return mask.reshape((self.side,) * dim)

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points lie in a tile that is shown."""
        if any(f.levels is not None for f in space.factors):
            raise Refused(
                f"{self} cuts continuous axes, but {space} has discrete factors; use fraction()."
            )
        ends = [(f.low, f.high) for f in space.factors for _ in range(f.dim)]
        low, high = np.array(ends).T
        cell = np.floor((z - low) / (high - low) * self.side).astype(int)
        return np.asarray(self.chosen(space.dim)[tuple(cell.clip(0, self.side - 1).T)])

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw by rejection."""
        return Complement(~self).sample(space, n, rng)

    def __str__(self) -> str:
        return f"tiles({self.side}, {self.share:g}, seed={self.seed})"


def tiles(side: int = 8, share: float = 0.8, *, seed: int = 0) -> Support:
    """Show a random share of `side` × `side` tiles of a continuous space; the others are hidden."""
    if side < 1 or not 0 < share <= 1:
        raise Refused(
            f"A share {share} of tiles, {side} a side, was asked for; give 1 or more a side, and "
            "a share above 0 and at most 1."
        )
    return Tiles(side, float(share), seed)
