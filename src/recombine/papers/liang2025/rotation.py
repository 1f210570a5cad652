"""Liang et al. 2025: a rotating digit with a gap of held-out angles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recombine.core.claim import Run, claims
from recombine.core.error import Refused
from recombine.core.experiment import Result, Training, experiment
from recombine.core.score import Score
from recombine.core.sets import box

if TYPE_CHECKING:
    from torch import Tensor, nn

    from recombine.core.diagnostic import Measured
    from recombine.core.task import Data, Split, Task
    from recombine.runs.trial import Trained

STRIP = 9  # images across the gap, including its edges; one more on each side


@dataclass(frozen=True)
class Turning(Training):
    """Rotating images, a gap of held-out angles of one of them, and a decoder."""

    classes: Literal["one", "all"] = "one"
    """One digit, with the angle as input, or all ten, with class and angle."""
    digit: int = 4
    """The digit that has a gap."""
    low: float = 160.0
    """First angle of the gap, in degrees."""
    high: float = 200.0
    """End of the gap; this angle is in the training set."""
    bank: Literal["digits", "mnist"] = "digits"
    """Source of images; seed s takes image s of each class. mnist needs `data get`."""
    data_dir: str = ""
    """Folder with the bank's files (IDX, NPZ, or PNG by class); empty uses the cache."""
    angles: int = 1000
    """Angles of each digit, evenly spaced on the circle."""
    channels: int = 32
    """Channels of the first two maps; the last has half."""
    front: int = 64
    """Units of a ReLU layer before the first map; 0 for a single linear layer (the paper's)."""
    steps: int = 600
    lr: float = 3e-3
    """Initial learning rate; it decays along a cosine."""


def world(cfg: Turning, seed: int) -> tuple[Task, Split]:
    """Build the task of a seed's images; train on all angles but the gap of one digit."""
    from recombine.core.task import Split
    from recombine.tasks.banks.bank import load
    from recombine.tasks.rotation import exemplars, rotations

    if not 0 < cfg.low < cfg.high < 360:
        raise Refused(
            f"rotation needs 0 < low < high < 360 degrees; got low={cfg.low:g} and "
            f"high={cfg.high:g}."
        )
    if not 0 <= cfg.digit <= 9 or cfg.angles < 8 or cfg.channels < 2:
        raise Refused(
            "rotation needs a digit from 0 to 9, angles >= 8 and channels >= 2; got "
            f"digit={cfg.digit}, angles={cfg.angles} and channels={cfg.channels}."
        )
    bank = load(cfg.bank, Path(cfg.data_dir) if cfg.data_dir else None)
    classes = [cfg.digit] if cfg.classes == "one" else list(range(10))
    task = rotations(exemplars(bank, classes, seed))
    row = classes.index(cfg.digit)
    shown = ~box(digit=(row, row + 1), angle=(cfg.low, cfg.high))
    circle = np.arange(cfg.angles) * 360 / cfg.angles
    which = np.repeat(np.arange(len(classes)), cfg.angles)
    z = np.stack([which, np.tile(circle, len(classes))], axis=1)
    query = task.data(z, chunk=1024)  # rotation needs many times the memory of an image
    inside = shown.contains(task.space, query.z)
    if inside.all():
        raise Refused(
            f"None of {cfg.angles} angles lies in the gap; use more angles or a wider gap."
        )
    return task, Split(shown, query.take(inside), query, inside)


def drawing_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """Squared error plus a tenth of the absolute error, the authors' loss."""
    error = prediction - target
    return error.square().mean() + 0.1 * error.abs().mean()


def strip(cfg: Turning, task: Task, model: nn.Module) -> dict[str, Any]:
    """Outputs at angles across the gap, next to true images and cross-fades."""
    from recombine.core.diagnostic import predict

    step = (cfg.high - cfg.low) / (STRIP - 1)
    at = np.linspace(cfg.low, cfg.high, STRIP)
    at = np.concatenate([[max(0.0, cfg.low - step)], at, [min(360.0, cfg.high + step)]])
    row = cfg.digit if cfg.classes == "all" else 0
    data = task.data(np.stack([np.full(len(at), row), at], axis=1))
    truth = data.y.numpy()
    share = ((at - cfg.low) / (cfg.high - cfg.low)).clip(0, 1)[:, None, None]
    return {
        "strip_angle": at,
        "strip_truth": truth,
        "strip_drawn": predict(model, data.x),
        "strip_fade": ((1 - share) * truth[1] + share * truth[-2]).astype(np.float32),
    }


@experiment(
    smoke={"angles": 36, "channels": 4, "front": 8, "steps": 4},
    # 200 epochs of the 889 training angles.
    paper={"bank": "mnist", "channels": 128, "front": 0, "steps": 5600, "lr": 1e-3},
    seeds_per_job=lambda cfg: 1,
    scores=[
        Score("strip_angle", "angles across the gap", draw="none"),
        Score("strip_truth", "true images at these angles", draw="none"),
        Score("strip_drawn", "outputs at these angles", draw="none"),
        Score("strip_fade", "cross-fades of the gap's edges", draw="none"),
    ],
)
def rotation(cfg: Turning, seeds: Sequence[int]) -> list[Result]:
    """A decoder of a rotated digit is tested on a gap of held-out angles."""
    from recombine.models.decoders import upsampler
    from recombine.runs.trial import trial
    from recombine.training.fit import cosine

    tasks, splits = zip(*[world(cfg, seed) for seed in seeds], strict=True)

    def build(data: Data, seed: int) -> nn.Module:
        channels = (cfg.channels, cfg.channels, cfg.channels // 2)
        return upsampler(data, channels=channels, front=cfg.front, seed=seed)

    def further(trained: Trained) -> Measured:
        return strip(cfg, trained.observed.task, trained.model)

    return trial(
        cfg,
        seeds,
        tasks,
        splits,
        build,
        diagnostics=("risk", "crossfade", "angle", "examples"),
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


add = claims("liang2025.rotation")
fades = partial(
    add,
    score="fade_share",
    above=0.5,
    what="position between the true image (0) and the cross-fade (1)",
)

add(
    name="rotations_are_fitted",
    sentence="In distribution, one rotating digit is reconstructed, and so are ten.",
    score="risk_id",
    below=0.1,
    what="larger in-distribution error / blank image's",
    runs=lambda size: {"one digit": {}, "ten digits": ten(size)},
    source="ours",
    role="control",
)
fades(
    name="the_gap_is_cross_faded",
    sentence="Outputs in a gap of held-out angles are closer to a cross-fade of its edges than to "
    "the true images.",
    runs={"one digit": {}},
    paper="a superposition, judged by eye",
    source="README; authors' notebook",
)
add(
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
fades(
    name="ten_digits_are_cross_faded",
    sentence="With nine other digits trained at all angles, outputs are closer to the cross-fade "
    "as well.",
    runs=lambda size: {"ten digits": ten(size)},
    source="ours (the authors' network does not receive the class)",
    role="beyond",
)
add(
    name="other_digits_do_not_halve_the_error",
    sentence="Nine other digits, trained at all angles, do not halve the error in the gap.",
    score="risk_ood",
    compare="ten / one",
    above=0.5,
    what="held-out error of ten digits / of one",
    runs=lambda size: {"one": {"low": 140.0}, "ten": ten(size)},
    source="ours",
    role="beyond",
)
