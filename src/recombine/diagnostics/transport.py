"""Geometry of a layer's activations over a two-factor grid: metric and rank."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused
from recombine.core.score import Score
from recombine.diagnostics.kernels import all_features, calls, hooked

Array = NDArray[np.float64]

INPUT = "input"  # the name of what the model is given, which is treated as a layer
OUTPUT = "output"
FLAT = 1e-5  # of the metric's trace; less volume may be rounding, as activations have 7 digits
LARGEST_GRAM = 2500  # cells; every layer takes 8 bytes for each pair of them
SHAPES_ONLY = (nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout)


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
        flat = FLAT * (self.g00 + self.g11).mean()
        if not inside.any() or inside.all() or self.volume[inside].mean() <= flat:
            return float("nan")
        return float(self.volume[~inside].mean() / self.volume[inside].mean())


def metric(table: NDArray[Any] | Tensor) -> Metric:
    """Differentiate activations (rows, columns, …) by central differences, one-sided at the edge.

    The metric tensor of Liang et al. (2025).

    >>> r, c = np.indices((4, 5)).astype(float)
    >>> found = metric(np.stack([r, r + c], axis=-1))
    >>> round(found.factorization, 3), round(float(found.volume.mean()), 3)
    (0.667, 1.0)
    """
    if table.ndim < 3 or min(table.shape[:2]) < 2:
        raise Refused(
            f"Activations of shape {tuple(table.shape)} span no grid; give at least 2 rows, "
            "2 columns and an axis of units."
        )
    units = torch.as_tensor(table).flatten(2)
    units = units if units.is_floating_point() else units.double()
    last = len(units) - 1
    rows = [
        _row(units[max(r - 1, 0)], units[r], units[min(r + 1, last)], 2 - (r in (0, last)))
        for r in range(len(units))
    ]
    return Metric(*torch.stack(rows, dim=1).numpy())


def _row(above: Tensor, row: Tensor, below: Tensor, gap: int) -> Tensor:
    """Give the metric (3, columns) along one row of the grid, from it and its neighbors."""
    down = below - above if gap == 1 else (below - above).div_(gap)
    across = torch.empty_like(down)
    torch.sub(row[2:], row[:-2], out=across[1:-1]).div_(2)
    torch.sub(row[1], row[0], out=across[0])
    torch.sub(row[-1], row[-2], out=across[-1])
    down, across = down.double(), across.double()  # volumes are differences of products
    squares = [torch.linalg.vector_norm(d, dim=1).square() for d in (down, across)]
    return torch.stack([*squares, down.mul_(across).sum(dim=1)]).cpu()


def metrics(
    model: nn.Module, x: Tensor, names: Sequence[str], shape: tuple[int, int]
) -> list[Metric]:
    """Metric of named parts of a model whose inputs list a grid row by row, in one pass.

    A row of the grid goes through the model at a time, and three of them are held.
    """
    held: dict[str, list[Tensor]] = {name: [] for name in names}
    found: dict[str, list[Tensor]] = {name: [] for name in names}

    def keep(name: str) -> Any:
        def hook(part: nn.Module, given: Any, gave: Tensor) -> None:
            held[name] = [*held[name][-2:], gave.flatten(1).clone()]
            if len(held[name]) > 1:  # the row before is complete; the first has none above
                above, row = held[name][0], held[name][-2]
                found[name].append(_row(above, row, held[name][-1], len(held[name]) - 1))

        return hook

    with hooked(model, {name: keep(name) for name in names}), torch.no_grad():
        for row in x.split(shape[1]):
            model(row)
    for name in names:
        before, last = held[name][-2:]
        found[name].append(_row(before, last, last, 1))
    return [Metric(*torch.stack(found[name], dim=1).numpy()) for name in names]


class Rank(NamedTuple):
    """How many directions the activations take up, counted in three ways."""

    participation: float  # (Σλ)² / Σλ² of the covariance's eigenvalues
    above: int  # eigenvalues above a thousandth of the largest
    energy: int  # eigenvalues that hold 99 % of the variance


def gram_rank(gram: Array) -> Rank:
    """Count directions by the spectrum of a covariance, or of centered inner products."""
    values = np.linalg.eigvalsh(gram)[::-1].clip(0)
    if not values.any():
        return Rank(0.0, 0, 0)
    held = np.cumsum(values) / values.sum()
    return Rank(
        float(values.sum() ** 2 / (values**2).sum()),
        int((values > 1e-3 * values[0]).sum()),
        int((held < 0.99).sum()) + 1,
    )


def stages(model: nn.Module, x: Tensor) -> list[str]:
    """Name the innermost parts that run once and give one tensor, in order, after the input.

    Parts that only change the shape are left out.
    """
    made, parts = calls(model, x), dict(model.named_modules())
    inner = [n for n in made if not any(m.startswith(f"{n}.") for m in made)]
    once = [n for n in inner if len(made[n]) == 1 and made[n][0] is not None]
    return [INPUT, *(n for n in once if not isinstance(parts[n], SHAPES_ONLY))]


def last_hidden(model: nn.Module, names: Sequence[str]) -> str:
    """Name the stage before the last one with weights, which reads the output from it."""
    parts = dict(model.named_modules())
    weighted = [i for i, n in enumerate(names) if i and any(True for _ in parts[n].parameters())]
    return names[weighted[-1] - 1] if weighted else names[-1]


def centered_gram(pieces: Iterable[NDArray[Any]], step: int = 4096) -> Array:
    """Inner products of centered activations, which come in pieces (examples, units).

    Products are taken in double precision, `step` units at a time. What does not vary is exactly 0.
    """
    k: Array | None = None
    for piece in pieces:
        k = np.zeros((len(piece), len(piece))) if k is None else k
        for start in range(0, piece.shape[1], step):
            rows = piece[:, start : start + step].astype(np.float64)
            rows -= rows[:1].copy()
            k += rows @ rows.T
    if k is None:
        raise Refused("No activations were given; give at least one piece.")
    means = k.mean(axis=0)
    return np.asarray(k - means - means[:, None] + means.mean())


class Layer(NamedTuple):
    """A stage of a model, and the inner products of its centered activations."""

    name: str
    gram: Array


def grams(seen: Observed) -> list[Layer]:
    """Centered inner products of all stages between all asked points, and last of the output.

    Rank and kernels follow from them, so that `seen.once(grams)` serves all diagnostics
    with one pass over the inputs. Stages that are not finite are left out.
    """
    x, module = seen.split.query.x, seen.module
    names = stages(module, x) if module is not None else [INPUT]
    ends = [_numpy(x.flatten(1)), _numpy(seen.outputs.flatten(1))]
    found = [Layer(INPUT, centered_gram(ends[:1]))]
    pieces = all_features(module, x, names[1:]) if module is not None else []
    for name, group in groupby(pieces, key=lambda piece: piece[0]):
        found.append(Layer(name, centered_gram(_numpy(rows) for _, rows in group)))
    found.append(Layer(OUTPUT, centered_gram(ends[1:])))
    return [layer for layer in found if np.isfinite(layer.gram).all()]


def _numpy(rows: Tensor) -> NDArray[Any]:
    return np.asarray(rows.detach().cpu().numpy())


def on_grid(seen: Observed) -> tuple[tuple[int, int], NDArray[np.int64]] | None:
    """Give the shape of the asked two-factor grid and the order that lists it, if it is whole."""
    space, z = seen.task.space, seen.split.query.z
    if not space.finite or len(space.shape) != 2:
        return None
    rows, cols = (len(np.unique(column)) for column in z.T)
    if min(rows, cols) < 2 or not len(z) == rows * cols == len(np.unique(z, axis=0)):
        return None
    return (rows, cols), np.lexsort((z[:, 1], z[:, 0]))


def _finite(found: Measured) -> Measured:
    return {name: v for name, v in found.items() if np.ndim(v) or np.isfinite(v)}


@diagnostic(
    Score(
        "factorization_*",
        "angle between the factors' directions in a layer: 1 if orthogonal, 1/2 if parallel",
        better="higher",
    ),
    Score(
        "volume_ratio_*",
        "volume of held-out cells divided by that of seen cells in a layer",
        unit="of seen cells",
    ),
    Score("transport_layers", "names of the layers", draw="none"),
    Score(
        "transport_factorization",
        "angle between the factors' directions in each layer: 1 if orthogonal, 1/2 if parallel",
        draw="curve",
        beside=("transport_layers",),
    ),
    Score(
        "transport_volume",
        "volume of held-out cells divided by that of seen cells in each layer",
        unit="of seen cells",
        draw="curve",
        beside=("transport_layers",),
    ),
    Score(
        "transport_maps",
        "logarithm (base 10) of each cell's volume in each layer",
        draw="images",
        beside=("transport_layers",),
    ),
)
def transport(seen: Observed) -> Measured:
    """Factorization and held-out to seen volume of every layer over a two-factor grid.

    Arrays run over `transport_layers`, from the input, computed like any layer, to the output;
    layers that do not vary, or vary along a line only, have no volume and are left out.
    `transport_maps` has the logarithm (base 10) of each cell's volume. The last hidden layer is the
    one from which the output is read.
    """
    if (grid := on_grid(seen)) is None or seen.split.inside.all() or not seen.split.inside.any():
        return {}
    shape, order = grid
    inside = seen.split.inside[order].reshape(shape)
    x, module = seen.split.query.x, seen.module
    names = stages(module, x) if module is not None else [INPUT]
    asked = x[torch.from_numpy(order).to(x.device)]
    ends = [
        metric(v.detach().cpu()[torch.from_numpy(order)].reshape(*shape, -1))
        for v in (x, seen.outputs)
    ]
    hidden = metrics(module, asked, names[1:], shape) if module is not None else []
    found = [ends[0], *hidden, ends[1]]
    factorization = np.array([m.factorization for m in found])
    ratio = np.array([m.volume_ratio(inside) for m in found])
    kept = np.isfinite(ratio)
    if not kept.any():
        return {}
    maps = np.stack([np.log10(m.volume + 1e-12) for m, k in zip(found, kept, strict=True) if k])
    last = names.index(last_hidden(module, names)) if module is not None else None
    return _finite(
        {
            "transport_layers": np.array([*names, OUTPUT])[kept],
            "transport_factorization": factorization[kept],
            "transport_volume": ratio[kept],
            "transport_maps": maps.astype(np.float32),
            "factorization_input": factorization[0],
            "factorization_last": np.nan if last is None else factorization[last],
            "factorization_output": factorization[-1],
            "factorization_least": factorization[kept].min(),
            "volume_ratio_input": ratio[0],
            "volume_ratio_last": np.nan if last is None else ratio[last],
            "volume_ratio_output": ratio[-1],
        }
    )


@diagnostic(
    Score("ranks_layers", "names of the layers", draw="none"),
    Score(
        "ranks_*",
        "number of directions in which each layer's activations vary",
        unit="directions",
        draw="curve",
        beside=("ranks_layers",),
    ),
)
def ranks(seen: Observed) -> Measured:
    """Number of directions that the activations of every layer take up over a two-factor grid."""
    if (grid := on_grid(seen)) is None or len(grid[1]) > LARGEST_GRAM:
        return {}
    layers = [layer for layer in seen.once(grams) if layer.name != OUTPUT]
    found = [gram_rank(layer.gram) for layer in layers]
    columns = zip(Rank._fields, np.array(found, dtype=np.float64).T, strict=True)
    return {
        "ranks_layers": np.array([layer.name for layer in layers]),
        **{f"ranks_{way}": v for way, v in columns},
    }
