"""Geometry of a layer's activations over a two-factor grid: metric and rank."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused
from recombine.core.score import POSITIVE, Score
from recombine.core.space import Array
from recombine.diagnostics.kernels import all_features, calls, hooked

INPUT = "input"  # the model's input counts as a layer of this name
OUTPUT = "output"
FLAT = 1e-5  # share of the metric's trace; smaller volumes may be rounding of float32 activations
NO_VOLUME = 1e-12  # share of a layer's largest volume that flat cells have in logarithmic maps
LARGEST_GRAM = 2500  # cells; every layer needs 8 bytes for each pair of cells
SHAPES_ONLY = (nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout)


class Metric(NamedTuple):
    """Pullback metric tensor of a map of the grid, at every cell (rows, columns)."""

    g00: Array
    g11: Array
    g01: Array

    @property
    def volume(self) -> Array:
        """Area of a cell's image in activation space: √|g00 g11 - g01²|."""
        return np.asarray(np.sqrt(np.abs(self.g00 * self.g11 - self.g01**2)))

    @property
    def factorization(self) -> float:
        """F = 1 - mean|g01| / mean(g00 + g11), from 1/2 to 1; NaN if nothing varies."""
        total = (self.g00 + self.g11).mean()
        return float(1 - np.abs(self.g01).mean() / total) if total > 0 else float("nan")

    def volume_ratio(self, inside: NDArray[np.bool_]) -> float:
        """Mean volume outside the support divided by that inside; NaN for a map onto a line.

        Central differences mix the two sides in cells next to the border.
        """
        flat = FLAT * (self.g00 + self.g11).mean()
        if not inside.any() or inside.all() or self.volume[inside].mean() <= flat:
            return float("nan")
        return float(self.volume[~inside].mean() / self.volume[inside].mean())


