"""Tasks of independent parts: sines side by side, a Gaussian hill and a composition of sines."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
import torch
from torch import Tensor

from recombine.base.error import Refused
from recombine.spaces.space import Factor, Space
from recombine.tasks.task import Task, task
from recombine_papers.qian2025.generators import REACH

TILES = 64  # of the square, which the authors shuffle before they draw the sines


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
    count: int = 4,
    *,
    slowest: float = 0.4,
    fastest: float = 1.8,
    seed: int = 145,
    nested: bool = False,
    shuffled: int = 0,
) -> tuple[Sine, ...]:
    """Draw sines a sin(f x + φ): a ~ U[0.7, 1], f ~ U[slowest, fastest], φ ~ U[0, 2π].

    By default they are drawn as the authors draw them (Qian et al. 2025), so that a seed names the
    same functions: NumPy's legacy generator returns all amplitudes, then frequencies, then phases.

    - nested: draw sine by sine, so that the first ones of a longer list are those of a shorter one
    - shuffled: length of a list that the authors shuffle with the same generator before
    """
    if count < 1 or not 0 <= slowest <= fastest:
        raise Refused(
            f"sines() needs count >= 1 and 0 <= slowest <= fastest; got count={count}, "
            f"slowest={slowest}, fastest={fastest}."
        )
    if nested:
        shares = np.random.default_rng(seed).random(size=(count, 3))
    else:
        legacy = np.random.RandomState(seed)  # the authors' generator
        legacy.shuffle(np.arange(shuffled))
        shares = legacy.rand(3, count).T
    low, high = np.array([0.7, slowest, 0.0]), np.array([1.0, fastest, 2 * pi])
    return tuple(Sine(*map(float, row)) for row in low + (high - low) * shares)


def line(count: int, reach: float = REACH) -> Space:
    """Build the space of some numbers between -reach and reach.

    >>> print(line(2))
    Space(x1: [-2, 2], x2: [-2, 2])
    """
    if count < 1:
        raise Refused(f"line() needs count >= 1; got count={count}.")
    return Space(tuple(Factor(f"x{k + 1}", low=-reach, high=reach) for k in range(count)))


@task
def independent_sines(count: int = 4, seed: int = 145, nested: bool = False) -> Task:
    """Apply a separate sine to each number.

    With `nested`, the functions of a smaller task are among those of a larger one.
    """
    parts = sines(count, seed=seed, nested=nested)
    a, f, phase = torch.tensor([(p.amplitude, p.frequency, p.phase) for p in parts]).T

    def side_by_side(z: Tensor) -> Tensor:
        out: Tensor = a.to(z) * torch.sin(f.to(z) * z + phase.to(z))
        return out

    return Task(line(count), lambda z: z, side_by_side)


@task
def independent_lines(count: int = 4) -> Task:
    """Identity: the linear control of independent sines."""
    return Task(line(count), lambda z: z, lambda z: z)


@task
def gaussian_hill(sigma: float = 0.5) -> Task:
    """Predict the height exp(-r²/2σ²) of a round hill over the square [-1, 1]²."""
    if not sigma > 0:
        raise Refused(f"gaussian_hill() needs sigma > 0; got sigma={sigma}.")
    return Task(
        line(2, reach=1.0),
        lambda z: z,
        lambda z: torch.exp(-z.square().sum() / (2 * sigma**2))[None],
    )


@task
def sine_of_sines(seed: int = 42) -> Task:
    """Predict z = f₃(f₁(x) + f₂(y)), the authors' three random sines, over the square [-1, 1]²."""
    first, second, third = sines(3, slowest=0.8, fastest=3.6, seed=seed, shuffled=TILES)
    return Task(line(2, reach=1.0), lambda z: z, lambda z: third(first(z[0]) + second(z[1]))[None])
