"""Interaction order (Brady et al. 2024): how blocks of latents meet in a map, and how strongly.

Two blocks have at most order 0 if no output depends on both, and at most order n ≥ 1 if every
derivative of order n + 1 that touches both is zero: order 1 is a sum over blocks, order 2 adds
products of two latents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import isfinite, nan
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import vmap

from recombine.diagnostics.derivatives import (
    KINKED,
    Blocks,
    Map,
    Partition,
    difference,
    energies,
    jacobian,
    labels,
    outputs,
    partition,
    probe_cross,
    probe_norms,
    probe_pairs,
    within,
)
from recombine.error import Refused, nearest
from recombine.observation import Measured, Observed
from recombine.registry import diagnostic

Array = NDArray[np.float64]
Method = Literal["auto", "exact", "probes", "differences"]

FEW = 20  # latents up to which all second and third derivatives are taken
SHUFFLES = 32  # random partitions for order 0, where their mean has no closed form
DEAD = 1e-12  # outputs that change less than this share of the most are left out
ZERO = 1e-20  # a share of squares that is rounding
SURE = 1e-6  # a share of differences that is not rounding
COLLAPSED = 0.95  # one block makes more of all change than this


@dataclass(frozen=True)
class Share:
    """How much of what could meet across blocks does so, at one order."""

    value: float
    error: float = 0.0
    """Standard error over probes or steps; 0 if exact."""
    ratio: float = nan
    """Over the mean for random partitions of the same sizes; not a number if all are alike."""

    @property
    def strength(self) -> float:
        """The ratio, or the share itself where there is no ratio."""
        return self.ratio if isfinite(self.ratio) else self.value

    def __str__(self) -> str:
        text = f"{self.value:.3g}" + (f" ± {self.error:.1g}" if self.error else "")
        return text + (f", {self.ratio:.3g} of random blocks" if isfinite(self.ratio) else "")


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
            f"by {self.method} at {self.points} points, because {self.why}.",
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


Found = tuple[list[Share], dict[int, Array], Array]


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
        return _exact(f, z, blocks, up_to, seed, options)
    if method == "probes":
        return _probes(f, z, blocks, up_to, counts["probes"], seed, options)
    return _differences(f, z, blocks, up_to, counts["steps"], seed)


def dispersion(norms: Tensor) -> float:
    """How evenly outputs depend on blocks (n, blocks, outputs): 0 if each on one only, 1 if alike.

    1 - Σp² over blocks, divided by its largest value, with p the share of a block in an output.
    """
    total = norms.sum(dim=1)
    alive = total > DEAD * total.max()
    if not alive.any():
        return 0.0
    p = norms / total.where(alive, 1)[:, None]
    spread = (1 - p.square().sum(dim=1)) / (1 - 1 / norms.shape[1])
    return float(spread[alive].mean().clamp(min=0))


def _overlap(norms: Tensor) -> Array:
    """Share of every two blocks in products of what outputs depend on."""
    table = torch.einsum("njo,nko->jk", norms, norms)
    return np.asarray((table / table.sum().clamp(min=1e-300)).double().cpu())


def _onehot(label: Tensor, like: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(label).to(like)  # (dim, blocks)


def _exact(
    f: Map, z: Tensor, blocks: Partition, up_to: int, seed: int, options: dict[str, Any]
) -> Found:
    label, dim = labels(blocks), z.shape[1]
    slopes = jacobian(f, z, **options).abs()
    norms = (slopes @ _onehot(label, slopes)).mT
    source = torch.Generator().manual_seed(seed)
    others = [label[torch.randperm(dim, generator=source)] for _ in range(SHUFFLES)]
    usual = float(np.mean([dispersion((slopes @ _onehot(o, slopes)).mT) for o in others]))
    value = dispersion(norms)
    shares = [Share(value, 0.0, _ratio(value, usual, blocks, z))]
    pairs = {0: _overlap(norms)}
    for n in range(1, up_to + 1):
        squares = energies(f, z, n + 1, **options).double().sum(dim=0).cpu()
        total = float(squares.sum())
        cross = float(squares[~within(label, n + 1)].sum())
        mean = float((squares * apart(list(map(len, blocks.values())), n + 1)).sum())
        value, usual = (v / total if total else 0.0 for v in (cross, mean))
        shares.append(Share(value, 0.0, _ratio(value, usual, blocks, z)))
        pairs[n] = _touching(squares, label) / max(total, 1e-300)
    return shares, pairs, np.asarray(norms.sum(dim=(0, 2)).double().cpu())


def apart(sizes: Sequence[int], order: int) -> Tensor:
    """Chance that coordinates lie in different blocks of a random partition: a table (dim, …).

    >>> apart([2, 2], 2)[0]
    tensor([0.0000, 0.6667, 0.6667, 0.6667], dtype=torch.float64)
    """
    dim = sum(sizes)
    pair = sum(s * (s - 1) for s in sizes) / max(dim * (dim - 1), 1)
    triple = sum(s * (s - 1) * (s - 2) for s in sizes) / max(dim * (dim - 1) * (dim - 2), 1)
    axes = torch.meshgrid(*[torch.arange(dim)] * order, indexing="ij")
    ranked = torch.stack(axes).sort(dim=0).values
    different = 1 + (ranked[1:] != ranked[:-1]).sum(dim=0)
    return torch.tensor([0.0, 0.0, 1 - pair, 1 - triple], dtype=torch.float64)[different]


def _touching(squares: Tensor, label: Tensor) -> Array:
    """Add up entries that touch both of two blocks; on the diagonal those within one."""
    k = int(label.max()) + 1
    groups = torch.cartesian_prod(*[label] * squares.ndim)
    values = squares.flatten()
    has = torch.stack([(groups == b).any(dim=1) for b in range(k)]).to(values)
    table = (has * values) @ has.T
    alone = torch.stack([values[(groups == b).all(dim=1)].sum() for b in range(k)])
    return np.asarray(table - torch.diag(table.diag() - alone))


def _jackknife(cross: Tensor, total: Tensor) -> tuple[float, float]:
    """Ratio of sums over draws, and its standard error by leaving one out at a time."""
    cross, total = cross.double(), total.double()
    whole = float(total.sum())
    if not whole:
        return 0.0, 0.0
    n = len(cross)
    left = (cross.sum() - cross) / (total.sum() - total).clamp(min=1e-300)
    error = float(((n - 1) / n * (left - left.mean()).square().sum()).sqrt()) if n > 1 else 0.0
    return float(cross.sum()) / whole, error


def _spread(draws: Tensor, root: bool) -> tuple[float, float]:
    """Dispersion of mean norms over draws (draws, n, blocks, outputs), and its standard error."""
    n, whole = len(draws), draws.sum(dim=0)

    def of(norms: Tensor) -> float:
        return dispersion(norms.clamp(min=0).sqrt() if root else norms)

    value = of(whole)
    if n < 2:
        return value, 0.0
    left = np.array([of(whole - d) for d in draws])
    return value, float(np.sqrt((n - 1) / n * ((left - left.mean()) ** 2).sum()))


def _ratio(value: float, usual: float, blocks: Partition, like: Tensor) -> float:
    """Compare with random blocks, unless all are alike or what is compared is rounding."""
    if max(map(len, blocks.values())) == 1:
        return nan
    noise = (1e3 * torch.finfo(like.dtype).eps) ** 2
    return 0.0 if value <= noise or not usual else value / usual


def _probes(
    f: Map, z: Tensor, blocks: Partition, up_to: int, probes: int, seed: int,
    options: dict[str, Any],
) -> Found:  # fmt: skip
    how = {"probes": probes, "seed": seed, **options}
    squares = probe_norms(f, z, blocks, **how)
    norms = squares.mean(dim=0).sqrt()
    shares, pairs = [Share(*_spread(squares, root=True))], {0: _overlap(norms)}
    for n in range(1, up_to + 1):
        if n == 1:
            met = probe_pairs(f, z, blocks, **how).sum(dim=1)  # (probes, blocks, blocks)
            total = met.sum(dim=(1, 2))
            cross = total - met.diagonal(dim1=1, dim2=2).sum(dim=1)
            table = met.sum(dim=0) / total.sum().clamp(min=1e-30)
            pairs[1] = np.asarray((2 * table - table.diag().diag()).double().cpu())
        else:
            cross, total = (v.sum(dim=1) for v in probe_cross(f, z, blocks, n + 1, **how))
        value, error = _jackknife(cross, total)
        usual = [v.sum(dim=1) for v in probe_cross(f, z, blocks, n + 1, shuffled=True, **how)]
        shares.append(Share(value, error, _ratio(value, _jackknife(*usual)[0], blocks, z)))
    return shares, pairs, np.asarray(norms.sum(dim=(0, 2)).double().cpu())


def _differences(f: Map, z: Tensor, blocks: Partition, up_to: int, steps: int, seed: int) -> Found:
    """Step from each point to others of the set, block by block, so that all stays in the data.

    Two steps in one block go half the way each. Squares of mixed differences are divided by those
    of the single steps.
    """
    if len(z) < 2:
        raise Refused(
            "Differences step from one point to another; give two points or more, from the data."
        )
    label = labels(blocks).to(z.device)
    source = torch.Generator().manual_seed(seed)
    alike = max(map(len, blocks.values())) == 1
    real, random = _Steps(len(blocks)), _Steps(len(blocks))
    for _ in range(steps):
        rolls = torch.randint(1, len(z), (3,), generator=source).tolist()
        ways = [z.roll(r, dims=0) - z for r in rolls]
        shuffled = label[torch.randperm(len(label), generator=source).to(z.device)]
        real.take(f, z, label, ways, up_to)
        if not alike:
            random.take(f, z, shuffled, ways, up_to)
    norms = torch.stack(real.norms)
    value, error = _spread(norms, root=False)
    usual = 0.0 if alike else _spread(torch.stack(random.norms), root=False)[0]
    shares = [Share(value, error, _ratio(value, usual, blocks, z))]
    pairs = {0: _overlap(norms.mean(dim=0))}
    for n in range(1, up_to + 1):
        cross, total = real.sums(n)
        value, error = _jackknife(cross, total)
        usual = 0.0 if alike else _jackknife(*random.sums(n))[0]
        shares.append(Share(value, error, _ratio(value, usual, blocks, z)))
        pairs[n] = real.tables[n] / max(float(total.sum()), 1e-300)
    return shares, pairs, np.asarray(norms.sum(dim=(0, 1, 3)).double().cpu())


class _Steps:
    """Mixed differences of several draws of steps, added up as they come."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.norms: list[Tensor] = []  # (n, blocks, outputs) a draw
        self.found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
        self.tables = {n: np.zeros((blocks, blocks)) for n in (1, 2)}

    def take(self, f: Map, z: Tensor, label: Tensor, ways: Sequence[Tensor], up_to: int) -> None:
        """Take one draw of steps."""
        masks = (label == torch.arange(self.blocks, device=z.device)[:, None]).to(z)
        single = torch.stack([difference(f, z, ways[0] * m) for m in masks], dim=1)
        self.norms.append(single.abs())
        met = [((j, k), [(0, 1.0, j), (1, 1.0, k)]) for j, k in combinations(range(len(masks)), 2)]
        if up_to > 0:
            self._add(1, f, z, masks, ways, met)
        if up_to > 1:
            some: list[Any] = [
                ((j, k), [(0, 0.5, j), (1, 0.5, j), (2, 1.0, k)])
                for j, k in permutations(range(len(masks)), 2)
            ]
            some += [
                (t, [(i, 1.0, b) for i, b in enumerate(t)])
                for t in combinations(range(len(masks)), 3)
            ]
            self._add(2, f, z, masks, ways, some)

    def _add(
        self, n: int, f: Map, z: Tensor, masks: Tensor, ways: Sequence[Tensor], met: Sequence[Any]
    ) -> None:
        cross, total = 0.0, 0.0
        for touched, made in met:
            moves = [ways[i] * size * masks[b] for i, size, b in made]
            square = float(difference(f, z, *moves).double().square().sum())
            cross += square
            total += sum(float(difference(f, z, m).double().square().sum()) for m in moves)
            for j, k in permutations(touched, 2):
                self.tables[n][j, k] += square
        self.found[n].append((cross, total))

    def sums(self, n: int) -> tuple[Tensor, Tensor]:
        """Squares of mixed differences and of single steps, draw by draw."""
        cross, total = torch.tensor(self.found[n], dtype=torch.float64).T
        return cross, total


ASKED = 64  # points of a task that the diagnostic looks at


@diagnostic
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
