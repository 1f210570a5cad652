"""Wiedemer et al. 2024, the sequel: autoencoders with slots on held-out combinations of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from recombine.claims.experiment import Result
from recombine.maps.seed import seeded
from recombine.maps.slots import Layered, assign, decode, encode
from recombine.measures.slots import Readout, ari, by_slot, contrast, readout, segments
from recombine.measures.trial import train
from recombine.measures.variance import variance_weighted_r2
from recombine.models.slots import slot_attention, slot_autoencoder
from recombine.penalties import Batch, compositional_consistency
from recombine.penalties.loss import sum_of_squares
from recombine.spaces.space import Points
from recombine.spaces.support import Support
from recombine.tasks.scenes import scene_data, scene_labels, scene_latents, scene_support, scenes
from recombine.tasks.task import Data, Task
from recombine.training.fit import after, cosine
from recombine_papers.wiedemer2023.slots import CHUNK, EXAMPLES, FEW, Scenes, look


def build(cfg: Scenes, data: Data, seed: int) -> Layered:
    """Build the autoencoder."""
    options: dict[str, Any] = {"channels": cfg.channels, "dim": cfg.dim, "seed": seed}
    if cfg.model == "additive":
        model = slot_autoencoder(data, slots=cfg.objects, **options)
    else:
        options |= {"hidden": 2 * cfg.dim, "masks": cfg.masks, "initial": cfg.initial}
        options |= {"halvings": cfg.halvings, "broadcast": cfg.side // 2**cfg.halvings}
        model = slot_attention(data, slots=cfg.objects, **options)
    assert isinstance(model, Layered)
    return model


def by_drawing(cfg: Scenes, model: Layered, data: Data) -> Tensor:
    """Encode slots in the order of the objects, each matched to the object it renders most of.

    The network that reads latents cannot match slots while it is trained: in the band, the latents
    of one object are informative about the other.
    """
    ordered = []
    for rows in torch.arange(len(data)).split(CHUNK):
        z = encode(model, data.x[rows])
        with torch.no_grad():
            parts = model.parts(z)
        ground = parts.flatten(3).median(dim=3).values[..., None, None]
        drawn = (parts - ground).abs().sum(dim=2).flatten(2)  # (n, slots, pixels)
        share = drawn / drawn.sum(dim=2, keepdim=True).clamp(min=1e-6)
        labels = scene_labels(data.z[rows.numpy()], **look(cfg)).flatten(1)
        masks = torch.stack([labels == k + 1 for k in range(cfg.objects)], dim=1).float()
        ordered.append(by_slot(z, assign(-masks @ share.mT)))
    return torch.cat(ordered)


def fit_readout(cfg: Scenes, model: Layered, data: Data, seed: int) -> Readout:
    """Fit the network that reads the latents of an object from its slot."""
    truth, kinds = scene_latents(data.z, cfg.objects, cfg.factors)
    slots, classes = by_drawing(cfg, model, data), [kinds] if kinds else []
    return readout(slots, truth, classes=classes, steps=cfg.reading, seed=seed)


def recombine(
    task: Task, held_out: Support, slots: Tensor, z: Points, rng: Generator
) -> tuple[Tensor, Data]:
    """Join slots of different training scenes into held-out scenes; render these as well.

    `slots` holds one slot per object of the scenes at `z`.
    """
    rows = np.stack([rng.permutation(len(z)) for _ in task.space.names], axis=1)
    blocks = task.space.blocks.values()
    mixed = np.concatenate([z[r, b] for r, b in zip(rows.T, blocks, strict=True)], axis=1)
    new = held_out.contains(task.space, mixed)
    joined = slots[torch.from_numpy(rows), torch.arange(rows.shape[1])]
    return joined[torch.from_numpy(new)], scene_data(task, mixed[new])


def latents(cfg: Scenes, data: Data) -> Tensor:
    """Return the true latents of all objects."""
    return scene_latents(data.z, cfg.objects, cfg.factors)[0]


def inspect(cfg: Scenes, model: Layered, reader: Readout, data: Data) -> dict[str, float]:
    """Score reconstruction, latents read from slots, and whether each slot is one object."""
    z, labels = encode(model, data.x), scene_labels(data.z, **look(cfg))
    return {
        "r2": variance_weighted_r2(decode(model, z), data.y),
        "identified": reader.score(z, latents(cfg, data)),
        "ari": float(ari(segments(model, z), labels, foreground=True).mean()),
        "contrast": contrast(model.decode, z[:FEW]),
    }


def examples(model: Layered, data: Data, objects: int, name: str) -> dict[str, Any]:
    """Store some scenes, their reconstructions, and what each slot renders.

    They are sorted by how much their objects differ, from most to least alike.
    """
    blocks = data.z.reshape(len(data), objects, -1)
    order = np.argsort(np.linalg.norm(np.ptp(blocks, axis=1), axis=1), kind="stable")
    x = data.x[order[np.linspace(0, len(order) - 1, EXAMPLES).round().astype(int)]]
    with torch.no_grad():
        parts = model.parts(model.encode(x))
    arrays = {"scene": x, "drawn": parts.sum(dim=1), "parts": parts}
    return {f"{k}_{name}": v.numpy().astype(np.float32) for k, v in arrays.items()}


def slots(cfg: Scenes, seeds: Sequence[int]) -> list[Result]:
    """Train an autoencoder on scenes of a band and test it on other combinations of objects."""
    return [run_seed(cfg, seed) for seed in seeds]


def run_seed(cfg: Scenes, seed: int) -> Result:
    """Train one autoencoder, and measure its encoder and its decoder separately, on the CPU."""
    rng, task = np.random.default_rng(seed), scenes(**look(cfg))
    shown, held_out = scene_support(cfg.delta, factors=cfg.factors, distance=cfg.distance)
    training, inside, outside = (
        scene_data(task, support.draw(task.space, n, rng=rng))
        for support, n in ((shown, cfg.shown), (shown, cfg.asked), (held_out, cfg.asked))
    )
    model = build(cfg, training, seed)
    penalty = (compositional_consistency(cfg.consistency), after(cfg.ignition))
    (history,) = train(
        cfg,
        [model],
        training,
        [seed],
        loss=sum_of_squares,
        penalties=[penalty] if cfg.consistency else [],
        schedule=cosine(0.01),
        options={"weight_decay": 1e-3},
    )
    model.cpu()
    with seeded(seed):  # initial slots may be random
        reader = fit_readout(cfg, model, training, seed)
        scores = {
            f"{score}_{name}": value
            for name, data in (("id", inside), ("ood", outside))
            for score, value in inspect(cfg, model, reader, data).items()
        }
        z = encode(model, inside.x)
        ordered = by_slot(z, reader.match(z, latents(cfg, inside)))
        joined, truth = recombine(task, held_out, ordered, inside.z, rng)
        scores["r2_recombined"] = variance_weighted_r2(decode(model, joined), truth.y)
        with torch.no_grad():
            inconsistency = compositional_consistency()(model, Batch(inside.x, inside.y))
        scores["inconsistency"] = float(inconsistency) / (cfg.objects * cfg.dim)
        arrays = examples(model, inside, cfg.objects, "id")
        arrays |= examples(model, outside, cfg.objects, "ood")
    return Result(scores, arrays, history)
