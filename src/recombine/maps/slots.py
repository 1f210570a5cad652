"""Slots: autoencoders whose code is a set of vectors, and penalties on how these work together."""

from __future__ import annotations

import warnings
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.func import jvp, vmap

from recombine.core.error import Refused
from recombine.training.penalty import Batch, Penalty


class Slotted(nn.Module):
    """What the penalties below look for: an autoencoder whose code is a set of slots."""

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """Read (n, slots, dim) slots from what was given."""

    @abstractmethod
    def decode(self, z: Tensor) -> Tensor:
        """Draw what (n, slots, dim) slots say."""

    def forward(self, x: Tensor) -> Tensor:
        """Encode and decode."""
        return self.decode(self.encode(x))


class Layered(Slotted):
    """An autoencoder that draws every slot by itself; what it draws is their sum."""

    @abstractmethod
    def parts(self, z: Tensor) -> Tensor:
        """Draw every slot: (n, slots, …)."""

    def decode(self, z: Tensor) -> Tensor:
        """Add what the slots draw."""
        return self.parts(z).sum(dim=1)


def encode(model: Slotted, x: Tensor, *, chunk: int = 512) -> Tensor:
    """Encode images into slots, `chunk` at a time and without gradients."""
    with torch.no_grad():
        return torch.cat([model.encode(part) for part in x.split(chunk)])


def decode(model: Slotted, z: Tensor, *, chunk: int = 512) -> Tensor:
    """Decode slots into images, `chunk` at a time and without gradients."""
    with torch.no_grad():
        return torch.cat([model.decode(part) for part in z.split(chunk)])


@dataclass(frozen=True)
class Work:
    """All that one pass of an autoencoder made: its drawing, and how it came to it."""

    drawn: Tensor
    mean: Tensor  # (n, slots, dim): the code, or the mean of its posterior
    spread: Tensor | None = None  # (n, slots, dim): the posterior's deviation, if it has one
    attention: Sequence[Tensor] = ()  # a layer: (n, heads, slots, pixels), shares of slots


class Memory:
    """Holds the last pass of training until a gradient has run through it or a weight changed."""

    def __init__(self) -> None:
        self.held: tuple[Tensor, Work] | None = None
        self.tensors: list[Tensor] = []  # what the pass was made of: input and weights
        self.versions: list[int] = []  # how often these had been written then

    def keep(self, module: nn.Module, x: Tensor, work: Work) -> None:
        """Hold what came of `x` in training, in place of what was held, if it has gradients."""
        self.held, self.tensors = None, []
        if not (work.drawn.requires_grad and module.training):
            return
        self.held, self.tensors = (x, work), [x, *module.parameters()]
        self.versions = [t._version for t in self.tensors]
        me = weakref.ref(self)
        for tensor in (work.drawn, work.mean, *work.attention):
            if tensor.requires_grad:
                tensor.register_hook(lambda _: _forget(me))  # a gradient uses the graph up

    def recall(self, module: nn.Module, x: Tensor) -> Work | None:
        """Give what is held, if it came of the very tensor `x` and is still true."""
        if self.held is None or self.held[0] is not x:
            return None
        true = module.training and torch.is_grad_enabled()
        true = true and self.versions == [t._version for t in self.tensors]
        return self.held[1] if true else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave what is held out of copies and files."""
        return Memory, ()


def _forget(memory: weakref.ref[Memory]) -> None:
    held = memory()
    if held is not None:
        held.held, held.tensors = None, []


class Transparent(Slotted):
    """An autoencoder that shows its work: the posterior of its code, and where its pixels look.

    A pass in training is remembered, so that penalties read it instead of making another.
    """

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory()

    @abstractmethod
    def run(self, x: Tensor) -> Work:
        """Encode and decode, and keep all that was made."""

    def work(self, x: Tensor) -> Work:
        """Recall the pass that this step of training has made with `x`, or make one."""
        known = self.memory.recall(self, x)
        if known is None:
            known = self.run(x)
            self.memory.keep(self, x, known)
        return known

    def forward(self, x: Tensor) -> Tensor:
        """Encode and decode anew, and remember it."""
        work = self.run(x)
        self.memory.keep(self, x, work)
        return work.drawn


def _slotted(model: nn.Module) -> Slotted:
    if not isinstance(model, Slotted):
        raise Refused(
            f"This penalty looks at the slots of an autoencoder (a module of type Slotted), but "
            f"{type(model).__name__} has none; use slot_autoencoder or slot_attention."
        )
    return model


def assign(cost: Tensor) -> Tensor:
    """Find for each row of each (n, k, k) cost the column that makes the sum smallest.

    >>> assign(torch.tensor([[[1.0, 0.0], [0.0, 5.0]]]))
    tensor([[1, 0]])
    """
    if cost.shape[1] == 2:  # two ways are compared at once
        crossed = cost[:, 0, 1] + cost[:, 1, 0] < cost[:, 0, 0] + cost[:, 1, 1]
        return torch.stack([crossed, ~crossed], dim=1).long()
    found = [linear_sum_assignment(one)[1] for one in cost.detach().cpu().double().numpy()]
    return torch.from_numpy(np.array(found).reshape(cost.shape[:2])).to(cost.device)


def compositional_consistency(
    weight: float = 1.0, *, least: float = 0.0, most: float = 1.0
) -> Penalty:
    """Penalize an encoder that does not read back slots which the decoder drew in new combinations.

    Slots are drawn with replacement from all slots of the batch, whatever their place, decoded and
    clamped to [`least`, `most`]; what the encoder reads is matched to them, image by image, and
    squared distances are added over slots, each side standardized by its own mean and deviation.
    Only the encoder feels it. It starts late in training: give `fit` a schedule that is 0 before
    (Wiedemer et al. 2024).
    """

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        model = _slotted(model)
        with torch.no_grad():
            slots = model.encode(batch.x)
            n, k, _ = slots.shape
            rows = torch.randint(n * k, (n * k,)).to(slots.device)
            wanted = slots.flatten(0, 1)[rows].view_as(slots)
            image = model.decode(wanted).clamp(least, most)
        found, wanted = _standard(model.encode(image)), _standard(wanted)
        distance = (found[:, :, None] - wanted[:, None]).square().sum(dim=3)  # (n, found, wanted)
        best = assign(distance.detach())
        return weight * distance.gather(2, best[:, :, None]).sum() / n

    return penalty


def _standard(z: Tensor) -> Tensor:
    return (z - z.mean()) / (z.std() + 1e-8)


def sensitivity(decode: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Norm of the derivative of every output with respect to every slot: (n, slots, outputs).

    Exact, in forward mode: one derivative for each number of a point's code.
    """
    n, k, dim = z.shape
    ways = torch.eye(k * dim, dtype=z.dtype, device=z.device).view(k * dim, 1, k, dim)

    def along(way: Tensor) -> Tensor:
        slope: Tensor = jvp(decode, (z,), (way.expand_as(z),))[1]
        return slope.flatten(1)

    with warnings.catch_warnings():  # torch's own forward mode loads what it calls deprecated
        warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
        slopes = vmap(along)(ways).view(k, dim, n, -1)
    norms: Tensor = torch.linalg.vector_norm(slopes, dim=1)  # its slope at zero counts as zero
    return norms.transpose(0, 1)


