"""Brady et al. 2024: autoencoders whose slots become objects, with and without two penalties."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from recombine.core.experiment import Result, experiment
from recombine.core.score import AT_MOST_1, POSITIVE, UNIT, Score
from recombine.papers.brady2024.objects_scenes import Ablation, Scenes, draw_scenes

if TYPE_CHECKING:
    from torch import Tensor

    from recombine.core.task import Data
    from recombine.maps.slots import Slotted
    from recombine.models.transformer import Autoencoder
    from recombine.training.fit import Schedule
    from recombine.training.penalties import Penalty

EXAMPLES = 6  # scenes of each kind that are stored for figures
TRIES = 16  # random partners per scene, among which recombined scenes are found
CHOOSING = 2048  # training scenes on which restarts are compared
FEW = 64  # test scenes on which every restart is scored


def build(cfg: Ablation, data: Data, seed: int) -> Autoencoder:
    """Build one autoencoder."""
    from recombine.models.transformer import SPRITES, Autoencoder, transformer_autoencoder

    sizes = SPRITES if cfg.paper else {"drawing_channels": 16, "drawing_heads": cfg.heads}
    options: dict[str, Any] = {**sizes, "encoder": cfg.encoder, "decoder": cfg.decoder}
    options |= {"slots": cfg.slots, "dim": cfg.dim, "pixels": cfg.pixels or None}
    if not cfg.paper:
        options["strides"] = cfg.strides
    model = transformer_autoencoder(data, **options, variational=cfg.capacity > 0, seed=seed)
    assert isinstance(model, Autoencoder)
    return model


def penalties(cfg: Ablation) -> list[tuple[Penalty, Schedule]]:
    """List the terms that are added to the squared error, with the schedules of their weights."""
    from recombine.training.fit import warm_up
    from recombine.training.penalties import attention_interaction, latent_capacity

    terms: list[tuple[Penalty, Schedule]] = []
    if cfg.capacity:
        start = min(cfg.capacity_start, cfg.capacity_rise)
        terms.append((latent_capacity(cfg.capacity), warm_up(cfg.capacity_rise, start=start)))
    if cfg.interaction and cfg.decoder == "transformer":
        schedule = warm_up(cfg.rise, start=min(cfg.start, cfg.rise))
        terms.append((attention_interaction(cfg.interaction), schedule))
    return terms


def objective(cfg: Ablation, model: Autoencoder, data: Data) -> dict[str, float]:
    """Return the training objective on training scenes, all pixels decoded, and its terms."""
    import torch

    from recombine.training.loss import sum_of_squares
    from recombine.training.penalties import Batch, attention_interaction, latent_capacity

    sums = {"error": 0.0, "kl": 0.0, "interaction": 0.0}
    images = data.x[:CHOOSING]
    for x in images.split(256):
        with torch.no_grad():
            noise = {"noise": torch.randn(len(x), *model.code)} if model.variational else {}
            work = model.run(x, noise)
            batch, share = Batch(x, x, work), len(x) / len(images)
            sums["error"] += share * float(sum_of_squares(work.drawn, x))
            if work.spread is not None:
                sums["kl"] += share * float(latent_capacity()(model, batch))
            if work.attention:
                sums["interaction"] += share * float(attention_interaction()(model, batch))
    weights = {"error": cfg.sigma, "kl": cfg.capacity, "interaction": cfg.interaction}
    return {"objective": sum(weights[k] * v for k, v in sums.items()), **sums}


def dependence(model: Autoencoder, z: Tensor, labels: Tensor) -> Tensor:
    """Return each slot's share in the derivatives of each pixel: (n, slots, side, side).

    Scores need only the pixels of objects; figures need all pixels of a few scenes.
    """
    from recombine.diagnostics.jacobians import slot_maps
    from recombine.models.attention import TransformerDecoder

    if not isinstance(model.decoder, TransformerDecoder):
        return slot_maps(model.decode, z)
    where = labels > 0
    where[:EXAMPLES] = True
    return slot_maps(model.decode, z, separate=True, where=where)


def owners(maps: Tensor, labels: Tensor, objects: int) -> Tensor:
    """Match each object to the slot on which its pixels depend most: (n, objects)."""
    import torch
    from scipy.optimize import linear_sum_assignment

    masks = torch.stack([(labels == k + 1).float().flatten(1) for k in range(objects)], dim=1)
    mass = (masks @ maps.flatten(2).mT).double().numpy()  # (n, objects, slots)
    return torch.tensor(np.array([linear_sum_assignment(-one)[1] for one in mass]))


def recombined(
    cfg: Ablation, model: Slotted, scenes: Scenes, maps: Tensor, rng: Generator
) -> tuple[dict[str, float], dict[str, Any]]:
    """Move the slot of a sprite into another in-distribution scene so that a held-out one results.

    Returns R² of the decoded scenes against the true ones, and examples of both; nothing if no
    pair that was tried gives a held-out scene.
    """
    import torch

    from recombine.diagnostics.variance import variance_weighted_r2
    from recombine.maps.slots import decode, encode
    from recombine.tasks.scenes import scene_data

    assert scenes.task is not None
    assert scenes.held_out is not None
    n, space, (data, labels) = len(maps), scenes.task.space, scenes.tests["id"]
    z, points = encode(model, data.x[:n]), data.z[:n]
    slot = owners(maps, labels[:n], cfg.objects)[:, 0]  # of the first sprite
    first = space.columns(space.names[0])
    i, j = (rng.permutation(np.repeat(np.arange(n), TRIES)) for _ in range(2))
    new = points[j].copy()
    new[:, first] = points[i][:, first]
    chosen = np.flatnonzero(scenes.held_out.contains(space, new))[: cfg.asked]
    if not len(chosen):
        return {}, {}
    i, j, new = i[chosen], j[chosen], new[chosen]
    mixed, rows = z[j].clone(), torch.arange(len(j))
    mixed[rows, slot[j]] = z[i][rows, slot[i]]
    truth, decoded = scene_data(scenes.task, new).y, decode(model, mixed)
    examples = {"scene_new": truth[:EXAMPLES], "drawn_new": decoded[:EXAMPLES]}
    score = {"r2_recombined": variance_weighted_r2(decoded, truth)}
    return score, {k: v.numpy() for k, v in examples.items()}


def inspect(
    cfg: Ablation, model: Autoencoder, scenes: Scenes, rng: Generator
) -> tuple[dict[str, float], dict[str, Any]]:
    """Score the reconstruction and the slots on which pixels depend, for each kind of scenes."""
    import torch

    from recombine.diagnostics.jacobians import j_ari, jis, slot_shares
    from recombine.diagnostics.variance import variance_weighted_r2
    from recombine.maps.slots import decode, encode

    scores: dict[str, float] = {}
    arrays: dict[str, Any] = {}
    for name, (data, labels) in scenes.tests.items():
        z = encode(model, data.x)
        decoded = decode(model, z)
        recombines = name == "id" and scenes.task is not None
        n = max(cfg.looked, cfg.mixed) if recombines else cfg.looked
        maps, truth = dependence(model, z[:n], labels[:n]), labels[: cfg.looked]
        if recombines:
            score, images = recombined(cfg, model, scenes, maps[: cfg.mixed], rng)
            scores |= score
            arrays |= images
        maps = maps[: cfg.looked]
        scores[f"mse_{name}"] = float((decoded - data.y).square().mean())
        scores[f"r2_{name}"] = variance_weighted_r2(decoded, data.y)
        scores[f"j_ari_{name}"] = float(j_ari(maps, truth).mean())
        scores[f"jis_{name}"] = jis(maps, truth)
        scores[f"largest_share_{name}"] = float(slot_shares(maps, truth).max())
        with torch.no_grad():
            attention = model.masks(z[:EXAMPLES])
        examples = {"scene": data.x, "drawn": decoded, "maps": maps, "labels": labels}
        examples["attention"] = attention
        arrays |= {f"{k}_{name}": v[:EXAMPLES].numpy() for k, v in examples.items()}
    return scores, arrays


def choose(
    cfg: Ablation, models: Sequence[Autoencoder], scenes: Scenes, seed: int, rng: Generator
) -> tuple[dict[str, float], dict[str, Any], int]:
    """Score all restarts of a seed briefly, and the one with the lowest objective in detail."""
    from recombine.core.seed import seeded
    from recombine.diagnostics.jacobians import j_ari, jis
    from recombine.maps.slots import encode

    data, labels = scenes.tests["id"]
    scores: dict[str, float] = {}
    values = []
    for r, model in enumerate(models):
        with seeded(seed):
            values.append(objective(cfg, model, scenes.train))
        scores[f"objective_{r + 1}"] = values[-1]["objective"]
        if len(models) > 1:
            maps = dependence(model, encode(model, data.x[:FEW]), labels[:FEW])
            scores[f"j_ari_{r + 1}"] = float(j_ari(maps, labels[:FEW]).mean())
            scores[f"jis_{r + 1}"] = jis(maps, labels[:FEW])
    best = int(np.argmin([value["objective"] for value in values]))
    with seeded(seed):
        numbers, arrays = inspect(cfg, models[best], scenes, rng)
    return scores | values[best] | numbers, arrays, best


@experiment(
    smoke={"shown": 16, "asked": 12, "looked": 4, "steps": 2, "batch": 4, "side": 8, "dim": 2},
    paper={
        "album": "sprites", "data_dir": "data", "objects": 4, "slots": 5, "dim": 32, "side": 64,
        "paper": True, "sigma": 5.0, "interaction": 2.88, "rise": 0.05, "steps": 500_000,
        "batch": 64, "lr": 5e-4,
    },
    selection="lowest objective on training scenes",
    seeds_per_job=lambda cfg: 5 if cfg.encoder == "dense" else 1,
    scores=[
        Score("j_ari_id", "adjusted Rand index of objects and slots by derivatives, foreground",
              better="higher", summary=True, within=AT_MOST_1),
        Score("j_ari_ood", "the same for held-out pairs of hues", better="higher", summary=True,
              within=AT_MOST_1),
        Score("jis_id", "degree to which a pixel depends on one slot, from 0 to 1", better="higher",
              summary=True, within=UNIT),
        Score("jis_ood", "the same for held-out pairs of hues", better="higher", summary=True,
              within=UNIT),
        Score("j_ari_*", "J-ARI of one restart on 64 scenes", better="higher", within=AT_MOST_1),
        Score("jis_*", "JIS of one restart on 64 scenes", better="higher", within=UNIT),
        Score("objective*", "training objective on training scenes", better="lower"),
        Score("error", "squared error summed over pixels, on training scenes", better="lower",
              within=POSITIVE),
        Score("kl", "divergence of the posterior from N(0, 1), in nats, on training scenes",
              within=POSITIVE),
        Score("interaction", "interaction of slots in attention, from 0 to 1", better="lower",
              within=UNIT),
        Score("largest_share_*", "largest share of one slot in all objects", within=UNIT),
        Score("r2_recombined", "R² of slots recombined into held-out scenes", better="higher",
              within=AT_MOST_1),
        Score("scene_*", "scenes", draw="images"),
        Score("drawn_*", "reconstructions", draw="images", beside=("scene_*",)),
        Score("maps_*", "share of each slot in a pixel's derivatives", draw="none"),
        Score("attention_*", "share of each slot in a pixel's attention", draw="none"),
        Score("labels_*", "object of each pixel", draw="none"),
    ],
)  # fmt: skip
def objects(cfg: Ablation, seeds: Sequence[int]) -> list[Result]:
    """Train an autoencoder with slots, with and without penalties on its code and attention."""
    from recombine.runs.trial import train
    from recombine.training.fit import cosine, warm_up
    from recombine.training.loss import sum_of_squares

    rngs = [np.random.default_rng(seed) for seed in seeds]
    worlds = [draw_scenes(cfg, rng) for rng in rngs]
    starts = list(seeds)
    if cfg.restarts > 1:
        starts = [1000 * seed + r for seed in seeds for r in range(cfg.restarts)]
    datas = [scenes.train for scenes in worlds for _ in range(cfg.restarts)]
    models = [build(cfg, data, start) for data, start in zip(datas, starts, strict=True)]
    histories = train(
        cfg,
        models,
        datas,
        starts,
        loss=partial(sum_of_squares, weight=cfg.sigma, outputs=datas[0].y[0].numel()),
        penalties=penalties(cfg),
        schedule=lambda t: warm_up(cfg.warm)(t) * cosine(0.05)(t),
        options={"weight_decay": 0.0},
    )
    results = []
    for i, (scenes, rng) in enumerate(zip(worlds, rngs, strict=True)):
        restarts = slice(i * cfg.restarts, (i + 1) * cfg.restarts)
        for model in models[restarts]:
            model.cpu()
        scores, arrays, best = choose(cfg, models[restarts], scenes, seeds[i], rng)
        results.append(Result(scores, arrays, histories[restarts][best]))
    return results
