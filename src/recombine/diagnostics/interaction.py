"""Interaction order (Brady et al. 2024): to which order blocks of latents interact in a map.

Two blocks have at most order 0 if no output depends on both, and at most order n ≥ 1 if every
derivative of order n + 1 that involves both is zero: order 1 is a sum over blocks, order 2 adds
products of two latents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import vmap

from recombine.core.diagnostic import Measured, Observed, diagnostic, predict
from recombine.core.error import Refused, nearest
from recombine.core.score import UNIT, Score
from recombine.core.show import shown
from recombine.core.space import Array, Space
from recombine.diagnostics.shares import Measurement, Share, by_differences, by_exact, by_probes
from recombine.diagnostics.smoothness import find_break
from recombine.maps.derivatives import (
    KINKED,
    Blocks,
    Map,
    Partition,
    directional,
    outputs,
    partition,
)
from recombine.tables.standard import frame_of
from recombine.tables.table import Table

Method = Literal["auto", "exact", "probes", "differences"]
WORDS = {"exact": "exact derivatives", "probes": "random probes", "differences": "differences"}

FEW = 20  # latents up to which all second and third derivatives are taken
LINES = 16  # lines between points on which kinks are searched for
WRONG = 0.05  # relative error of a derivative, against a difference, that says it is not one
COLLAPSED = 0.95  # share of change from one block above which other shares mean little


@shown
@dataclass(frozen=True)
class Interaction:
    """The smallest interaction order that the measurements allow, with the evidence."""

    order: int | None
    """`None` if it is higher than was measured, or the blocks are entangled."""
    tolerance: float
    method: Method
    why: str
    """Why this method was used."""
    names: tuple[str, ...]
    shares: tuple[Share, ...]
    """Shares across blocks that orders 0, 1 and 2 exclude (r0, r1, r2), as far as measured."""
    pairs: dict[int, Array]
    """For each order, the share of every two blocks; on the diagonal, that within a block."""
    blocks: Array
    """Share of each block in all change of the outputs."""
    points: int

    @property
    def deciding(self) -> tuple[float, ...]:
        """For each order, the number that is compared with the tolerance.

        Order 0 is decided by its share; orders 1 and 2 by their share divided by that of random
        blocks of the same sizes, where blocks have more than one latent.
        """
        return tuple(s.strength if n else s.value for n, s in enumerate(self.shares))

    @property
    def collapsed(self) -> bool:
        """Whether one block causes nearly all change, so that small shares mean little."""
        return bool(self.blocks.max() > COLLAPSED)

    def __str__(self) -> str:
        blocks, order = ", ".join(self.names), f"At most order {self.order} between"
        if self.order is None:
            order = f"Order {len(self.shares)} or more, or entanglement, between"
        lines = [
            f"{order} {blocks}, by {WORDS[self.method]} at {self.points} points, "
            f"because {self.why}."
        ]
        for n, (number, share) in enumerate(zip(self.deciding, self.shares, strict=True)):
            sign, verdict = ("≤", "possible") if number <= self.tolerance else (">", "excluded")
            lines.append(
                f"  order {n} is {verdict}: {number:.3g} {sign} tolerance {self.tolerance:g} "
                f"(share across blocks {share})"
            )
        change = zip(self.names, self.blocks, strict=True)
        lines.append(
            "  change by block: " + ", ".join(f"{name} {100 * b:.0f} %" for name, b in change)
        )
        if self.collapsed:
            lines.append(
                "  One block causes nearly all change: small shares may only mean collapse."
            )
        return "\n".join(lines)


def interaction_order(
    f: Map,
    z: Tensor | NDArray[Any],
    blocks: Blocks | None = None,
    *,
    tolerance: float = 0.02,
    method: Method = "auto",
    up_to: int = 2,
    probes: int = 8,
    steps: int = 8,
    seed: int = 0,
    loop: bool = False,
    chunk: int | None = None,
) -> Interaction:
    """Measure to which order blocks of latents interact in a batched map.

    >>> z = torch.rand(4, 3, dtype=torch.float64)
    >>> interaction_order(lambda z: z[:, :1] * z[:, 1:], z, [[0], [1, 2]]).order
    2

    - f: a batched map of latents to outputs (n, …)
    - z: points (n, dim), or (n, slots, dim) with the slots as blocks
    - blocks: a space, or the coordinates of each block
    - tolerance: order 0 is possible if its share is below it, orders 1 and 2 if their share
      divided by that of random blocks is
    - method: `exact` derivatives, for few latents; derivatives along random `probes`, for many;
      `differences` between the points, for maps with kinks or without derivatives; `auto` chooses,
      and uses differences if it finds a kink, a jump or a wrong derivative
    - up_to: highest order that is measured
    - probes, steps: random directions, or differences, per point
    - seed: of random directions, steps and partitions
    - loop, chunk: take derivatives one direction at a time, or `chunk` at once

    Derivatives are per range of each factor if blocks are a space, else per standard deviation of
    each latent over the points: the unit of a latent does not matter.
    """
    if method not in get_args(Method):
        raise nearest("method", str(method), get_args(Method))
    if not 0 <= up_to <= 2 or min(probes, steps) < 1 or not tolerance >= 0:
        raise Refused(
            "interaction_order() needs 0 <= up_to <= 2, probes >= 1, steps >= 1 and tolerance >= 0;"
            f" got up_to={up_to}, probes={probes}, steps={steps}, tolerance={tolerance}."
        )
    points, run, parts = _like(f, z), f, blocks
    if points.ndim == 3:
        shape = points.shape[1:]
        points, run = points.flatten(1), lambda z: f(z.unflatten(1, shape))
        slots = [slice(k * shape[1], (k + 1) * shape[1]) for k in range(shape[0])]
        parts = slots if blocks is None else blocks
    if parts is None:
        raise Refused("Points (n, dim) need blocks: a space, or the coordinates of each block.")
    outputs(run, points)
    cut = partition(parts, points.shape[1])
    options: dict[str, Any] = {"loop": loop, "chunk": chunk}
    unit = _units(parts, points)
    scaled = points / unit

    def unitless(z: Tensor) -> Tensor:
        return run(z * unit)

    measures: dict[Method, Callable[[], Measurement]] = {
        "exact": lambda: by_exact(unitless, scaled, cut, up_to, seed, options),
        "probes": lambda: by_probes(unitless, scaled, cut, up_to, probes, seed, options),
        "differences": lambda: by_differences(run, points, cut, up_to, steps, seed),
    }
    chosen, why = _choose(f, run, points, method)
    if chosen != "differences":
        try:
            measurement = measures[chosen]()
            problem = _doubt(run, points, cut, seed) if method == "auto" else ""
        except Refused as error:
            if method != "auto" or not (points != points[:1]).any():
                raise
            problem = f"derivatives failed ({error.__cause__ or error})"
        if problem:
            chosen, why = "differences", problem
        elif method == "auto" and not (points != points[:1]).any():
            why += "; kinks were not searched for, because there is only one point"
    if chosen == "differences":
        measurement = measures[chosen]()
    shares, pairs, change = measurement
    if unclear := [n for n, s in enumerate(shares) if s.value <= s.noise > tolerance]:
        raise Refused(
            f"Rounding hides shares of order {unclear[0]} up to {shares[unclear[0]].noise:.2g}, "
            f"more than the tolerance {tolerance:g}; subtract the outputs' mean in the map, use "
            "double precision, or measure a lower order with up_to."
        )
    result = Interaction(
        None, tolerance, chosen, why, tuple(cut), tuple(shares), pairs,
        change / max(float(change.sum()), 1e-300), len(points),
    )  # fmt: skip
    possible = [n for n, number in enumerate(result.deciding) if number <= tolerance]
    return replace(result, order=possible[0] if possible else None)


def _units(blocks: Blocks, z: Tensor) -> Tensor:
    """Unit of each latent: the range of its factor, or its spread over the points."""
    if isinstance(blocks, Space):
        sides = [f.high - f.low if f.levels is None else 1.0 for f in blocks.factors]
        dims = [f.dim for f in blocks.factors]
        return torch.tensor(np.repeat(sides, dims)).to(z)
    spread = z.std(dim=0, correction=0)
    return torch.where(spread > 0, spread, torch.ones_like(spread))


def _doubt(f: Map, z: Tensor, blocks: Partition, seed: int) -> str:
    """Return why derivatives of a map cannot be trusted, or "" if they can."""
    if not (z != z[:1]).any():
        return ""
    source = torch.Generator().manual_seed(seed)
    roll = int(torch.randint(1, len(z), (), generator=source))
    way = (z.roll(roll, dims=0) - z)[:1]
    way = way if way.any() else z.std(dim=0, keepdim=True)
    h = torch.finfo(z.dtype).eps ** (1 / 3)
    size = float(f(z).detach().double().abs().max())
    rounding = 8 * torch.finfo(z.dtype).eps * size / h
    for columns in blocks.values():
        part = torch.zeros_like(way)
        part[:, columns] = way[:, columns]
        with torch.no_grad():
            slope = directional(f, z, part, loop=True)[0].double()
            risen = (f(z + h * part).double() - f(z - h * part).double()).flatten(1) / (2 * h)
        gap = (risen - slope).abs()
        wrong = gap.square().mean() > WRONG * risen.square().mean()
        if wrong and float(gap.max()) > rounding:
            return (
                f"automatic derivatives differ from differences by {float(gap.max()):.2g}, as in a "
                "map that cuts the graph or has no derivative"
            )
    lines = torch.arange(LINES) % len(z)
    ends = (lines + torch.randint(1, len(z), (LINES,), generator=source)) % len(z)
    broken = find_break(f, z[lines.to(z.device)], z[ends.to(z.device)])
    if broken is None:
        return ""
    if broken.kind == "rounding":
        return (
            f"values of size {size:.2g} are rounded too coarsely, relative to their changes, to "
            "search for kinks, which derivatives do not see"
        )
    if broken.kind == "not finite":
        return "the map is not finite between two points"
    return f"the map has a {broken.kind} between two points, which derivatives do not see"


def _like(f: Map, z: Tensor | NDArray[Any]) -> Tensor:
    """Bring points to a module's device and precision; other maps take them as they are."""
    points = torch.as_tensor(z)
    points = points if points.is_floating_point() else points.double()
    module = _module(f)
    weight = None if module is None else next(module.parameters(), None)
    points = points.detach() if weight is None else points.detach().to(weight)
    return points.contiguous()


