"""Qian et al. 2025: how many samples modules need, by the number of functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from recombine.core.claim import FRESH, HOLDS, Evidence, Run, Verdict, claims, decide
from recombine.core.error import Refused
from recombine.core.experiment import Result, Training, experiment
from recombine.core.score import POSITIVE, UNIT, Score
from recombine.core.space import Array, Mask
from recombine.runs.record import Record
from recombine.theory.growth import Growth, Least, exponential, power, settle

if TYPE_CHECKING:
    from torch import Tensor, nn

    from recombine.core.task import Data

DRAWN = 145  # seed of the paper's sines; seed s uses DRAWN + s


@dataclass(frozen=True)
class Amounts(Training):
    """Independent sines, doubling sample counts, and the threshold of modularity.

    Steps, rate and weight were chosen on seeds 0 to 4, 100 and 101, by an earlier measure, the
    eigengap of the outgoing graph. Measure, threshold and the largest count are new, and seeds from
    1000 on decide; how a need is read off was changed once more, and seeds from 2000 on decide
    (decision 9). The authors' rate is 1e-3, their weight 1e-3 and their batch 200,
    for 50,000 steps.
    """

    count: int = 2
    """Number of inputs, outputs and independent functions."""
    fewest: int = 32
    """The smallest number of samples; it doubles up to `most`."""
    most: int = 2048
    threshold: float = 0.5
    """Collapsed eigengap of live units, smallest over the layers between hidden units, above which
    a network is modular: the bound of `modules`."""
    width: int = 32
    """Units in each of the three hidden layers."""
    l2: float = 1e-4
    """Weight of the L2 penalty."""
    weight: float = 3e-3
    """Weight of the penalty on weights times activity."""
    steps: int = 12_000
    """The same for every number of samples."""
    batch: int = 64
    lr: float = 1e-2


def counts(cfg: Amounts) -> list[int]:
    """List the sample counts.

    >>> counts(Amounts(fewest=16, most=64))
    [16, 32, 64]
    """
    ratio = cfg.most / max(cfg.fewest, 1)
    if cfg.fewest < 1 or ratio < 1 or not np.log2(ratio).is_integer():
        raise Refused(
            f"Sample counts double from fewest >= 1 up to most; got fewest={cfg.fewest} and "
            f"most={cfg.most}. Give a power of two times fewest as most."
        )
    return [cfg.fewest << i for i in range(round(np.log2(ratio)) + 1)]


def repeated(cfg: Amounts, seed: int) -> list[Data]:
    """Return the first samples of one draw for each count, repeated to equal length.

    As the sets are equally long, networks with few samples train in one stack with the others.
    """
    from recombine.tasks.modular import independent_sines

    task = independent_sines(cfg.count, seed=DRAWN + seed, nested=True)
    z = task.space.draw(cfg.most, rng=np.random.default_rng(seed))
    return [task.data(np.resize(z[:n], z.shape)) for n in counts(cfg)]


def gap(model: nn.Module, k: int, x: Tensor) -> float:
    """Return the collapsed eigengap at k of the units alive on x, smallest of the layers."""
    from recombine.diagnostics.flow import alive, collapsed, energies
    from recombine.diagnostics.modularity import matrices

    live = [alive(energy) for energy in energies(model, x)]
    return min(layer.gap for layer in collapsed(matrices(model)[:-1], k, live)[1:])


def first(sizes: Sequence[int], gaps: Sequence[float], threshold: float) -> Least:
    """Find the smallest count from which on every larger one gives a modular network.

    >>> first([16, 32, 64], [0.5, 0.1, 0.6], 0.4)
    Least(failed=32, enough=64)
    """
    failed = max((n for n, g in zip(sizes, gaps, strict=True) if not g > threshold), default=0)
    return Least(failed, min((n for n in sizes if n > failed), default=None))


@experiment(
    smoke={"fewest": 32, "most": 64, "steps": 5, "width": 8},
    paper={"fewest": 16, "most": 4096, "weight": 1e-3, "steps": 50_000, "batch": 200, "lr": 1e-3},
    scores=[
        Score("least", "samples that modules need, or the most tried", within=POSITIVE),
        Score("reached", "whether some number of samples sufficed", within=UNIT),
        Score("gap_*", "eigengap with this number of samples", better="higher", within=POSITIVE),
        Score("worst_fit", "largest final training loss", better="lower", within=POSITIVE),
        Score("tried", "numbers of samples", draw="none"),
        Score("gaps", "eigengap at each number of samples", draw="none"),
        Score("losses", "final training loss at each number of samples", draw="none"),
    ],
)  # fmt: skip
def samples(cfg: Amounts, seeds: Sequence[int]) -> list[Result]:
    """Networks see more and more samples of independent sines, until their weights form modules."""
    from recombine.models.modular import fully_connected
    from recombine.runs.trial import on_device, train
    from recombine.training.fit import cosine
    from recombine.training.penalties import chain_norm, weight_activity

    sizes = counts(cfg)
    data = [d for seed in seeds for d in repeated(cfg, seed)]
    each = [seed for seed in seeds for _ in sizes]
    models = [
        fully_connected(d, widths=(cfg.width,) * 3, seed=seed)
        for d, seed in zip(data, each, strict=True)
    ]
    histories = train(
        replace(cfg, batch=min(cfg.batch, cfg.most)),
        models,
        data,
        each,
        options={"weight_decay": 0.0},
        penalties=[chain_norm(cfg.l2), weight_activity(cfg.weight)],
        schedule=cosine(),
    )
    results = []
    for i in range(len(seeds)):
        rows = slice(i * len(sizes), (i + 1) * len(sizes))
        x = on_device(data[rows][-1].x)  # all samples
        gaps = [gap(model, cfg.count, x) for model in models[rows]]
        losses = [history.loss[-1] for history in histories[rows]]
        need = first(sizes, gaps, cfg.threshold)
        numbers = {
            "least": float(need.value),  # or, when not reached, the most that was tried
            "reached": float(need.reached),
            "gap_fewest": gaps[0],
            "gap_most": gaps[-1],
            "worst_fit": max(losses),
            **{f"gap_{n}": value for n, value in zip(sizes, gaps, strict=True)},
        }
        arrays = {"tried": np.array(sizes), "gaps": np.array(gaps), "losses": np.array(losses)}
        results.append(Result(numbers, arrays, histories[rows][-1]))
    return results


COUNTS = (2, 3, 4, 5)
SHORT = (
    "in 6 of the 60 searches of the second stage, with 4 or 5 functions, the network with 2,048 "
    "samples stays below the eigengap of 0.5 (0.69 and 0.59 on average); the paper's size was not "
    "tried"
)
FALLING = (
    "half the plateau needs 35, 101, 174 and 241 samples for 2 to 5 functions: each further "
    "function multiplies the need by less than the one before (2.9, 1.7, 1.4); the paper gives no "
    "numbers or code for this statement, and its own size was not tried"
)
RUNS = {f"{k} functions": {"count": k} for k in COUNTS}
GAP = re.compile(r"gap_\d+")
GROUP = 5  # seeds whose eigengaps are averaged before a need is read off
TOP = 3  # largest numbers of samples, whose mean eigengap is the plateau


def needs(records: Evidence[Record]) -> tuple[Array, Mask]:
    """Return the samples needed by seed and number of functions, and whether they sufficed."""
    least, reached = (np.array([*records.scores(name).values()]).T for name in ("least", "reached"))
    return least, reached > 0


def growths(records: Evidence[Record]) -> list[tuple[Growth, Growth]]:
    """Fit an exponential and a power of the number of functions to each seed's needs."""
    return [
        (exponential(COUNTS, need, known), power(COUNTS, need, known))
        for need, known in zip(*map(np.ndarray.tolist, needs(records)), strict=True)
    ]


