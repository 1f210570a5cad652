"""Qian et al. 2025: a network that is modular by design extrapolates to held-out regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from recombine.claims.claim import Run, claims
from recombine.claims.experiment import Result, Training, experiment
from recombine.claims.score import POSITIVE, Score

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
    from recombine_papers.qian2025.extrapolation_training import extrapolation as run

    return run(cfg, seeds)


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