def _module(f: Map) -> nn.Module | None:
    """Find the module that the map is, or whose method it is."""
    owner = getattr(f, "__self__", f)
    return owner if isinstance(owner, nn.Module) else None


def kink(f: Map, run: Map, z: Tensor) -> str:
    """Name a layer with kinks that the map runs through, or return an empty string."""
    module = _module(f)
    passed: list[str] = []
    if module is None:
        return ""
    hooks = [
        part.register_forward_hook(
            lambda *_, n=name, p=part: passed.append(f"{type(p).__name__} in layer {n!r}")
        )
        for name, part in module.named_modules()
        if isinstance(part, KINKED)
    ]
    try:
        with torch.no_grad():
            run(z[:1])
    finally:
        for hook in hooks:
            hook.remove()
    return passed[0] if passed else ""


def _choose(f: Map, run: Map, z: Tensor, method: Method) -> tuple[Method, str]:
    if method != "auto":
        return method, "the caller chose it"
    if kinked := kink(f, run, z):
        return "differences", f"the map has kinks: {kinked}"
    if z.shape[1] <= FEW:
        return "exact", f"{z.shape[1]} latents are few"
    return "probes", f"{z.shape[1]} latents are many"


MOST = 64  # points of a task at which the diagnostic measures


@diagnostic(
    Score(
        "interaction_pairs",
        "share of each pair of factors in the change that no sum over factors explains",
        draw="matrix",
    ),
    Score("interaction_blocks", "share of each factor in all change of the outputs", draw="curve"),
    Score(
        "interaction_?",
        "share of the outputs' change that interactions of this order or below do not explain",
        unit="share of change",
        within=UNIT,
    ),
    Score(
        "interaction_?_truth", "the same share for the targets", unit="share of change", within=UNIT
    ),
)
def interaction(observed: Observed) -> Measured:
    """Interaction between factors in the model's output, next to that of the target.

    `interaction_0` says how evenly outputs depend on several factors, `interaction_1` is the share
    of change that no sum over factors explains, `interaction_2`, in continuous spaces, what
    products of two latents do not explain either. Measured by differences between query points.
    """
    space, z = observed.task.space, observed.split.query.z
    several = len(space.factors) > 1 and len(z) > 1
    if not several or observed.model is None or not observed.outputs.is_floating_point():
        return {}
    rows, factors = _listed(observed)
    rows = rows[np.linspace(0, len(z) - 1, min(MOST, len(z))).round().astype(int)]
    points = torch.as_tensor(z[rows], device=observed.split.query.x.device)
    order = 1 if any(f.levels is not None for f in space.factors) else 2
    blocks, back = [space.columns(space.names[c]) for c in factors], np.argsort(factors)
    inputs, targets = vmap(observed.task.inputs), vmap(observed.task.targets)

    def outputs_of_model(z: Tensor) -> Tensor:
        return predict(observed.model, inputs(z.float())).to(z)

    def truth(z: Tensor) -> Tensor:
        return targets(z.float()).to(z)

    def measure(f: Map, values: Tensor) -> Interaction:
        """Compute in the precision of the values: an offset leaves few digits in a lower one."""
        exact = torch.promote_types(values.dtype, torch.float32)
        how: dict[str, Any] = {"method": "differences", "up_to": order, "steps": 4}
        return interaction_order(f, points.to(exact), blocks, **how)

    try:
        model = measure(outputs_of_model, observed.outputs)
    except Refused:  # the outputs hardly change
        return {}
    pairs = model.pairs[1][np.ix_(back, back)]
    measured: Measured = {"interaction_pairs": pairs, "interaction_blocks": model.blocks[back]}
    measured |= {f"interaction_{n}": s.value for n, s in enumerate(model.shares)}
    if observed.split.query.y.is_floating_point():
        try:
            shares = measure(truth, observed.split.query.y).shares
        except Refused:  # some combinations were not measured, or the targets hardly change
            return measured
        measured |= {f"interaction_{n}_truth": s.value for n, s in enumerate(shares)}
    return measured


def _listed(observed: Observed) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List query points and factors in an order that follows targets, not names or units."""
    space, query = observed.task.space, observed.split.query
    y = query.y.flatten(1).double().cpu().numpy()
    known = np.isfinite(y).all(axis=1)
    away = np.full(len(y), np.nan)
    if known.any():
        away[known] = np.square(y[known] - y[known].mean(axis=0)).sum(axis=1)
    if not space.finite or len(space.shape) > len(space.factors) or not known.any():
        return np.lexsort((*query.z.T[::-1], away)), np.arange(len(space.factors))
    table = Table(space, query.z.astype(np.int64), away[:, None])
    frame = frame_of(table)
    return frame.sort(table.codes)[1], frame.factors
