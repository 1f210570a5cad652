"""The theorem of Wiedemer et al. (2023): its four assumptions, and the construction of its proof.

A function f(z) = C(φ_1(z_1), …, φ_K(z_K)) with known C that is correct on a support is correct on
all combinations if (A1) C and the components are differentiable, (A2) every value occurs in the
support and the values are connected, (A3) the support is sufficient, and (A4) the components are
correct at one point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor, nn

from recombine.core.error import Refused, nearest
from recombine.core.sets import everything
from recombine.core.show import shown
from recombine.core.space import Points, Space
from recombine.core.support import Support
from recombine.diagnostics.certificate import Certificate, show
from recombine.diagnostics.smoothness import Break, find_break
from recombine.diagnostics.sufficiency import EXACT, as_composition, drawn, jacobians, sufficiency
from recombine.maps.compose import Combine, Composition
from recombine.theory.marginal import Coverage, compositional

LINES = 8  # between points of the support, along which C is searched for jumps and kinks
BASES = 2  # points of the support from which lines run along each coordinate of a component
CHUNK = 64  # derivatives of f computed at once
START = 1e-3  # relative difference below which components count as equal


@shown
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


@shown
@dataclass(frozen=True)
class Assumptions:
    """The four assumptions under which correct on the support implies correct everywhere."""

    checks: tuple[Check, ...]
    certificate: Certificate
    coverage: Coverage

    @property
    def holds(self) -> bool | None:
        """Whether all hold; `None` if none fails but some were not checked."""
        answers = [c.holds for c in self.checks]
        if False in answers:
            return False
        return None if None in answers else True

    @property
    def message(self) -> str:
        """The assumptions that fail, hold with a reservation, or were not checked, in words."""
        doubt = {"A2": any(self.coverage.resolution.values()), "A3": not self.certificate.practical}
        failed = [str(c) for c in self.checks if c.holds is False]
        doubtful = [str(c) for c in self.checks if c.holds and doubt.get(c.name)]
        unchecked = [str(c) for c in self.checks if c.holds is None]
        if not failed:
            verdict = "No assumption fails" if unchecked else "All assumptions hold"
            failed = [f"{verdict}, with reservations:" if doubtful else f"{verdict}."]
        return "\n".join([*failed, *doubtful, *unchecked])

    def __getitem__(self, name: str) -> Check:
        by_name = {c.name: c for c in self.checks}
        if name not in by_name:
            raise nearest("assumption", name, by_name)
        return by_name[name]

    def __str__(self) -> str:
        return "\n".join(map(str, self.checks))


def check_assumptions(
    f: Any,
    space: Space,
    shown: Support,
    query: Support | None = None,
    *,
    truth: Any = None,
    tried: int | Mapping[str, Points] = 11,
    n: int = 16,
    seed: int = 0,
) -> Assumptions:
    """Check the assumptions A1 to A4 of Theorem 1 for a composition and a support.

    Each assumption holds, does not hold, or was not checked. A1: C and the components are searched
    for jumps and kinks along lines; a search without result proves nothing about a C that is not
    known to be differentiable, so A1 then counts as not checked. A2: every value of the query
    occurs in the support, and the values are connected. A3: see `sufficiency`. A4: needs the true
    composition.

    - f: a composition, or any object with `parts` and `combine`
    - space: one factor per component
    - shown, query: the training support and the query (default: the whole space)
    - truth: the true composition, for A4
    - tried, n: values per component, and partners per value, at which the rank is measured
    - seed: of random values, partners and lines
    """
    c, rng = as_composition(f, space), np.random.default_rng(seed)
    certificate = sufficiency(c, space, shown, tried=tried, n=n, seed=seed)
    coverage = compositional(space, shown, everything() if query is None else query, rng=rng)
    third = str(certificate)
    if certificate.sufficient:
        weakest = min((certificate.worst(name) for name in space.names), key=lambda r: r.smallest)
        third = f"every component has full rank, smallest singular value {weakest.smallest:.2g}"
        third += f"; {certificate.weakness}" if certificate.weakness else ""
    checks = (
        Check("A1", "differentiable C and components", *_smooth(c, space, shown, rng)),
        Check(
            "A2",
            "connected and compositional support",
            coverage.compositional and coverage.connected,
            str(coverage),
        ),
        Check("A3", "sufficient support", certificate.sufficient, third),
        Check(
            "A4", "a point where the components are correct", *_start(c, truth, space, shown, rng)
        ),
    )
    return Assumptions(checks, certificate, coverage)


def _smooth(
    c: Composition, space: Space, shown: Support, rng: Generator
) -> tuple[bool | None, str]:
    """Search the components and C for jumps and kinks along straight lines."""
    if c.combine.differentiable is False:
        other = f"; use {c.combine.instead}" if c.combine.instead else ""
        return False, f"{c.combine} is not differentiable{other}"
    z = shown.draw(space, LINES + 1, rng=rng)
    unclear = ""
    for k, name in enumerate(space.names):
        broken, problem = _component_break(c, space, k, z[:BASES])
        if broken:
            return False, f"component {name!r} {problem}"
        unclear = unclear or (f"component {name!r} {problem}" if problem else "")
    parts = [drawn(c, k, z[:, block]) for k, block in enumerate(space.blocks.values())]
    sizes = [part[0].numel() for part in parts]
    flat = torch.cat([part.flatten(1) for part in parts], dim=1)

    def composed(rows: Tensor) -> Tensor:
        blocks = rows.split(sizes, dim=1)
        return c.combine(*[b.view(-1, *p.shape[1:]) for b, p in zip(blocks, parts, strict=True)])

    if breach := find_break(composed, flat[:-1], flat[1:]):
        if breach.kind != "rounding":
            return False, f"{c.combine} {_what(breach)} between two points of the support"
        unclear = unclear or f"{c.combine} {_what(breach)}"
    if unclear:
        return None, unclear
    searched = "no jump or kink was found in the components"
    if c.combine.differentiable:
        return True, f"{c.combine} is differentiable, and {searched}"
    return None, (
        f"it is not known whether {c.combine} is differentiable; {searched}, nor in C on {LINES} "
        "lines, which is no proof. If it is, pass Combination(name, function, "
        "differentiable=True)"
    )


def _what(broken: Break) -> str:
    if broken.kind == "rounding":
        return f"rounds values by {broken.size:.2g}, too coarsely to search for jumps and kinks"
    if broken.kind == "not finite":
        return "is not finite"
    return f"jumps by {broken.size:.3g}" if broken.kind == "jump" else "has a kink"


def _component_break(c: Composition, space: Space, k: int, z: Points) -> tuple[bool, str]:
    """Tell whether a component breaks along one of its coordinates, and describe where, if any."""
    name, part = space.names[k], c.parts[k]
    factor, block = space.factor(name), space.columns(name)
    start = np.repeat(z[:, block], factor.dim, axis=0)
    end = start.copy()
    rows, columns = np.arange(len(start)), np.tile(np.arange(factor.dim), len(z))
    start[rows, columns], end[rows, columns] = factor.low, factor.high
    weights = next(part.parameters(), None) if isinstance(part, nn.Module) else None
    broken = find_break(
        lambda rows: drawn(c, k, rows.numpy()),
        torch.from_numpy(start),
        torch.from_numpy(end),
        precision=0.0 if weights is None else torch.finfo(weights.dtype).eps,
    )
    if broken is None:
        return False, ""
    if broken.kind == "rounding":
        return False, f"{_what(broken)}; use double precision, or subtract its mean"
    i = int(columns[broken.line])
    where = factor.low + broken.at * (factor.high - factor.low)
    coordinate = f"{name}[{i}]" if factor.dim > 1 else name
    advice = {
        "jump": "render it without hard edges or steps",
        "kink": "use a smooth function",
        "not finite": "give it a domain on which it is defined",
    }[broken.kind]
    return True, f"{_what(broken)} where {coordinate} is {where:.4g}; {advice}"


def _start(
    c: Composition, truth: Any, space: Space, shown: Support, rng: Generator
) -> tuple[bool | None, str]:
    if truth is None:
        return None, "pass the true composition as truth to compare the components"
    other = as_composition(truth, space)
    z = shown.draw(space, 256, rng=rng)
    worst = np.zeros(len(z))
    for k, block in enumerate(space.blocks.values()):
        ours, theirs = drawn(c, k, z[:, block]), drawn(other, k, z[:, block])
        if ours.shape != theirs.shape:
            raise Refused(
                f"Components of the model and of the truth need outputs of one shape; got "
                f"{tuple(ours.shape[1:])} and {tuple(theirs.shape[1:])}."
            )
        scale = float(theirs.abs().max()) or 1.0
        gap = (ours - theirs).flatten(1).abs().amax(dim=1).numpy() / scale
        worst = np.maximum(worst, gap)
    at = int(worst.argmin())
    why = (
        f"the closest of {len(z)} points of the support, {show(z[at].tolist())}, differs by "
        f"{worst[at]:.2g}"
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

    Solves dφ_k/dt = [∂C/∂φ_k]⁺ df/dt with the fourth-order Runge–Kutta method and returns
    (steps + 1, channels, …). Outputs that the partners leave undetermined keep their start value.

    - path: the two ends (2, D_k) of a straight line
    - start: the component's output (channels, …) at the first end
    - partners: points (n, dim) with the values of the other factors; the component's columns are
      ignored
    - parts: the other components' outputs at the partners, (n, channels, …) each
    """
    block = space.columns(component)
    k = space.names.index(component)
    line = np.asarray(path, dtype=np.float64)
    if line.shape != (2, block.stop - block.start):
        raise Refused(
            f"reconstruct() needs the two ends of the path, (2, {block.stop - block.start}); got "
            f"shape {line.shape}."
        )
    z = np.array(partners, dtype=np.float64)
    if lacking := [n for n in space.names if n != component and n not in parts]:
        raise Refused(f"`parts` lacks the outputs of {lacking[0]!r} at the partners.")
    if steps < 1:
        raise Refused(f"reconstruct() needs steps >= 1; got {steps}.")
    z[:, block] = line[0]
    space.check(z, "The partners")
    base, way = torch.as_tensor(z), torch.zeros(z.shape[1], dtype=torch.float64)
    way[block] = torch.as_tensor(line[1] - line[0])
    others = {name: part.double() for name, part in parts.items()}

    slopes: dict[int, Tensor] = {}

    def rise(half: int) -> Tensor:
        """Derivative of f along the path after `half` half steps; a chunk is computed at once."""
        if half not in slopes:
            slopes.clear()
            halves = range(half, min(half + CHUNK, 2 * steps + 1))
            t = torch.tensor(halves, dtype=torch.float64) / (2 * steps)
            points = (base + t[:, None, None] * way).flatten(0, 1)
            derivatives = torch.autograd.functional.jvp(f, points, way.expand_as(points))[1]
            slopes.update(zip(halves, derivatives.unflatten(0, (len(t), len(z))), strict=True))
        return slopes[half]

    def slope(half: int, now: Tensor) -> Tensor:
        here = [
            now.expand(len(z), *now.shape) if name == component else others[name]
            for name in space.names
        ]
        blocks = jacobians(combine, here, k)
        n, places, outputs, inputs = tuple(blocks.shape)
        tall = blocks.permute(1, 0, 2, 3).reshape(places, n * outputs, inputs)
        rises = rise(half).reshape(n, outputs, places).permute(2, 0, 1)
        inverse = torch.linalg.pinv(tall, atol=EXACT * float(blocks.abs().max()), rtol=0.0)
        change: Tensor = inverse @ rises.reshape(places, -1, 1)
        return change[..., 0].T.reshape(now.shape)

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
