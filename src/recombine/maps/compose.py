"""Composition functions: combine the outputs of components (parts) into one output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recombine.base.error import Refused, nearest

# (*parts) -> output; axis 0 are points, axis 1 channels
Combine = Callable[..., Tensor]
Part = Callable[[Tensor], Tensor]  # (n, latents of a component) -> (n, channels, …)


def add(*parts: Tensor) -> Tensor:
    """Add the parts.

    >>> add(torch.ones(1, 2), torch.ones(1, 2))
    tensor([[2., 2.]])
    """
    first, *rest = _alike("add", parts)
    return sum(rest, start=first)


def product(*parts: Tensor) -> Tensor:
    """Multiply the parts elementwise."""
    first, *rest = _alike("product", parts)
    for part in rest:
        first = first * part
    return first


def step(*parts: Tensor) -> Tensor:
    """Occlude: earlier parts are on top wherever the sum of their channels is positive."""
    *front, out = _alike("step", parts)
    for part in reversed(front):
        out = torch.where(part.sum(dim=1, keepdim=True) > 0, part, out)
    return out


def sigmoid(*parts: Tensor) -> Tensor:
    """Occlude smoothly: a·σ(m) + b·σ(-m), where m is the channel sum of `a`, on top.

    >>> sigmoid(torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[0.5000, 0.5000]])
    """
    *front, out = _alike("sigmoid", parts)
    for part in reversed(front):
        mass = part.sum(dim=1, keepdim=True)
        out = part * torch.sigmoid(mass) + out * torch.sigmoid(-mass)
    return out


def alpha(*parts: Tensor) -> Tensor:
    """Lay RGBa parts over opaque black, the first on top; opacity is clipped to [0, 1]."""
    for k, part in enumerate(_alike("alpha", parts)):
        if part.shape[1] != 4:
            raise Refused(
                f"alpha() needs parts with 4 channels (red, green, blue, opacity); part {k + 1} "
                f"has shape {tuple(part.shape)}."
            )
    out = torch.zeros_like(parts[0][:, :3])
    for part in reversed(parts):
        opacity = part[:, 3:].clamp(0, 1)
        out = opacity * part[:, :3] + (1 - opacity) * out
    return out


def gated(*parts: Tensor) -> Tensor:
    """Gate each part by the one behind it: a·tanh(Σ b) + b."""
    *front, out = _alike("gated", parts)
    for part in reversed(front):
        out = part * torch.tanh(out.sum(dim=1, keepdim=True)) + out
    return out


def _alike(name: str, parts: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the parts, or refuse because their shapes differ."""
    if not parts:
        raise Refused(f"{name}() needs at least one part; got none.")
    for k, part in enumerate(parts):
        if part.ndim < 2 or part.shape != parts[0].shape:
            raise Refused(
                f"{name}() needs parts of one shape (n, channels, …); part 1 has shape "
                f"{tuple(parts[0].shape)} and part {k + 1} {tuple(part.shape)}."
            )
    return parts


@dataclass(frozen=True)
class Combination:
    """A composition function and what is known about it; calling it composes."""

    name: str
    function: Combine
    pixelwise: bool | None = None
    """Whether each position of the output depends on the same position of the parts only."""
    differentiable: bool | None = None
    """Whether it has a derivative everywhere; `None` if unknown."""
    instead: str = ""
    """A differentiable function of the same kind."""

    def __call__(self, *parts: Tensor) -> Tensor:
        """Compose the parts."""
        return self.function(*parts)

    def __str__(self) -> str:
        return self.name


COMBINATIONS = {
    "step": Combination("step", step, True, differentiable=False, instead="sigmoid"),
    **{
        f.__name__: Combination(f.__name__, f, pixelwise=True, differentiable=True)
        for f in (add, product, sigmoid, alpha, gated)
    },
}


def combination(name: str) -> Combination:
    """Look up a composition function by name.

    >>> combination("step").differentiable
    False
    """
    if name not in COMBINATIONS:
        raise nearest("composition function", name, COMBINATIONS)
    return COMBINATIONS[name]


def known(combine: Combine) -> Combination:
    """Return what is known about a composition function; only the name if it is not built in."""
    if isinstance(combine, Combination):
        return combine
    for entry in COMBINATIONS.values():
        if combine is entry.function:
            return entry
    return Combination(getattr(combine, "__name__", type(combine).__name__), combine)


@dataclass(frozen=True)
class Composition:
    """A composition of components: f(z) = C(φ_1(z_1), …, φ_K(z_K)).

    Takes a list with the latents (n, D_k) of each component or, if `dims` is set, one tensor
    (n, ΣD_k).
    """

    parts: tuple[Part, ...]
    combine: Combination
    dims: tuple[int, ...] | None = None

    def __call__(self, z: Tensor | Sequence[Tensor]) -> Tensor:
        """Evaluate the components and compose their outputs."""
        return self.combine(*self.components(z))

    def components(self, z: Tensor | Sequence[Tensor]) -> list[Tensor]:
        """Evaluate every component."""
        latents = self.split(z) if isinstance(z, Tensor) else list(z)
        if len(latents) != len(self.parts):
            raise Refused(
                f"A composition of {len(self.parts)} components needs as many tensors of latents; "
                f"got {len(latents)}."
            )
        return [self.draw(k, block) for k, block in enumerate(latents)]

    def draw(self, component: int, latents: Tensor) -> Tensor:
        """Evaluate one component; refuse an output of the wrong shape."""
        out = self.parts[component](latents)
        if not isinstance(out, Tensor) or out.ndim < 2 or len(out) != len(latents):
            actual = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise Refused(
                f"Component {component + 1} must return a tensor ({len(latents)}, channels, …); "
                f"got {actual} for latents of shape {tuple(latents.shape)}."
            )
        return out

    def split(self, z: Tensor) -> list[Tensor]:
        """Split points (n, ΣD_k) into the latents of each component."""
        if self.dims is None:
            raise Refused(
                "A composition without dims needs a list with one tensor of latents per component; "
                "got one tensor. Build it with dims=(D_1, …, D_K)."
            )
        if z.ndim != 2 or z.shape[1] != sum(self.dims):
            raise Refused(
                f"Components of {self.dims} coordinates need latents (n, {sum(self.dims)}); got "
                f"{tuple(z.shape)}."
            )
        return list(z.split(self.dims, dim=1))


def compose(
    parts: Sequence[Part], combine: Combine | str, *, dims: Sequence[int] | None = None
) -> Composition:
    """Compose component functions with a composition function.

    >>> f = compose([torch.sin, torch.cos], "add", dims=(1, 1))
    >>> f(torch.zeros(1, 2))
    tensor([[1.]])
    """
    if not parts:
        raise Refused("compose() needs at least one component; got none.")
    if dims is not None and len(dims) != len(parts):
        raise Refused(
            f"compose() needs one entry of dims per component; got {len(dims)} for {len(parts)}."
        )
    c = combination(combine) if isinstance(combine, str) else known(combine)
    return Composition(tuple(parts), c, None if dims is None else tuple(map(int, dims)))
