"""Curvature: exact derivatives of a smooth decoder across its slots, and penalties on them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, permutations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, sigmoid, softplus

from recombine.core.error import Refused
from recombine.maps.slots import Slotted, shared_outputs
from recombine.training.penalty import Batch, Penalty, layers_of

Index = tuple[int, ...]  # the coordinates by which a derivative is taken, in rising order
Jet = tuple[Tensor, Tensor, Tensor, Tensor]  # values of a function and of three derivatives


class Smooth(Slotted):
    """A slotted autoencoder whose decoder is a chain of linear layers and smooth functions."""

    @property
    @abstractmethod
    def chain(self) -> nn.Sequential:
        """The decoder, which reads the numbers of all slots as one vector."""

    def decode(self, z: Tensor) -> Tensor:
        """Draw what (n, slots, dim) slots say."""
        drawn: Tensor = self.chain(z.flatten(1))
        return drawn


def _tanh(a: Tensor) -> Jet:
    t = torch.tanh(a)
    slope = 1 - t * t
    return t, slope, -2 * t * slope, slope * (6 * t * t - 2)


def _sigmoid(a: Tensor) -> Jet:
    s = sigmoid(a)
    slope = s * (1 - s)
    return s, slope, slope * (1 - 2 * s), slope * (1 - 6 * slope)


def _softplus(a: Tensor) -> Jet:
    return softplus(a), *_sigmoid(a)[:3]


JETS: dict[type[nn.Module], Callable[[Tensor], Jet]] = {
    nn.Tanh: _tanh,
    nn.Sigmoid: _sigmoid,
    nn.Softplus: _softplus,
}


def indices(dim: int, order: int, block: int | None = None) -> list[Index]:
    """List the derivatives of an order; with `block`, only those that touch two blocks or more.

    >>> indices(4, 2, block=2)
    [(0, 2), (0, 3), (1, 2), (1, 3)]
    """
    every = combinations_with_replacement(range(dim), order)
    return [i for i in every if block is None or len({c // block for c in i}) > 1]


def multiplicity(index: Index) -> int:
    """Count the entries of the full tensor that a derivative stands for.

    >>> multiplicity((0, 0, 1))
    3
    """
    return len(set(permutations(index)))


def derivatives(
    chain: nn.Sequential, z: Tensor, order: int, block: int | None = None
) -> list[Tensor]:
    """Give the derivatives of a chain at (n, dim) points: order 0, then 1, … up to 3, exactly.

    Each has shape (derivatives, n, outputs), in the order of `indices`. With `block`, derivatives
    of the highest order, if that is above 1, are those across blocks of so many coordinates. Values
    and derivatives go through the layers together, by the chain rule; so they can be differentiated
    again by the weights, and mapped over models.
    """
    n, dim = z.shape
    wanted = [indices(dim, k, block if 1 < k == order else None) for k in range(1, order + 1)]
    ways = torch.eye(dim, dtype=z.dtype, device=z.device)[:, None]
    parts = [z[None], ways][: order + 1]  # higher derivatives of the identity vanish
    for layer in _layers(chain):
        if isinstance(layer, nn.Linear):
            value = linear(parts[0], layer.weight, layer.bias)
            parts = [value, *[linear(part, layer.weight) for part in parts[1:]]]
        elif not isinstance(layer, nn.Identity):
            parts = _bend(JETS[type(layer)](parts[0]), parts, wanted)
    missing = [z.new_zeros(len(i), 1, parts[0].shape[2]) for i in wanted[len(parts) - 1 :]]
    return [part.expand(-1, n, -1) for part in (*parts, *missing)]


def _bend(jet: Jet, parts: Sequence[Tensor], wanted: Sequence[Sequence[Index]]) -> list[Tensor]:
    """Pass values and derivatives through a pointwise function: Faà di Bruno's formula.

    Derivatives beyond those in `parts` are zero before, not after.
    """
    value, first, second, third = jet
    bent = [value, *[first * part for part in parts[1:]]]
    if len(wanted) > 1:
        slopes = parts[1]
        i, j = _columns(wanted[1])
        _add(bent, 2, second * (slopes[i] * slopes[j]))
    if len(wanted) > 2:
        a, b, c = _columns(wanted[2])
        if len(parts) > 2:
            curves, at = parts[2], {index: row for row, index in enumerate(wanted[1])}
            ab, ac, bc = ([at[i[p], i[q]] for i in wanted[2]] for p, q in ((0, 1), (0, 2), (1, 2)))
            mixed = curves[ab] * slopes[c] + curves[ac] * slopes[b] + curves[bc] * slopes[a]
            _add(bent, 3, second * mixed)
        _add(bent, 3, third * (slopes[a] * slopes[b] * slopes[c]))
    return bent


def _add(parts: list[Tensor], at: int, term: Tensor) -> None:
    if at < len(parts):
        parts[at] = parts[at] + term
    else:
        parts.append(term)


def _columns(index: Sequence[Index]) -> list[list[int]]:
    return [list(column) for column in zip(*index, strict=True)]


def _layers(chain: nn.Sequential) -> list[nn.Module]:
    """List the layers of a chain, or refuse one whose derivatives are not known."""
    found = layers_of(chain)
    for layer in found:
        plain = type(layer) in (nn.Linear, nn.Identity, nn.Tanh, nn.Sigmoid)
        soft = isinstance(layer, nn.Softplus) and (layer.beta, layer.threshold) == (1, 20)
        if not plain and not soft:
            raise Refused(
                f"Derivatives are carried through Linear, Tanh, Sigmoid and plain Softplus layers, "
                f"but the chain holds {layer}. Use one of these: of piecewise linear layers, such "
                "as ReLU, second derivatives say nothing."
            )
    return found


def shared(chain: nn.Sequential, z: Tensor) -> Tensor:
    """Order 0, at each of (n, slots, dim) points: how far outputs depend on several slots.

    Σ ‖∂f/∂zⱼ‖ ‖∂f/∂zₖ‖ over outputs and pairs of slots, the compositional contrast.
    """
    n, slots, dim = z.shape
    slopes = derivatives(chain, z.flatten(1), 1)[1].view(slots, dim, n, -1)
    norms: Tensor = torch.linalg.vector_norm(slopes, dim=1)  # its slope at zero counts as zero
    return shared_outputs(norms.transpose(0, 1))


def energy(chain: nn.Sequential, z: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Add the squared derivatives of an order (2 or 3) at each point: across slots, and all.

    Every entry of the full tensor counts.
    """
    _, slots, dim = z.shape
    top = derivatives(chain, z.flatten(1), order)[order].square().sum(dim=2)
    own = indices(slots * dim, order)
    times = torch.tensor([multiplicity(i) for i in own]).to(top)[:, None]
    apart = torch.tensor([len({c // dim for c in i}) > 1 for i in own]).to(top)[:, None]
    return (top * times * apart).sum(dim=0), (top * times).sum(dim=0)


def crossing(chain: nn.Sequential, z: Tensor, order: int) -> Tensor:
    """Add the squared derivatives of an order (2 or 3) across slots at each point, each once."""
    dim = z.shape[2]
    top = derivatives(chain, z.flatten(1), order, block=dim)[order]
    return top.square().sum(dim=(0, 2))


def interaction(
    order: int, weight: float = 1.0, *, points: int | None = None, recombined: bool = False
) -> Penalty:
    """Penalize slots that interact by more than an order in what a `Smooth` autoencoder draws.

    Order 0 adds what outputs share (`shared`), 1 the squared second derivatives across slots, 2 the
    third ones; all are summed over outputs and averaged over points: the first `points` of the
    batch, where they are encoded, or, `recombined`, where slots of different examples meet. The
    code must not be free to grow, or derivatives shrink for nothing (Brady et al. 2024).
    """
    if order not in (0, 1, 2):
        raise Refused(f"Interaction of order {order} was to be penalized; give 0, 1 or 2.")

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        if not isinstance(model, Smooth):
            raise Refused(
                f"This penalty looks at a smooth chain that draws slots (a module of type Smooth), "
                f"but {type(model).__name__} has none; use block_autoencoder."
            )
        z = model.encode(batch.x[:points])
        if recombined:
            z = recombine(z)
        if order == 0:
            return weight * shared(model.chain, z).mean()
        return weight * crossing(model.chain, z, order + 1).mean()

    return penalty


def recombine(z: Tensor) -> Tensor:
    """Join slots of different examples: slot k comes from the example k places before.

    >>> recombine(torch.arange(6).view(3, 2, 1)).flatten(1).tolist()
    [[0, 5], [2, 1], [4, 3]]
    """
    return torch.stack([z[:, k].roll(k, 0) for k in range(z.shape[1])], dim=1)
