"""Qian et al. 2025: a network that is modular by design extends a function to places not shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

from recombine.core.claim import Verdict, claim, decide, scores
from recombine.core.diagnostic import measure, observe, predict
from recombine.core.experiment import Result, experiment
from recombine.core.support import Support, everything
from recombine.core.task import Data, Task
from recombine.models.modular import bottleneck, fully_connected, pre_modular
from recombine.runs.record import Record
from recombine.tasks.modular import disk, gaussian_hill, quadrants, sine_of_sines, tiles
from recombine.training.fit import cosine, fit

Run = Mapping[str, Any]

ASKED = 4000
SIDE = 48  # points along one side of the maps; a tile is as many of them wide as any other
TILES = 8  # along one side
SHARE = 0.8  # of the tiles is shown: 51 of 64


@dataclass(frozen=True)
class Surface:
    """A function of two numbers, where it is shown, and a network.

    Steps fit the budget of a quick run. The rate, one for all, was chosen of 1e-3, 3e-3 and 1e-2 by
    the error where functions are shown, half as many steps, seeds 100 and 101. For the modular
    network on sines the choice is not clear: 1e-2 was best on one seed, 1e-3 on the other, and of
    seeds 100 to 104 three do not fit at 3e-3, two at 1e-3. The authors make 2,000 epochs at a
    constant 1e-3.
    """

    network: Literal["modular", "full", "bottleneck"] = "modular"
    """Modular reads each number by a network of its own; full and bottleneck mix them at once, the
    latter through a layer of two units."""
    function: Literal["hill", "sines"] = "hill"
    """A round hill, shown where both numbers have the same sign; or a sine of a sum of two sines,
    shown in 51 of 64 tiles, which the seed chooses."""
    sigma: float = 0.5
    """Width of the hill; points lie within a distance of 1 from its top."""
    drawn: int = 42
    """Seed of the sines, which all runs share."""
    samples: int = 2000
    """Points shown."""
    steps: int = 10_000
    batch: int = 64
    lr: float = 1e-2
    anneal: bool = True
    """Let the learning rate fall to zero along a half cosine."""


def world(cfg: Surface, seed: int) -> tuple[Task, Support, Support]:
    """Make the task, what is shown of it, and what is asked."""
    if cfg.function == "hill":
        return gaussian_hill(cfg.sigma), disk() & quadrants(), disk()
    return sine_of_sines(seed=cfg.drawn), tiles(TILES, SHARE, seed=seed), everything()


def build(cfg: Surface, data: Data, seed: int) -> nn.Module:
    """Build the network that a config names, of the paper's size."""
    if cfg.network == "modular":
        return pre_modular(data, seed=seed)
    if cfg.network == "full":
        return fully_connected(data, widths=(128, 128, 128), seed=seed)
    return bottleneck(data, seed=seed)


def maps(model: nn.Module, task: Task, shown: Support, asked: Support) -> dict[str, Any]:
    """Draw function and network over the square, [x, y], with marks of what is shown and asked."""
    line = (np.arange(SIDE) + 0.5) / SIDE * 2 - 1
    data = task.data(np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2))
    tables = {
        "truth": data.y.numpy(),
        "drawn": predict(model, data.x).numpy(),
        "shown": shown.contains(task.space, data.z),
        "asked": asked.contains(task.space, data.z),
    }
    return {name: values.reshape(SIDE, SIDE) for name, values in tables.items()}


@experiment(
    smoke={"steps": 20, "samples": 100},
    paper={"steps": 62_500, "lr": 1e-3, "anneal": False},
)
def extrapolation(cfg: Surface, seeds: Sequence[int]) -> list[Result]:
    """A network sees a function of two numbers in parts of the plane and is asked elsewhere."""
    worlds = [world(cfg, seed) for seed in seeds]
    splits = [
        task.split(
            shown, query=asked, n=cfg.samples, rng=np.random.default_rng(seed), asked=ASKED
        )
        for (task, shown, asked), seed in zip(worlds, seeds, strict=True)
    ]  # fmt: skip
    models = [build(cfg, s.train, seed) for s, seed in zip(splits, seeds, strict=True)]
    histories = fit(
        models,
        [s.train for s in splits],
        steps=cfg.steps,
        batch=cfg.batch,
        lr=cfg.lr,
        options={"weight_decay": 0.0},
        schedule=cosine() if cfg.anneal else None,
        seed=seeds,
    )
    results = []
    for model, where, split, history in zip(models, worlds, splits, histories, strict=True):
        found, _ = measure(observe(model, where[0], split), ("risk",))
        found["parameters"] = float(sum(p.numel() for p in model.parameters()))
        results.append(Result(found, maps(model, *where), history))
    return results


HILL: Run = {"function": "hill"}
SINES: Run = {"function": "sines", "samples": 4000}  # as many as the authors' draws leave
NETWORKS = ("modular", "full", "bottleneck")


