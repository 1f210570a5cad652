"""Liang et al. 2025: a digit that turns, with a gap of angles that are never shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from recombine.core.claim import Run, claim
from recombine.core.diagnostic import Measured, Observed, predict
from recombine.core.error import Refused
from recombine.core.experiment import Result, experiment
from recombine.core.sets import box
from recombine.core.task import Data, Split, Task
from recombine.diagnostics.crossfade import apart, edges, look_like
from recombine.models.upsampling import upsampler
from recombine.runs.trial import Trained, Training, trial
from recombine.tasks.banks.bank import load
from recombine.tasks.rotation import exemplars, rotations
from recombine.training.fit import cosine

STRIP = 9  # pictures across the gap, edges included; one more stands on each side


@dataclass(frozen=True)
class Turning(Training):
    """Images that turn, a gap of angles in which one of them is never shown, and a decoder."""

    classes: Literal["one", "all"] = "one"
    """One digit, given by the angle alone, or all ten, given by class and angle."""
    digit: int = 4
    """The digit that has a gap."""
    low: float = 160.0
    """Where the gap begins, in degrees."""
    high: float = 200.0
    """Where it ends; this angle is shown."""
    bank: Literal["digits", "mnist"] = "digits"
    """Where images come from, seed s taking image s of each class; mnist needs `data get`."""
    data_dir: str = ""
    """Folder with the bank's files (IDX, NPZ, or PNG by class); empty takes the cache."""
    angles: int = 1000
    """Angles of each digit, evenly on the circle."""
    channels: int = 32
    """Channels of the first two maps; the last has half."""
    front: int = 64
    """Units of a ReLU layer before the first map; 0 makes it by one linear layer (the paper's)."""
    steps: int = 600
    lr: float = 3e-3
    """Learning rate; it falls along a cosine."""


def world(cfg: Turning, seed: int) -> tuple[Task, Split]:
    """Make the task of a seed's images, and show all angles but the gap of one digit."""
    if not 0 < cfg.low < cfg.high < 360:
        raise Refused(
            f"A gap from {cfg.low:g} to {cfg.high:g} degrees was asked for; it must begin after 0 "
            "and end before 360."
        )
    if not 0 <= cfg.digit <= 9 or cfg.angles < 8 or cfg.channels < 2:
        raise Refused(
            f"Digit {cfg.digit} at {cfg.angles} angles with {cfg.channels} channels was asked for; "
            "give a digit from 0 to 9, 8 angles or more, and 2 channels or more."
        )
    bank = load(cfg.bank, Path(cfg.data_dir) if cfg.data_dir else None)
    classes = [cfg.digit] if cfg.classes == "one" else list(range(10))
    task = rotations(exemplars(bank, classes, seed))
    mine = classes.index(cfg.digit)
    shown = ~box(digit=(mine, mine + 1), angle=(cfg.low, cfg.high))
    circle = np.arange(cfg.angles) * 360 / cfg.angles
    which = np.repeat(np.arange(len(classes)), cfg.angles)
    z = np.stack([which, np.tile(circle, len(classes))], axis=1)
    query = task.data(z, chunk=1024)  # turning takes many times the memory of an image
    inside = shown.contains(task.space, query.z)
    if inside.all():
        raise Refused(f"No angle of {cfg.angles} lies in the gap; give more angles, or widen it.")
    return task, Split(shown, query.take(inside), query, inside)


def drawing_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """Squared error plus a tenth of the absolute one, as the authors train."""
    away = prediction - target
    return away.square().mean() + 0.1 * away.abs().mean()


def angles_off(seen: Observed) -> dict[str, float]:
    """Mean error of the angle that held-out outputs look like, theirs and the cross-fade's."""
    query, train, hidden = seen.split.query, seen.split.train, ~seen.split.inside
    mine = query.z[:, 0] == query.z[hidden][0, 0]
    drawn, truth, shown = (
        v.double().flatten(1).cpu().numpy() for v in (seen.outputs[hidden], query.y[mine], train.y)
    )
    found = edges(query.z[hidden], train.z)
    share = found.share[:, None]
    fade = (1 - share) * shown[found.lower] + share * shown[found.upper]
    true = query.z[hidden, 1]
    return {
        name: float(apart(look_like(images, truth, query.z[mine, 1]), true[rows]).mean())
        for name, images, rows in (
            ("angle_error", drawn, slice(None)),
            ("angle_error_fade", fade, found.rows),
        )
    }


