"""Brady et al. 2024 on vectors: slots that interact less across than within are identified."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from recombine.core.claim import Verdict, claim, decide, scores
from recombine.core.experiment import Result, experiment
from recombine.core.sets import box, everything
from recombine.core.support import Support
from recombine.core.task import Data, Task
from recombine.diagnostics.identifiability import slot_identifiability, slot_table
from recombine.diagnostics.variance import variance_weighted_r2
from recombine.maps.curvature import Smooth, crossing, energy, interaction, recombine, shared
from recombine.models.blocks import BlockAutoencoder, block_autoencoder
from recombine.runs.record import Record
from recombine.tasks.blocks import Kind, block_vectors
from recombine.training.fit import cosine, fit, warm_up

Run = dict[str, Any]
Numbers = NDArray[np.float64]

ORDERS = {"n0": 0, "n1": 1, "n2": 2}
BLOCKS = 2
FEW = 256  # points at which derivatives are taken after training


@dataclass(frozen=True)
class Blocks:
    """A random generator, what is shown of it, and an autoencoder with or without a penalty."""

    generator: Kind = "additive"
    """How its two blocks of latents interact."""
    penalty: Literal["none", "n0", "n1", "n2"] = "none"
    """Which interaction across slots is penalized: above order 0, 1 or 2."""
    weight: float = 1.0
    """Weight of the penalty, beside squared errors summed over outputs."""
    where: Literal["encoded", "recombined"] = "encoded"
    """Penalize where examples are encoded, or where slots of different examples meet."""
    support: Literal["all", "corner"] = "all"
    """All combinations, or all but those in which both blocks' first latents are positive."""
    latents: int = 2
    """Numbers of a block, and of a slot."""
    outputs: int = 30
    width: int = 64
    """Units of each of two tanh layers, on both sides; the pilot's have 96."""
    restarts: int = 5
    """Initial weights that are tried for each generator; the lowest objective is kept."""
    samples: int = 4096
    asked: int = 2048
    steps: int = 1000
    batch: int = 64
    points: int = 32
    """Examples of a batch at which the penalty looks."""
    ramp: float = 0.3
    """Share of training during which the penalty rises to its weight."""
    lr: float = 1e-2
    """Of Adam; falls along a cosine."""


HIDDEN = box({"block1[0]": (0.0, np.inf), "block2[0]": (0.0, np.inf)})
APART = box({"block1[0]": (-np.inf, 0.0)})  # here blocks are independent, whatever is hidden


def shown(cfg: Blocks) -> Support:
    """Build the support of a config."""
    return everything() if cfg.support == "all" else ~HIDDEN


def summed(drawn: Tensor, wanted: Tensor) -> Tensor:
    """Squared errors, summed over outputs."""
    return (drawn - wanted).square().sum(dim=1).mean()


def interacting(cfg: Blocks, model: Smooth, z: Tensor) -> float:
    """Give what the penalty measures at some codes, without its weight."""
    with torch.no_grad():
        if cfg.penalty == "none":
            return 0.0
        if cfg.penalty == "n0":
            return float(shared(model.chain, z).mean())
        return float(crossing(model.chain, z, ORDERS[cfg.penalty] + 1).mean())


def encode(model: Smooth, x: Tensor) -> Tensor:
    """Read slots without gradients."""
    with torch.no_grad():
        return model.encode(x)


def objective(cfg: Blocks, model: Smooth, data: Data) -> tuple[float, float]:
    """Give what was minimized, on the examples shown, and its part that is error."""
    z = encode(model, data.x)
    with torch.no_grad():
        error = float(summed(model.decode(z), data.y))
    z = z[: cfg.asked]
    at = recombine(z) if cfg.where == "recombined" else z
    return error + cfg.weight * interacting(cfg, model, at), error


def identify(cfg: Blocks, model: Smooth, data: Data) -> tuple[float, tuple[int, ...]]:
    """Score the slots at points where blocks are independent, and find the slot of each block."""
    truth = data.z.reshape(len(data), BLOCKS, cfg.latents)
    found = encode(model, data.x).double().numpy()
    return slot_identifiability(slot_table(found, truth))


def recombined(
    model: Smooth, task: Task, seen: Data, order: tuple[int, ...], rng: Generator
) -> float:
    """R² of what is drawn from slots of different shown examples that meet in the hidden corner."""
    rows = np.stack([rng.permutation(len(seen)) for _ in range(BLOCKS)])
    blocks = task.space.blocks.values()
    mixed = np.concatenate([seen.z[r, b] for r, b in zip(rows, blocks, strict=True)], axis=1)
    new = HIDDEN.contains(task.space, mixed)
    code = encode(model, seen.x)
    slots = torch.empty_like(code)
    for own, slot in zip(rows, order, strict=True):
        slots[:, slot] = code[torch.from_numpy(own), slot]
    with torch.no_grad():
        drawn = model.decode(slots[torch.from_numpy(new)])
    return variance_weighted_r2(drawn, task.data(mixed[new]).y)


