"""Kernels of networks: Gram matrices of layers and gradients, and how far overlap explains them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import batch_norm, layer_norm, unfold

from recombine.core.error import Refused, nearest
from recombine.theory.kernel import Kernel, by_overlap, by_set

Gram = NDArray[Any] | Tensor  # (n, n), symmetric
Key = int | tuple[int, ...]  # how many factors agree, or which
Shape = tuple[int, ...]
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
ROOM = 1 << 28  # numbers held at once while all layers are read: 1 GB
SMALL = 1 << 20  # numbers that the widest layer gives at once


def layers(model: nn.Module) -> list[str]:
    """Name every part of a model whose output `features` can read."""
    return [name for name, _ in model.named_modules() if name]


def calls(model: nn.Module, x: Float[Tensor, "n *shape"]) -> dict[str, list[Shape | None]]:
    """Give the shape of one example's output at every call of every part, in order of the first.

    It is `None` for what is no tensor with a row an example. Parts that never run are left out.
    """
    made: dict[str, list[Shape | None]] = {}
    few = x[:2]

    def note(name: str) -> Any:
        def hook(part: nn.Module, given: Any, gave: Any) -> None:
            whole = isinstance(gave, Tensor) and gave.shape[:1] == few.shape[:1]
            made.setdefault(name, []).append(tuple(gave.shape[1:]) if whole else None)

        return hook

    with hooked(model, {name: note(name) for name in layers(model)}), torch.no_grad():
        model(few)
    return made


@contextmanager
def hooked(model: nn.Module, hooks: dict[str, Any]) -> Iterator[None]:
    """Listen to named parts of a model in evaluation mode, for a while."""
    parts = dict(model.named_modules())
    handles = [parts[name].register_forward_hook(hook) for name, hook in hooks.items()]
    try:
        with evaluated(model):
            yield
    finally:
        for handle in handles:
            handle.remove()


def all_features(
    model: nn.Module,
    x: Float[Tensor, "n *shape"],
    names: Sequence[str],
    *,
    chunk: int | None = None,
    room: int = ROOM,
) -> Iterator[tuple[str, Tensor]]:
    """Yield the outputs of named parts, one row an example, from one pass over the inputs.

    At most `room` numbers are held at once: a part that gives more comes in several pieces, side by
    side in units, and what does not fit into one pass takes another. Inputs go through the model
    `chunk` at a time, by default as many as keep its widest part small.
    """
    for name in names:
        if name not in layers(model):
            raise nearest("layer", name, layers(model))
    made = calls(model, x)
    widths = {name: _width(name, made.get(name, [])) for name in names}
    widest = max((prod(shape) for shapes in made.values() for shape in shapes if shape), default=1)
    chunk = chunk or max(1, min(1024, SMALL // max(widest, 1)))
    units = max(1, room // max(1, len(x)))
    pieces = [
        (name, start, min(start + units, width))
        for name, width in widths.items()
        for start in range(0, max(width, 1), units)
    ]
    while pieces:
        total = accumulate(stop - start for _, start, stop in pieces)
        fit = max(1, sum(held <= units for held in total))
        yield from _one_pass(model, x, pieces[:fit], chunk)
        pieces = pieces[fit:]


def _width(name: str, shapes: Sequence[Shape | None]) -> int:
    """Count the units of a part that ran once, or refuse it."""
    if len(shapes) != 1:
        raise Refused(
            f"Layer {name!r} ran {len(shapes)} times on one input; name a layer that runs once."
        )
    if shapes[0] is None:
        raise Refused(
            f"Layer {name!r} gives no tensor with one row an input; name a layer that does."
        )
    return prod(shapes[0])


def _one_pass(
    model: nn.Module, x: Tensor, pieces: Sequence[tuple[str, int, int]], chunk: int
) -> Iterator[tuple[str, Tensor]]:
    """Run the model once over all inputs, keeping some units of some parts."""
    held: dict[tuple[str, int], Tensor] = {}
    at = 0

    def keep(name: str, spans: Sequence[tuple[int, int]]) -> Any:
        def hook(part: nn.Module, given: Any, gave: Tensor) -> None:
            rows = gave.flatten(1)
            for start, stop in spans:
                if (name, start) not in held:
                    held[name, start] = rows.new_empty(len(x), stop - start)
                held[name, start][at : at + len(rows)] = rows[:, start:stop]

        return hook

    spans: dict[str, list[tuple[int, int]]] = {}
    for name, start, stop in pieces:
        spans.setdefault(name, []).append((start, stop))
    with hooked(model, {n: keep(n, s) for n, s in spans.items()}), torch.no_grad():
        for piece in x.split(chunk):
            model(piece)
            at += len(piece)
    for name, start, _ in pieces:
        yield name, held.pop((name, start))


def features(
    model: nn.Module, x: Float[Tensor, "n *shape"], layer: str, *, chunk: int | None = None
) -> Float[Tensor, "n d"]:
    """Record the output of a named part of the model, one row an example, in evaluation mode."""
    found = [rows for _, rows in all_features(model, x, [layer], chunk=chunk)]
    return found[0] if len(found) == 1 else torch.cat(found, dim=1)


def feature_gram(
    model: nn.Module, x: Float[Tensor, "n *shape"], layer: str
) -> Float[Tensor, "n n"]:
    """Inner products of the activations of a layer, in double precision."""
    rows = features(model, x, layer).double()
    return rows @ rows.T


class Call(NamedTuple):
    """What a layer was given and what it gave."""

    layer: nn.Module
    given: Tensor
    gave: Tensor


def empirical_ntk(
    model: nn.Module,
    x: Float[Tensor, "n *shape"],
    y_index: int = 0,
    *,
    method: Literal["auto", "layers", "samples"] = "auto",
    chunk: int = 64,
) -> Float[Tensor, "n n"]:
    """Inner products of the gradients of one output with respect to all trained parameters.

    Layer by layer, from what a layer was given and the signal that comes back to it: for a linear
    layer on vectors, (a·a' + 1)(g·g'). `auto` differentiates example after example (`chunk` at a
    time) only for parameters that lie in no linear, convolutional or normalizing layer that runs
    once; `layers` refuses those, and `samples` does so for all, as a check. The model is in
    evaluation mode: with batch statistics an example has no gradient of its own.
    """
    calls: dict[str, list[Call]] = {}

    def note(name: str) -> Any:
        def hook(layer: nn.Module, given: tuple[Tensor, ...], gave: Tensor) -> Tensor:
            calls.setdefault(name, []).append(Call(layer, given[0].detach(), gave))
            return gave.clone()  # what follows may work in place

        return hook

    known = {} if method == "samples" else supported(model)
    handles = [part.register_forward_hook(note(name)) for name, part in known.items()]
    try:
        with evaluated(model), torch.enable_grad():
            outputs = model(x).reshape(len(x), -1)
    finally:
        for handle in handles:
            handle.remove()
    if not 0 <= y_index < outputs.shape[1]:
        raise Refused(
            f"Output {y_index} was asked for, but the model has {outputs.shape[1]}. "
            "Count from zero."
        )
    once = {name: made[0] for name, made in calls.items() if len(made) == 1}
    done = {f"{name}.{p}" for name, call in once.items() for p, _ in call.layer.named_parameters()}
    left = {
        name: p.detach()
        for name, p in model.named_parameters()
        if p.requires_grad and name not in done and f".{name}" not in done
    }
    if left and method == "layers":
        raise Refused(
            f"The kernel of {', '.join(sorted(left))} cannot be taken layer by layer: only that "
            "of Linear, Conv2d, BatchNorm and LayerNorm that run once can. Use method='auto'."
        )
    k = _samples(model, x, y_index, left, chunk) if left else outputs.new_zeros(len(x), len(x))
    k = k.detach()
    if once:
        gave = [call.gave for call in once.values()]
        signals = torch.autograd.grad(outputs[:, y_index].sum(), gave, allow_unused=True)
        for call, signal in zip(once.values(), signals, strict=True):
            if signal is not None:
                k += _layer(call, signal)
    return k


def supported(model: nn.Module) -> dict[str, nn.Module]:
    """Find the layers whose kernel follows from their input and the signal that comes back."""
    held = Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))

    def simple(layer: nn.Module) -> bool:
        own = list(layer.parameters())
        if not own or not all(p.requires_grad and held[id(p)] == 1 for p in own):
            return False
        if type(layer) is nn.Conv2d:
            return (layer.groups, layer.padding_mode) == (1, "zeros") and layer.padding != "same"
        if type(layer) in BATCH_NORMS:
            return layer.running_mean is not None  # else examples depend on each other
        return type(layer) in (nn.Linear, nn.LayerNorm)

    return {name: layer for name, layer in model.named_modules() if simple(layer)}


@contextmanager
def evaluated(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode for a while."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def _layer(call: Call, signal: Tensor) -> Tensor:
    """Kernel of a layer's weight and bias."""
    layer, a, g = call.layer, call.given, signal
    if isinstance(layer, (*BATCH_NORMS, nn.LayerNorm)):
        return _norm(layer, a, g)
    if isinstance(layer, nn.Conv2d):
        padding: Any = 0 if layer.padding == "valid" else layer.padding
        kernel: Any = layer.kernel_size
        a = unfold(a, kernel, layer.dilation, padding, layer.stride).mT
        g = g.flatten(2).mT
    a, g = a.reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
    if layer.bias is not None:
        a = torch.cat([a, a.new_ones(*a.shape[:2], 1)], dim=2)
    return _products(a, g)


