"""Qian et al. 2025: how noise, shifts and retraining affect networks with and without modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recombine.core.claim import FRESH, Register, Run, claims
from recombine.core.experiment import Result, Training, experiment
from recombine.core.score import POSITIVE, Score
from recombine.core.sets import everything
from recombine.papers.qian2025.modules import SHIFT, TESTED

if TYPE_CHECKING:
    from torch import Tensor, nn

    from recombine.core.diagnostic import Measured
    from recombine.core.task import Data
    from recombine.runs.trial import Trained
    from recombine.training.penalties import Batch, Penalty

AMOUNTS = np.concatenate([[0.0], np.logspace(-2, 0, 21)])
NOISE = 0.1  # the authors' amount in training; one of the above
LEARNED = 0  # the output that is retrained


@dataclass(frozen=True)
class Disturbed(Training):
    """A network that learns independent sines, and how one of them changes later.

    Functions, steps and rate are the authors', as in `modules`; seeds from 1000 on decide, with
    bounds fixed before (decision 9). For retraining, rates of 0.03, 0.1 and 0.3 were tried with L2
    on seeds 100 and 101: the last diverged once, the others teach the retrained output its new
    sine.
    """

    network: Literal["weight_activity", "poisson_penalty", "poisson_noise", "l2", "separate"] = (
        "weight_activity"
    )
    """Fully connected with a penalty on weights times activity (α = 2), with its version for
    Poisson noise (α = 1), trained with Poisson noise, or with a small L2 penalty alone, which all
    networks have; or one separate network per function: modules by design."""
    count: int = 4
    """Number of inputs, outputs and independent functions."""
    drawn: int = 145
    """Seed of the sines, shared by all runs."""
    width: int = 32
    """Units in each of the three hidden layers, summed over separate networks."""
    l2: float = 1e-4
    """Weight of the L2 penalty."""
    weight: float = 1e-3
    """Weight of the penalty on weights times activity."""
    samples: int = 1000
    steps: int = 50_000
    batch: int = 200
    lr: float = 1e-3
    again: int = 1000
    """Steps of plain gradient descent in which one output learns another sine."""
    again_lr: float = 0.03


def squares(weight: float) -> Penalty:
    """Penalize the squared weights of separate networks, without biases."""
    import torch

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        weights = [p.square().sum() for name, p in model.named_parameters() if "weight" in name]
        return weight * torch.stack(weights).sum()

    return penalty


def build(cfg: Disturbed, data: Data, seed: int) -> nn.Module:
    """Build the network of a config."""
    from recombine.models.modular import fully_connected, separate
    from recombine.training.noise import Noise

    if cfg.network == "separate":
        return separate(data, widths=(cfg.width // cfg.count,) * 3, seed=seed)
    activity_noise = Noise(NOISE, power=1.0) if cfg.network == "poisson_noise" else None
    return fully_connected(data, widths=(cfg.width,) * 3, noise=activity_noise, seed=seed)


def penalties(cfg: Disturbed) -> list[Penalty]:
    """List the penalties of a config."""
    from recombine.training.penalties import chain_norm, weight_activity

    if cfg.network == "separate":
        return [squares(cfg.l2)]
    powers = {"weight_activity": 2.0, "poisson_penalty": 1.0}
    extra = [weight_activity(cfg.weight, powers[cfg.network])] if cfg.network in powers else []
    return [chain_norm(cfg.l2), *extra]


def noise(model: nn.Module, data: Data, seed: int) -> Measured:
    """Add noise to hidden units: `added_p` is the squared error that noise of power p adds."""
    from recombine.diagnostics.robustness import noise_curve

    result: Measured = {"amounts": AMOUNTS}
    at = int(np.abs(AMOUNTS - NOISE).argmin())
    for power in (1, 2):
        curve = noise_curve(model, data, AMOUNTS.tolist(), power=power, seed=seed).mean(axis=1)
        result |= {f"added_{power}": float(curve[at] - curve[0]), f"noisy_{power}": curve}
    return result


def shift(model: nn.Module, data: Data) -> Measured:
    """Shift the first input; `moved_others` is the movement (RMS) of other outputs at 10."""
    from recombine.diagnostics.robustness import influence, shift_errors

    offsets, shifted = shift_errors(model, data)
    moved = float(influence(model, data.x, SHIFT)[0, 1:].mean())
    return {"moved_others": moved, "offsets": offsets, "shifted": shifted}


def relearn(cfg: Disturbed, model: nn.Module, old: Data, seed: int) -> Measured:
    """Teach one output another sine and measure what the others forget.

    Gradient descent is plain: Adam would take large steps along gradients that are almost zero.
    """
    import torch

    from recombine.diagnostics.robustness import forgetting
    from recombine.runs.trial import on_device
    from recombine.tasks.modular import independent_sines

    new = independent_sines(cfg.count, seed=cfg.drawn + 1)
    z = new.space.draw(cfg.samples, rng=np.random.default_rng([seed, 1]))
    before, after = forgetting(
        model,
        old,
        on_device(new.data(z)),
        LEARNED,
        steps=cfg.again,
        batch=min(cfg.batch, cfg.samples),
        lr=cfg.again_lr,
        optimizer=torch.optim.SGD,
        seed=seed,
    )
    return {
        "forgot_others": float(np.delete(after - before, LEARNED).mean()),
        "learned_again": float(after[LEARNED] / before[LEARNED]),
        "before_lesson": before,
        "after_lesson": after,
    }


@experiment(
    smoke={"steps": 20, "samples": 100, "batch": 50, "width": 8, "again": 5},
    scores=[
        Score("mse_id", "test error", better="lower", within=POSITIVE),
        Score("added_*", "squared error that noise of this power adds", better="lower"),
        Score(
            "moved_others",
            "movement of outputs that do not depend on a shifted input",
            within=POSITIVE,
        ),
        Score("forgot_others", "error that other outputs gain while one is retrained"),
        Score(
            "learned_again", "error of the retrained output, relative to before", within=POSITIVE
        ),
        Score("amounts", "amounts of noise", draw="none"),
        Score("noisy_*", "error at each amount of noise of this power", draw="none"),
        Score("offsets", "shifts of the first input", draw="none"),
        Score("shifted", "error at each shift", draw="none"),
        Score("*_lesson", "error of each output before or after one is retrained", draw="none"),
    ],
)
def robustness(cfg: Disturbed, seeds: Sequence[int]) -> list[Result]:
    """Networks of independent functions are tested with shifts, activity noise and retraining."""
    import torch

    from recombine.diagnostics.robustness import errors
    from recombine.models.modular import Separate
    from recombine.runs.trial import splits, trial
    from recombine.tasks.modular import independent_sines

    task = independent_sines(cfg.count, seed=cfg.drawn)

    def disturbances(trained: Trained) -> Measured:
        model, data, seed = trained.model, trained.split.query, trained.seed
        chain = model.whole() if isinstance(model, Separate) else model
        error = {"mse_id": float(errors(model, data).mean())}
        return (
            error | noise(chain, data, seed) | shift(chain, data) | relearn(cfg, model, data, seed)
        )

    return trial(
        cfg,
        seeds,
        task,
        splits(task, everything(), seeds, n=cfg.samples, queries=TESTED),
        partial(build, cfg),
        diagnostics=(),
        after=disturbances,
        optimizer=torch.optim.Adam,
        penalties=penalties(cfg),
    )


def networks(*names: str) -> dict[str, Run]:
    """Name runs by their network."""
    return {name: {"network": name} for name in names}


THREE = networks("weight_activity", "l2", "separate")
add = claims("qian2025.robustness", start=FRESH)


def than_l2(network: str, **fields: Any) -> Register:
    """Return `add` for claims that compare a network with the L2 network."""
    pair = {"compare": f"{network} / l2", "runs": networks(network, "l2")}
    return claims("qian2025.robustness", start=FRESH, **pair, **fields)


def resists(network: str, score: str = "added_1") -> Register:
    """Return `add` for claims on the error that noise adds to a network, relative to L2's."""
    what = "error that noise adds, relative to L2's"
    return than_l2(network, score=score, what=what, source="abstract, without a number")