def shares(model: Smooth, x: Tensor) -> dict[str, float]:
    """Give the share of second and third derivatives that is across slots: 0 for orders 1 and 2."""
    z = encode(model, x[:FEW])
    found = {}
    for name, order in (("r1", 2), ("r2", 3)):
        with torch.no_grad():
            across, total = (float(v.mean()) for v in energy(model.chain, z, order))
        found[name] = across / total
    return found


@experiment(
    smoke={
        "latents": 1, "outputs": 4, "width": 4, "restarts": 2, "samples": 64, "asked": 64,
        "steps": 3, "batch": 8, "points": 4,
    },
    # There is no such experiment in the paper; this is the size of a pilot.
    paper={"width": 96, "steps": 2500, "restarts": 8, "batch": 128, "points": 128, "lr": 3e-3},
    selection="lowest objective on what is shown",
    seeds_per_job=lambda cfg: 5,
)  # fmt: skip
def vectors(cfg: Blocks, seeds: Sequence[int]) -> list[Result]:
    """An autoencoder of vectors finds the blocks of latents that drew them, by a penalty alone."""
    tasks = [block_vectors(cfg.generator, BLOCKS, cfg.latents, cfg.outputs, seed=s) for s in seeds]
    rngs = [np.random.default_rng(s) for s in seeds]
    drawn = [
        t.data(shown(cfg).draw(t.space, cfg.samples, rng=rng))
        for t, rng in zip(tasks, rngs, strict=True)
    ]
    starts = [1000 * s + r for s in seeds for r in range(cfg.restarts)]
    datas = [data for data in drawn for _ in range(cfg.restarts)]
    models = [build(cfg, data, start) for data, start in zip(datas, starts, strict=True)]
    penalties = []
    if cfg.penalty != "none":
        mixed, order = cfg.where == "recombined", ORDERS[cfg.penalty]
        penalty = interaction(order, cfg.weight, points=cfg.points, recombined=mixed)
        penalties = [(penalty, warm_up(cfg.ramp))]
    histories = fit(
        models,
        datas,
        steps=cfg.steps,
        batch=cfg.batch,
        lr=cfg.lr,
        optimizer=torch.optim.Adam,
        loss=summed,
        penalties=penalties,
        schedule=cosine(),
        seed=starts,
    )
    results = []
    for i, (task, data, rng) in enumerate(zip(tasks, drawn, rngs, strict=True)):
        own = slice(i * cfg.restarts, (i + 1) * cfg.restarts)
        for model in models[own]:
            model.settle(data.x)
        found, best = chosen(cfg, models[own], task, data, rng)
        results.append(Result(found, {}, histories[own][best]))
    return results


def build(cfg: Blocks, data: Data, seed: int) -> BlockAutoencoder:
    """Build one autoencoder."""
    model = block_autoencoder(data, slots=BLOCKS, dim=cfg.latents, width=cfg.width, seed=seed)
    assert isinstance(model, BlockAutoencoder)
    return model


def chosen(
    cfg: Blocks, models: Sequence[BlockAutoencoder], task: Task, data: Data, rng: Generator
) -> tuple[dict[str, float], int]:
    """Score all restarts of a generator, and the one of the lowest objective in detail."""
    seen, held, apart = (
        task.data(support.draw(task.space, cfg.asked, rng=rng))
        for support in (
            shown(cfg),
            HIDDEN,
            shown(cfg) & APART if cfg.support != "all" else shown(cfg),
        )
    )
    values, errors = zip(*[objective(cfg, m, data) for m in models], strict=True)
    known = [identify(cfg, m, apart) for m in models]
    best = int(np.argmin(values))
    model, (sis, order) = models[best], known[best]
    found = {
        "sis": sis,
        "sis_mean": float(np.mean([s for s, _ in known])),
        "sis_best": max(s for s, _ in known),
        "objective": values[best],
        "error": errors[best],
        "r2_id": variance_weighted_r2(rebuilt(model, seen.x), seen.y),
        "r2_ood": variance_weighted_r2(rebuilt(model, held.x), held.y),
        "r2_recombined": recombined(model, task, seen, order, rng),
        **shares(model, seen.x),
    }
    for r, (value, (score, _)) in enumerate(zip(values, known, strict=True)):
        found |= {f"objective_{r + 1}": value, f"sis_{r + 1}": score}
    return found, best


def rebuilt(model: Smooth, x: Tensor) -> Tensor:
    """Encode and draw."""
    with torch.no_grad():
        drawn: Tensor = model(x)
    return drawn


N0: Run = {"penalty": "n0", "weight": 0.1}
N1: Run = {"penalty": "n1", "weight": 5.0}
N2: Run = {"penalty": "n2", "weight": 1.0}
DISJOINT: Run = {"generator": "disjoint"}
CORNER: Run = {"support": "corner"}
FREE: list[Run] = [DISJOINT, {}]
RIGHT: list[Run] = [{**DISJOINT, **N0}, N1]
MANY: Run = {**N1, "restarts": 16}
HELD: list[Run] = [{**CORNER, **N1, "where": "encoded"}, {**CORNER, **N1, "where": "recombined"}]