def _products(a: Tensor, g: Tensor, most: int = 1 << 24) -> Tensor:
    """Inner products of Σ_t g_t ⊗ a_t between examples, from (n, places, …) inputs and signals."""
    n, places, inputs = a.shape
    outputs = g.shape[2]
    if places == 1:
        return (a[:, 0] @ a[:, 0].T) * (g[:, 0] @ g[:, 0].T)
    if places * places * (inputs + outputs) < inputs * outputs:  # few places: by pairs of them
        pairs = [((a[i] @ a.mT) * (g[i] @ g.mT)).sum(dim=(1, 2)) for i in range(n)]
        return torch.stack(pairs)
    k = a.new_zeros(n, n)
    for signals in g.split(max(1, most // (n * inputs)), dim=2):  # many: sum over them first
        rows = (signals.mT @ a).flatten(1)
        k += rows @ rows.T
    return k


def _norm(layer: nn.Module, a: Tensor, g: Tensor) -> Tensor:
    """Kernel of the scale and shift of a normalizing layer."""
    if isinstance(layer, nn.LayerNorm):
        normal = layer_norm(a, layer.normalized_shape, None, None, layer.eps)
        shape = (len(a), -1, layer.weight.numel())
        scale, shift = ((v.reshape(shape).sum(dim=1)) for v in (normal * g, g))
        rows = torch.cat([scale] if layer.bias is None else [scale, shift], dim=1)
    else:
        mean, variance, eps = layer.running_mean, layer.running_var, layer.eps
        normal = batch_norm(a, mean, variance, None, None, False, 0.0, eps)  # type: ignore[arg-type]
        shape = (len(a), a.shape[1], -1)
        rows = torch.cat([v.reshape(shape).sum(dim=2) for v in (normal * g, g)], dim=1)
    return rows @ rows.T


def _samples(
    model: nn.Module, x: Tensor, y_index: int, left: dict[str, Tensor], chunk: int
) -> Tensor:
    """Kernel of some parameters by their gradients, example after example."""

    def output(part: dict[str, Tensor], one: Tensor) -> Tensor:
        answer: Tensor = functional_call(model, part, (one[None],))
        return answer.flatten()[y_index]

    with evaluated(model):
        found = vmap(grad(output), in_dims=(None, 0), chunk_size=chunk)(left, x)
    rows = torch.cat([v.flatten(1) for v in found.values()], dim=1)
    return rows @ rows.T


@dataclass(frozen=True)
class OverlapFit:
    """A Gram matrix as a function of overlap: its value at each overlap, and how well that fits."""

    values: dict[Key, float]
    """Mean entry for each number (or set) of factors on which two points agree."""
    r2: float
    """Share of the variance of all entries, the diagonal included, that these means explain."""
    counts: dict[Key, int]
    factors: int

    def kernel(self) -> Kernel:
        """The overlap kernel nearest to the Gram matrix, for the exact predictions of theory."""
        if sets := {j: v for j, v in self.values.items() if isinstance(j, tuple)}:
            return by_set(sets)
        if missing := [k for k in range(self.factors + 1) if k not in self.values]:
            raise Refused(
                f"No two points agree on exactly {missing[0]} of {self.factors} factors; give "
                "points of every overlap."
            )
        return by_overlap([self.values[k] for k in range(self.factors + 1)])

    def salience(self) -> NDArray[np.float64]:
        """S(1;C) … S(C;C): the weight of one conjunction of k factors.

        >>> OverlapFit({0: 1.0, 1: 2.0, 2: 4.0}, 1.0, {0: 2, 1: 4, 2: 3}, 2).salience().round(3)
        array([0.333, 0.333])
        """
        return self.kernel().salience()


def overlap_fit(gram: Gram, z: NDArray[Any], by: Literal["count", "set"] = "count") -> OverlapFit:
    """Average a Gram matrix over pairs that agree on as many (or on the same set of) factors.

    A compositionally structured kernel (Lippl & Stachenfeld 2025, Def. 3.1) has R² = 1.
    """
    k = np.asarray(gram.detach().cpu() if isinstance(gram, Tensor) else gram, dtype=np.float64)
    if k.shape != (len(z), len(z)):
        raise Refused(
            f"A Gram matrix of shape {k.shape} was given with {len(z)} points; give one row and "
            "one column a point."
        )
    agree = z[:, None] == z[None]  # (n, n, factors)
    factors = z.shape[1]
    code = agree.sum(axis=2) if by == "count" else agree @ (1 << np.arange(factors))
    found, at, counts = np.unique(code, return_inverse=True, return_counts=True)
    at = at.reshape(k.shape)
    means = np.bincount(at.ravel(), k.ravel()) / counts
    total = ((k - k.mean()) ** 2).sum()
    r2 = 1 - ((k - means[at]) ** 2).sum() / total if total > 0 else 1.0

    def key(value: int) -> Key:
        return value if by == "count" else tuple(c for c in range(factors) if value >> c & 1)

    keys = [key(int(value)) for value in found]
    return OverlapFit(
        dict(zip(keys, means.tolist(), strict=True)),
        float(r2),
        dict(zip(keys, counts.tolist(), strict=True)),
        factors,
    )


def similarity(
    model: nn.Module, x: Float[Tensor, "n *shape"], z: NDArray[Any], layer: str
) -> float:
    """S(1;2) of a layer: (overlapping - distinct) / (identical - distinct), between two factors.

    Inner products are averaged for each pair of combinations first. Where some combination has
    several examples, identical pairs are two different examples of it; an example with itself
    counts only if every combination has a single one.
    """
    if z.ndim != 2 or z.shape[1] != 2:
        raise Refused(
            f"S(1;2) compares points of two factors, but z has shape {z.shape}; "
            "use overlap_fit for more factors."
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
            f"S(1;2) needs combinations that share none, one and both factors; none share "
            f"{missing[0]}. Give a grid of at least 2×2."
        )
    distinct, overlapping, identical = (
        (sums[agree == c] / pairs[agree == c]).mean() for c in (0, 1, 2)
    )
    return float((overlapping - distinct) / (identical - distinct))
