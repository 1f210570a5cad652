"""Qian et al. 2025: a network that is modular by design extrapolates to held-out regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Literal

import numpy as np

from recombine.core.claim import Run, claims
from recombine.core.experiment import Result, Training, experiment
from recombine.core.score import POSITIVE, Score
from recombine.core.sets import everything
from recombine.core.shapes import disk, quadrants, tiles
from recombine.core.support import Support

if TYPE_CHECKING:
    from torch import nn

    from recombine.core.diagnostic import Measured
    from recombine.core.task import Data, Task
    from recombine.runs.trial import Trained


ASKED = 4000  # test points
SIDE = 48  # points along one side of the maps, the same number in every tile
TILES = 8  # along one side
SHARE = 0.8  # of the tiles is in the training set: 51 of 64


@dataclass(frozen=True)
class Surface(Training):
    """A function of two numbers, its training region, and a network.

    Steps fit the budget of a quick run. The rate, one for all, was chosen from 1e-3, 3e-3 and 1e-2
    by the error in the training region at half as many steps, seeds 100 and 101. The sines are the
    authors', which all networks fit; those of an earlier measurement, on seeds 0 to 4, modular
    networks did not always fit. Modular networks that fit them may still miss the optimum, so they,
    like all networks on sines, have 4 restarts; claims on sines are decided on seeds from 2000 on
    (decision 9). The authors train once, for 2,000 epochs at a constant 1e-3.
    """

    network: Literal["modular", "full", "bottleneck"] = "modular"
    """Modular reads each number with a network of its own; full and bottleneck mix them at once,
    the latter through a layer of two units."""
    function: Literal["hill", "sines"] = "hill"
    """A round hill, with training points where both numbers have the same sign; or a sine of a sum
    of two sines, with training points in 51 of 64 tiles, which the seed chooses."""
    sigma: float = 0.5
    """Width of the hill; points lie within a distance of 1 from its top."""
    drawn: int = 42
    """Seed of the sines, shared by all runs."""
    samples: int = 2000
    """Training points."""
    steps: int = 10_000
    batch: int = 64
    lr: float = 1e-2
    anneal: bool = True
    """Anneal the learning rate to zero along a half cosine."""
    restarts: int = 1
    """Networks per seed; the one with the lowest training error is scored."""


def world(cfg: Surface, seed: int) -> tuple[Task, Support, Support]:
    """Return the task, its training support and the support of the query."""
    from recombine.tasks.modular import gaussian_hill, sine_of_sines

    if cfg.function == "hill":
        return gaussian_hill(cfg.sigma), disk() & quadrants(), disk()
    return sine_of_sines(seed=cfg.drawn), tiles(TILES, SHARE, seed=seed), everything()


def build(cfg: Surface, data: Data, seed: int) -> nn.Module:
    """Build the network of a config, of the paper's size."""
    from recombine.models.modular import fully_connected, pre_modular

    if cfg.network == "modular":
        return pre_modular(data, seed=seed)
    middle = 128 if cfg.network == "full" else 2
    return fully_connected(data, widths=(128, middle, 128), seed=seed)


def maps(model: nn.Module, task: Task, shown: Support, query: Support) -> Measured:
    """Evaluate function and network over the square, [x, y], with masks of both supports."""
    from recombine.core.diagnostic import predict
    from recombine.runs.trial import on_device

    line = (np.arange(SIDE) + 0.5) / SIDE * 2 - 1
    z = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    data = on_device(task.data(z))
    tables = {
        "truth": data.y.cpu().numpy(),
        "drawn": predict(model, data.x).cpu().numpy(),
        "shown": shown.contains(task.space, z),
        "asked": query.contains(task.space, z),
    }
    return {name: values.reshape(SIDE, SIDE) for name, values in tables.items()}


@experiment(
    smoke={"steps": 20, "samples": 100},
    paper={"steps": 62_500, "lr": 1e-3, "anneal": False},
    selection="lowest training error of the restarts",
    scores=[
        Score("mse_train", "training error", better="lower", within=POSITIVE),
        Score("parameters", "number of weights and biases"),
        Score("truth", "targets on a grid", draw="none"),
        Score("drawn", "outputs on the grid", draw="none"),
        Score("shown", "grid points in the training support", draw="none"),
        Score("asked", "grid points in the query", draw="none"),
    ],
)
def extrapolation(cfg: Surface, seeds: Sequence[int]) -> list[Result]:
    """A network sees a function of two numbers in parts of the plane and is tested elsewhere."""
    from recombine.diagnostics.robustness import errors
    from recombine.runs.trial import trial
    from recombine.training.fit import cosine

    starts = [(seed if cfg.restarts == 1 else 1000 * seed + r, seed)
              for seed in seeds for r in range(cfg.restarts)]  # fmt: skip
    worlds = {start: world(cfg, seed) for start, seed in starts}
    splits = [
        task.split(
            shown, query=query, n=cfg.samples, rng=np.random.default_rng(seed), queries=ASKED
        )
        for (_, seed), (task, shown, query) in zip(starts, worlds.values(), strict=True)
    ]

    def further(trained: Trained) -> Measured:
        return {
            "mse_train": float(errors(trained.model, trained.split.train).mean()),
            "parameters": float(sum(p.numel() for p in trained.model.parameters())),
            **maps(trained.model, *worlds[trained.seed]),
        }

    results = trial(
        cfg,
        [start for start, _ in starts],
        [task for task, _, _ in worlds.values()],
        splits,
        partial(build, cfg),
        after=further,
        options={"weight_decay": 0.0},
        schedule=cosine() if cfg.anneal else None,
    )
    groups = (results[i : i + cfg.restarts] for i in range(0, len(results), cfg.restarts))
    return [min(group, key=lambda r: r.scores.get("mse_train", inf)) for group in groups]


