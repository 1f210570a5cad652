"""Wiedemer et al. 2023 on vectors: trained networks where the theorem holds, and where barely."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from recombine.core.claim import Verdict, claim, decide, scores
from recombine.core.diagnostic import measure, observe
from recombine.core.experiment import History, Result, experiment
from recombine.core.support import Support, axes, band, cross, everything
from recombine.core.task import Split, Task
from recombine.diagnostics.sufficiency import Certificate, sufficiency
from recombine.models.compositional import compositional, monolithic
from recombine.models.decoders import mlp
from recombine.models.inverse import slotwise
from recombine.runs.record import Record
from recombine.tasks.vectors import (
    composed_vectors,
    composition,
    concatenated_vectors,
    diagonal,
    world,
)
from recombine.training.fit import cosine, fit

Run = dict[str, Any]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Composed:
    """Two random components, how they are composed, which pairs are shown, and a network."""

    model: Literal["compositional", "monolithic"] = "compositional"
    """A network for each component and the true composition, or one network for all."""
    combine: Literal["add", "product", "sigmoid", "gated"] = "add"
    support: Literal["random", "orthogonal", "diagonal"] = "orthogonal"
    """All pairs; one component free while the other stays at the anchor; or a diagonal band."""
    anchor: float = 0.0
    """Where a component stays, in each coordinate: 0 is a corner of the cube, 0.5 its middle."""
    delta: float = 0.2
    """Width of the band: coordinates differ by less than √2 times as much."""
    offset: float = 0.0
    """Added to the components' outputs, which lie between -1 and 1."""
    latents: int = 2
    """Coordinates of a component."""
    outputs: int = 16
    width: int = 64
    """Units of each of two layers; a monolithic network has half as many again."""
    samples: int = 4000
    asked: int = 4096
    """Pairs, drawn from all, on which the network is scored."""
    tried: int = 11
    """Values of each component at which the certificate looks."""
    steps: int = 2000
    batch: int = 128
    lr: float = 1e-2
    """Falls along a cosine."""


def shown(cfg: Composed) -> Support:
    """Build the support of a config."""
    if cfg.support == "random":
        return everything()
    if cfg.support == "diagonal":
        return band(sqrt(2) * cfg.delta)
    at = [(cfg.anchor,) * cfg.latents]
    return cross(**dict.fromkeys(world(2, cfg.latents).names, at))


def conditioning(held: Certificate) -> dict[str, float]:
    """Say how well a support determines the components: worst rank, and how weakly.

    `sigma_min` is the smallest singular value of stacked Jacobians over the root of their number,
    so that supports with many partners and with one can be compared.
    """
    ranks = [r for found in held.ranks.values() for r in found]
    return {
        "rank_missing": float(max(r.width - r.stack for r in ranks)),
        "sigma_min": min(r.smallest / sqrt(max(r.partners, 1)) for r in ranks),
    }


def scored(
    models: Sequence[nn.Module],
    tasks: Sequence[Task],
    splits: Sequence[Split],
    histories: Sequence[History],
) -> list[Result]:
    """Measure what trained models explain."""
    return [
        Result(measure(observe(m, t, s), ["explained"])[0], {}, h)
        for m, t, s, h in zip(models, tasks, splits, histories, strict=True)
    ]


