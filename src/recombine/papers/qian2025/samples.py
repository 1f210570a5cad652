"""Qian et al. 2025: how the samples that modules need grow with the number of functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from recombine.core.claim import HOLDS, OPEN, Verdict, claim, decide, scores
from recombine.core.error import Refused
from recombine.core.experiment import Result, experiment
from recombine.core.task import Data
from recombine.diagnostics.modularity import between_hidden, eigengap, spectrum
from recombine.models.modular import fully_connected
from recombine.runs.record import Record
from recombine.tasks.modular import independent_sines
from recombine.theory.growth import Growth, Least, exponential, power
from recombine.training.fit import cosine, fit
from recombine.training.penalty import chain_norm, weight_activity

Run = Mapping[str, Any]

DRAWN = 145  # seed of the paper's sines; ours are its successors, one a seed


@dataclass(frozen=True)
class Amounts:
    """Independent sines, a row of sample counts, and what counts as modular.

    Steps, rate and weight were chosen so that 2 and 5 functions form modules at the largest
    counts, on seeds 100 and 101, of which some smaller counts were seen as well. A first
    measurement, on seeds 0 to 4, made half as many steps at twice the rate: most networks were not
    modular with any number of samples, and none with 32 or fewer. So steps were doubled, and counts
    start at 32 and not at 8: claims say *oracle steps*; threshold and bounds are older. The
    authors' rate is 1e-3, their weight 1e-3 and their batch 200, for 50,000 steps.
    """

    count: int = 2
    """Inputs, outputs and independent functions."""
    fewest: int = 32
    """The least number of samples; it doubles up to `most`."""
    most: int = 512
    threshold: float = 0.4
    """Eigengap, least of the layers between hidden units, above which a network is modular: about
    midway between what was published for networks with the penalty and without."""
    width: int = 32
    """Units in each of the three hidden layers."""
    l2: float = 1e-4
    """Weight of the sum of squared weights."""
    weight: float = 3e-3
    """Weight of the penalty on weights times activity."""
    steps: int = 12_000
    """The same for every number of samples."""
    batch: int = 64
    lr: float = 1e-2


def counts(cfg: Amounts) -> list[int]:
    """List the numbers of samples that are tried.

    >>> counts(Amounts(fewest=16, most=64))
    [16, 32, 64]
    """
    ratio = cfg.most / max(cfg.fewest, 1)
    if cfg.fewest < 1 or ratio < 1 or not np.log2(ratio).is_integer():
        raise Refused(
            f"Sample counts that double from {cfg.fewest} to {cfg.most} were asked for; give 1 or "
            "more, and a power of two times it."
        )
    return [cfg.fewest << i for i in range(round(np.log2(ratio)) + 1)]


def repeated(cfg: Amounts, seed: int) -> list[Data]:
    """Show the first samples of one draw, as many times as make all sets equally long.

    As sets are equally long, networks that see few samples train as one with those that see many.
    """
    task = independent_sines(cfg.count, seed=DRAWN + seed)
    z = task.space.draw(cfg.most, rng=np.random.default_rng(seed))
    return [task.data(np.resize(z[:n], z.shape)) for n in counts(cfg)]


def gap(model: nn.Module, k: int) -> float:
    """Give the eigengap at k of the weights that hidden units are read by, least of the layers."""
    spectra = [spectrum(m) for m in between_hidden(model, outgoing=True)]
    return min(eigengap(values, k) if len(values) > k else 0.0 for values in spectra)


def first(tried: Sequence[int], gaps: Sequence[float], threshold: float) -> Least:
    """Find the least number of samples from which on every larger one tried is modular, too.

    >>> first([16, 32, 64], [0.5, 0.1, 0.6], 0.4)
    Least(failed=32, enough=64)
    """
    failed = max((n for n, g in zip(tried, gaps, strict=True) if not g > threshold), default=0)
    return Least(failed, min((n for n in tried if n > failed), default=None))


@experiment(
    smoke={"fewest": 32, "most": 64, "steps": 5, "width": 8},
    paper={"fewest": 16, "most": 4096, "weight": 1e-3, "steps": 50_000, "batch": 200, "lr": 1e-3},
)  # fmt: skip
def samples(cfg: Amounts, seeds: Sequence[int]) -> list[Result]:
    """Networks see more and more samples of independent sines, until their weights form modules."""
    tried = counts(cfg)
    data = [d for seed in seeds for d in repeated(cfg, seed)]
    own = [seed for seed in seeds for _ in tried]
    models = [
        fully_connected(d, widths=(cfg.width,) * 3, seed=seed)
        for d, seed in zip(data, own, strict=True)
    ]
    histories = fit(
        models,
        data,
        steps=cfg.steps,
        batch=min(cfg.batch, cfg.most),
        lr=cfg.lr,
        options={"weight_decay": 0.0},
        penalties=[chain_norm(cfg.l2), weight_activity(cfg.weight)],
        schedule=cosine(),
        seed=own,
    )
    results = []
    for i in range(len(seeds)):
        rows = slice(i * len(tried), (i + 1) * len(tried))
        gaps = [gap(model, cfg.count) for model in models[rows]]
        losses = [history.loss[-1] for history in histories[rows]]
        found = first(tried, gaps, cfg.threshold)
        numbers = {
            "least": float(found.value),  # or, when not reached, the most that was tried
            "reached": float(found.reached),
            "gap_fewest": gaps[0],
            "gap_most": gaps[-1],
            "worst_fit": max(losses),
        }
        arrays = {"tried": np.array(tried), "gaps": np.array(gaps), "losses": np.array(losses)}
        results.append(Result(numbers, arrays, histories[rows][-1]))
    return results


COUNTS = (2, 3, 4, 5)
ORACLE = "oracle steps"  # see `Amounts`
RUNS: list[Run] = [{"count": k} for k in COUNTS]


def needs(records: Sequence[Record]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Give, for each seed and number of functions, the samples needed and whether they sufficed."""
    least, reached = (
        np.array([scores(records, name, count=k) for k in COUNTS]).T
        for name in ("least", "reached")
    )
    return least, reached > 0


