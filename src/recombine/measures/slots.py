"""Whether slots represent objects: read-out of true latents, segmentation, and contrast."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from recombine.base.error import Refused
from recombine.maps.seed import seeded
from recombine.maps.slots import Layered, assign, sensitivity, shared_outputs
from recombine.measures.observed import predict
from recombine.measures.variance import variance_weighted_r2
from recombine.models.dense import dense_layers
from recombine.tasks.task import Data
from recombine.training.fit import cosine, fit


def ari(
    labels: Int[Tensor, "n *places"], truth: Int[Tensor, "n *places"], *, foreground: bool = False
) -> Float[Tensor, " n"]:
    """Adjusted Rand index of each image: 1 for equal partitions, about 0 for unrelated ones.

    `foreground` leaves out places whose true label is 0. If both partitions have a single group, or
    only groups of one place, the index is 1, as in scikit-learn.
    """
    a, b = labels.flatten(1).long(), truth.flatten(1).long()
    counted = (b != 0) if foreground else torch.ones_like(b, dtype=torch.bool)
    rows, cols = one_hot(a).double(), one_hot(b).double() * counted[:, :, None]
    table = rows.mT @ cols  # (n, labels, true labels)
    pairs = _pairs(table).sum(dim=(1, 2))
    left, right = _pairs(table.sum(dim=2)).sum(dim=1), _pairs(table.sum(dim=1)).sum(dim=1)
    all_pairs = _pairs(table.sum(dim=(1, 2)))
    by_chance = left * right / all_pairs.clamp(min=1)
    room = (left + right) / 2 - by_chance
    return torch.where(room.abs() > 1e-12, (pairs - by_chance) / room.where(room != 0, 1), 1.0)


def _pairs(count: Tensor) -> Tensor:
    return count * (count - 1) / 2


def segments(model: Layered, z: Float[Tensor, "n k d"]) -> Int[Tensor, "n rows cols"]:
    """Assign each pixel to a slot: the one with the largest mask, or with the strongest output.

    Without masks, slots are compared by the distance of their output from its median color.
    """
    with torch.no_grad():
        masks = getattr(model, "masks", None)
        if masks is not None:
            strength: Tensor = masks(z)
            return strength.argmax(dim=1)
        parts = model.parts(z)
        ground = parts.flatten(3).median(dim=3).values[..., None, None]
        return (parts - ground).abs().sum(dim=2).argmax(dim=1)


def contrast(decode: Callable[[Tensor], Tensor], z: Float[Tensor, "n k d"]) -> float:
    """Compositional contrast on a scale from 0 to 1, as a mean over points.

    Σ ‖∂f/∂zⱼ‖ ‖∂f/∂zₖ‖ over outputs and pairs of slots, divided by its largest value for the same
    Σₖ ‖∂f/∂zₖ‖ at every output. 0 means that each output depends on at most one slot, 1 that each
    output depends on all slots equally.
    """
    with torch.no_grad():
        norms = sensitivity(decode, z)
    k, raw = norms.shape[1], shared_outputs(norms)
    most = norms.sum(dim=1).square().sum(dim=1) * (k - 1) / (2 * k)
    return float(torch.where(most > 0, raw / most.where(most > 0, 1), 0.0).mean())


@dataclass(frozen=True)
class Latents:
    """The latents to read from a slot: continuous numbers, then class labels."""

    continuous: int
    classes: tuple[int, ...] = ()

    @property
    def outputs(self) -> int:
        """Outputs of a read-out: one per continuous latent, one per class."""
        return self.continuous + sum(self.classes)

    def errors(self, outputs: Tensor, truth: Tensor) -> Tensor:
        """Squared errors plus cross entropies, over the last axis; leading axes broadcast."""
        count = self.continuous
        total = (outputs[..., :count] - truth[..., :count]).square().sum(dim=-1)
        for i, logits in enumerate(outputs[..., count:].split(self.classes, dim=-1)):
            label = truth[..., count + i].long()
            shape = torch.broadcast_shapes(logits.shape[:-1], label.shape)
            logits = logits.expand(*shape, -1).reshape(-1, logits.shape[-1])
            flat = cross_entropy(logits, label.expand(shape).reshape(-1), reduction="none")
            total = total + flat.view(shape)
        return total


@dataclass(frozen=True)
class Readout:
    """A network that reads an object's latents from its slot."""

    network: nn.Module
    latents: Latents
    mean: Tensor
    scale: Tensor
    slots: tuple[Tensor, Tensor]  # mean and standard deviation of the slots in the fit

    def read(self, z: Float[Tensor, "n k d"]) -> Float[Tensor, "n k outputs"]:
        """Read every slot, in standard deviations of the latents in the fit."""
        z = (z - self.slots[0]) / self.slots[1]
        return predict(self.network, z.flatten(0, 1)).view(*z.shape[:2], -1)

    def match(
        self, z: Float[Tensor, "n k d"], truth: Shaped[Tensor, "n k latents"]
    ) -> Int[Tensor, "n k"]:
        """Return the slot of each object: the matching with the smallest error in each image."""
        targets = (truth - self.mean) / self.scale
        return assign(self.latents.errors(self.read(z)[:, None], targets[:, :, None]))

    def score(self, z: Float[Tensor, "n k d"], truth: Shaped[Tensor, "n k latents"]) -> float:
        """Mean over latents of R² (continuous ones) and accuracy (classes), for matched slots."""
        _refuse_constant(truth[..., : self.latents.continuous])
        targets = (truth - self.mean) / self.scale
        outputs = by_slot(self.read(z), self.match(z, truth))
        count = self.latents.continuous
        r2 = [
            variance_weighted_r2(outputs[..., i].reshape(-1, 1), targets[..., i].reshape(-1, 1))
            for i in range(count)
        ]
        hits = []
        logits = outputs[..., count:].split(self.latents.classes, dim=-1)
        for i, kind in enumerate(logits):
            hits.append(float((kind.argmax(dim=-1) == truth[..., count + i]).float().mean()))
        return float(np.mean([*r2, *hits]))


