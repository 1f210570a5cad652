"""Geometry of a layer's activations over a two-factor grid: metric, linear probes and rank."""

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from recombine.diagnostics.kernels import evaluated, features
from recombine.error import Refused
from recombine.observation import Measured, Observed
from recombine.registry import diagnostic

Array = NDArray[np.float64]

INPUT = "input"  # the name of what the model is given, which is treated as a layer
SHAPES_ONLY = (nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout)
RIDGES = 10.0 ** np.arange(-8, 2)  # in units of the largest eigenvalue


class Metric(NamedTuple):
    """Metric tensor that a map of the grid pulls back, at every cell (rows, columns)."""

    g00: Array
    g11: Array
    g01: Array

    @property
    def volume(self) -> Array:
        """Area that a cell takes among the activations: √|g00 g11 - g01²|."""
        return np.asarray(np.sqrt(np.abs(self.g00 * self.g11 - self.g01**2)))

    @property
    def factorization(self) -> float:
        """F = 1 - mean|g01| / mean(g00 + g11), from 1/2 to 1; not a number if nothing varies."""
        total = (self.g00 + self.g11).mean()
        return float(1 - np.abs(self.g01).mean() / total) if total > 0 else float("nan")

    def volume_ratio(self, inside: NDArray[np.bool_]) -> float:
        """Mean volume outside the support over that inside; not a number for a map onto a line.

        Differences straddle the border, so cells next to it know a little of the other side.
        """
        if inside.shape != self.g00.shape:
            raise Refused(
                f"A support of shape {inside.shape} was given for a grid of {self.g00.shape}; "
                "give one truth value a cell."
            )
        flat = 1e-9 * (self.g00 + self.g11).mean()
        if not inside.any() or inside.all() or self.volume[inside].mean() <= flat:
            return float("nan")
        return float(self.volume[~inside].mean() / self.volume[inside].mean())


def metric(table: NDArray[Any], chunk: int = 4096) -> Metric:
    """Differentiate activations (rows, columns, …) by central differences, one-sided at the edge.

    The metric tensor of Liang et al. (2025); activations are read `chunk` units at a time.

    >>> r, c = np.indices((4, 5)).astype(float)
    >>> found = metric(np.stack([r, r + c], axis=-1))
    >>> round(found.factorization, 3), round(float(found.volume.mean()), 3)
    (0.667, 1.0)
    """
    if table.ndim < 3 or min(table.shape[:2]) < 2:
        raise Refused(
            f"Activations of shape {table.shape} span no grid; give at least 2 rows, 2 columns "
            "and an axis of units."
        )
    units = table.reshape(*table.shape[:2], -1)
    g = np.zeros((3, *table.shape[:2]))
    for start in range(0, units.shape[2], chunk):
        rows, cols = np.gradient(units[..., start : start + chunk].astype(np.float64), axis=(0, 1))
        g += [(a * b).sum(axis=2) for a, b in ((rows, rows), (cols, cols), (rows, cols))]
    return Metric(*g)


class Rank(NamedTuple):
    """How many directions the activations take up, counted in three ways."""

    participation: float  # (Σλ)² / Σλ² of the covariance's eigenvalues
    above: int  # eigenvalues above a thousandth of the largest
    energy: int  # eigenvalues that hold 99 % of the variance


def activation_rank(rows: NDArray[Any]) -> Rank:
    """Count the directions in which activations (examples, units) vary; all zero if none do.

    >>> activation_rank(np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]]))
    Rank(participation=2.0, above=2, energy=2)
    """
    centered = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    n, d = centered.shape
    gram = centered @ centered.T if n < d else centered.T @ centered
    values = np.linalg.eigvalsh(gram)[::-1].clip(0)
    if not values.any():
        return Rank(0.0, 0, 0)
    held = np.cumsum(values) / values.sum()
    return Rank(
        float(values.sum() ** 2 / (values**2).sum()),
        int((values > 1e-3 * values[0]).sum()),
        int((held < 0.99).sum()) + 1,
    )