def wide(size: str) -> dict[str, Run]:
    """Return the runs that try more numbers of samples: both fewer and more."""
    search = {"fewest": 8, "most": 8192} if size == "quick" else {}
    return {name: {**run, **search} for name, run in RUNS.items()}


def curves(records: Iterable[Record]) -> tuple[list[int], Array]:
    """Return the numbers of samples and the eigengaps, (records, numbers), of one kind of run."""
    records = list(records)
    sizes = sorted(int(name[4:]) for name in records[0].scores if GAP.fullmatch(name))
    return sizes, np.array([[r.scores[f"gap_{n}"] for n in sizes] for r in records])


def group_needs(records: Iterable[Record]) -> list[float]:
    """Return the samples needed for half the plateau, by the mean of every `GROUP` seeds."""
    sizes, gaps = curves(records)
    whole = gaps[: len(gaps) // GROUP * GROUP]
    return [halfway(sizes, g) for g in whole.reshape(-1, GROUP, len(sizes)).mean(axis=1)]


def halfway(sizes: Sequence[int], gaps: Array) -> float:
    """Return the number of samples at which a curve of eigengaps first reaches half its plateau.

    It is interpolated on a logarithmic scale; the plateau is the mean over the largest numbers. If
    the smallest number is enough, it is returned.

    >>> round(halfway([16, 32, 64, 128, 256], np.array([0.1, 0.3, 0.8, 0.8, 0.8])), 1)
    36.8
    """
    target = gaps[-TOP:].mean() / 2
    i = int(np.argmax(gaps > target))
    if i == 0:
        return float(sizes[0])
    share = (target - gaps[i - 1]) / (gaps[i] - gaps[i - 1])
    return float(sizes[i - 1] * (sizes[i] / sizes[i - 1]) ** share)


def advantage(need: Sequence[float], reached: Sequence[bool]) -> float:
    """Return the error of a power law minus that of an exponential, both fitted to logarithms.

    A need that was not reached is at least the next count, twice the largest tried; of all counts
    up to a thousand times as many, the least favorable to the exponential is taken.
    """
    doublings = [(0,) if known else range(1, 11) for known in reached]
    logs = np.log(need) + np.log(2) * np.array([*product(*doublings)])  # (possible needs, counts)

    def error(x: Array) -> Array:
        off, away = x - x.mean(), logs - logs.mean(axis=1, keepdims=True)
        rest = away - np.outer(away @ off / (off @ off), off)
        return np.asarray(np.sqrt(np.square(rest).mean(axis=1)))

    counts = np.array(COUNTS, dtype=np.float64)
    return float((error(np.log(counts)) - error(counts)).min())


add = claims("qian2025.samples", runs=RUNS, start=FRESH)


@add(source="ours", second=True, reason=SHORT)
def modules_form_with_enough_samples(records: Evidence[Record]) -> Verdict:
    """For 2 to 5 independent functions some number of samples tried is enough for modules."""
    share = needs(records)[1].mean(axis=1)
    return decide(share, above=0.99, what="share of numbers of functions with modules", share=True)


@add(paper="grows", source="abstract")
def modules_need_more_samples_for_more_functions(records: Evidence[Record]) -> Verdict:
    """The number of samples that modules need grows with the number of functions."""
    fits = [grown for grown, _ in growths(records)]
    rates = [g.rate for g in fits]
    verdict = decide(rates, above=0.0, what="growth of log samples per function")
    return settle(verdict, fits, "a need", HOLDS)


@add(paper="exponential", source="abstract", role="headline", runs=wide, start=2000, seeds=40,
     reason=FALLING)  # fmt: skip
def half_the_plateau_needs_exponentially_many_samples(records: Evidence[Record]) -> Verdict:
    """An exponential of the number of functions fits the samples needed better than a power."""
    by_run = [group_needs(run) for run in records.runs.values()]
    less = [advantage(need, [True] * len(need)) for need in zip(*by_run, strict=True)]
    what = f"error of power minus exponential, logs, in groups of {GROUP} seeds"
    return replace(decide(less, above=0.0, what=what), seeds=GROUP * len(less))


@add(paper="exponential", source="abstract")
def the_need_for_samples_grows_exponentially(records: Evidence[Record]) -> Verdict:
    """By an eigengap of 0.5 of single networks, an exponential fits better than a power."""
    needed, reached = needs(records)
    less = [advantage(*pair) for pair in zip(needed.tolist(), reached.tolist(), strict=True)]
    verdict = decide(less, above=0.0, what="error of power minus exponential, logs")
    return settle(verdict, [grown for grown, _ in growths(records)], "a need", HOLDS)
