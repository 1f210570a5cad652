"""Whether slots are objects: read-out of the true latents, segmentation, and contrast."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from sklearn.linear_model import Ridge
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from recombine.core.diagnostic import predict
from recombine.core.error import Refused
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.diagnostics.variance import variance_weighted_r2
from recombine.maps.slots import Layered, assign, sensitivity, shared_outputs
from recombine.training.fit import cosine, fit


def ari(
    labels: Int[Tensor, "n *places"], truth: Int[Tensor, "n *places"], *, foreground: bool = False
) -> Float[Tensor, " n"]:
    """Adjusted Rand index of each image: 1 for equal partitions, about 0 for unrelated ones.

    `foreground` leaves out places whose true label is 0. Where both partitions have a single group,
    or each place is its own, the answer is 1, as in scikit-learn.
    """
    a, b = labels.flatten(1).long(), truth.flatten(1).long()
    keep = (b != 0) if foreground else torch.ones_like(b, dtype=torch.bool)
    rows, cols = one_hot(a).double(), one_hot(b).double() * keep[:, :, None]
    table = rows.mT @ cols  # (n, labels, true labels)
    pairs = _pairs(table).sum(dim=(1, 2))
    left, right = _pairs(table.sum(dim=2)).sum(dim=1), _pairs(table.sum(dim=1)).sum(dim=1)
    every = _pairs(table.sum(dim=(1, 2)))
    by_chance = left * right / every.clamp(min=1)
    room = (left + right) / 2 - by_chance
    return torch.where(room.abs() > 1e-12, (pairs - by_chance) / room.where(room != 0, 1), 1.0)


def _pairs(count: Tensor) -> Tensor:
    return count * (count - 1) / 2


def segments(model: Layered, z: Float[Tensor, "n k d"]) -> Int[Tensor, "n rows cols"]:
    """Tell which slot draws each pixel: the largest mask, or the slot of most change there.

    Where a model has no masks, slots are compared by what they draw, less each slot's most common
    color over the image.
    """
    with torch.no_grad():
        masks = getattr(model, "masks", None)
        if masks is not None:
            strength: Tensor = masks(z)
            return strength.argmax(dim=1)
        parts = model.parts(z)
        ground = parts.flatten(3).median(dim=3).values[..., None, None]
        return (parts - ground).abs().sum(dim=2).argmax(dim=1)


def contrast(decode: Callable[[Tensor], Tensor], z: Float[Tensor, "n k d"]) -> tuple[float, float]:
    """Compositional contrast, raw and on a scale from 0 to 1, as a mean over points.

    Raw: Σ ‖∂f/∂zⱼ‖ ‖∂f/∂zₖ‖ over outputs and pairs of slots. Divided by its largest value for the
    same Σₖ ‖∂f/∂zₖ‖ at every output, 0 says that each output depends on one slot at most, 1 that
    all slots matter alike everywhere.
    """
    with torch.no_grad():
        norms = sensitivity(decode, z)
    k, raw = norms.shape[1], shared_outputs(norms)
    most = norms.sum(dim=1).square().sum(dim=1) * (k - 1) / (2 * k)
    scaled = torch.where(most > 0, raw / most.where(most > 0, 1), 0.0)
    return float(raw.mean()), float(scaled.mean())


@dataclass(frozen=True)
class Latents:
    """What is to be read from a slot: continuous numbers, then class labels of some kinds."""

    continuous: int
    classes: tuple[int, ...] = ()

    @property
    def outputs(self) -> int:
        """Numbers that a read-out gives: one a number, one a class."""
        return self.continuous + sum(self.classes)

    def errors(self, given: Tensor, truth: Tensor) -> Tensor:
        """Squared errors plus cross entropies, over the last axis; leading axes broadcast."""
        number = self.continuous
        total = (given[..., :number] - truth[..., :number]).square().sum(dim=-1)
        for i, logits in enumerate(given[..., number:].split(self.classes, dim=-1)):
            label = truth[..., number + i].long()
            shape = torch.broadcast_shapes(logits.shape[:-1], label.shape)
            logits = logits.expand(*shape, -1).reshape(-1, logits.shape[-1])
            flat = cross_entropy(logits, label.expand(shape).reshape(-1), reduction="none")
            total = total + flat.view(shape)
        return total


Matching = Literal["set", "image"]


@dataclass(frozen=True)
class Readout:
    """A network that reads the latents of an object from its slot, and which slot that is."""

    network: nn.Module
    latents: Latents
    mean: Tensor
    scale: Tensor
    order: tuple[int, ...] | None  # the slot of each object, or None if images differ
    slots: tuple[Tensor, Tensor]  # mean and deviation of the slots that it was fitted on

    def read(self, z: Float[Tensor, "n k d"]) -> Float[Tensor, "n k outputs"]:
        """Read every slot, in units of the fitted latents' deviations."""
        z = (z - self.slots[0]) / self.slots[1]
        return predict(self.network, z.flatten(0, 1)).view(*z.shape[:2], -1)

    def score(
        self, z: Float[Tensor, "n k d"], truth: Shaped[Tensor, "n k latents"]
    ) -> dict[str, float]:
        """R² of the continuous latents, accuracy of the classes, and their mean over latents."""
        _refuse_constant(truth[..., : self.latents.continuous])
        known = self._standard(truth)
        given = self.read(z)
        if self.order is not None:
            given = given[:, list(self.order)]
        else:
            given = _matched(given, known, self.latents)
        count = self.latents.continuous
        r2 = [
            variance_weighted_r2(given[..., i].reshape(-1, 1), known[..., i].reshape(-1, 1))
            for i in range(count)
        ]
        hits = []
        logits = given[..., count:].split(self.latents.classes, dim=-1)
        for i, kind in enumerate(logits):
            hits.append(float((kind.argmax(dim=-1) == truth[..., count + i]).float().mean()))
        found = {"score": float(np.mean([*r2, *hits]))}
        if r2:
            found["r2"] = float(np.mean(r2))
        if hits:
            found["accuracy"] = float(np.mean(hits))
        return found

    def _standard(self, truth: Tensor) -> Tensor:
        return (truth - self.mean) / self.scale