def folds(z: NDArray[Any], k: int, *, rng: Generator) -> NDArray[np.int64]:
    """Deal points to `k` folds of nearly equal size, all examples of a combination to one."""
    cells, at = np.unique(z, axis=0, return_inverse=True)
    if not 2 <= k <= len(cells):
        raise Refused(f"{len(cells)} combinations were to be cut into {k} folds; give 2 or more.")
    return np.asarray(rng.permutation(np.arange(len(cells)) % k)[at.ravel()], dtype=np.int64)


def probe(rows: NDArray[Any], z: NDArray[Any], fold: NDArray[Any]) -> Array:
    """Read each coordinate of `z` from activations by ridge regression; R² on held-out points.

    Every fold is predicted from all other points: `folds` deals them at random. Points marked -1
    only ever train, so that `np.where(inside, -1, 0)` splits by a support. The ridge is chosen
    by leave-one-out on the training points. R² compares with the mean of the held-out
    values; it is negative for a probe worse than that, not a number if they do not vary.
    """
    n = len(rows)
    if len(z) != n or len(fold) != n:
        raise Refused(f"{n} activations came with {len(z)} points and {len(fold)} folds.")
    k = rows.reshape(n, -1).astype(np.float64)
    k -= k.mean(axis=0)
    k = k @ k.T
    guess = np.zeros(z.shape)
    for f in np.unique(fold[fold >= 0]):
        test, train = fold == f, fold != f
        if not train.any():
            raise Refused("A probe had no points to learn from; leave some outside the fold.")
        guess[test] = _ridge(k[np.ix_(train, train)], k[np.ix_(test, train)], z[train])
    asked = fold >= 0
    y = z[asked]
    total = ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    error = ((y - guess[asked]) ** 2).sum(axis=0)
    return np.where(total > 0, 1 - error / np.where(total > 0, total, 1), np.nan)


def _ridge(k: Array, across: Array, z: NDArray[Any]) -> Array:
    """Ridge regression with an intercept; every coordinate chooses its own strength."""
    means = k.mean(axis=0)
    across = across - across.mean(axis=1, keepdims=True) - means + means.mean()
    k = k - means - means[:, None] + means.mean()
    values, vectors = np.linalg.eigh(k)
    values = values.clip(0)
    y = z - z.mean(axis=0)
    coefficients = vectors.T @ y
    best = np.full(y.shape[1], np.inf)
    dual = np.zeros(y.shape)
    for ridge in RIDGES * max(values[-1], np.finfo(float).tiny):
        kept = values / (values + ridge)
        leverage = (vectors**2 @ kept) + 1 / len(k)
        left = (y - vectors @ (kept[:, None] * coefficients)) / (1 - leverage).clip(1e-9)[:, None]
        error = (left**2).sum(axis=0)
        better = error < best
        found = vectors @ (coefficients / (values + ridge)[:, None])
        best, dual = np.where(better, error, best), np.where(better, found, dual)
    return np.asarray(z.mean(axis=0) + across @ dual)


def stages(model: nn.Module, x: Tensor) -> list[str]:
    """Name the innermost parts that run once and give one tensor, in order, after the input.

    Parts that only change the shape are left out.
    """
    ran: dict[str, list[bool]] = {}
    two = x[:2]

    def note(name: str) -> Any:
        return lambda part, given, gave: ran.setdefault(name, []).append(
            isinstance(gave, Tensor) and gave.shape[:1] == two.shape[:1]
        )

    parts = {name: part for name, part in model.named_modules() if name}
    handles = [part.register_forward_hook(note(name)) for name, part in parts.items()]
    try:
        with evaluated(model), torch.no_grad():
            model(two)
    finally:
        for handle in handles:
            handle.remove()
    inner = [n for n in ran if not any(m.startswith(f"{n}.") for m in ran)]
    return [
        INPUT,
        *(n for n in inner if ran[n] == [True] and not isinstance(parts[n], SHAPES_ONLY)),
    ]