@experiment(
    smoke={
        "latents": 1,
        "outputs": 3,
        "width": 4,
        "samples": 64,
        "asked": 128,
        "steps": 3,
        "tried": 2,
    },
    paper={"samples": 10_000, "batch": 512, "steps": 100_000},
)
def vectors(cfg: Composed, seeds: Sequence[int]) -> list[Result]:
    """A network draws vectors that two random components compose, after seeing some pairs."""
    support, space = shown(cfg), world(2, cfg.latents)
    about = (cfg.combine, 2, cfg.latents, cfg.outputs, cfg.offset)
    tasks = [composed_vectors(*about, seed=s) for s in seeds]
    splits = [
        t.split(support, n=cfg.samples, asked=cfg.asked, rng=np.random.default_rng(s))
        for t, s in zip(tasks, seeds, strict=True)
    ]
    build: Callable[..., nn.Module] = partial(monolithic, width=3 * cfg.width // 2, depth=2)
    if cfg.model == "compositional":
        build = partial(compositional, combine=cfg.combine, width=cfg.width, depth=2)
    models = [build(split.train, seed=s) for split, s in zip(splits, seeds, strict=True)]
    histories = fit(
        models,
        [split.train for split in splits],
        steps=cfg.steps,
        batch=cfg.batch,
        lr=cfg.lr,
        options={"weight_decay": 0.0},
        schedule=cosine(),
        seed=seeds,
    )
    results = scored(models, tasks, splits, histories)
    for result, seed in zip(results, seeds, strict=True):
        truth = composition(*about, seed=seed)
        held = sufficiency(truth, space, support, tried=cfg.tried, repair=False)
        result.scores.update(conditioning(held))
    return results


CORNER: Run = {"support": "orthogonal", "anchor": 0.0}
MIDDLE: Run = {"support": "orthogonal", "anchor": 0.5}
BROAD: Run = {"support": "diagonal", "delta": 0.2}
NARROW: Run = {"support": "diagonal", "delta": 0.05}
RANDOM: Run = {"support": "random"}
BOUNDED = 2.0  # an offset that keeps factors between 1 and 3
ONE: Run = {"model": "monolithic"}


def product(where: Run, offset: float = 0.0) -> Run:
    """Multiply two components."""
    return {"combine": "product", **where, "offset": offset}


PRODUCTS = [
    *[product(where) for where in (RANDOM, CORNER, MIDDLE, BROAD, NARROW)],
    *[product(where, BOUNDED) for where in (CORNER, MIDDLE)],
]
OTHERS = [
    {"combine": c, **where} for c in ("add", "sigmoid") for where in (RANDOM, CORNER, BROAD, NARROW)
]
EVERY = [*OTHERS, *PRODUCTS, *[{**run, **ONE} for run in (*OTHERS, *PRODUCTS)]]


def by_seed(records: Sequence[Record], name: str) -> Numbers:
    """Give one score as a table (seeds, runs)."""
    seeds = sorted({r.seed for r in records})
    return np.array([[r.scores[name] for r in records if r.seed == s] for s in seeds])


@claim("wiedemer2023.vectors", runs=EVERY, paper="0.99 or more (a pilot)")
def vectors_are_fitted(records: Sequence[Record]) -> Verdict:
    """Both networks draw the pairs that they have seen, whatever the composition and support."""
    worst = by_seed(records, "r2_id").min(axis=1)
    return decide(worst, above=0.98, what="smallest R² on the support")


@claim("wiedemer2023.vectors", runs=[CORNER], paper="0.997 (a pilot)")
def sums_are_composed(records: Sequence[Record]) -> Verdict:
    """Components that add are learned from a cross well enough for all pairs."""
    return decide(scores(records, "r2_all"), above=0.99, what="R² on all pairs")


@claim("wiedemer2023.vectors", runs=[{**CORNER, **ONE}], paper="0.562 (a pilot)")
def one_network_does_not_compose_sums(records: Sequence[Record]) -> Verdict:
    """One network for both components does not draw all pairs after seeing a cross."""
    return decide(scores(records, "r2_all"), below=0.8, what="R² on all pairs")


@claim("wiedemer2023.vectors", runs=[product(CORNER)], paper="full (a pilot)")
def a_product_at_the_corner_has_full_rank(records: Sequence[Record]) -> Verdict:
    """For products, a cross through the corner satisfies the rank condition."""
    missing = scores(records, "rank_missing")
    return decide(missing, below=0.5, what="rank that is missing, of 16")


@claim("wiedemer2023.vectors", runs=[product(CORNER)], paper="-10.5; -18.8, -23.0, -19.7")
def full_rank_is_not_enough(records: Sequence[Record]) -> Verdict:
    """From that cross through the corner, products are not composed, although rank is full."""
    return decide(scores(records, "r2_all"), below=0.0, what="R² on all pairs")


@claim("wiedemer2023.vectors", runs=[product(MIDDLE)], paper="0.997, 0.998, 0.990")
def the_middle_is_a_better_anchor(records: Sequence[Record]) -> Verdict:
    """From a cross through the middle of the space, products are composed."""
    return decide(scores(records, "r2_all"), above=0.95, what="R² on all pairs")


@claim("wiedemer2023.vectors", runs=[product(CORNER, BOUNDED)], paper="0.968, 0.903, 0.909")
def factors_away_from_zero_are_composed(records: Sequence[Record]) -> Verdict:
    """Factors that stay away from zero are composed from a cross through the corner, too."""
    return decide(scores(records, "r2_all"), above=0.8, what="R² on all pairs")


@claim(
    "wiedemer2023.vectors",
    runs=[{"combine": c, **BROAD} for c in ("add", "product", "sigmoid")],
    paper="0.999, 0.998, 0.992",
)
def a_broad_diagonal_suffices(records: Sequence[Record]) -> Verdict:
    """From a band around the diagonal, sums, products and occluded vectors are composed."""
    worst = by_seed(records, "r2_all").min(axis=1)
    return decide(worst, above=0.95, what="smallest R² on all pairs of three compositions")


@claim(
    "wiedemer2023.vectors",
    runs=[{"combine": "sigmoid", **CORNER, "model": m} for m in ("compositional", "monolithic")],
    paper="0.864 and 0.917",
)
def soft_occlusion_of_vectors_tells_nothing(records: Sequence[Record]) -> Verdict:
    """Where vectors occlude softly, one network composes a cross as well as one a component."""
    two, one = (scores(records, "r2_all", model=m) for m in ("compositional", "monolithic"))
    return decide(two - one, below=0.1, what="R² of two networks minus R² of one, on all pairs")


def rank_correlation(a: Numbers, b: Numbers) -> float:
    """Spearman's correlation of numbers without ties.

    >>> rank_correlation(np.array([1.0, 2.0, 30.0]), np.array([-1.0, 0.5, 0.7]))
    1.0
    """
    first, second = (v.argsort().argsort().astype(np.float64) for v in (a, b))
    return float(np.corrcoef(first, second)[0, 1].round(12))


@claim("wiedemer2023.vectors", runs=PRODUCTS)
def conditioning_predicts_success(records: Sequence[Record]) -> Verdict:
    """Products are composed the better, the larger the certificate's smallest singular value."""
    pairs = zip(by_seed(records, "sigma_min"), by_seed(records, "r2_all"), strict=True)
    found = [rank_correlation(sigma, r2) for sigma, r2 in pairs]
    return decide(found, above=0.5, what="rank correlation over seven runs")


@dataclass(frozen=True)
class Inverse:
    """Slots that draw vectors side by side, which of them are shown, and a network to read them."""

    model: Literal["compositional", "normal"] = "compositional"
    """A network for each slot, which sees no other, or one network for all."""
    support: Literal["random", "diagonal", "orthogonal"] = "diagonal"
    """All combinations; all slots alike; or one slot at a time, the others at zero."""
    slots: int = 4
    latents: int = 2
    """Coordinates of a slot."""
    outputs: int = 10
    """Numbers that a slot draws."""
    width: int = 30
    """Hidden units for each slot; a normal network has the units of all slots in one layer."""
    samples: int = 4096
    asked: int = 4096
    """Combinations, drawn from all, on which the network is scored."""
    optimizer: Literal["adam", "momentum"] = "adam"
    """Adam with a cosine, or stochastic gradient descent with momentum 0.9 and a constant rate."""
    steps: int = 3000
    batch: int = 64
    lr: float = 2e-3


@experiment(
    smoke={"latents": 1, "outputs": 2, "width": 4, "samples": 64, "asked": 128, "steps": 3},
    # 500 passes over 2,048 samples, four at a time; theirs drew 1,000 test points.
    paper={"optimizer": "momentum", "lr": 1e-3, "batch": 4, "steps": 256_000, "asked": 1000},
)
def inverse(cfg: Inverse, seeds: Sequence[int]) -> list[Result]:
    """A network reads the latents of four slots off what they draw, after some combinations."""
    supports = {
        "random": everything(),
        "diagonal": diagonal(),
        "orthogonal": axes(*[0.0] * cfg.slots * cfg.latents),
    }
    tasks = [concatenated_vectors(cfg.slots, cfg.latents, cfg.outputs, seed=s) for s in seeds]
    splits = [
        t.split(supports[cfg.support], n=cfg.samples, asked=cfg.asked, rng=np.random.default_rng(s))
        for t, s in zip(tasks, seeds, strict=True)
    ]
    build: Callable[..., nn.Module] = partial(mlp, width=cfg.slots * cfg.width, depth=1)
    if cfg.model == "compositional":
        build = partial(slotwise, slots=cfg.slots, width=cfg.width)
    models = [build(split.train, seed=s) for split, s in zip(splits, seeds, strict=True)]
    adam = cfg.optimizer == "adam"
    histories = fit(
        models,
        [split.train for split in splits],
        steps=cfg.steps,
        batch=cfg.batch,
        lr=cfg.lr,
        optimizer=torch.optim.Adam if adam else torch.optim.SGD,
        options=None if adam else {"momentum": 0.9},
        schedule=cosine() if adam else None,
        seed=seeds,
    )
    return scored(models, tasks, splits, histories)


SUPPORTS = ("random", "diagonal", "orthogonal")


def reading(model: str, *supports: str) -> list[Run]:
    """Read after some supports."""
    return [{"model": model, "support": s} for s in supports]


BOTH = [*reading("compositional", *SUPPORTS), *reading("normal", *SUPPORTS)]


def gap(records: Sequence[Record], support: str) -> Numbers:
    """By how much the compositional network explains more than the normal one, by seed."""
    two, one = (
        scores(records, "r2_all", model=m, support=support) for m in ("compositional", "normal")
    )
    return np.asarray(two - one)


@claim("wiedemer2023.inverse", runs=BOTH)
def readers_fit_what_they_see(records: Sequence[Record]) -> Verdict:
    """Both networks read the combinations that they have seen."""
    return decide(
        by_seed(records, "r2_id").min(axis=1), above=0.95, what="smallest R² on the support"
    )


@claim(
    "wiedemer2023.inverse",
    runs=reading("compositional", *SUPPORTS),
    paper="0.98, 0.98, 0.94 (notebook); 0.998, 0.998, 0.996 (a pilot)",
)
def slots_are_read_one_by_one(records: Sequence[Record]) -> Verdict:
    """A network for each slot reads all combinations after any of three supports."""
    worst = by_seed(records, "r2_all").min(axis=1)
    return decide(worst, above=0.95, what="smallest R² on all combinations")


@claim(
    "wiedemer2023.inverse",
    runs=reading("normal", "random"),
    paper="0.98 (notebook); 0.997 (a pilot)",
)
def one_reader_needs_all_combinations(records: Sequence[Record]) -> Verdict:
    """One network for all slots reads all combinations if it has seen them."""
    return decide(scores(records, "r2_all"), above=0.95, what="R² on all combinations")


@claim(
    "wiedemer2023.inverse",
    runs=reading("normal", "diagonal"),
    paper="0.13 (notebook); 0.068 (a pilot)",
)
def one_reader_fails_from_the_diagonal(records: Sequence[Record]) -> Verdict:
    """After slots that are all alike, one network for all slots hardly reads others."""
    return decide(scores(records, "r2_all"), below=0.3, what="R² on all combinations")


@claim(
    "wiedemer2023.inverse",
    runs=reading("normal", "orthogonal"),
    paper="0.43 (notebook); 0.811 (a pilot)",
)
def one_reader_is_worse_from_single_slots(records: Sequence[Record]) -> Verdict:
    """After one slot at a time, one network for all slots reads combinations worse."""
    return decide(scores(records, "r2_all"), below=0.95, what="R² on all combinations")


@claim(
    "wiedemer2023.inverse",
    runs=[{"model": m, "support": "diagonal"} for m in ("compositional", "normal")],
    paper="0.85 (notebook); 0.93 (a pilot)",
)
def reading_by_slot_wins_from_the_diagonal(records: Sequence[Record]) -> Verdict:
    """After slots that are all alike, the network for each slot explains far more."""
    return decide(gap(records, "diagonal"), above=0.6, what="difference of R²")


@claim(
    "wiedemer2023.inverse",
    runs=[{"model": m, "support": "orthogonal"} for m in ("compositional", "normal")],
    paper="0.51 (notebook); 0.185 (a pilot)",
)
def reading_by_slot_wins_from_single_slots(records: Sequence[Record]) -> Verdict:
    """After one slot at a time, the network for each slot explains more."""
    return decide(gap(records, "orthogonal"), above=0.05, what="difference of R²")