def metric(table: NDArray[Any] | Tensor) -> Metric:
    """Differentiate activations (rows, columns, …) by central differences, one-sided at the edge.

    The metric tensor of Liang et al. (2025).

    >>> r, c = np.indices((4, 5)).astype(float)
    >>> m = metric(np.stack([r, r + c], axis=-1))
    >>> round(m.factorization, 3), round(float(m.volume.mean()), 3)
    (0.667, 1.0)
    """
    if table.ndim < 3 or min(table.shape[:2]) < 2:
        raise Refused(
            f"metric() needs activations over at least 2 rows and 2 columns, with a third axis of "
            f"units; got shape {tuple(table.shape)}."
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
    """Return the metric (3, columns) along one row of the grid, from it and its neighbors."""
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
    """Metrics of named modules, in one pass over inputs that list a grid row by row.

    The model sees one row of the grid at a time; activations of three rows are in memory.
    """
    recent: dict[str, list[Tensor]] = {name: [] for name in names}
    rows: dict[str, list[Tensor]] = {name: [] for name in names}

    def recorder(name: str) -> Any:
        def hook(part: nn.Module, inputs: Any, outputs: Tensor) -> None:
            recent[name] = [*recent[name][-2:], outputs.flatten(1).clone()]
            if len(recent[name]) > 1:  # the row before is complete; the first has none above
                above, row = recent[name][0], recent[name][-2]
                rows[name].append(_row(above, row, recent[name][-1], len(recent[name]) - 1))

        return hook

    with hooked(model, {name: recorder(name) for name in names}), torch.no_grad():
        for row in x.split(shape[1]):
            model(row)
    for name in names:
        before, last = recent[name][-2:]
        rows[name].append(_row(before, last, last, 1))
    return [Metric(*torch.stack(rows[name], dim=1).numpy()) for name in names]


class Rank(NamedTuple):
    """Effective dimension of activations, in three definitions."""

    participation: float  # (Σλ)² / Σλ² of the covariance's eigenvalues
    above: int  # eigenvalues above a thousandth of the largest
    energy: int  # eigenvalues that explain 99 % of the variance


def gram_rank(gram: Array) -> Rank:
    """Effective dimension from the spectrum of a covariance or a centered Gram matrix."""
    values = np.linalg.eigvalsh(gram)[::-1].clip(0)
    if not values.any():
        return Rank(0.0, 0, 0)
    explained = np.cumsum(values) / values.sum()
    return Rank(
        float(values.sum() ** 2 / (values**2).sum()),
        int((values > 1e-3 * values[0]).sum()),
        int((explained < 0.99).sum()) + 1,
    )


def stages(model: nn.Module, x: Tensor) -> list[str]:
    """List `"input"` and the innermost modules that run once and return one tensor, in order.

    Modules that only change the shape are left out.
    """
    shapes, parts = calls(model, x), dict(model.named_modules())
    inner = [n for n in shapes if not any(m.startswith(f"{n}.") for m in shapes)]
    once = [n for n in inner if len(shapes[n]) == 1 and shapes[n][0] is not None]
    return [INPUT, *(n for n in once if not isinstance(parts[n], SHAPES_ONLY))]


def last_hidden(model: nn.Module, names: Sequence[str]) -> str:
    """Name the stage that the last stage with weights reads."""
    parts = dict(model.named_modules())
    weighted = [i for i, n in enumerate(names) if i and any(True for _ in parts[n].parameters())]
    return names[weighted[-1] - 1] if weighted else names[-1]


def centered_gram(pieces: Iterable[NDArray[Any]], step: int = 4096) -> Array:
    """Gram matrix of centered activations, which come in pieces (examples, units).

    Products are in double precision, `step` units at a time. Constant activations give exactly 0.
    """
    k: Array | None = None
    for piece in pieces:
        k = np.zeros((len(piece), len(piece))) if k is None else k
        for start in range(0, piece.shape[1], step):
            rows = piece[:, start : start + step].astype(np.float64)
            rows -= rows[:1].copy()
            k += rows @ rows.T
    if k is None:
        raise Refused("centered_gram() needs at least one piece of activations; got none.")
    means = k.mean(axis=0)
    return np.asarray(k - means - means[:, None] + means.mean())


class Layer(NamedTuple):
    """A stage of a model and the Gram matrix of its centered activations."""

    name: str
    gram: Array


def grams(observed: Observed) -> list[Layer]:
    """Centered Gram matrices over the query points of all stages and, last, of the output.

    Ranks and kernels follow from them; `observed.once(grams)` serves all diagnostics with one pass
    over the inputs. Stages with values that are not finite are left out.
    """
    x, module = observed.split.query.x, observed.module
    names = stages(module, x) if module is not None else [INPUT]
    ends = [_numpy(x.flatten(1)), _numpy(observed.outputs.flatten(1))]
    layers = [Layer(INPUT, centered_gram(ends[:1]))]
    pieces = all_features(module, x, names[1:]) if module is not None else []
    for name, group in groupby(pieces, key=lambda piece: piece[0]):
        layers.append(Layer(name, centered_gram(_numpy(rows) for _, rows in group)))
    layers.append(Layer(OUTPUT, centered_gram(ends[1:])))
    return [layer for layer in layers if np.isfinite(layer.gram).all()]


def _numpy(rows: Tensor) -> NDArray[Any]:
    return np.asarray(rows.detach().cpu().numpy())


def on_grid(observed: Observed) -> tuple[tuple[int, int], NDArray[np.int64]] | None:
    """Shape of a complete two-factor grid of query points and the order that lists it, or None."""
    space, z = observed.task.space, observed.split.query.z
    if not space.finite or len(space.shape) != 2:
        return None
    rows, cols = (len(np.unique(column)) for column in z.T)
    if min(rows, cols) < 2 or not len(z) == rows * cols == len(np.unique(z, axis=0)):
        return None
    return (rows, cols), np.lexsort((z[:, 1], z[:, 0]))


_by_layer = partial(Score, beside=("transport_layers",))


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
        within=POSITIVE,
    ),
    Score("transport_layers", "names of the layers", draw="none"),
    _by_layer(
        "transport_factorization",
        "angle between the factors' directions in each layer: 1 if orthogonal, 1/2 if parallel",
        draw="curve",
    ),
    _by_layer(
        "transport_volume",
        "volume of held-out cells divided by that of seen cells in each layer",
        unit="of seen cells",
        draw="curve",
    ),
    _by_layer(
        "transport_maps", "logarithm (base 10) of each cell's volume in each layer", draw="images"
    ),
)
def transport(observed: Observed) -> Measured:
    """Factorization and held-out to seen volume of every layer over a two-factor grid.

    Arrays run over `transport_layers`, from the input to the output. Layers that are constant or
    one-dimensional have no volume and are left out. `transport_maps` has the logarithm (base 10)
    of each cell's volume. `last` is the hidden layer from which the output is read.
    """
    grid, inside = on_grid(observed), observed.split.inside
    if grid is None or inside.all() or not inside.any():
        return {}
    shape, order = grid
    inside = inside[order].reshape(shape)
    x, module = observed.split.query.x, observed.module
    names = stages(module, x) if module is not None else [INPUT]
    at = torch.from_numpy(order)
    first, end = (metric(v.detach().cpu()[at].reshape(*shape, -1)) for v in (x, observed.outputs))
    hidden = metrics(module, x[at.to(x.device)], names[1:], shape) if module is not None else []
    metric_of_stage = [first, *hidden, end]
    factorization = np.array([m.factorization for m in metric_of_stage])
    ratio = np.array([m.volume_ratio(inside) for m in metric_of_stage])
    curved = np.isfinite(ratio)
    if not curved.any():
        return {}
    volumes = [m.volume for m, k in zip(metric_of_stage, curved, strict=True) if k]
    maps = np.stack([np.log10(v + NO_VOLUME * v.max()) for v in volumes])
    last = names.index(last_hidden(module, names)) if module is not None else None
    measured: Measured = {
        "transport_layers": np.array([*names, OUTPUT])[curved],
        "transport_factorization": factorization[curved],
        "transport_volume": ratio[curved],
        "transport_maps": maps.astype(np.float32),
        "factorization_input": factorization[0],
        "factorization_last": np.nan if last is None else factorization[last],
        "factorization_output": factorization[-1],
        "factorization_least": factorization[curved].min(),
        "volume_ratio_input": ratio[0],
        "volume_ratio_last": np.nan if last is None else ratio[last],
        "volume_ratio_output": ratio[-1],
    }
    return {name: v for name, v in measured.items() if np.ndim(v) or np.isfinite(v)}


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
def ranks(observed: Observed) -> Measured:
    """Effective dimension of the activations of every layer over a two-factor grid.

    Directions count by their variance, so that of the input depends on the units of the code.
    """
    if (grid := on_grid(observed)) is None or len(grid[1]) > LARGEST_GRAM:
        return {}
    layers = [layer for layer in observed.once(grams) if layer.name != OUTPUT]
    rank_of_layer = [gram_rank(layer.gram) for layer in layers]
    columns = zip(Rank._fields, np.array(rank_of_layer, dtype=np.float64).T, strict=True)
    return {
        "ranks_layers": np.array([layer.name for layer in layers]),
        **{f"ranks_{way}": v for way, v in columns},
    }