def activations(model: nn.Module, x: Tensor, layer: str) -> NDArray[Any]:
    """Give a layer's activations, one row an example; `input` is what the model is given."""
    found = x.flatten(1) if layer == INPUT else features(model, x, layer)
    return np.asarray(found.cpu().numpy())


def on_grid(seen: Observed) -> tuple[tuple[int, int], NDArray[np.int64]] | None:
    """Give the shape of a two-factor grid and the order that lists it, if every cell is asked."""
    space, query = seen.task.space, seen.split.query
    if not space.finite or len(space.shape) != 2 or min(space.shape) < 2:
        return None
    if len(query) != space.size or len(np.unique(at := space.index(query.z))) != space.size:
        return None
    rows, cols = space.shape
    return (rows, cols), np.argsort(at)


def _finite(found: Measured) -> Measured:
    return {name: v for name, v in found.items() if np.ndim(v) or np.isfinite(v)}


@diagnostic
def transport(seen: Observed) -> Measured:
    """Factorization and held-out to seen volume of every layer over a two-factor grid.

    Arrays run over `transport_layers`, from the input, computed like any layer, to the output;
    layers that do not vary, or vary along a line only, have no volume and are left out.
    """
    if (grid := on_grid(seen)) is None or seen.split.inside.all() or not seen.split.inside.any():
        return {}
    shape, order = grid
    inside = seen.split.inside[order].reshape(shape)
    x = seen.split.query.x
    names = stages(seen.model, x)
    found = [metric(activations(seen.model, x, n)[order].reshape(*shape, -1)) for n in names]
    found.append(metric(seen.outputs.flatten(1).cpu().numpy()[order].reshape(*shape, -1)))
    factorization = np.array([m.factorization for m in found])
    ratio = np.array([m.volume_ratio(inside) for m in found])
    kept = np.isfinite(ratio)
    if not kept.any():
        return {}
    return _finite(
        {
            "transport_layers": np.array([*names, "output"])[kept],
            "transport_factorization": factorization[kept],
            "transport_volume": ratio[kept],
            "factorization_input": factorization[0],
            "factorization_output": factorization[-1],
            "factorization_least": factorization[kept].min(),
            "volume_ratio_input": ratio[0],
            "volume_ratio_output": ratio[-1],
        }
    )


@diagnostic
def probes(seen: Observed) -> Measured:
    """R² of linear probes for both factors in every layer, on cells that they have not seen.

    `probes_random` holds out a fifth of the cells at a time, `probes_ood` what the model never
    saw; both have a row a layer of `probes_layers` and a column a factor.
    """
    if (grid := on_grid(seen)) is None or len(grid[1]) < 5:
        return {}
    x, z, inside = seen.split.query.x, seen.split.query.z, seen.split.inside
    names = stages(seen.model, x)
    ways: dict[Literal["random", "ood"], NDArray[np.int64]]
    ways = {"random": folds(z, 5, rng=np.random.default_rng(0))}
    if inside.any() and not inside.all():
        ways["ood"] = np.where(inside, -1, 0)
    r2 = []
    for name in names:
        rows = activations(seen.model, x, name)
        r2.append([probe(rows, z, fold) for fold in ways.values()])
    found: Measured = {"probes_layers": np.array(names)}
    for way, table in zip(ways, np.array(r2).swapaxes(0, 1), strict=True):
        if np.isfinite(table).all():
            found |= {f"probes_{way}": table, f"probe_{way}_last": table[-1].mean()}
    return found


@diagnostic
def ranks(seen: Observed) -> Measured:
    """Number of directions that the activations of every layer take up over a two-factor grid."""
    if on_grid(seen) is None:
        return {}
    x = seen.split.query.x
    names = stages(seen.model, x)
    found = [activation_rank(activations(seen.model, x, name)) for name in names]
    columns = zip(Rank._fields, np.array(found, dtype=np.float64).T, strict=True)
    return {"ranks_layers": np.array(names), **{f"ranks_{way}": v for way, v in columns}}
