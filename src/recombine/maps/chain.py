"""Chains of linear and pointwise layers, and their exact derivatives carried layer by layer.

Values and derivatives go through the layers together, by the chain rule. So derivatives can be
differentiated again by the weights, and mapped over models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp
from torch.nn.functional import linear, sigmoid, softplus

Entry = tuple[int, ...]  # the coordinates by which a derivative is taken, in rising order
Jet = tuple[Tensor, ...]  # a pointwise function, then its derivatives

POINTWISE = (nn.Tanh, nn.Sigmoid, nn.GELU, nn.Softplus, nn.ELU, nn.ReLU, nn.LeakyReLU)
SHAPES = (nn.Flatten, nn.Identity)


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Flatten nested `Sequential`s into their layers."""
    if type(model) is nn.Sequential:
        return [layer for part in model for layer in layers_of(part)]
    return [model]


def cut(f: Any, z: Tensor) -> tuple[nn.Sequential, list[nn.Module]] | None:
    """Cut an `nn.Sequential` into its first layers, of any kind, and a chain after them.

    Returns None if it does not end in a chain that reads one vector per point.
    """
    if not isinstance(f, nn.Sequential):
        return None
    layers = layers_of(f)
    while layers and isinstance(layers[-1], nn.Unflatten):  # only the shape of the outputs
        layers.pop()
    known = (nn.Linear, *POINTWISE, *SHAPES)
    start = 1 + max((i for i, m in enumerate(layers) if not isinstance(m, known)), default=-1)
    first, chain = nn.Sequential(*layers[:start]), layers[start:]
    if not any(isinstance(m, nn.Linear) for m in chain):
        return None
    with torch.no_grad():
        flat = first(z[:1]).ndim == 2 or isinstance(chain[0], nn.Flatten)
    return (first, chain) if flat else None


def needed(entries: Sequence[Entry]) -> list[list[Entry]]:
    """List, from order 1 up, the derivatives that these entries of one order are made of.

    >>> needed([(0, 1), (0, 2)])
    [[(0,), (1,), (2,)], [(0, 1), (0, 2)]]
    """
    order = len(entries[0])
    lower = [sorted({s for e in entries for s in combinations(e, m)}) for m in range(1, order)]
    return [*lower, list(entries)]


def coordinates(z: Tensor, entries: Sequence[Entry]) -> list[Tensor]:
    """Return the jets of the coordinates of (n, dim) points, from which `carry` starts."""
    eye = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return [z[None], eye[[i for (i,) in needed(entries)[0]]][:, None]]


def carry(layers: Sequence[nn.Module], jets: Sequence[Tensor], entries: Sequence[Entry]) -> Tensor:
    """Carry values and derivatives through a chain; return the derivatives `entries`.

    - layers: linear and pointwise layers
    - jets: what the chain reads: values (1, n, units), then its derivatives of order 1, 2, …
      (derivatives, n, units), in the order of `needed(entries)`; missing orders are zero
    - entries: derivatives to return, all of one order up to 3, as (entries, n, outputs)
    """
    order, orders, parts = len(entries[0]), needed(entries), list(jets)
    bends = [i for i, m in enumerate(layers) if not isinstance(m, (nn.Linear, *SHAPES))]
    last = max(bends, default=-1)
    for layer in layers[: last + 1]:
        if isinstance(layer, nn.Linear):
            value = linear(parts[0], layer.weight, layer.bias)
            parts = [value, *[linear(part, layer.weight) for part in parts[1:]]]
        elif not isinstance(layer, SHAPES):
            parts = _bend(_jet(layer, parts[0], order), parts, orders)
    n = parts[0].shape[1]
    after = [layer for layer in layers[last + 1 :] if isinstance(layer, nn.Linear)]
    if len(parts) <= order:
        width = after[-1].out_features if after else parts[0].shape[2]
        return parts[0].new_zeros(len(entries), n, width)
    top = parts[order]
    for layer in after:  # lower orders are no longer needed
        top = linear(top, layer.weight)
    return top.expand(-1, n, -1)


def _bend(jet: Jet, parts: Sequence[Tensor], orders: Sequence[Sequence[Entry]]) -> list[Tensor]:
    """Pass values and derivatives through a pointwise function: Faà di Bruno's formula.

    Derivatives beyond those in `parts` are zero before, not after.
    """
    bent = [jet[0], *[jet[1] * part for part in parts[1:]]]
    order, slopes = len(orders), parts[1]
    if order > 1:
        i, j = (_rows(orders, 2, [k]) for k in range(2))
        _add(bent, 2, _times(_times(slopes[i], slopes[j]), jet[2]))
    if order > 2:
        a, b, c = (_rows(orders, 3, [k]) for k in range(3))
        if len(parts) > 2:
            ab, ac, bc = (_rows(orders, 3, pair) for pair in ((0, 1), (0, 2), (1, 2)))
            curves = parts[2]
            mixed = _times(curves[ab], slopes[c]) + _times(curves[ac], slopes[b])
            _add(bent, 3, _times(mixed + _times(curves[bc], slopes[a]), jet[2]))
        _add(bent, 3, _times(_times(_times(slopes[a], slopes[b]), slopes[c]), jet[3]))
    return bent


def _rows(orders: Sequence[Sequence[Entry]], order: int, chosen: Sequence[int]) -> list[int]:
    """Find, for all entries of an order, where the derivative by some of their coordinates is."""
    row = {entry: i for i, entry in enumerate(orders[len(chosen) - 1])}
    return [row[tuple(entry[k] for k in chosen)] for entry in orders[order - 1]]


def _times(a: Tensor, b: Tensor) -> Tensor:
    """Multiply; overwrite `a`, an intermediate result, where no gradient needs it."""
    if torch.is_grad_enabled() or a.shape[1] < b.shape[1]:
        return a * b
    return a.mul_(b)


def _add(parts: list[Tensor], at: int, term: Tensor) -> None:
    if at < len(parts):
        parts[at] = parts[at] + term
    else:
        parts.append(term)


def _jet(layer: nn.Module, a: Tensor, order: int) -> Jet:
    """Return a pointwise function and its first derivatives at every entry."""
    if isinstance(layer, nn.Tanh):
        return _tanh(a, order)
    if isinstance(layer, nn.Sigmoid):
        return _sigmoid(a, order)
    if isinstance(layer, nn.Softplus) and (layer.beta, layer.threshold) == (1, 20):
        return softplus(a), *_sigmoid(a, order - 1)
    ones = torch.ones_like(a)

    def value(at: Tensor) -> Jet:
        return (layer(at),)

    def differentiated(g: Callable[[Tensor], Jet]) -> Callable[[Tensor], Jet]:
        def jet(at: Tensor) -> Jet:
            known: Any = jvp(g, (at,), (ones,))
            return *known[0], known[1][-1]

        return jet

    g: Callable[[Tensor], Jet] = value
    for _ in range(order):
        g = differentiated(g)
    return g(a)


def _tanh(a: Tensor, order: int) -> Jet:
    t = torch.tanh(a)
    slope = 1 - t * t
    jet = [t, slope]
    if order > 1:
        jet.append(-2 * t * slope)
    if order > 2:
        jet.append(slope * (6 * t * t - 2))
    return tuple(jet)


def _sigmoid(a: Tensor, order: int) -> Jet:
    s = sigmoid(a)
    slope = s * (1 - s)
    jet = [s, slope]
    if order > 1:
        jet.append(slope * (1 - 2 * s))
    if order > 2:
        jet.append(slope * (1 - 6 * slope))
    return tuple(jet)
