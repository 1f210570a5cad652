"""Brady et al. 2024 on vectors: a penalty on interaction across slots identifies blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from recombine.claims.experiment import Result
from recombine.maps.curvature import crossing, energy, shared
from recombine.maps.slots import Smooth, recombine
from recombine.measures.observed import predict
from recombine.measures.trial import train
from recombine.measures.variance import variance_weighted_r2
from recombine.models.blocks import BlockAutoencoder, block_autoencoder
from recombine.penalties import interaction
from recombine.penalties.loss import sum_of_squares
from recombine.tasks.task import Data, Task
from recombine.training.fit import cosine, warm_up
from recombine_papers.brady2024.block_vectors import block_vectors
from recombine_papers.brady2024.identifiability import slot_identifiability, slot_table
from recombine_papers.brady2024.vectors import APART, BLOCKS, FEW, HIDDEN, ORDERS, Blocks, shown


def penalty_value(cfg: Blocks, model: Smooth, z: Tensor) -> float:
    """Evaluate the penalty at some codes, before it is weighted."""
    if cfg.penalty == "none":
        return 0.0
    if cfg.penalty == "n0":
        return float(shared(model.chain, z).mean())
    return float(crossing(model.chain, z, ORDERS[cfg.penalty] + 1).mean())


def objective(cfg: Blocks, model: Smooth, data: Data) -> tuple[float, float]:
    """Return the training objective on training examples, and its squared error alone."""
    z = model.encode(data.x)
    error = float(sum_of_squares(model.decode(z), data.y))
    z = z[: cfg.asked]
    at = recombine(z) if cfg.where == "recombined" else z
    return error + cfg.weight * penalty_value(cfg, model, at), error


def identify(cfg: Blocks, model: Smooth, data: Data) -> tuple[float, tuple[int, ...]]:
    """Score the slots where blocks are independent, and match a slot to each block."""
    truth = data.z.reshape(len(data), BLOCKS, cfg.latents)
    code = model.encode(data.x).double().numpy()
    return slot_identifiability(slot_table(code, truth))


def recombined(
    model: Smooth, task: Task, data: Data, order: tuple[int, ...], rng: Generator
) -> float:
    """R² of vectors decoded from slots of different examples that combine into the corner."""
    rows = np.stack([rng.permutation(len(data)) for _ in range(BLOCKS)])
    blocks = task.space.blocks.values()
    mixed = np.concatenate([data.z[r, b] for r, b in zip(rows, blocks, strict=True)], axis=1)
    new = HIDDEN.contains(task.space, mixed)
    code = model.encode(data.x)
    slots = torch.empty_like(code)
    for sources, slot in zip(rows, order, strict=True):
        slots[:, slot] = code[torch.from_numpy(sources), slot]
    decoded = model.decode(slots[torch.from_numpy(new)])
    return variance_weighted_r2(decoded, task.data(mixed[new]).y)


def shares(model: Smooth, x: Tensor) -> dict[str, float]:
    """Share of second and third derivatives across slots: 0 for orders 1 and 2."""
    z, ratios = model.encode(x[:FEW]), {}
    for name, order in (("r1", 2), ("r2", 3)):
        across, total = (float(v.mean()) for v in energy(model.chain, z, order))
        ratios[name] = across / total
    return ratios


def vectors(cfg: Blocks, seeds: Sequence[int]) -> list[Result]:
    """Train autoencoders of vectors and test if a penalty on interaction identifies blocks."""
    tasks = [block_vectors(cfg.generator, BLOCKS, cfg.latents, cfg.outputs, seed=s) for s in seeds]
    rngs = [np.random.default_rng(s) for s in seeds]
    datas = [
        task.data(shown(cfg).draw(task.space, cfg.samples, rng=rng))
        for task, rng in zip(tasks, rngs, strict=True)
    ]
    starts = [1000 * s + r for s in seeds for r in range(cfg.restarts)]
    repeated = [data for data in datas for _ in range(cfg.restarts)]
    models = [build(cfg, data, start) for data, start in zip(repeated, starts, strict=True)]
    penalties = []
    if cfg.penalty != "none":
        mixed, order = cfg.where == "recombined", ORDERS[cfg.penalty]
        penalty = interaction(order, cfg.weight, points=cfg.points, recombined=mixed)
        penalties = [(penalty, warm_up(cfg.ramp))]
    histories = train(
        cfg,
        models,
        repeated,
        starts,
        optimizer=torch.optim.Adam,
        loss=sum_of_squares,
        penalties=penalties,
        schedule=cosine(),
    )
    results = []
    for i, (task, data, rng) in enumerate(zip(tasks, datas, rngs, strict=True)):
        restarts = slice(i * cfg.restarts, (i + 1) * cfg.restarts)
        for model in models[restarts]:
            model.cpu().settle(data.x)
        with torch.no_grad():
            scores, best = choose(cfg, models[restarts], task, data, rng)
        results.append(Result(scores, {}, histories[restarts][best]))
    return results


def build(cfg: Blocks, data: Data, seed: int) -> BlockAutoencoder:
    """Build one autoencoder."""
    model = block_autoencoder(data, slots=BLOCKS, dim=cfg.latents, width=cfg.width, seed=seed)
    assert isinstance(model, BlockAutoencoder)
    return model


def choose(
    cfg: Blocks, models: Sequence[BlockAutoencoder], task: Task, data: Data, rng: Generator
) -> tuple[dict[str, float], int]:
    """Score all restarts of a generator, and in detail the one with the lowest objective."""
    apart = shown(cfg) & APART if cfg.support != "all" else shown(cfg)
    inside, corner, independent = (
        task.data(support.draw(task.space, cfg.asked, rng=rng))
        for support in (shown(cfg), HIDDEN, apart)
    )
    values, errors = zip(*[objective(cfg, m, data) for m in models], strict=True)
    identified = [identify(cfg, m, independent) for m in models]
    best = int(np.argmin(values))
    model, (sis, order) = models[best], identified[best]
    scores = {
        "sis": sis,
        "sis_mean": float(np.mean([s for s, _ in identified])),
        "sis_best": max(s for s, _ in identified),
        "objective": values[best],
        "error": errors[best],
        "r2_id": variance_weighted_r2(predict(model, inside.x), inside.y),
        "r2_ood": variance_weighted_r2(predict(model, corner.x), corner.y),
        "r2_recombined": recombined(model, task, inside, order, rng),
        **shares(model, inside.x),
    }
    for r, (value, (score, _)) in enumerate(zip(values, identified, strict=True)):
        scores |= {f"objective_{r + 1}": value, f"sis_{r + 1}": score}
    return scores, best