def strip(cfg: Turning, task: Task, model: nn.Module) -> dict[str, Any]:
    """Draw the digit at angles across the gap, beside the truth and the cross-fade."""
    step = (cfg.high - cfg.low) / (STRIP - 1)
    at = np.linspace(cfg.low, cfg.high, STRIP)
    at = np.concatenate([[max(0.0, cfg.low - step)], at, [min(360.0, cfg.high + step)]])
    mine = cfg.digit if cfg.classes == "all" else 0
    asked = task.data(np.stack([np.full(len(at), mine), at], axis=1))
    truth = asked.y.numpy()
    share = ((at - cfg.low) / (cfg.high - cfg.low)).clip(0, 1)[:, None, None]
    return {
        "strip_angle": at,
        "strip_truth": truth,
        "strip_drawn": predict(model, asked.x),
        "strip_fade": ((1 - share) * truth[1] + share * truth[-2]).astype(np.float32),
    }


@experiment(
    smoke={"angles": 36, "channels": 4, "front": 8, "steps": 4},
    # 200 epochs of the 889 shown angles.
    paper={"bank": "mnist", "channels": 128, "front": 0, "steps": 5600, "lr": 1e-3},
    seeds_per_job=lambda cfg: 1,
)
def rotation(cfg: Turning, seeds: Sequence[int]) -> list[Result]:
    """A network draws a digit turned by an angle, and is asked for angles that were never shown."""
    tasks, splits = zip(*[world(cfg, seed) for seed in seeds], strict=True)

    def build(data: Data, seed: int) -> nn.Module:
        channels = (cfg.channels, cfg.channels, cfg.channels // 2)
        return upsampler(data, channels=channels, front=cfg.front, seed=seed)

    def further(trained: Trained) -> Measured:
        observed = trained.observed
        return angles_off(observed) | strip(cfg, observed.task, trained.model)

    return trial(
        cfg,
        seeds,
        tasks,
        splits,
        build,
        diagnostics=("risk", "crossfade", "examples"),
        after=further,
        options={"weight_decay": 1e-4},
        loss=drawing_loss,
        schedule=cosine(),
        clip=1.0,
    )


def ten(size: str) -> Run:
    """Rotate all digits, one with the authors' wider gap; steps chosen by in-distribution error."""
    steps = {"quick": {"steps": 1200}, "paper": {"steps": 56_000}}
    return {"classes": "all", "low": 140.0, **steps.get(size, {})}


BETWEEN = "position between the true image (0) and the cross-fade (1)"

claim(
    "liang2025.rotation",
    name="rotations_are_fitted",
    sentence="In distribution, one rotating digit is reconstructed, and so are ten.",
    score="risk_id",
    below=0.1,
    what="larger in-distribution error / blank image's",
    runs=lambda size: {"one digit": {}, "ten digits": ten(size)},
    source="ours",
    role="control",
)
claim(
    "liang2025.rotation",
    name="the_gap_is_cross_faded",
    sentence="Outputs in a gap of held-out angles are closer to a cross-fade of its edges than to "
    "the true images.",
    score="fade_share",
    above=0.5,
    what=BETWEEN,
    runs={"one digit": {}},
    paper="a superposition, judged by eye",
    source="README; authors' notebook",
)
claim(
    "liang2025.rotation",
    name="edges_explain_the_gap",
    sentence="Outputs in the gap are better explained by the images at its edges than by the true "
    "images.",
    score="fade_edges - fade_truth",
    above=0.0,
    what="R² by the two edges minus R² by the true image",
    runs={"one digit": {}},
    paper="a superposition, judged by eye",
    source="README; the measure is ours",
)
claim(
    "liang2025.rotation",
    name="ten_digits_are_cross_faded",
    sentence="With nine other digits trained at all angles, outputs are closer to the cross-fade "
    "as well.",
    score="fade_share",
    above=0.5,
    what=BETWEEN,
    runs=lambda size: {"ten digits": ten(size)},
    source="ours (the authors' network does not receive the class)",
    role="beyond",
)
claim(
    "liang2025.rotation",
    name="other_digits_do_not_halve_the_error",
    sentence="Nine other digits that rotate through the gap do not halve the error in it.",
    score="risk_ood",
    compare="ten / one",
    above=0.5,
    what="held-out error of ten digits / of one",
    runs=lambda size: {"one": {"low": 140.0}, "ten": ten(size)},
    source="ours",
    role="beyond",
)