def shared_outputs(norms: Tensor) -> Tensor:
    """Add up, for each point, ‖∂f/∂zⱼ‖ ‖∂f/∂zₖ‖ over outputs and pairs of slots j < k."""
    return (norms.sum(dim=1).square() - norms.square().sum(dim=1)).sum(dim=1) / 2


def compositional_contrast(weight: float = 1.0) -> Penalty:
    """Penalize outputs that depend on more than one slot: the mean of `shared_outputs`.

    It is 0 where every output depends on one slot at most (Brady et al. 2023). A step costs about
    as much as one of plain training for each number of the code.
    """

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        model = _slotted(model)
        return weight * shared_outputs(sensitivity(model.decode, model.encode(batch.x))).mean()

    return penalty


def _work(model: nn.Module, batch: Batch, wanted: str) -> Work:
    if not isinstance(model, Transparent):
        raise Refused(
            f"This penalty reads the {wanted} of an autoencoder that shows its work (a module of "
            f"type Transparent), but {type(model).__name__} has none; use transformer_autoencoder."
        )
    return model.work(batch.x)


def latent_capacity(weight: float = 1.0) -> Penalty:
    """Penalize what a code may hold: the divergence of its posterior from N(0, 1).

    The divergence is added over all numbers of all slots and averaged over the batch, so a number
    that says nothing costs nothing (Brady et al. 2024).
    """

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        work = _work(model, batch, "posterior")
        if work.spread is None:
            raise Refused(
                f"This penalty reads the posterior of the code, but this {type(model).__name__} "
                "has a code without spread; build it with variational=True."
            )
        return weight * divergence(work.mean, work.spread).sum() / len(work.mean)

    return penalty


def divergence(mean: Tensor, spread: Tensor) -> Tensor:
    """Divergence of N(mean, spread²) from N(0, 1), number by number.

    >>> divergence(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0]))
    tensor([0., 2.])
    """
    return (mean.square() + spread.square() - 1) / 2 - spread.log()


def attention_interaction(weight: float = 1.0, *, normalized: bool = True) -> Penalty:
    """Penalize pixels that look at more than one slot: the mean of `shared_attention`.

    Normalized, it is divided by its largest value, reached where all slots are looked at alike, so
    that a weight means the same for any number of heads (Brady et al. 2024, who do not).
    """

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        attention = _work(model, batch, "attention").attention
        if not attention:
            raise Refused(
                f"This penalty reads where pixels look, but this {type(model).__name__} draws "
                'without attention; build it with decoder="transformer".'
            )
        heads, slots = attention[0].shape[1:3]
        most = heads**2 * (1 - 1 / slots) / 2 if normalized and slots > 1 else 1.0
        return weight / most * shared_attention(attention).mean()

    return penalty


def shared_attention(attention: Sequence[Tensor]) -> Tensor:
    """Add up Āⱼ Āₖ over pairs of slots j < k at each pixel: (n, pixels).

    `attention` holds (n, heads, slots, pixels) for each layer; Ā is its sum over heads and mean
    over layers, so a sum of 0 asks all heads and layers to agree on one slot. As Ā adds up to the
    number of heads H, the pairs give ½ (H² − Σₖ Āₖ²).
    """
    heads = attention[0].shape[1]
    total = sum(attention[1:], attention[0]).sum(dim=1) / len(attention)
    return (heads**2 - total.square().sum(dim=1)) / 2