NETWORKS = ("modular", "full", "bottleneck")
WORDS = {"modular": "a modular", "full": "a fully connected", "bottleneck": "a bottleneck"}
HILL: Run = {"function": "hill"}
SINES: Run = {
    "function": "sines",
    "samples": 4000,  # as many as the authors' draws leave
    "restarts": 4,
}
RESTARTED = 2000  # first seed of the claims on sines
NOTEBOOKS = "authors' notebooks, one seed"
CODE = "authors' code, without numbers"
add = claims("qian2025.extrapolation")
log = partial(add, log10=True)
ood_over_id = partial(log, score="mse_ood / mse_id", what="log₁₀ of OOD error over ID error")
over_modular = partial(log, score="mse_ood", what="log₁₀ of OOD error over the modular network's")


def runs(function: Run, *networks: str) -> dict[str, Run]:
    """Name one run per network."""
    return {network: {**function, "network": network} for network in networks}


add(
    name="hills_are_fitted",
    sentence="All three networks fit the hill in the training quadrants.",
    score="risk_id",
    below=0.01,
    what="largest ID error / constant",
    runs=runs(HILL, *NETWORKS),
    paper="1e-6 to 4e-6 (MSE)",
    source=NOTEBOOKS,
)
ood_over_id(
    name="modular_networks_extend_a_hill",
    sentence="In the held-out quadrants a modular network's error is below ten times its error in "
    "the training quadrants.",
    below=1.0,
    runs=runs(HILL, "modular"),
    paper="log₁₀ (1e-6 / 1e-6) = 0",
    source=NOTEBOOKS,
    role="headline",
)
for _network, _name, _paper in (
    ("full", "full_networks_do_not_extend_a_hill", "log₁₀ (8.1e-4 / 4e-6) = 2.3"),
    ("bottleneck", "bottlenecks_do_not_extend_a_hill", "log₁₀ (2.8e-3 / 2e-6) = 3.1"),
):
    ood_over_id(
        name=_name,
        sentence=f"In the held-out quadrants {WORDS[_network]} network's error exceeds ten times "
        "its error in the training quadrants.",
        above=1.0,
        runs=runs(HILL, _network),
        paper=_paper,
        source=NOTEBOOKS,
        role="control",
    )
for _network, _name, _paper in (
    ("full", "modular_beats_full_on_a_hill", "log₁₀ (8.1e-4 / 1e-6) = 2.9"),
    ("bottleneck", "modular_beats_bottleneck_on_a_hill", "log₁₀ (2.8e-3 / 1e-6) = 3.4"),
):
    over_modular(
        name=_name,
        sentence=f"In the held-out quadrants {WORDS[_network]} network's error exceeds ten times "
        "a modular network's.",
        compare=f"{_network} / modular",
        above=1.0,
        runs=runs(HILL, "modular", _network),
        paper=_paper,
        source=NOTEBOOKS,
    )
add(
    name="tiles_are_fitted",
    sentence="All three networks fit the sine of sines in the training tiles.",
    score="risk_id",
    below=0.01,
    what="largest ID error / constant",
    runs=runs(SINES, *NETWORKS),
    source=CODE,
    start=RESTARTED,
)
# The paper has this variant, but no number of it is known; the bound is that of the hill.
ood_over_id(
    name="modular_networks_fill_tiles",
    sentence="In held-out tiles a modular network's error is below ten times its error in the "
    "training tiles.",
    below=1.0,
    runs=runs(SINES, "modular"),
    source=CODE,
    start=RESTARTED,
    second=True,
)
# Most held-out tiles have training tiles around them: an easier test than the hill.
for _network, _name in (
    ("full", "modular_beats_full_on_tiles"),
    ("bottleneck", "modular_beats_bottleneck_on_tiles"),
):
    over_modular(
        name=_name,
        sentence=f"In held-out tiles {WORDS[_network]} network's error exceeds twice a modular "
        "network's.",
        compare=f"{_network} / modular",
        above=float(np.log10(2)),
        runs=runs(SINES, "modular", _network),
        source=CODE,
        start=RESTARTED,
        second=_network == "bottleneck",
    )
