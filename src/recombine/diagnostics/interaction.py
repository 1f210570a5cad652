"""Interaction order (Brady et al. 2024): how blocks of latents meet in a map, and how strongly.

Two blocks have at most order 0 if no output depends on both, and at most order n ≥ 1 if every
derivative of order n + 1 that touches both is zero: order 1 is a sum over blocks, order 2 adds
products of two latents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import vmap

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused, nearest
from recombine.core.score import Score
from recombine.diagnostics.shares import (
    Array,
    Found,
    Share,
    by_differences,
    by_exact,
    by_probes,
)
from recombine.maps.derivatives import KINKED, Blocks, Map, Partition, outputs, partition

Method = Literal["auto", "exact", "probes", "differences"]
WORDS = {"exact": "exact derivatives", "probes": "random probes", "differences": "differences"}

FEW = 20  # latents up to which all second and third derivatives are taken
ZERO = 1e-20  # a share of squares that is rounding
SURE = 1e-6  # a share of differences that is not rounding
COLLAPSED = 0.95  # one block makes more of all change than this


@dataclass(frozen=True)
class Interaction:
    """At most which order blocks interact, with the evidence."""

    order: int | None
    """The smallest order that the evidence allows; `None` if more than was measured."""
    tolerance: float
    method: Method
    why: str
    """Why this method."""
    names: tuple[str, ...]
    shares: tuple[Share, ...]
    """Shares across blocks that orders 0, 1 and 2 forbid (r0, r1, r2), as far as measured."""
    pairs: dict[int, Array]
    """For each order, the share of every two blocks; on the diagonal that within a block."""
    blocks: Array
    """Share of each block in all change of the outputs."""
    points: int

    @property
    def collapsed(self) -> bool:
        """Whether one block makes nearly all change, which makes small shares meaningless."""
        return bool(self.blocks.max() > COLLAPSED)

    def __str__(self) -> str:
        found = f"At most order {self.order}"
        if self.order is None:
            found = f"Order {len(self.shares)} or more, or entangled"
        lines = [
            f"{found} between {', '.join(self.names)} (tolerance {self.tolerance:g}), "
            f"by {WORDS[self.method]} at {self.points} points, because {self.why}.",
            *(f"  across blocks, against order {n}: {s}" for n, s in enumerate(self.shares)),
            "  change by block: "
            + ", ".join(
                f"{n} {100 * b:.0f} %" for n, b in zip(self.names, self.blocks, strict=True)
            ),
        ]
        if self.collapsed:
            lines.append("  One block makes nearly all change: small shares may be its collapse.")
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
    """Measure at most which order blocks of latents interact in a map, at points (n, dim).

    Points (n, slots, dim) have their slots as blocks. Order 0 is allowed if its share is below the
    tolerance, orders 1 and 2 if their share is, in units of that of random blocks of the same
    sizes. Exact derivatives are for few latents, probes for many, and differences, from each point
    to others of the set, for maps with kinks or without derivatives. `up_to` is the highest order
    measured, `loop` takes derivatives one direction at a time, `chunk` some at once.

    >>> z = torch.rand(4, 3, dtype=torch.float64)
    >>> found = interaction_order(lambda z: z[:, :1] * z[:, 1:] ** 2, z, [[0], [1, 2]])
    >>> found.order, found.method
    (None, 'exact')
    """
    if method not in get_args(Method):
        raise nearest("method", str(method), get_args(Method))
    if not 0 <= up_to <= 2 or min(probes, steps) < 1 or not tolerance >= 0:
        raise Refused(
            f"up_to={up_to}, probes={probes}, steps={steps} and tolerance={tolerance} were given; "
            "orders run from 0 to 2, counts from 1, and a tolerance from 0."
        )
    points = _like(f, z)
    run, parts = f, blocks
    if points.ndim == 3:
        shape = points.shape[1:]
        points, run = points.flatten(1), lambda z: f(z.unflatten(1, shape))
        parts = [slice(k * shape[1], (k + 1) * shape[1]) for k in range(shape[0])]
        parts = parts if blocks is None else blocks
    if parts is None:
        raise Refused("Points (n, dim) need blocks: a space, or the coordinates of each block.")
    outputs(run, points)
    own = partition(parts, points.shape[1])
    options: dict[str, Any] = {"loop": loop, "chunk": chunk}
    counts = {"probes": probes, "steps": steps, "seed": seed}
    chosen, why = _choose(f, run, points, method)
    try:
        found = _measure(chosen, run, points, own, up_to, counts, options)
    except Refused as error:
        if method != "auto":
            raise
        chosen, why = "differences", f"derivatives failed ({error.__cause__ or error})"
        found = _measure(chosen, run, points, own, up_to, counts, options)
    flat = [n for n, s in enumerate(found[0]) if s.value <= ZERO]  # too good to be believed
    if method == "auto" and chosen != "differences" and len(points) > 1 and flat:
        other = _measure("differences", run, points, own, min(up_to, 1), counts, {})
        if hidden := [n for n in flat if n < 2 and other[0][n].value > SURE]:
            chosen, n = "differences", hidden[-1]
            why = (
                f"derivatives against order {n} are exactly 0 but differences are not (share "
                f"{other[0][n].value:.2g}), as in a map with kinks or without a derivative"
            )
            found = _measure(chosen, run, points, own, up_to, counts, {})
    shares, pairs, change = found
    allowed = [n for n, s in enumerate(shares) if (s.strength if n else s.value) <= tolerance]
    return Interaction(
        allowed[0] if allowed else None, tolerance, chosen, why, tuple(own), tuple(shares), pairs,
        change / max(float(change.sum()), 1e-300), len(points),
    )  # fmt: skip


def _like(f: Map, z: Tensor | NDArray[Any]) -> Tensor:
    """Bring points to where a module is, in its precision; other maps take what they are given."""
    given = torch.as_tensor(z)
    given = given if given.is_floating_point() else given.double()
    module = _module(f)
    weight = None if module is None else next(module.parameters(), None)
    return given.detach() if weight is None else given.detach().to(weight)


def _module(f: Map) -> nn.Module | None:
    """Find the module whose method, or which itself, the map is."""
    owner = getattr(f, "__self__", f)
    return owner if isinstance(owner, nn.Module) else None


def kink(f: Map, run: Map, z: Tensor) -> str:
    """Name a layer with kinks that the map runs through, if its module has one."""
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
        return method, "it was asked for"
    if kinked := kink(f, run, z):
        return "differences", f"the map has kinks: {kinked}"
    if z.shape[1] <= FEW:
        return "exact", f"{z.shape[1]} latents are few"
    return "probes", f"{z.shape[1]} latents are many"


def _measure(
    method: Method, f: Map, z: Tensor, blocks: Partition, up_to: int, counts: dict[str, int],
    options: dict[str, Any],
) -> Found:  # fmt: skip
    seed = counts["seed"]
    if method == "exact":
        return by_exact(f, z, blocks, up_to, seed, options)
    if method == "probes":
        return by_probes(f, z, blocks, up_to, counts["probes"], seed, options)
    return by_differences(f, z, blocks, up_to, counts["steps"], seed)


ASKED = 64  # points of a task that the diagnostic looks at


@diagnostic(
    Score(
        "interaction_pairs",
        "share of every two factors in what no sum over factors makes",
        draw="matrix",
    ),
    Score("interaction_blocks", "share of each factor in all change of the outputs", draw="curve"),
    Score(
        "interaction_?",
        "share of the outputs' change that interactions of this order or below do not explain",
        unit="share of change",
    ),
    Score("interaction_?_truth", "the same share for the targets", unit="share of change"),
)
def interaction(seen: Observed) -> Measured:
    """How factors meet in what the model makes of them, beside how they meet in the truth.

    `interaction_1` is the share of change that no sum over factors makes, `interaction_0` that of
    outputs which depend on several; `interaction_2`, in continuous spaces, what no products of two
    latents make either. Maps are measured by differences between asked points.
    """
    space, z = seen.task.space, seen.split.query.z
    if len(space.factors) < 2 or len(z) < 2 or not seen.outputs.is_floating_point():
        return {}
    rows = np.linspace(0, len(z) - 1, min(ASKED, len(z))).round().astype(int)
    weight = next(seen.model.parameters(), torch.zeros(()))
    points = torch.as_tensor(z[rows], dtype=torch.float32, device=weight.device)
    order = 1 if any(f.levels is not None for f in space.factors) else 2
    inputs = vmap(seen.task.inputs)

    def made(z: Tensor) -> Tensor:
        out: Tensor = seen.model(inputs(z))
        return out

    def truth(z: Tensor) -> Tensor:
        return vmap(seen.task.targets)(z).to(points)

    how: dict[str, Any] = {"method": "differences", "up_to": order, "steps": 4}
    training = seen.model.training
    seen.model.eval()
    try:
        model = interaction_order(made, points, space, **how)
    finally:
        seen.model.train(training)
    found: Measured = {"interaction_pairs": model.pairs[1], "interaction_blocks": model.blocks}
    found |= {f"interaction_{n}": s.value for n, s in enumerate(model.shares)}
    if seen.split.query.y.is_floating_point():
        shares = interaction_order(truth, points, space, **how).shares
        found |= {f"interaction_{n}_truth": s.value for n, s in enumerate(shares)}
    return found
