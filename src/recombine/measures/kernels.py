"""Gram matrices of a network's layers, and how well overlap explains them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from recombine.base.error import Refused, nearest
from recombine.tables.query import evaluated
from recombine.theory.kernel import Kernel, by_overlap, by_set

Gram = NDArray[Any] | Tensor  # (n, n), symmetric
Key = int | tuple[int, ...]  # how many factors agree, or which
Shape = tuple[int, ...]
ROOM = 1 << 28  # numbers in memory while all layers are read: 1 GB
SMALL = 1 << 20  # outputs of the widest layer per chunk of inputs


def layers(model: nn.Module) -> list[str]:
    """List the names of all modules whose output `features` can read."""
    return [name for name, _ in model.named_modules() if name]


def calls(model: nn.Module, x: Shaped[Tensor, "n *shape"]) -> dict[str, list[Shape | None]]:
    """Output shape of one example at every call of every module, in order of first calls.

    `None` stands for an output that is not a tensor with one row per example. Modules that never
    run are left out.
    """
    shapes: dict[str, list[Shape | None]] = {}
    sample = x[:2]

    def recorder(name: str) -> Any:
        def hook(part: nn.Module, inputs: Any, outputs: Any) -> None:
            one_row_each = isinstance(outputs, Tensor) and outputs.shape[:1] == sample.shape[:1]
            shapes.setdefault(name, []).append(tuple(outputs.shape[1:]) if one_row_each else None)

        return hook

    with hooked(model, {name: recorder(name) for name in layers(model)}), torch.no_grad():
        model(sample)
    return shapes


@contextmanager
def hooked(model: nn.Module, hooks: dict[str, Any]) -> Iterator[None]:
    """Register forward hooks on named modules; the model is in eval mode meanwhile."""
    parts = dict(model.named_modules())
    handles = [parts[name].register_forward_hook(hook) for name, hook in hooks.items()]
    try:
        with evaluated(model):
            yield
    finally:
        for handle in handles:
            handle.remove()


def all_features(
    model: nn.Module, x: Shaped[Tensor, "n *shape"], names: Sequence[str]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the outputs of named modules, one row per example, in one pass if they fit.

    The modules run once per input and return one tensor. An output of more than `ROOM` numbers
    comes in several pieces, each with some of its units; outputs that do not fit into one pass over
    the inputs take another.
    """
    for name in names:
        if name not in layers(model):
            raise nearest("layer", name, layers(model))
    shapes_of = calls(model, x)
    widths = {name: _width(name, shapes_of.get(name, [])) for name in names}
    widest = max(
        (prod(shape) for shapes in shapes_of.values() for shape in shapes if shape), default=1
    )
    chunk = max(1, min(1024, SMALL // max(widest, 1)))
    units = max(1, ROOM // max(1, len(x)))
    pieces = [
        (name, start, min(start + units, width))
        for name, width in widths.items()
        for start in range(0, max(width, 1), units)
    ]
    while pieces:
        total = accumulate(stop - start for _, start, stop in pieces)
        fit = max(1, sum(width <= units for width in total))
        yield from _one_pass(model, x, pieces[:fit], chunk)
        pieces = pieces[fit:]


def _width(name: str, shapes: Sequence[Shape | None]) -> int:
    """Count the units of a module that ran once, or refuse it."""
    if len(shapes) != 1:
        raise Refused(
            f"Layer {name!r} ran {len(shapes)} times on one input; name a layer that runs once."
        )
    if shapes[0] is None:
        raise Refused(
            f"Layer {name!r} does not return a tensor with one row per input; name one that does."
        )
    return prod(shapes[0])


def _one_pass(
    model: nn.Module, x: Tensor, pieces: Sequence[tuple[str, int, int]], chunk: int
) -> Iterator[tuple[str, Tensor]]:
    """Run the model once over all inputs and record some units of some modules."""
    recorded: dict[tuple[str, int], Tensor] = {}
    at = 0

    def recorder(name: str, spans: Sequence[tuple[int, int]]) -> Any:
        def hook(part: nn.Module, inputs: Any, outputs: Tensor) -> None:
            rows = outputs.flatten(1)
            for start, stop in spans:
                if (name, start) not in recorded:
                    recorded[name, start] = rows.new_empty(len(x), stop - start)
                recorded[name, start][at : at + len(rows)] = rows[:, start:stop]

        return hook

    spans: dict[str, list[tuple[int, int]]] = {}
    for name, start, stop in pieces:
        spans.setdefault(name, []).append((start, stop))
    with hooked(model, {n: recorder(n, s) for n, s in spans.items()}), torch.no_grad():
        for piece in x.split(chunk):
            model(piece)
            at += len(piece)
    for name, start, _ in pieces:
        yield name, recorded.pop((name, start))


def features(model: nn.Module, x: Float[Tensor, "n *shape"], layer: str) -> Float[Tensor, "n d"]:
    """Output of a named module in evaluation mode, one row per example."""
    blocks = [rows for _, rows in all_features(model, x, [layer])]
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)


def feature_gram(
    model: nn.Module, x: Float[Tensor, "n *shape"], layer: str
) -> Float[Tensor, "n n"]:
    """Gram matrix of a layer's activations, in double precision.

    >>> feature_gram(nn.Sequential(nn.Flatten(), nn.ReLU()), torch.tensor([[1.0, -2.0]]), "1")
    tensor([[1.]], dtype=torch.float64)
    """
    rows = features(model, x, layer).double()
    return rows @ rows.T


@dataclass(frozen=True)
class OverlapFit:
    """A Gram matrix approximated by a function of overlap."""

    values: dict[Key, float]
    """Mean entry for each number (or set) of factors on which two points agree."""
    r2: float
    """Share of the variance of all entries, including the diagonal, that these means explain."""
    factors: int

    def kernel(self) -> Kernel:
        """The overlap kernel that is closest to the Gram matrix, for exact predictions."""
        if sets := {j: v for j, v in self.values.items() if isinstance(j, tuple)}:
            return by_set(sets)
        if missing := [k for k in range(self.factors + 1) if k not in self.values]:
            raise Refused(
                f"kernel() needs pairs of points of every overlap; no two points agree on exactly "
                f"{missing[0]} of {self.factors} factors."
            )
        return by_overlap([self.values[k] for k in range(self.factors + 1)])

    def salience(self) -> NDArray[np.float64]:
        """S(1;C) … S(C;C): the weight of one conjunction of k factors.

        >>> OverlapFit({0: 1.0, 1: 2.0, 2: 4.0}, 1.0, 2).salience().round(3)
        array([0.333, 0.333])
        """
        return self.kernel().salience()


def overlap_fit(gram: Gram, z: NDArray[Any], by: Literal["count", "set"] = "count") -> OverlapFit:
    """Average a Gram matrix over pairs that agree on the same number (or set) of factors.

    >>> z = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> fitted = overlap_fit((z[:, None] == z[None]).sum(axis=2), z)
    >>> fitted.values, fitted.r2
    ({0: 0.0, 1: 1.0, 2: 2.0}, 1.0)

    A compositionally structured kernel (Lippl & Stachenfeld 2025, Def. 3.1) has R² = 1.
    """
    k = np.asarray(gram.detach().cpu() if isinstance(gram, Tensor) else gram, dtype=np.float64)
    if k.shape != (len(z), len(z)):
        raise Refused(
            f"overlap_fit() needs one row and one column per point; got a Gram matrix of shape "
            f"{k.shape} for {len(z)} points."
        )
    agree = z[:, None] == z[None]  # (n, n, factors)
    factors = z.shape[1]
    code = agree.sum(axis=2) if by == "count" else agree @ (1 << np.arange(factors))
    codes, at, counts = np.unique(code, return_inverse=True, return_counts=True)
    at = at.reshape(k.shape)
    means = np.bincount(at.ravel(), k.ravel()) / counts
    total = ((k - k.mean()) ** 2).sum()
    r2 = 1 - ((k - means[at]) ** 2).sum() / total if total > 0 else 1.0

    def key(value: int) -> Key:
        return value if by == "count" else tuple(c for c in range(factors) if value >> c & 1)

    keys = [key(int(value)) for value in codes]
    return OverlapFit(dict(zip(keys, means.tolist(), strict=True)), float(r2), factors)


def similarity(
    model: nn.Module, x: Float[Tensor, "n *shape"], z: NDArray[Any], layer: str
) -> float:
    """S(1;2) of a layer: (overlapping - distinct) / (identical - distinct), for two factors.

    Inner products are first averaged for each pair of combinations. If some combination has
    several examples, identical pairs are two different examples of it; pairs of an example with
    itself count only if every combination has a single example.
    """
    if z.ndim != 2 or z.shape[1] != 2:
        raise Refused(
            f"similarity() needs points of two factors; got z of shape {z.shape}. Use "
            "overlap_fit() for more factors."
        )
    k = feature_gram(model, x, layer).cpu().numpy()
    cells, at, counts = np.unique(z, axis=0, return_inverse=True, return_counts=True)
    member = np.eye(len(cells))[at.ravel()]  # (n, combinations)
    sums, pairs = member.T @ k @ member, np.outer(counts, counts).astype(float)
    several = counts > 1
    if several.any():
        sums -= np.diag(member.T @ np.diag(k))
        pairs -= np.diag(counts)
    agree = (cells[:, None] == cells[None]).sum(axis=2)
    agree[np.diag_indices(len(cells))] = np.where(several | ~several.any(), 2, -1)
    if missing := [c for c in (0, 1, 2) if not (agree == c).any()]:
        raise Refused(
            f"similarity() needs pairs that share 0, 1 and 2 factors; no pair shares {missing[0]}. "
            "Give a grid of at least 2×2."
        )
    distinct, overlapping, identical = (
        (sums[agree == c] / pairs[agree == c]).mean() for c in (0, 1, 2)
    )
    return float((overlapping - distinct) / (identical - distinct))