def _refuse_constant(truth: Shaped[Tensor, "n k latents"]) -> None:
    """Refuse continuous latents without variance, whose R² is undefined."""
    flat = truth.flatten(0, 1).double()
    constant = flat.std(dim=0, correction=0) <= 1e-12 * flat.abs().amax(dim=0)
    if (at := torch.nonzero(constant).flatten().tolist()) != []:
        raise Refused(
            f"Latent {at[0]} is constant over these points, so its R² is undefined. Leave "
            "the latent out, or read at points where it varies."
        )


def _deviation(rows: Float[Tensor, "n d"]) -> Float[Tensor, " d"]:
    """Standard deviation of each column, and 1 where it is rounding."""
    deviation = rows.std(dim=0)
    noise = 8 * torch.finfo(rows.dtype).eps * rows.abs().amax(dim=0)
    return deviation.where(deviation > noise, 1.0)


def by_slot(values: Float[Tensor, "n k d"], slots: Int[Tensor, "n k"]) -> Float[Tensor, "n k d"]:
    """Reorder the rows of each image by the slot of each object."""
    return values.gather(1, slots[:, :, None].expand_as(values))


def slot_order(z: Float[Tensor, "n k d"], truth: Float[Tensor, "n k latents"]) -> list[int]:
    """Match a slot to each object, once for all points, by the R² of ridge regressions.

    Regressions of all pairs are fitted on the first half of the points and scored on the second.
    """
    from sklearn.linear_model import Ridge  # slow to import

    half, k = len(z) // 2, z.shape[1]
    table = np.empty((k, k))
    code, targets = z.cpu().double().numpy(), truth.cpu().double().numpy()
    spread = code.std(axis=(0, 1))
    code = code / np.where(spread > 0, spread, 1)  # the ridge has no unit
    for j in range(k):
        for i in range(k):
            ridge = Ridge(alpha=1e-3).fit(code[:half, i], targets[:half, j])
            predicted = torch.from_numpy(ridge.predict(code[half:, i]).reshape(len(z) - half, -1))
            table[j, i] = variance_weighted_r2(predicted, truth[half:, j].cpu().double())
    order: list[int] = assign(torch.from_numpy(-table)[None])[0].tolist()
    return order


def readout(
    z: Float[Tensor, "n slots d"],
    truth: Shaped[Tensor, "n objects latents"],
    *,
    classes: Sequence[int] = (),
    width: int = 256,
    depth: int = 3,
    steps: int = 2000,
    batch: int = 256,
    lr: float = 1e-3,
    seed: int = 0,
) -> Readout:
    """Fit one network that reads each object's latents from its slot.

    For the fit, slots are matched to objects once for all points: where slots have no fixed roles,
    order them first.

    - truth: continuous latents first, then one label for each entry of `classes`
    - classes: number of classes of each label
    - width, depth: of the network's hidden layers
    - steps, batch, lr: of its training
    """
    if z.shape[:2] != truth.shape[:2] or truth.shape[2] < max(1, len(classes)):
        raise Refused(
            f"readout() needs latents (n, objects, numbers then labels) and as many slots as "
            f"objects; got slots {tuple(z.shape)} and latents {tuple(truth.shape)} with "
            f"{len(classes)} labels."
        )
    latents = Latents(truth.shape[2] - len(classes), tuple(classes))
    _refuse_constant(truth[..., : latents.continuous])
    z, truth = z.detach().float(), truth.float()
    flat = truth.flatten(0, 1)
    mean, scale = flat.mean(dim=0), _deviation(flat)
    mean[latents.continuous :], scale[latents.continuous :] = 0, 1  # labels stay as they are
    slots = (z.flatten(0, 1).mean(dim=0), _deviation(z.flatten(0, 1)))
    targets = (truth - mean) / scale
    standard = (z - slots[0]) / slots[1]
    order = slot_order(standard, targets)
    with seeded(seed):
        network = nn.Sequential(*dense_layers(z.shape[2], *[width] * depth, latents.outputs))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return latents.errors(outputs, targets).mean()

    data = Data(np.zeros((len(z), 1)), standard[:, order], targets)
    options: dict[str, Any] = {"steps": steps, "batch": batch, "lr": lr, "engine": "turn"}
    fit(network, data, loss=loss, schedule=cosine(), seed=seed, **options)
    return Readout(network, latents, mean, scale, slots)
