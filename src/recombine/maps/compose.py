"""Composition functions: how the parts that components draw become one output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from recombine.core.error import Refused, nearest

Combine = Callable[
    ..., Tensor
]  # (*parts) -> output, all with rows on axis 0 and channels on axis 1
Part = Callable[[Tensor], Tensor]  # (n, latents of a component) -> (n, channels, …)


def add(*parts: Tensor) -> Tensor:
    """Add the parts.

    >>> add(torch.ones(1, 2), torch.ones(1, 2))
    tensor([[2., 2.]])
    """
    first, *rest = _alike("add", parts)
    return sum(rest, start=first)


def product(*parts: Tensor) -> Tensor:
    """Multiply the parts, number by number."""
    first, *rest = _alike("product", parts)
    for part in rest:
        first = first * part
    return first


def step(*parts: Tensor) -> Tensor:
    """Hide what lies behind: the first part is on top wherever its channels sum above zero."""
    *front, out = _alike("step", parts)
    for part in reversed(front):
        out = torch.where(part.sum(dim=1, keepdim=True) > 0, part, out)
    return out


def sigmoid(*parts: Tensor, gain: float = 1.0) -> Tensor:
    """Hide softly: a·σ(g m) + b·σ(-g m), where m is the sum of channels of the part `a` on top.

    >>> sigmoid(torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[0.5000, 0.5000]])
    """
    if not gain > 0:
        raise Refused(f"A gain of {gain} was given to sigmoid; it must be positive.")
    *front, out = _alike("sigmoid", parts)
    for part in reversed(front):
        mass = gain * part.sum(dim=1, keepdim=True)
        out = part * torch.sigmoid(mass) + out * torch.sigmoid(-mass)
    return out


def alpha(*parts: Tensor) -> Tensor:
    """Lay RGBa parts over opaque black, the first on top; opacity is clipped to [0, 1]."""
    for k, part in enumerate(_alike("alpha", parts)):
        if part.shape[1] != 4:
            raise Refused(
                f"alpha lays parts with 4 channels (red, green, blue, opacity) over each other, "
                f"but part {k + 1} has shape {tuple(part.shape)}. Give it an opacity channel."
            )
    out = torch.zeros_like(parts[0][:, :3])
    for part in reversed(parts):
        opacity = part[:, 3:].clamp(0, 1)
        out = opacity * part[:, :3] + (1 - opacity) * out
    return out


def gated(*parts: Tensor) -> Tensor:
    """Let what lies behind open a gate for what lies before it: a·tanh(Σ b) + b."""
    *front, out = _alike("gated", parts)
    for part in reversed(front):
        out = part * torch.tanh(out.sum(dim=1, keepdim=True)) + out
    return out


def _alike(name: str, parts: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the parts, or refuse because their shapes differ."""
    if not parts:
        raise Refused(f"{name} was given no part; give one or more.")
    for k, part in enumerate(parts):
        if part.ndim < 2 or part.shape != parts[0].shape:
            raise Refused(
                f"{name} combines parts of one shape (n, channels, …), but part {k + 1} of "
                f"{len(parts)} has shape {tuple(part.shape)} and part 1 {tuple(parts[0].shape)}."
            )
    return parts


@dataclass(frozen=True)
class Combination:
    """A composition function and what is known about it; calling it composes."""

    name: str
    function: Combine
    pixelwise: bool | None = None
    """Whether each position of the output depends on that position of the parts alone."""
    differentiable: bool | None = None
    """Whether it has a derivative everywhere; `None` if that is not known."""
    instead: str = ""
    """A differentiable function of the same kind."""

    def __call__(self, *parts: Tensor) -> Tensor:
        """Compose the parts."""
        return self.function(*parts)

    def __str__(self) -> str:
        return self.name


COMBINATIONS = {
    "add": Combination("add", add, pixelwise=True, differentiable=True),
    "product": Combination("product", product, pixelwise=True, differentiable=True),
    "step": Combination("step", step, True, differentiable=False, instead="sigmoid"),
    "sigmoid": Combination("sigmoid", sigmoid, pixelwise=True, differentiable=True),
    "alpha": Combination("alpha", alpha, pixelwise=True, differentiable=True),
    "gated": Combination("gated", gated, pixelwise=True, differentiable=True),
}


