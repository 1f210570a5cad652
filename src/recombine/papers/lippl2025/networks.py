"""Lippl & Stachenfeld 2025: whether trained ReLU networks do what the kernel theory predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from recombine.core.claim import Evidence, Run, claims, scores
from recombine.core.experiment import Result, Training, experiment
from recombine.core.score import POSITIVE, UNIT, Score
from recombine.core.space import Array
from recombine.core.support import Support
from recombine.runs.record import Record

if TYPE_CHECKING:
    from torch import nn

    from recombine.core.diagnostic import Measured
    from recombine.core.task import Data, Task
    from recombine.runs.trial import Trained
    from recombine.training.loss import Loss

# Cross-entropy lets outputs grow, so only their signs are scored then.
DIAGNOSTICS = {"mse": ("risk", "slope", "accuracy", "error_map"), "cross_entropy": ("accuracy",)}


def loss_of(name: str) -> Loss:
    """Return the loss that a config names."""
    from recombine.training.loss import margin_cross_entropy, mse

    return mse if name == "mse" else margin_cross_entropy


def world(task: str, preset: str) -> tuple[Task, Support]:
    """Build a symbolic task and its training support."""
    from recombine.tasks import symbolic

    if task == "addition":
        return symbolic.addition(), symbolic.addition_support(preset)
    if task == "context":
        return symbolic.context(), symbolic.context_support(int(preset))
    return symbolic.equivalence(), symbolic.equivalence_support()


@dataclass(frozen=True)
class Net(Training):
    """A ReLU network on a symbolic task, trained by full-batch gradient descent."""

    task: Literal["addition", "context", "equivalence"] = "addition"
    preset: str = "extrapolation"
    """Addition: extrapolation, interpolation, both, asymmetric. Context: values held out, 1–3."""
    scale: float = 1.0
    """Scale of the initial weights: 1 is lazy (a kernel), 1e-3 and less is rich."""
    width: int = 1000
    """Units per hidden layer."""
    depth: int = 1
    """Hidden layers."""
    loss: Literal["mse", "cross_entropy"] = "mse"
    """Squared error, or cross-entropy of the sign."""
    steps: int = 3000
    batch: int = 0
    lr: float = 5e-3
    stop: float = 1e-4
    """Training ends when the loss is this small."""


@experiment(
    smoke={"width": 20, "steps": 20},
    paper={"steps": 100_000},
    scores=[
        Score("additivity", "R² of held-out outputs by sums over seen conjunctions",
              unit="share of variance", summary=True, within=UNIT),
        Score("size_*", "mean absolute value of conjunctions of that type", within=POSITIVE),
    ],
)  # fmt: skip
def networks(cfg: Net, seeds: Sequence[int]) -> list[Result]:
    """A ReLU network, lazy or rich, learns addition, context dependence or equivalence."""
    import torch

    from recombine.diagnostics.conjunctions import (
        additivity_r2,
        conjunction_values,
        context_type,
        magnitudes,
    )
    from recombine.models.networks import relu_mlp
    from recombine.runs.trial import trial

    task, support = world(cfg.task, cfg.preset)

    def build(data: Data, seed: int) -> nn.Module:
        return relu_mlp(data, width=cfg.width, depth=cfg.depth, scale=cfg.scale, seed=seed)

    def conjunctions(trained: Trained) -> Measured:
        split = trained.split
        outputs = trained.observed.outputs[:, 0].double().cpu().numpy()
        z, train = split.query.z, split.train.z
        measured: Measured = {"additivity": additivity_r2(outputs, z, train, ~split.inside)}
        if cfg.task == "context":
            sizes = magnitudes(conjunction_values(outputs, z, train), context_type)
            measured |= {f"size_{kind}": size for kind, size in sizes.items()}
        return measured

    return trial(
        cfg,
        seeds,
        task,
        task.split(support),
        build,
        diagnostics=DIAGNOSTICS[cfg.loss],
        after=conjunctions,
        stop=cfg.stop,
        optimizer=torch.optim.SGD,
        loss=loss_of(cfg.loss),
    )


FIGURE = "figure, read from the authors' PDF"
# docs/decisions/7: other rates were tried first and their held-out results seen, 0.1 and 0.02 on
# the hardest context task, 0.05 on equivalence.
RATE = "learning rate"
RICH = {"scale": 1e-3, "lr": 0.05}
SUMS: dict[str, Run] = {p: {"preset": p} for p in ("extrapolation", "interpolation", "both")}
HELD_OUT = "accuracy on held-out combinations"
add = claims("lippl2025.networks", source=FIGURE)
accuracy = partial(add, score="accuracy_ood", what=HELD_OUT)

add(
    name="lazy_networks_leak_by_one",
    sentence="A lazy network extrapolates sums with the slope of its kernel.",
    score="slope_ood",
    above=0.7134,
    below=0.7734,
    what="slope of held-out sums",
    runs={"extrapolation": SUMS["extrapolation"]},
    paper="0.746 (kernel 0.743)",
)


@add(
    above=0.8228,
    below=0.8828,
    what="mean slope of held-out sums",
    runs={p: SUMS[p] for p in ("interpolation", "both")},
    paper="0.848, 0.851 (kernel 0.853)",
    oracle="criterion: the mean slope instead of the largest difference",
)
def lazy_networks_leak_by_two(records: Evidence[Record]) -> Array:
    """With two rows and columns in the training set, a lazy network has its kernel's slope, both
    inside and outside their range.
    """
    return np.asarray(np.mean([*records.scores("slope_ood").values()], axis=0))


add(
    name="rich_networks_interpolate_better",
    sentence="A rich network, unlike a kernel, has a larger slope inside the range of the training "
    "rows than outside.",
    score="slope_ood",
    compare="interpolation - both",
    above=0.03,
    what="slope of interpolation minus that of both",
    runs={p: {**SUMS[p], **RICH} for p in ("interpolation", "both")},
    paper="0.994 and 0.912",
)
add(
    name="lazy_networks_are_additive",
    sentence="On held-out combinations a lazy network's outputs are sums over seen conjunctions.",
    score="additivity",
    above=0.98,
    what="smallest R² on held-out combinations",
    runs=SUMS,
    paper="at least 0.994",
)


def contexts(loss: str, *hidden: int) -> dict[str, Run]:
    """List context tasks by how many values are held out, under one loss."""
    longer: Run = {} if loss == "mse" else {"lr": 0.1, "stop": 1e-2}
    shared = {"task": "context", "loss": loss, **longer}
    return {f"CD-{k}": {**shared, "preset": str(k)} for k in hidden}


accuracy(
    name="cross_entropy_takes_the_shortcut",
    sentence="Under cross-entropy a lazy network is below chance on the hardest context task.",
    below=0.5,
    runs=contexts("cross_entropy", 3),
    paper="0 % (kernel)",
)


def share(records: Sequence[Record], kind: str) -> Array:
    """Divide the mean size of one kind of conjunction by the sum over all kinds, by seed."""
    kinds = ("right", "wrong", "sensory", "context", "memorization")
    sizes = {k: scores(records, f"size_{k}") for k in kinds}
    return np.asarray(sizes[kind] / sum(sizes.values()))


@add(
    above=0.2,
    what="share of the context, hardest minus easiest task",
    runs=contexts("cross_entropy", 1, 3),
    paper="0.38 against at most 0.04 (ConvNet)",
)
def the_shortcut_is_the_context(records: Evidence[Record]) -> Array:
    """In the hardest context task the network relies on the context alone, in the easiest it does
    not.
    """
    return share(records["CD-3"], "context") - share(records["CD-1"], "context")


accuracy(
    name="squared_error_avoids_the_shortcut",
    sentence="Under squared error a network is above chance on the hardest context task.",
    above=0.5,
    runs=contexts("mse", 3),
    source="ours",
    oracle=RATE,
    role="beyond",
)
accuracy(
    name="easier_contexts_are_solved",
    sentence="With fewer values held out, the network solves the context task.",
    above=0.95,
    what=f"smaller {HELD_OUT}",
    runs=contexts("cross_entropy", 1, 2),
    paper="100 % (kernel)",
)
add(
    name="lazy_networks_fail_at_equivalence",
    sentence="On transitive equivalence a lazy network has no margin, like its kernel.",
    score="margin_ood",
    above=-0.3,
    below=0.3,
    what="mean margin on held-out pairs",
    runs={"lazy": {"task": "equivalence"}},
    paper="accuracy 0.417 (chance)",
    oracle=RATE,
)
accuracy(
    name="rich_networks_solve_equivalence",
    sentence="A rich network solves transitive equivalence, which no kernel can.",
    above=0.95,
    what="accuracy on held-out pairs",
    runs={"rich": {"task": "equivalence", **RICH}},
    paper="1.0",
)