def by_seed(records: Sequence[Record], name: str) -> Numbers:
    """Give one score as a table (seeds, runs)."""
    seeds = sorted({r.seed for r in records})
    return np.array([[r.scores[name] for r in records if r.seed == s] for s in seeds])


@claim("brady2024.vectors", runs=[*FREE, *RIGHT])
def vectors_are_reproduced(records: Sequence[Record]) -> Verdict:
    """With and without the right penalty, vectors are reproduced."""
    worst = by_seed(records, "r2_id").min(axis=1)
    return decide(worst, above=0.97, what="smallest R² of four runs")


@claim("brady2024.vectors", runs=RIGHT[:1], paper="1.00, 1.00, 1.00, 0.01 (a pilot)")
def disjoint_blocks_are_identified(records: Sequence[Record]) -> Verdict:
    """Blocks that draw outputs of their own are found by a penalty on outputs that slots share."""
    return decide(scores(records, "sis"), above=0.95, what="R² of own minus other slots")


@claim("brady2024.vectors", runs=RIGHT[1:], paper="0.997 where it converged (a pilot)")
def additive_blocks_are_identified(records: Sequence[Record]) -> Verdict:
    """Blocks that add up are found by a penalty on second derivatives across slots."""
    return decide(scores(records, "sis"), above=0.95, what="R² of own minus other slots")


@claim("brady2024.vectors", runs=[MANY], paper="oracle restarts")
def more_restarts_identify_additive_blocks(records: Sequence[Record]) -> Verdict:
    """With 16 restarts instead of 5, blocks that add up are found for every generator."""
    return decide(scores(records, "sis"), above=0.95, what="R² of own minus other slots")


@claim("brady2024.vectors", runs=FREE, paper="0.15 to 0.20; 0.06 to 0.46 (a pilot)")
def nothing_is_identified_without_a_penalty(records: Sequence[Record]) -> Verdict:
    """Without a penalty, neither disjoint nor additive blocks are found."""
    most = by_seed(records, "sis").max(axis=1)
    return decide(most, below=0.5, what="larger R² of own minus other slots, of two generators")


@claim("brady2024.vectors", runs=[N0], paper="0.44 (a pilot)")
def too_strict_a_penalty_does_not_identify(records: Sequence[Record]) -> Verdict:
    """Blocks that add up are not found by the penalty for disjoint ones."""
    return decide(scores(records, "sis"), below=0.9, what="R² of own minus other slots")


@claim("brady2024.vectors", runs=[{"generator": "entangled", **N1}], paper="0.03 (a pilot)")
def entangled_latents_are_not_identified(records: Sequence[Record]) -> Verdict:
    """Where one network draws from all latents, the penalty finds no blocks."""
    return decide(scores(records, "sis"), below=0.5, what="R² of own minus other slots")


@claim(
    "brady2024.vectors",
    runs=[{"generator": "bilinear", **N2}],
    paper="proven; 0.15 or less (a pilot)",
)
def bilinear_blocks_are_identified(records: Sequence[Record]) -> Verdict:
    """Blocks with bilinear terms are found by a penalty on third derivatives across slots."""
    return decide(scores(records, "sis"), above=0.95, what="R² of own minus other slots")


@claim("brady2024.vectors", runs=RIGHT)
def the_objective_chooses_as_the_truth_would(records: Sequence[Record]) -> Verdict:
    """Among restarts, the lowest objective is about as good as the best slots."""
    lost = (by_seed(records, "sis_best") - by_seed(records, "sis")).max(axis=1)
    return decide(lost, below=0.05, what="best score minus chosen score, larger of two generators")


@claim("brady2024.vectors", runs=RIGHT[1:], paper="2 of 5 restarts converged (a pilot)")
def the_objective_tells_good_restarts_from_bad(records: Sequence[Record]) -> Verdict:
    """The restart of the lowest objective has better slots than restarts have on average."""
    gain = scores(records, "sis") - scores(records, "sis_mean")
    return decide(gain, above=0.1, what="score of the chosen restart minus mean of all")


@claim("brady2024.vectors", runs=[HELD[1]])
def identified_slots_recombine(records: Sequence[Record]) -> Verdict:
    """With a corner hidden and slots penalized where they recombine, they draw the corner."""
    return decide(scores(records, "r2_recombined"), above=0.9, what="R² of recombined vectors")


@claim("brady2024.vectors", runs=[CORNER])
def slots_without_a_penalty_do_not_recombine(records: Sequence[Record]) -> Verdict:
    """With a corner hidden and no penalty, slots do not draw the corner when recombined."""
    return decide(scores(records, "r2_recombined"), below=0.5, what="R² of recombined vectors")


@claim("brady2024.vectors", runs=HELD)
def a_penalty_carries_no_further_than_it_looks(records: Sequence[Record]) -> Verdict:
    """Slots recombine better if penalized where they recombine than where they are encoded."""
    at, beyond = (scores(records, "r2_recombined", where=w) for w in ("encoded", "recombined"))
    return decide(beyond - at, above=0.0, what="R² of recombined vectors, difference")
