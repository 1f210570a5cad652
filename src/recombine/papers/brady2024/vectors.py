"""Brady et al. 2024 on vectors: a penalty on interaction across slots identifies blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.random import Generator

from recombine.core.experiment import Result, Training, experiment
from recombine.core.score import Score
from recombine.core.sets import box, everything
from recombine.core.support import Support
from recombine.theory.generators import BlockKind as Kind

if TYPE_CHECKING:
    from torch import Tensor

    from recombine.core.task import Data, Task
    from recombine.maps.slots import Smooth
    from recombine.models.blocks import BlockAutoencoder

ORDERS = {"n0": 0, "n1": 1, "n2": 2}
BLOCKS = 2
FEW = 256  # points at which derivatives are taken after training


@dataclass(frozen=True)
class Blocks(Training):
    """A random generator, the training combinations, and an autoencoder, penalized or not."""

    generator: Kind = "additive"
    """How its two blocks of latents interact."""
    penalty: Literal["none", "n0", "n1", "n2"] = "none"
    """Which interaction across slots is penalized: above order 0, 1 or 2."""
    weight: float = 1.0
    """Weight of the penalty, relative to squared errors summed over outputs."""
    where: Literal["encoded", "recombined"] = "encoded"
    """Penalize at encoded examples, or at slots recombined from different examples."""
    support: Literal["all", "corner"] = "all"
    """All combinations, or all but those in which both blocks' first latents are positive."""
    latents: int = 2
    """Numbers per block and per slot."""
    outputs: int = 30
    """Outputs of the generator."""
    width: int = 64
    """Units in each of two tanh layers, of encoder and decoder; the pilot had 96."""
    restarts: int = 5
    """Initializations per generator; the one with the lowest objective is scored."""
    samples: int = 4096
    """Training examples."""
    asked: int = 2048
    """Test examples."""
    steps: int = 1000
    batch: int = 64
    points: int = 32
    """Examples of a batch at which the penalty is evaluated."""
    ramp: float = 0.3
    """Share of training over which the penalty rises to its weight."""
    lr: float = 1e-2
    """Peak learning rate of Adam; it falls along a cosine."""


HIDDEN = box({"block1[0]": (0.0, np.inf), "block2[0]": (0.0, np.inf)})
# Here the blocks are independent, even if the corner is held out.
APART = box({"block1[0]": (-np.inf, 0.0)})


def shown(cfg: Blocks) -> Support:
    """Build the training support."""
    return everything() if cfg.support == "all" else ~HIDDEN


def penalty_value(cfg: Blocks, model: Smooth, z: Tensor) -> float:
    """Evaluate the penalty at some codes, before it is weighted."""
    from recombine.maps.curvature import crossing, shared

    if cfg.penalty == "none":
        return 0.0
    if cfg.penalty == "n0":
        return float(shared(model.chain, z).mean())
    return float(crossing(model.chain, z, ORDERS[cfg.penalty] + 1).mean())


def objective(cfg: Blocks, model: Smooth, data: Data) -> tuple[float, float]:
    """Return the training objective on training examples, and its squared error alone."""
    from recombine.maps.slots import recombine
    from recombine.training.loss import sum_of_squares

    z = model.encode(data.x)
    error = float(sum_of_squares(model.decode(z), data.y))
    z = z[: cfg.asked]
    at = recombine(z) if cfg.where == "recombined" else z
    return error + cfg.weight * penalty_value(cfg, model, at), error


def identify(cfg: Blocks, model: Smooth, data: Data) -> tuple[float, tuple[int, ...]]:
    """Score the slots where blocks are independent, and match a slot to each block."""
    from recombine.diagnostics.identifiability import slot_identifiability, slot_table

    truth = data.z.reshape(len(data), BLOCKS, cfg.latents)
    code = model.encode(data.x).double().numpy()
    return slot_identifiability(slot_table(code, truth))


def recombined(
    model: Smooth, task: Task, data: Data, order: tuple[int, ...], rng: Generator
) -> float:
    """R² of vectors decoded from slots of different examples that combine into the corner."""
    import torch

    from recombine.diagnostics.variance import variance_weighted_r2

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
    from recombine.maps.curvature import energy

    z, ratios = model.encode(x[:FEW]), {}
    for name, order in (("r1", 2), ("r2", 3)):
        across, total = (float(v.mean()) for v in energy(model.chain, z, order))
        ratios[name] = across / total
    return ratios


@experiment(
    smoke={
        "latents": 1, "outputs": 4, "width": 4, "restarts": 2, "samples": 64, "asked": 64,
        "steps": 3, "batch": 8, "points": 4,
    },
    # The paper has no such experiment; this is the size of a pilot.
    paper={"width": 96, "steps": 2500, "restarts": 8, "batch": 128, "points": 128, "lr": 3e-3},
    selection="lowest objective on training data",
    seeds_per_job=lambda cfg: 5,
    scores=[
        Score("sis", "R² of matched minus other slots", better="higher", summary=True),
        Score("sis_mean", "its mean over restarts", better="higher"),
        Score("sis_best", "its largest value over restarts", better="higher"),
        Score("sis_*", "R² of matched minus other slots of one restart", better="higher"),
        Score("objective*", "training objective: error plus penalty", better="lower"),
        Score("error", "squared error summed over outputs", better="lower"),
        Score("r2_recombined", "R² of slots recombined in the corner", better="higher",
              summary=True),
        Score("r1", "share of second derivatives across slots", title="order 1"),
        Score("r2", "share of third derivatives across slots", title="order 2"),
    ],
)  # fmt: skip
def vectors(cfg: Blocks, seeds: Sequence[int]) -> list[Result]:
    """Train autoencoders of vectors and test if a penalty on interaction identifies blocks."""
    import torch

    from recombine.runs.trial import train
    from recombine.tasks.blocks import block_vectors
    from recombine.training.fit import cosine, warm_up
    from recombine.training.loss import sum_of_squares
    from recombine.training.penalties import interaction

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
    from recombine.models.blocks import BlockAutoencoder, block_autoencoder

    model = block_autoencoder(data, slots=BLOCKS, dim=cfg.latents, width=cfg.width, seed=seed)
    assert isinstance(model, BlockAutoencoder)
    return model


def choose(
    cfg: Blocks, models: Sequence[BlockAutoencoder], task: Task, data: Data, rng: Generator
) -> tuple[dict[str, float], int]:
    """Score all restarts of a generator, and in detail the one with the lowest objective."""
    from recombine.core.diagnostic import predict
    from recombine.diagnostics.variance import variance_weighted_r2

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