add(
    name="all_networks_know_their_sines",
    sentence="The penalized network, the L2 network and separate networks all fit the sines.",
    score="mse_id",
    below=0.005,
    what="largest test MSE",
    runs=THREE,
    paper="1e-4 (MSE)",
    source="authors' notebooks",
)
resists("weight_activity")(
    name="the_penalty_resists_poisson_noise",
    sentence="Poisson-like noise adds less error to the penalized network than to the L2 network.",
    below=1.0,
)
resists("weight_activity")(
    name="the_penalty_halves_the_error_of_poisson_noise",
    sentence="Poisson-like noise adds less than half as much error to the penalized network as to "
    "the L2 network.",
    below=0.5,
    reason="the penalty (α = 2) is the variance that multiplicative noise adds, not Poisson "
    "noise: 0.82, against 0.62 with α = 1; the abstract promises less error, not half; this is "
    "the paper's own length, and 8,000 steps, tried before, gave 0.90",
)
# The penalty is the variance that this noise adds to the next layer.
resists("weight_activity", "added_2")(
    name="the_penalty_resists_multiplicative_noise",
    sentence="Multiplicative noise adds less than half as much error to the penalized network as "
    "to the L2 network.",
    below=0.5,
)
resists("poisson_penalty")(
    name="the_poisson_penalty_resists_poisson_noise",
    sentence="With the penalty for Poisson-like noise (α = 1), that noise adds less than 0.8 of "
    "the error that it adds to the L2 network.",
    below=0.8,
)
resists("poisson_noise")(
    name="training_with_poisson_noise_resists_it",
    sentence="To a network trained with Poisson-like noise, that noise adds less than half as "
    "much error as to the L2 network.",
    below=0.5,
)
resists("separate")(
    name="separate_networks_resist_noise",
    sentence="Poisson-like noise adds less error to networks that are modular by design than to "
    "the L2 network.",
    below=1.0,
    paper="more robust",
    source="abstract",
    role="headline",
    second=True,
    reason="separate networks have a quarter of the units per function to average noise over, "
    "which adds 1.10 times L2's error; this is the paper's own length, and 8,000 steps, tried "
    "before, gave 1.06",
)
add(
    name="one_output_learns_anew",
    sentence="In all networks one output learns another sine: its error falls to below a tenth.",
    score="learned_again",
    below=0.1,
    what="error after retraining over before, worst network",
    runs=THREE,
    source="ours",
    role="beyond",
)
than_l2("weight_activity")(
    name="the_penalty_protects_from_forgetting",
    sentence="While one output is retrained, the error of the others grows less than half as much "
    "as with L2 alone.",
    score="forgot_others",
    below=0.5,
    what="error that other outputs gain, relative to L2's",
    source="ours",
    role="beyond",
    second=True,
)