def _refuse_constant(truth: Shaped[Tensor, "n k latents"]) -> None:
    """Refuse continuous latents without variance, whose R² is undefined."""
    spread = truth.flatten(0, 1).double().std(dim=0, correction=0)
    if (constant := torch.nonzero(spread <= 1e-12).flatten().tolist()) != []:
        raise Refused(
            f"Latent {constant[0]} is constant over these points, so its R² is undefined. Leave "
            "the latent out, or read at points where it varies."
        )


def _matched(given: Tensor, truth: Tensor, latents: Latents) -> Tensor:
    """Order what was read from the slots of each image as the objects that it fits best."""
    cost = latents.errors(given[:, None], truth[:, :, None])  # (n, objects, slots)
    best = assign(cost.detach())
    return given.gather(1, best[:, :, None].expand_as(given))


def slot_order(
    z: Float[Tensor, "n k d"], truth: Float[Tensor, "n k latents"]
) -> tuple[tuple[int, ...], Float[np.ndarray, "k k"]]:
    """Find the slot of each object: ridge regressions of all pairs, then the best assignment.

    Gives the order and the R² of every (object, slot) on the second half of the points, fitted on
    the first.
    """
    half, k = len(z) // 2, z.shape[1]
    table = np.empty((k, k))
    code, wanted = z.cpu().double().numpy(), truth.cpu().double().numpy()
    for j in range(k):
        for i in range(k):
            ridge = Ridge(alpha=1e-3).fit(code[:half, i], wanted[:half, j])
            told = torch.from_numpy(ridge.predict(code[half:, i]).reshape(len(z) - half, -1))
            table[j, i] = variance_weighted_r2(told, truth[half:, j].cpu().double())
    best = assign(torch.from_numpy(-table)[None])[0]
    return tuple(best.tolist()), table


def readout(
    z: Float[Tensor, "n slots d"],
    truth: Shaped[Tensor, "n objects latents"],
    *,
    classes: Sequence[int] = (),
    matching: Matching = "set",
    width: int = 256,
    depth: int = 3,
    steps: int = 2000,
    batch: int = 256,
    lr: float = 1e-3,
    seed: int = 0,
) -> Readout:
    """Fit one network that reads each object's latents from its slot; keep it for other points.

    Continuous latents come first, then one label for each number of `classes`. Slots are matched to
    objects once for all points (`matching="set"`), or anew in each image ("image"), which models
    need whose slots have no fixed roles; it is a little in favor of the model, at any points. On
    points whose objects resemble each other, such as a band, matching in each image may get stuck:
    order slots by what they draw first.
    """
    if z.shape[:2] != truth.shape[:2] or truth.shape[2] < max(1, len(classes)):
        raise Refused(
            f"Slots of shape {tuple(z.shape)} and latents of shape {tuple(truth.shape)}, with "
            f"{len(classes)} labels, were given; give (n, objects, numbers then labels), and as "
            "many slots as objects."
        )
    latents = Latents(truth.shape[2] - len(classes), tuple(classes))
    _refuse_constant(truth[..., : latents.continuous])
    z, truth = z.detach().float(), truth.float()
    flat = truth.flatten(0, 1)
    mean, scale = flat.mean(dim=0), flat.std(dim=0).clamp(min=1e-6)
    mean[latents.continuous :], scale[latents.continuous :] = 0, 1  # labels stay as they are
    slots = (z.flatten(0, 1).mean(dim=0), z.flatten(0, 1).std(dim=0).clamp(min=1e-6))
    known = (truth - mean) / scale
    order = slot_order(z, known)[0] if matching == "set" else None
    own = z if order is None else z[:, list(order)]
    with seeded(seed):
        layers: list[nn.Module] = []
        for a, b in pairwise([z.shape[2], *[width] * depth]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        network = nn.Sequential(*layers, nn.Linear(width if depth else z.shape[2], latents.outputs))

    def loss(given: Tensor, wanted: Tensor) -> Tensor:
        if order is None:
            given = _matched(given, wanted, latents)
        return latents.errors(given, wanted).mean()

    data = Data(np.zeros((len(z), 1)), (own - slots[0]) / slots[1], known)
    options: dict[str, Any] = {"steps": steps, "batch": batch, "lr": lr, "engine": "turn"}
    fit(network, data, loss=loss, schedule=cosine(), seed=seed, **options)
    return Readout(network, latents, mean, scale, order, slots)
