"""Liang et al. 2025: a rotating digit with a gap of held-out angles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from recombine.claims.claim import Run, claims
from recombine.claims.experiment import Result, Training, experiment
from recombine.claims.score import Score

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
    from recombine_papers.liang2025.rotation_training import rotation as run

    return run(cfg, seeds)


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