def combination(name: str, **options: Any) -> Combination:
    """Look a composition function up by name: `combination("sigmoid", gain=5)`.

    >>> combination("step").differentiable
    False
    """
    if name not in COMBINATIONS:
        raise nearest("composition function", name, COMBINATIONS)
    found = COMBINATIONS[name]
    kinds = signature(found.function).parameters.values()
    known = {p.name for p in kinds if p.kind is p.KEYWORD_ONLY}
    for option in options:
        if option not in known:
            raise nearest(f"option of {name} called", option, known)
    if not options:
        return found
    label = f"{name}({', '.join(f'{k}={v:g}' for k, v in options.items())})"
    return Combination(
        label,
        partial(found.function, **options),
        found.pixelwise,
        found.differentiable,
        found.instead,
    )


def known(combine: Combine) -> Combination:
    """Say what is known about any composition function: of a stranger, nothing but its name."""
    if isinstance(combine, Combination):
        return combine
    inner = combine.func if isinstance(combine, partial) else combine
    for found in COMBINATIONS.values():
        if inner is found.function:
            if inner is combine:
                return found
            about = (found.pixelwise, found.differentiable, found.instead)
            return Combination(found.name, combine, *about)
    return Combination(getattr(combine, "__name__", type(combine).__name__), combine)


@dataclass(frozen=True)
class Composition:
    """A function of latents that composes one part a component: f(z) = C(φ_1(z_1), …, φ_K(z_K)).

    Takes a list with the latents of each component, each (n, D_k), or, when `dims` is given, one
    tensor (n, ΣD_k).
    """

    parts: tuple[Part, ...]
    combine: Combination
    dims: tuple[int, ...] | None = None

    def __call__(self, z: Tensor | Sequence[Tensor]) -> Tensor:
        """Draw the parts and compose them."""
        return self.combine(*self.components(z))

    def components(self, z: Tensor | Sequence[Tensor]) -> list[Tensor]:
        """Draw every part."""
        latents = self.split(z) if isinstance(z, Tensor) else list(z)
        if len(latents) != len(self.parts):
            raise Refused(
                f"Latents of {len(latents)} components were given to {len(self.parts)} component "
                "functions; give one tensor for each."
            )
        return [self.draw(k, block) for k, block in enumerate(latents)]

    def draw(self, component: int, latents: Tensor) -> Tensor:
        """Draw one part, or refuse because the component draws something else."""
        out = self.parts[component](latents)
        if not isinstance(out, Tensor) or out.ndim < 2 or len(out) != len(latents):
            found = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise Refused(
                f"Component {component + 1} maps latents of shape {tuple(latents.shape)} to "
                f"{found}; a component gives a tensor of shape ({len(latents)}, channels, …)."
            )
        return out

    def split(self, z: Tensor) -> list[Tensor]:
        """Cut points (n, ΣD_k) into the latents of each component."""
        if self.dims is None:
            raise Refused(
                "One tensor of latents was given, but the composition does not know where to cut "
                "it. Build it with dims=(D_1, …, D_K), or give a list with one tensor a component."
            )
        if z.ndim != 2 or z.shape[1] != sum(self.dims):
            raise Refused(
                f"Latents of shape {tuple(z.shape)} were given; components of {self.dims} "
                f"coordinates take (n, {sum(self.dims)})."
            )
        return list(z.split(self.dims, dim=1))


def compose(
    parts: Sequence[Part], combine: Combine | str, *, dims: Sequence[int] | None = None
) -> Composition:
    """Join component functions by a composition function.

    >>> f = compose([torch.sin, torch.cos], "add", dims=(1, 1))
    >>> f(torch.zeros(1, 2))
    tensor([[1.]])
    """
    if not parts:
        raise Refused("A composition was given no component; give one function or more.")
    if dims is not None and len(dims) != len(parts):
        raise Refused(f"{len(parts)} components were given, but {len(dims)} dims: one for each.")
    c = combination(combine) if isinstance(combine, str) else known(combine)
    return Composition(tuple(parts), c, None if dims is None else tuple(map(int, dims)))