def growths(records: Sequence[Record]) -> list[tuple[Growth, Growth]]:
    """Fit an exponential and a power of the number of functions to each seed's needs."""
    return [
        (exponential(COUNTS, need, known), power(COUNTS, need, known))
        for need, known in zip(*map(np.ndarray.tolist, needs(records)), strict=True)
    ]


def bounded(verdict: Verdict, fits: Sequence[Growth], sure: str = "") -> Verdict:
    """Leave a claim open where needs are only bounds, unless its outcome is `sure` anyhow."""
    loose = sum(not g.closed for g in fits)
    if not loose or (verdict.outcome == sure and not any(g.falls for g in fits)):
        return verdict
    why = f"{verdict.why}; {loose} of {len(fits)} fits contain a need that was not reached"
    return replace(verdict, outcome=OPEN, why=why)


@claim("qian2025.samples", runs=RUNS)
def modules_form_with_enough_samples(records: Sequence[Record]) -> Verdict:
    """For 2 to 5 independent functions some number of samples tried is enough for modules."""
    share = needs(records)[1].mean(axis=1)
    return decide(share, above=0.99, what=f"share of numbers of functions with modules, {ORACLE}")


@claim("qian2025.samples", runs=RUNS, paper="grows")
def modules_need_more_samples_for_more_functions(records: Sequence[Record]) -> Verdict:
    """The number of samples that modules need grows with the number of functions."""
    fits = [grown for grown, _ in growths(records)]
    found = decide(
        [g.rate for g in fits], above=0.0, what=f"growth of log samples a function, {ORACLE}"
    )
    return bounded(found, fits, sure=HOLDS)


@claim("qian2025.samples", runs=RUNS, paper="exponential")
def the_need_for_samples_grows_exponentially(records: Sequence[Record]) -> Verdict:
    """An exponential of the number of functions fits the samples needed better than a power."""
    fits = growths(records)
    less = [other.error - grown.error for grown, other in fits]
    found = decide(less, above=0.0, what=f"error of power minus exponential, logs, {ORACLE}")
    return bounded(found, [grown for grown, _ in fits])
