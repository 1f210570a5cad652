"""Qian et al. 2025: activity noise, or its penalty, sorts the weights of a network into modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from recombine.core.claim import FRESH, Role, Run, claims
from recombine.core.experiment import Result, Training, experiment
from recombine.core.score import POSITIVE, UNIT, Score
from recombine.core.sets import everything

if TYPE_CHECKING:
    from torch import nn

    from recombine.core.diagnostic import Measured
    from recombine.core.task import Data, Split, Task
    from recombine.runs.trial import Trained
    from recombine.training.noise import Noise
    from recombine.training.penalties import Penalty


SHIFT = 10.0  # the geometric mean of the paper's shifts of one input, 0.1 to 1000
TESTED = 1000  # fresh examples


@dataclass(frozen=True)
class Parts(Training):
    """Independent functions side by side, a fully connected network, and a penalty or noise.

    Steps, rate and functions are the authors': steps times rate decides how far modules form, and
    8,000 steps at 3e-3, an earlier quick setting, stopped halfway. Settings and measures were
    chosen on seeds from 0 on, so seeds from 1000 on decide, with bounds fixed before (decision 9).
    """

    condition: Literal["l2", "l1", "activity", "weight_activity", "noise"] = "weight_activity"
    """What is added to the squared error and a small L2 penalty: nothing (l2), a penalty on weights
    (l1), on activity, on weights times activity, or noise in the activity."""
    function: Literal["sines", "lines"] = "sines"
    """Each output as a function of its input: a sine, or the identity."""
    count: int = 4
    """Number of inputs, outputs and independent functions."""
    drawn: int = 145
    """Seed of the sines, shared by all runs."""
    unit: Literal["leaky", "tanh", "sigmoid", "linear"] = "leaky"
    """Activation function; a linear network has no biases."""
    width: int = 32
    """Units in each of the three hidden layers."""
    l2: float = 1e-4
    """Weight of the L2 penalty, present in every condition."""
    weight: float = 1e-3
    """Weight of the penalty that the condition names."""
    alpha: float = 2.0
    """Power of activity in a penalty: 2 for multiplicative noise, 1 for Poisson-like noise."""
    power: float = 1.0
    """Power of activity in the noise variance: 0 additive, 1 Poisson-like, 2 multiplicative."""
    amount: float = 0.1
    """Standard deviation of the noise at activity 1."""
    samples: int = 1000
    steps: int = 50_000
    batch: int = 200
    lr: float = 1e-3
    anneal: bool = False
    """Anneal the learning rate to zero along a half cosine."""


def world(cfg: Parts) -> Task:
    """Build the task of a config."""
    from recombine.tasks.modular import independent_lines, independent_sines

    if cfg.function == "lines":
        return independent_lines(cfg.count)
    return independent_sines(cfg.count, seed=cfg.drawn)


def penalties(cfg: Parts) -> list[Penalty]:
    """List the L2 penalty and the one of the condition."""
    from recombine.training.penalties import activity, chain_norm, weight_activity

    by_name: Mapping[str, Penalty] = {
        "l1": chain_norm(cfg.weight, 1.0),
        "activity": activity(cfg.weight, cfg.alpha),
        "weight_activity": weight_activity(cfg.weight, cfg.alpha),
    }
    extra = [by_name[cfg.condition]] if cfg.condition in by_name else []
    return [chain_norm(cfg.l2), *extra]


def noise_of(cfg: Parts, *, at_test: bool = False) -> Noise | None:
    """Return the activity noise of a config, if it has any."""
    from recombine.training.noise import Noise

    return Noise(cfg.amount, cfg.power, at_test=at_test) if cfg.condition == "noise" else None


def build(cfg: Parts, data: Data, seed: int) -> nn.Module:
    """Build the network of a config."""
    from recombine.models.modular import fully_connected

    widths = (cfg.width,) * 3
    return fully_connected(data, widths=widths, activation=cfg.unit, noise=noise_of(cfg), seed=seed)


def largest_gap(cfg: Parts, model: nn.Module, split: Split) -> Measured:
    """Return the largest eigengap before training."""
    from recombine.diagnostics.modularity import between_hidden, eigengap, spectrum

    layers = between_hidden(model, outgoing=True)
    return {"eigengap_start": max(eigengap(spectrum(m), cfg.count) for m in layers)}


def graphs(model: nn.Module, count: int) -> Measured:
    """Look for modules among hidden units, compared by their outgoing weights."""
    from recombine.diagnostics.modularity import layer_modules

    layers = layer_modules(model, count, outgoing=True)
    result: Measured = {
        "eigengap_out_max": max(m.gap for m in layers),
        "excess_out": float(np.mean([m.excess for m in layers])),
        "cross_out": float(np.mean([m.cross_share for m in layers])),
        "dead_out": float(np.mean([(m.units < 0).mean() for m in layers])),
    }
    for i, m in enumerate(layers):
        result[f"sorted_out_{i}"] = m.sorted.astype(np.float32)  # reading × read units
        result[f"spectrum_out_{i}"] = m.values
    return result


def disturbed(model: nn.Module, data: Data) -> Measured:
    """Shift the first input and measure the outputs that do not depend on it.

    `moved_others` is how far they move (root mean square) at a shift of 10, `worse_others` their
    squared error relative to that before; `moved_pruned` is of the network without its small
    weights, where every layer has two modes of weights to separate small from large.
    """
    from recombine.diagnostics.robustness import errors, influence, prune, shift_errors

    offsets, after = shift_errors(model, data)
    _, (shifted,) = shift_errors(model, data, offsets=[SHIFT])
    before, (pruned, cut) = errors(model, data), prune(model)
    result: Measured = {
        "moved_others": float(influence(model, data.x, SHIFT)[0, 1:].mean()),
        "worse_others": float(shifted[1:].mean() / before[1:].mean()),
        "pruned_layers": float(np.mean(cut)),
    }
    if all(cut):
        result["moved_pruned"] = float(influence(pruned, data.x, SHIFT)[0, 1:].mean())
        result["mse_pruned"] = float(errors(pruned, data).mean())
    return result | {"offsets": offsets, "shift_errors": np.vstack([before, after])}


def further_scores(cfg: Parts, trained: Trained) -> Measured:
    """Measure training error, error under noise, graphs of units and the effect of a shift."""
    from recombine.core.seed import seeded
    from recombine.diagnostics.robustness import errors, noisy

    model, split = trained.model, trained.split
    result: Measured = {
        "mse_train": float(errors(model, split.train).mean()),
        "mse_noisy": trained.scores["mse_id"],
    }
    if noise := noise_of(cfg, at_test=True):
        with seeded(trained.seed):
            result["mse_noisy"] = float(errors(noisy(model, noise), split.query).mean())
    return result | graphs(model, cfg.count) | disturbed(model, split.query)


@experiment(
    smoke={"steps": 20, "samples": 100, "batch": 50, "width": 8},
    scores=[
        Score("mse_train", "training error", better="lower", within=POSITIVE),
        Score(
            "mse_noisy", "test error with noise left on where it was in training", within=POSITIVE
        ),
        Score(
            "moved_others",
            "movement of outputs that do not depend on a shifted input",
            within=POSITIVE,
        ),
        Score("moved_pruned", "the same after small weights are set to zero", within=POSITIVE),
        Score(
            "worse_others",
            "error of these outputs after the shift, relative to before",
            within=POSITIVE,
        ),
        Score("pruned_layers", "share of layers with two modes of weights", share=True),
        Score("excess_out", "mean eigengap beyond that of shuffled weights, outgoing weights"),
        Score(
            "cross_out",
            "mean share of absolute weight between modules, outgoing weights",
            within=UNIT,
        ),
        Score("dead_out", "mean share of units without outgoing weights", share=True),
        Score("sorted_out_*", "absolute weights of a layer, sorted by module", draw="none"),
        Score("spectrum_out_*", "eigenvalues of a layer's Laplacian", draw="none"),
        Score("offsets", "shifts of the first input", draw="none"),
        Score("shift_errors", "error of each output before and at each shift", draw="none"),
    ],
)
def modules(cfg: Parts, seeds: Sequence[int]) -> list[Result]:
    """A network learns independent functions; its weights may separate as the functions do."""
    import torch

    from recombine.runs.trial import splits, trial
    from recombine.training.fit import cosine

    task = world(cfg)
    return trial(
        cfg,
        seeds,
        task,
        splits(task, everything(), seeds, n=cfg.samples, queries=TESTED),
        partial(build, cfg),
        diagnostics=("risk", "modularity", "functional_modularity"),
        before=partial(largest_gap, cfg),
        after=partial(further_scores, cfg),
        optimizer=torch.optim.Adam,
        penalties=penalties(cfg),
        schedule=cosine() if cfg.anneal else None,
    )


PENALTY: Run = {"condition": "weight_activity"}
POISSON_PENALTY: Run = {"condition": "weight_activity", "alpha": 1.0}
POISSON: Run = {"condition": "noise", "power": 1.0}
MULTIPLICATIVE: Run = {"condition": "noise", "power": 2.0}
L2: Run = {"condition": "l2"}
LINEAR: Run = {"condition": "noise", "power": 2.0, "unit": "linear", "function": "lines"}
GAP = "collapsed eigengap of live units, smallest layer"
PURITY = "share of a unit's signal on one function"
add = claims("qian2025.modules", start=FRESH)
gap = partial(add, score="collapsed_gap_live", what=GAP)
purity = partial(add, score="purity", what=PURITY)
DEPARTS = "abstract: standard regularizers do not; ours: the eigengap without dead units"

gap(
    name="penalty_makes_modules",
    sentence="A penalty on weights times activity separates the hidden units into one module per "
    "function.",
    above=0.5,
    runs={"penalty": PENALTY},
    source="figure without numbers",
    role="headline",
)
gap(
    name="poisson_penalty_makes_modules",
    sentence="The penalty for Poisson-like noise (α = 1) also makes one module per function.",
    above=0.5,
    runs={"penalty": POISSON_PENALTY},
    source="authors' code",
)
purity(
    name="penalty_makes_units_pure",
    sentence="With the penalty, hidden units serve one function each, more than with L2 alone.",
    compare="penalty - l2",
    above=0.15,
    what=f"{PURITY}, minus L2's",
    runs={"penalty": PENALTY, "l2": L2},
    source="abstract; the measure is ours",
)
_NOISES: tuple[tuple[str, Run, str, str, Role], ...] = (
    ("poisson_noise", POISSON, "Poisson-like", "abstract", "headline"),
    ("multiplicative_noise", MULTIPLICATIVE, "Multiplicative", "authors' code", "detail"),
)
for _name, _run, _noise, _source, _role in _NOISES:
    purity(
        name=f"{_name}_makes_modules",
        sentence=f"{_noise} activity noise makes modules: units serve one function each, more "
        "than with L2 alone.",
        compare="noise - l2",
        above=0.1,
        what=f"{PURITY}, minus L2's",
        runs={"noise": _run, "l2": L2},
        source=f"{_source}; the measure is ours",
        role=_role,
    )
    gap(
        name=f"{_name}_separates_the_graph",
        sentence=f"{_noise} activity noise separates the graph of hidden units, compared with L2.",
        compare="noise - l2",
        above=0.2,
        what=f"{GAP}, minus L2's",
        runs={"noise": _run, "l2": L2},
        source=_source,
        second=_run is MULTIPLICATIVE,
    )
gap(
    name="l2_makes_no_modules",
    sentence="An L2 penalty alone leaves the hidden units without modules.",
    below=0.3,
    runs={"l2": L2},
    source="figure without numbers",
    role="control",
)
gap(
    name="activity_makes_modules",
    sentence="A penalty on activity alone makes modules, too, which departs from the paper.",
    above=0.5,
    runs={"activity": {"condition": "activity"}},
    source=DEPARTS,
    role="beyond",
)
purity(
    name="l1_leaves_pure_units",
    sentence="An L1 penalty leaves few units alive, and these serve one function each, which "
    "departs from the paper.",
    above=0.9,
    runs={"l1": {"condition": "l1"}},
    source=DEPARTS,
    role="beyond",
)
purity(
    name="linear_networks_stay_mixed",
    sentence="In a linear network with multiplicative noise, trained on the identity, units stay "
    "mixed.",
    below=0.5,
    runs={"linear": LINEAR},
    source="abstract",
    role="control",
)
add(
    name="penalty_costs_less_than_noise",
    sentence="The penalized network's test error is below a fifth of the noisy network's (noise "
    "left on).",
    score="mse_noisy",
    compare="penalty / multiplicative",
    below=0.2,
    what="test error relative to the noisy network's",
    runs={"penalty": PENALTY, "multiplicative": MULTIPLICATIVE},
    paper="0.05",
    source="authors' notebooks",
)
add(
    name="modules_shield_the_other_outputs",
    sentence="When one input is shifted, the other outputs move less than half as far as with L2 "
    "alone.",
    score="moved_others",
    compare="penalty / l2",
    below=0.5,
    what=f"movement at a shift of {SHIFT:g} relative to L2's",
    runs={"penalty": PENALTY, "l2": L2},
    source="authors' code, without numbers",
)