def runs(of: Run, *networks: str) -> list[Run]:
    """List a run for each network."""
    return [{**of, "network": network} for network in networks]


def times(records: Sequence[Record], other: str) -> NDArray[np.float64]:
    """Give log₁₀ of another network's error where nothing is shown over the modular one's."""
    found = [scores(records, "mse_ood", network=network) for network in (other, "modular")]
    return np.asarray(np.log10(found[0] / found[1]))


def farther(records: Sequence[Record], network: str) -> NDArray[np.float64]:
    """Give log₁₀ of a network's error where nothing is shown over its error where it is."""
    found = [scores(records, name, network=network) for name in ("mse_ood", "mse_id")]
    return np.asarray(np.log10(found[0] / found[1]))


EXPERIMENT = "qian2025.extrapolation"
RATIO = "log₁₀ of OOD error over the modular one's"
LOSS = "log₁₀ of OOD error over ID error"


@claim(EXPERIMENT, runs=runs(HILL, *NETWORKS), paper="1e-6 to 4e-6 (MSE)")
def hills_are_fitted(records: Sequence[Record]) -> Verdict:
    """All three networks know the hill where it was shown."""
    worst = np.max([scores(records, "risk_id", network=name) for name in NETWORKS], axis=0)
    return decide(worst, below=0.01, what="largest ID error / constant")


@claim(EXPERIMENT, runs=runs(HILL, "modular"), paper="log₁₀ (1e-6 / 1e-6) = 0")
def modular_networks_extend_a_hill(records: Sequence[Record]) -> Verdict:
    """In hidden quadrants a modular network errs less than ten times as much as in shown ones."""
    return decide(farther(records, "modular"), below=1.0, what=LOSS)


@claim(EXPERIMENT, runs=runs(HILL, "full"), paper="log₁₀ (8.1e-4 / 4e-6) = 2.3")
def full_networks_do_not_extend_a_hill(records: Sequence[Record]) -> Verdict:
    """In hidden quadrants a fully connected network errs over ten times as much as in shown."""
    return decide(farther(records, "full"), above=1.0, what=LOSS)


@claim(EXPERIMENT, runs=runs(HILL, "bottleneck"), paper="log₁₀ (2.8e-3 / 2e-6) = 3.1")
def bottlenecks_do_not_extend_a_hill(records: Sequence[Record]) -> Verdict:
    """In hidden quadrants a network with a bottleneck errs over ten times as much as in shown."""
    return decide(farther(records, "bottleneck"), above=1.0, what=LOSS)


@claim(EXPERIMENT, runs=runs(HILL, "modular", "full"), paper="log₁₀ (8.1e-4 / 1e-6) = 2.9")
def modular_beats_full_on_a_hill(records: Sequence[Record]) -> Verdict:
    """In hidden quadrants a fully connected network errs over ten times as much as a modular."""
    return decide(times(records, "full"), above=1.0, what=RATIO)


@claim(EXPERIMENT, runs=runs(HILL, "modular", "bottleneck"), paper="log₁₀ (2.8e-3 / 1e-6) = 3.4")
def modular_beats_bottleneck_on_a_hill(records: Sequence[Record]) -> Verdict:
    """In hidden quadrants a network with a bottleneck errs over ten times as much as a modular."""
    return decide(times(records, "bottleneck"), above=1.0, what=RATIO)


@claim(EXPERIMENT, runs=runs(SINES, *NETWORKS))
def tiles_are_fitted(records: Sequence[Record]) -> Verdict:
    """All three networks know the sine of sines where it was shown."""
    worst = np.max([scores(records, "risk_id", network=name) for name in NETWORKS], axis=0)
    return decide(worst, below=0.01, what="largest ID error / constant")


@claim(EXPERIMENT, runs=runs(SINES, "modular"))
def modular_networks_fill_tiles(records: Sequence[Record]) -> Verdict:
    """In hidden tiles of sines a modular network errs less than ten times as much as in shown.

    The paper has this variant, but we know no number of it; the bound is that of the hill.
    """
    return decide(farther(records, "modular"), below=1.0, what=LOSS)


@claim(EXPERIMENT, runs=runs(SINES, "modular", "full"))
def modular_beats_full_on_tiles(records: Sequence[Record]) -> Verdict:
    """In hidden tiles of sines a fully connected network errs over twice as much as a modular.

    Most hidden tiles have shown ones around them, so that less is asked than of the hill.
    """
    return decide(times(records, "full"), above=float(np.log10(2)), what=RATIO)


@claim(EXPERIMENT, runs=runs(SINES, "modular", "bottleneck"))
def modular_beats_bottleneck_on_tiles(records: Sequence[Record]) -> Verdict:
    """In hidden tiles of sines a network with a bottleneck errs over twice as much as a modular."""
    return decide(times(records, "bottleneck"), above=float(np.log10(2)), what=RATIO)
