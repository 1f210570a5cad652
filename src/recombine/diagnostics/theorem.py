"""The theorem of Wiedemer et al. (2023): its four assumptions checked, and its proof carried out.

A function f(z) = C(φ_1(z_1), …, φ_K(z_K)) with known C that is right on a support is right on all
combinations if (A1) everything is differentiable, (A2) every value is shown and values hang
together, (A3) the support is sufficient, and (A4) the components are right at one point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from recombine.core.error import Refused, nearest
from recombine.core.space import Points, Space
from recombine.core.support import Support, everything
from recombine.diagnostics.sufficiency import (
    EXACT,
    Certificate,
    as_composition,
    drawn,
    jacobians,
    show,
    sufficiency,
)
from recombine.maps.compose import Combine, Composition
from recombine.theory.marginal import Coverage, compositional

JUMP = 1e-4  # a change that stays this share of the range at any distance is a jump
CHUNK = 64  # derivatives of f taken at once
START = 1e-3  # components that differ by less than this share of their size count as right


@dataclass(frozen=True)
class Check:
    """One assumption of the theorem: whether it holds (`None`: not checked), and why."""

    name: str
    title: str
    holds: bool | None
    why: str

    def __str__(self) -> str:
        state = {True: "holds", False: "does not hold", None: "was not checked"}[self.holds]
        return f"{self.name} ({self.title}) {state}: {self.why}"


@dataclass(frozen=True)
class Assumptions:
    """The four assumptions under which being right on the support is being right everywhere."""

    checks: tuple[Check, ...]
    certificate: Certificate
    coverage: Coverage

    @property
    def holds(self) -> bool:
        """Whether no assumption fails; one that was not checked does not count as failing."""
        return all(c.holds is not False for c in self.checks)

    @property
    def message(self) -> str:
        """The assumptions that fail, in words."""
        failed = [str(c) for c in self.checks if c.holds is False]
        return "\n".join(failed) or "No assumption fails."

    def __getitem__(self, name: str) -> Check:
        found = {c.name: c for c in self.checks}
        if name not in found:
            raise nearest("assumption", name, found)
        return found[name]

    def __str__(self) -> str:
        return "\n".join(map(str, self.checks))


def certify(
    f: Any,
    space: Space,
    shown: Support,
    asked: Support | None = None,
    *,
    truth: Any = None,
    tried: int | Mapping[str, Points] = 11,
    n: int = 16,
    seed: int = 0,
) -> Assumptions:
    """Check the assumptions A1 to A4 of Theorem 1 for a composition and a support.

    A1: C and the components are continuous and differentiable (known of C, searched for jumps in
    the components). A2: every asked value is shown, and values hang together. A3: `sufficiency`.
    A4: the components are right at one shown point, which needs the true composition as `truth`.
    """
    c, rng = as_composition(f, space), np.random.default_rng(seed)
    certificate = sufficiency(c, space, shown, tried=tried, n=n, seed=seed)
    coverage = compositional(space, shown, everything() if asked is None else asked, rng=rng)
    third = str(certificate)
    if certificate.sufficient:
        weakest = min((certificate.worst(name) for name in space.names), key=lambda r: r.smallest)
        third = f"every component has full rank, smallest singular value {weakest.smallest:.2g}"
    checks = (
        Check("A1", "differentiable C and components", *_smooth(c, space, shown, rng)),
        Check(
            "A2",
            "connected and compositional support",
            coverage.compositional and coverage.connected,
            str(coverage),
        ),
        Check("A3", "sufficient support", certificate.sufficient, third),
        Check("A4", "a point where the components are right", *_start(c, truth, space, shown, rng)),
    )
    return Assumptions(checks, certificate, coverage)


def _smooth(
    c: Composition, space: Space, shown: Support, rng: Generator
) -> tuple[bool | None, str]:
    """Look for jumps along straight lines, closing in on the largest change."""
    if not c.combine.differentiable:
        other = f"; use {c.combine.instead}" if c.combine.instead else ""
        return False, f"{c.combine} is not differentiable{other}"
    z = shown.draw(space, 4, rng=rng)
    for k, name in enumerate(space.names):
        factor, block = space.factor(name), space.columns(name)
        for i in range(factor.dim):

            def along(t: Points, i: int = i, k: int = k, block: slice = block) -> Tensor:
                rows = np.repeat(z[:1, block], len(t), axis=0)
                rows[:, i] = t
                return drawn(c, k, rows)

            if jump := _jump(along, factor.low, factor.high):
                coordinate = f"{name}[{i}]" if factor.dim > 1 else name
                return False, (
                    f"component {name!r} jumps by {jump[1]:.3g} where {coordinate} is "
                    f"{jump[0]:.4g}; render it without hard edges or steps"
                )
    if c.combine.pixelwise is None:
        ends = [drawn(c, k, z[:2, b]) for k, b in enumerate(space.blocks.values())]

        def between(t: Points) -> Tensor:
            s = torch.as_tensor(t)
            return c.combine(
                *[e[:1] + s.reshape(-1, *[1] * (e.ndim - 1)) * (e[1:] - e[:1]) for e in ends]
            )

        if jump := _jump(between, 0.0, 1.0):
            return False, f"{c.combine} jumps by {jump[1]:.3g} between two shown points"
    return True, f"{c.combine} is differentiable, and no component was seen to jump"


def _jump(f: Callable[[Points], Tensor], low: float, high: float) -> tuple[float, float] | None:
    """Close in on the largest change of a function; give where and how much if it stays."""
    t = np.linspace(low, high, 129)
    found = f(t).flatten(1)
    change = (found[1:] - found[:-1]).abs().amax(dim=1)
    scale = float((found.amax(dim=0) - found.amin(dim=0)).max())
    i = int(change.argmax())
    a, b = t[i], t[i + 1]
    for _ in range(30):
        t = np.array([a, (a + b) / 2, b])
        found = f(t).flatten(1)
        left, right = ((found[j + 1] - found[j]).abs().max().item() for j in (0, 1))
        a, b = (t[0], t[1]) if left >= right else (t[1], t[2])
        if max(left, right) <= 1e-6 * scale:
            return None
    size = max(left, right)
    return (float(a), size) if size > JUMP * scale else None


def _start(
    c: Composition, truth: Any, space: Space, shown: Support, rng: Generator
) -> tuple[bool | None, str]:
    if truth is None:
        return None, "give the true composition as truth to compare the components"
    other = as_composition(truth, space)
    z = shown.draw(space, 256, rng=rng)
    worst = np.zeros(len(z))
    for k, block in enumerate(space.blocks.values()):
        ours, wanted = drawn(c, k, z[:, block]), drawn(other, k, z[:, block])
        if ours.shape != wanted.shape:
            raise Refused(
                f"A component gives outputs of shape {tuple(ours.shape[1:])}, the true one of "
                f"{tuple(wanted.shape[1:])}; they cannot be compared."
            )
        scale = float(wanted.abs().max()) or 1.0
        gap = (ours - wanted).flatten(1).abs().amax(dim=1).numpy() / scale
        worst = np.maximum(worst, gap)
    at = int(worst.argmin())
    why = (
        f"the closest of {len(z)} shown points, {show(z[at].tolist())}, differs by {worst[at]:.2g}"
    )
    return bool(worst[at] < START), why


def reconstruct(
    f: Callable[[Tensor], Tensor],
    combine: Combine,
    space: Space,
    component: str,
    *,
    path: Points,
    start: Tensor,
    partners: Points,
    parts: Mapping[str, Tensor],
    steps: int = 200,
) -> Tensor:
    """Recover a component along a path from derivatives of f alone, as the proof does.

    Solves dφ_k/dt = [∂C/∂φ_k]⁺ df/dt with Runge and Kutta's method of order four, stacking the
    partners. `path` (2, D_k) is a straight line, `start` (channels, …) the component where it
    begins, `partners` (n, dim) hold the other factors (the component's own columns are not read),
    and `parts` gives the other components' outputs there, (n, channels, …) each. What the partners
    leave undetermined stays at its start. Gives (steps + 1, channels, …).
    """
    if component not in space.names:
        raise nearest("component", component, space.names)
    k, block = space.names.index(component), space.columns(component)
    line = np.asarray(path, dtype=np.float64)
    if line.shape != (2, block.stop - block.start):
        raise Refused(
            f"The path has shape {line.shape}; give its two ends, (2, {block.stop - block.start})."
        )
    z = np.array(partners, dtype=np.float64)
    if lacking := [n for n in space.names if n != component and n not in parts]:
        raise Refused(f"The outputs of {lacking[0]!r} at the partners are missing from parts.")
    if steps < 1:
        raise Refused(f"{steps} steps were asked for; give one or more.")
    z[:, block] = line[0]
    space.check(z, "The partners")
    base, way = torch.as_tensor(z), torch.zeros(z.shape[1], dtype=torch.float64)
    way[block] = torch.as_tensor(line[1] - line[0])
    others = {name: part.double() for name, part in parts.items()}

    slopes: dict[int, Tensor] = {}

    def rise(half: int) -> Tensor:
        """Differentiate f along the path after so many half steps, many of them at once."""
        if half not in slopes:
            slopes.clear()
            halves = range(half, min(half + CHUNK, 2 * steps + 1))
            t = torch.tensor(halves, dtype=torch.float64) / (2 * steps)
            points = (base + t[:, None, None] * way).flatten(0, 1)
            found = torch.autograd.functional.jvp(f, points, way.expand_as(points))[1]
            slopes.update(zip(halves, found.unflatten(0, (len(t), len(z))), strict=True))
        return slopes[half]

    def slope(half: int, now: Tensor) -> Tensor:
        here = [
            now.expand(len(z), *now.shape) if name == component else others[name]
            for name in space.names
        ]
        blocks = jacobians(combine, here, k)
        n, places, outputs, inputs = tuple(blocks.shape)
        tall = blocks.permute(1, 0, 2, 3).reshape(places, n * outputs, inputs)
        wanted = rise(half).reshape(n, outputs, places).permute(2, 0, 1)
        left = torch.linalg.pinv(tall, atol=EXACT * float(blocks.abs().max()), rtol=0.0)
        moved: Tensor = left @ wanted.reshape(places, -1, 1)
        return moved[..., 0].T.reshape(now.shape)

    now, h = start.double(), 1 / steps
    track = [now]
    for i in range(0, 2 * steps, 2):
        k1 = slope(i, now)
        k2 = slope(i + 1, now + h / 2 * k1)
        k3 = slope(i + 1, now + h / 2 * k2)
        k4 = slope(i + 2, now + h * k3)
        now = now + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        track.append(now)
    return torch.stack(track)
