"""Wiedemer et al. 2023: networks that compose two sprites are right on pairs never shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import vmap

from recombine.core.claim import Verdict, claim, decide, scores
from recombine.core.diagnostic import Observed, measure, observe
from recombine.core.experiment import Result, experiment
from recombine.core.space import Mask, Points
from recombine.core.task import Data, Split, Task
from recombine.diagnostics.examples import examples
from recombine.diagnostics.sufficiency import Certificate, sufficiency
from recombine.maps.compose import Part, compose
from recombine.models.compositional import compositional, monolithic
from recombine.runs.record import Record
from recombine.tasks.drawing.sprite import shrink, visible
from recombine.tasks.sprites import sprite_support
from recombine.tasks.sprites import sprites as pairs
from recombine.training.fit import cosine, fit

Run = Mapping[str, Any]

ENOUGH = 0.5  # R² on all pairs above which a run counts as a success


@dataclass(frozen=True)
class Sprites:
    """Two sprites, the first in front; which pairs are shown, and what learns to draw them."""

    model: Literal["compositional", "monolithic"] = "compositional"
    """compositional draws each sprite and combines the two; monolithic draws the pair."""
    combine: Literal["sigmoid", "alpha", "add"] = "sigmoid"
    """How the compositional model combines: soft occlusion, opacity (RGBa), or a sum."""
    shared: bool = False
    """Let one network draw both sprites (compositional)."""
    support: str = "orthogonal"
    """Pairs shown: random, orthogonal, star, broad, normal, gap, or diagonal(delta)."""
    factors: str = "x,y,shape,scale,hue"
    """What varies of each sprite."""
    side: int = 16
    """Pixels along one side of the image."""
    finer: int = 2
    """Images are composed this many times larger, then averaged."""
    smallest: float = 0.2
    largest: float = 0.45
    """Sides of the smallest and the largest square, as shares of the image."""
    inputs: Literal["standard", "scaled", "unit"] = "standard"
    """How latents are given: centered and of unit variance, as values, or within [0, 1]."""
    samples: int = 16_000
    asked: int = 4096
    """Pairs asked, drawn uniformly from all."""
    width: int = 128
    depth: int = 3
    channels: int = 0
    """Channels of upsampling networks; 0 takes MLPs."""
    steps: int = 3000
    batch: int = 64
    lr: float = 3e-3
    decay: float = 1e-5
    """Weight decay of AdamW."""
    tried: int = 16
    """Values of each sprite at which the certificate takes the rank."""
    partners: int = 64
    """Other sprites with which each of them is paired there, at most."""


def world(cfg: Sprites, objects: int = 2, times: int = 1) -> Task:
    """Make the task, or that of one sprite alone on images `times` larger."""
    return pairs(
        size=cfg.side * times,
        objects=objects,
        factors=cfg.factors,
        smallest=cfg.smallest,
        largest=cfg.largest,
        inputs=cfg.inputs,
        finer=cfg.finer // times,
    )


def alone(cfg: Sprites, *, opacity: bool = False) -> Part:
    """Draw one sprite on black where it is composed, before averaging: a true component.

    A sprite is nowhere black, so it is opaque where it is not.
    """
    targets = world(cfg, 1, cfg.finer).targets

    def draw(z: Tensor) -> Tensor:
        rgb = vmap(targets, chunk_size=4096)(z)
        if not opacity:
            return rgb
        return torch.cat([rgb, (rgb.sum(dim=1, keepdim=True) > 0).to(rgb)], dim=1)

    return draw


def certify(cfg: Sprites, combine: str, support: str, tried: int) -> Certificate:
    """Test whether pairs shown determine the true sprites, were they composed in some way."""
    f = compose([alone(cfg, opacity=combine == "alpha")] * 2, combine)
    return sufficiency(
        f, world(cfg).space, sprite_support(support, cfg.factors),
        tried=tried, n=cfg.partners, repair=False,
    )  # fmt: skip


def pixels(cfg: Sprites, marked: Mask) -> NDArray[np.float64]:
    """Average marks of (channels, rows, columns), where sprites are composed, over pixels."""
    fine = torch.from_numpy(marked).any(dim=0, keepdim=True).double()
    return np.asarray(shrink(fine, cfg.finer)[0])


def hidden(cfg: Sprites, held: Certificate) -> float:
    """Give the share of sprite 2 itself that is undetermined, mean over values tried."""
    ranks = held.ranks["sprite2"]
    drawn = alone(cfg)(torch.tensor([r.value for r in ranks])).sum(dim=1) > 0
    lost = torch.stack([torch.from_numpy(r.lost).any(dim=0) for r in ranks])
    shares = (drawn & lost).flatten(1).sum(dim=1) / drawn.flatten(1).sum(dim=1).clamp(min=1)
    return float(shares.mean())


@dataclass(frozen=True)
class Certified:
    """What the rank condition says of a run, before any training."""

    scores: dict[str, float]
    lost: NDArray[np.float64]
    """Share of each pixel in which sprite 2 is undetermined, under hard occlusion."""
    named: Mask
    """Pixels of sprite 2 that are undetermined without the third plane (`star`)."""


def certified(cfg: Sprites) -> Certified:
    """Take ranks for hard occlusion, which makes the images, and for opacity if a model has it."""
    hard = certify(cfg, "step", cfg.support, cfg.tried)
    own = hard if cfg.combine != "alpha" else certify(cfg, "alpha", cfg.support, cfg.tried)
    found = {"hidden_2": hidden(cfg, hard)}
    for k in (1, 2):
        worst = own.worst(f"sprite{k}")
        found[f"determined_{k}"] = worst.stack / worst.width
    named = certify(cfg, "step", "star", 1).lost("sprite2")
    return Certified(found, pixels(cfg, hard.lost("sprite2")), pixels(cfg, named) == 1)


def behind(cfg: Sprites, z: Points) -> Tensor:
    """Tell which pixels (n, rows, columns) show mostly sprite 2."""
    draw, dim = alone(cfg), z.shape[1] // 2
    points = torch.as_tensor(z, dtype=torch.float32)
    cover = [draw(points[:, at : at + dim]).sum(dim=1) > 0 for at in (0, dim)]
    return shrink(visible(torch.stack(cover, dim=1).float())[:, 1], cfg.finer) > 0.5


def by_pixel(cfg: Sprites, seen: Observed, named: Mask) -> tuple[dict[str, float], dict[str, Any]]:
    """Compare the error of sprite 2 in named pixels with its error in others of the same scenes.

    Only pixels that show sprite 2 count, in scenes in which it shows in a named pixel.
    """
    query = seen.split.query
    error = (seen.outputs - query.y).square().mean(dim=1)
    shows, lost = behind(cfg, query.z), torch.from_numpy(named)
    count = shows.sum(dim=0)
    mean = (error * shows).sum(dim=0) / count.where(count > 0, torch.nan)
    arrays = {"error_pixels": mean.numpy(), "named_pixels": named}
    there = (shows & lost).flatten(1).any(dim=1)
    inside, outside = shows[there] & lost, shows[there] & ~lost
    if not (inside.any() and outside.any()):
        return {}, arrays
    a, b = (float(error[there][rows].double().mean()) for rows in (inside, outside))
    return {"error_named": a, "error_others": b, "named_ratio": a / max(b, 1e-12)}, arrays


def build(cfg: Sprites, data: Data, seed: int) -> nn.Module:
    """Build the model that a config names."""
    size: dict[str, Any] = {"width": cfg.width, "depth": cfg.depth, "seed": seed}
    size["channels"] = cfg.channels or None
    if cfg.model == "monolithic":
        return monolithic(data, **size)
    return compositional(data, combine=cfg.combine, shared=cfg.shared, **size)


def worlds(cfg: Sprites, seeds: Sequence[int]) -> tuple[Task, list[Split]]:
    """Make the task and what each seed is shown of it."""
    task, support = world(cfg), sprite_support(cfg.support, cfg.factors)
    rngs = [np.random.default_rng(seed) for seed in seeds]
    return task, [task.split(support, n=cfg.samples, asked=cfg.asked, rng=r) for r in rngs]


@experiment(
    smoke={
        "samples": 32, "asked": 96, "width": 8, "depth": 1, "steps": 4, "batch": 16, "tried": 2,
        "partners": 4,
    },
    paper={
        "side": 64, "finer": 1, "smallest": 0.09, "largest": 0.22, "inputs": "scaled",
        "samples": 100_000, "asked": 10_000, "width": 256, "channels": 32, "batch": 512,
        "steps": 392_000,
        "lr": 1e-3,
    },
    seeds_per_job=lambda cfg: 1 if cfg.channels else 5,
)  # fmt: skip
def sprites(cfg: Sprites, seeds: Sequence[int]) -> list[Result]:
    """A network sees some pairs of sprites, and is asked to draw all pairs."""
    about = certified(cfg)
    task, splits = worlds(cfg, seeds)
    models = [build(cfg, s.train, seed) for s, seed in zip(splits, seeds, strict=True)]
    histories = fit(
        models,
        [s.train for s in splits],
        steps=cfg.steps,
        batch=cfg.batch,
        lr=cfg.lr,
        options={"weight_decay": cfg.decay},
        schedule=cosine(0.01),
        seed=seeds,
    )
    results = []
    for model, split, history in zip(models, splits, histories, strict=True):
        seen = observe(model, task, split)
        found, arrays = measure(seen, ("explained", "block_map", "gallery"))
        for group in ("id", "all"):
            found[f"mse_{group}"] = (1 - found[f"r2_{group}"]) * found[f"variance_{group}"]
        found["success"] = float(found["r2_all"] > ENOUGH)
        where, drawn = by_pixel(cfg, seen, about.named)
        found |= about.scores | where
        arrays |= drawn | examples(seen) | {"lost_pixels": about.lost}
        results.append(Result(found, arrays, history))
    return results


def own(size: str, model: str) -> Run:
    """Give the monolithic network as many numbers to learn as the two components have."""
    if model != "monolithic" or size == "smoke":
        return {}
    return {"width": 320, "channels": 64} if size == "paper" else {"width": 218}


def shown(
    *supports: str, model: str = "compositional", **fields: Any
) -> Callable[[str], list[Run]]:
    """List a run for every support, with the model's own settings at each size."""
    return lambda size: [
        {"support": s, "model": model, **fields, **own(size, model)} for s in supports
    ]


def both(*parts: Callable[[str], list[Run]]) -> Callable[[str], list[Run]]:
    """Join lists of runs."""
    return lambda size: [run for part in parts for run in part(size)]


def r2(records: Sequence[Record], support: str, name: str = "r2_all", **where: Any) -> Any:
    """Give a score of one setting, a number a seed."""
    kind = {"model": "compositional", "combine": "sigmoid", **where}
    return scores(records, name, support=support, **kind)


MONOLITHIC = shown("orthogonal", model="monolithic")
OPACITY = shown("orthogonal", combine="alpha", shared=True)
WIDE, NARROW = "diagonal(0.2)", "diagonal(0.05)"
EXPERIMENT = "wiedemer2023.sprites"
DIFFERENCE = "R² on all pairs, difference within a seed"


@claim(EXPERIMENT, runs=shown("orthogonal"), paper="0.951")
def composing_models_draw_new_pairs(records: Sequence[Record]) -> Verdict:
    """Trained on three planes of pairs, a compositional model draws all pairs."""
    return decide(r2(records, "orthogonal"), above=0.6, what="R² on all pairs")


@claim(EXPERIMENT, runs=shown("orthogonal"), paper="0.957 - 0.951 = 0.006")
def composing_models_lose_little(records: Sequence[Record]) -> Verdict:
    """A compositional model draws all pairs nearly as well as pairs like those it was shown."""
    lost = r2(records, "orthogonal", "r2_id") - r2(records, "orthogonal")
    return decide(lost, below=0.15, what="R² on pairs as shown minus R² on all pairs")


@claim(EXPERIMENT, runs=MONOLITHIC, paper="0.948")
def monolithic_models_fit(records: Sequence[Record]) -> Verdict:
    """A monolithic model of the same size draws pairs like those it was shown."""
    found = r2(records, "orthogonal", "r2_id", model="monolithic")
    return decide(found, above=0.7, what="R² on pairs as shown")


@claim(EXPERIMENT, runs=MONOLITHIC, paper="-0.500")
def monolithic_models_fail_on_new_pairs(records: Sequence[Record]) -> Verdict:
    """On all pairs, the monolithic model is worse than the mean image."""
    found = r2(records, "orthogonal", model="monolithic")
    return decide(found, below=0.0, what="R² on all pairs")


@claim(EXPERIMENT, runs=shown("random", model="monolithic"), paper="0.931")
def monolithic_models_draw_all_pairs_when_shown(records: Sequence[Record]) -> Verdict:
    """Shown pairs of every kind, the monolithic model draws all pairs."""
    found = r2(records, "random", model="monolithic")
    return decide(found, above=0.6, what="R² on all pairs")


@claim(EXPERIMENT, runs=both(shown("orthogonal"), MONOLITHIC), paper="0.951 + 0.500 = 1.451")
def composing_makes_the_difference(records: Sequence[Record]) -> Verdict:
    """From the same pairs, the compositional model explains more by the whole variance."""
    gap = r2(records, "orthogonal") - r2(records, "orthogonal", model="monolithic")
    return decide(gap, above=1.0, what=DIFFERENCE)


@claim(EXPERIMENT, runs=shown("random", "orthogonal"), paper="0.957 - 0.951 = 0.006")
def random_pairs_are_no_worse(records: Sequence[Record]) -> Verdict:
    """Random pairs serve a compositional model at least as well as three planes."""
    gap = r2(records, "random") - r2(records, "orthogonal")
    return decide(gap, above=-0.02, what=DIFFERENCE)


@claim(EXPERIMENT, runs=shown("orthogonal", WIDE), paper="0.951 - 0.955 = -0.004")
def a_wide_band_serves_like_planes(records: Sequence[Record]) -> Verdict:
    """A wide band of similar pairs serves a compositional model like three planes."""
    gap = r2(records, "orthogonal") - r2(records, WIDE)
    return decide(gap, above=-0.1, below=0.1, what=DIFFERENCE)


@claim(EXPERIMENT, runs=shown("orthogonal", "normal"), paper="0.951 - 0.951 = 0.000")
def density_does_not_matter(records: Sequence[Record]) -> Verdict:
    """The same planes with another density serve alike: the support is what counts."""
    gap = r2(records, "orthogonal") - r2(records, "normal")
    return decide(gap, above=-0.05, below=0.05, what=DIFFERENCE)


@claim(EXPERIMENT, runs=shown("orthogonal", "gap"), paper="0.951 - 0.895 = 0.056")
def a_gap_costs(records: Sequence[Record]) -> Verdict:
    """A gap in the places of sprite 1 (support not connected) costs something."""
    gap = r2(records, "orthogonal") - r2(records, "gap")
    return decide(gap, above=0.0, what=DIFFERENCE)


@claim(EXPERIMENT, runs=shown("orthogonal", "star"), paper="0.951 - 0.869 = 0.082")
def a_missing_plane_costs(records: Sequence[Record]) -> Verdict:
    """Without the third plane (support not sufficient) something is lost."""
    gap = r2(records, "orthogonal") - r2(records, "star")
    return decide(gap, above=0.0, what=DIFFERENCE)


@claim(EXPERIMENT, runs=shown(WIDE, NARROW), paper="0.955 - 0.589 = 0.366")
def a_narrow_band_costs(records: Sequence[Record]) -> Verdict:
    """In a narrow band sprite 2 is mostly hidden, and a compositional model learns less of it."""
    gap = r2(records, WIDE) - r2(records, NARROW)
    return decide(gap, above=0.0, what=DIFFERENCE)


@claim(EXPERIMENT, runs=shown(NARROW), paper="2 of 5 seeds")
def a_narrow_band_succeeds_by_luck(records: Sequence[Record]) -> Verdict:
    """In a narrow band some seeds succeed (R² above 0.5 on all pairs) and others do not."""
    found = r2(records, NARROW, "success")
    return decide(found, above=0.0, below=1.0, what="share of seeds that succeed")


@claim(
    EXPERIMENT,
    runs=both(shown("star", "gap"), MONOLITHIC),
    paper="0.869 + 0.500 = 1.369",
)
def broken_conditions_beat_a_monolith(records: Sequence[Record]) -> Verdict:
    """With a gap or a missing plane, composing still explains more by the whole variance."""
    least = np.minimum(r2(records, "star"), r2(records, "gap"))
    gap = least - r2(records, "orthogonal", model="monolithic")
    return decide(gap, above=1.0, what=DIFFERENCE)


def opaque(records: Sequence[Record]) -> Any:
    """Give R² with opacity where the certificate says that sprite 2 is undetermined, else -1."""
    violated = r2(records, "orthogonal", "determined_2", combine="alpha") < 1
    return np.where(violated, r2(records, "orthogonal", combine="alpha"), -1.0)


@claim(EXPERIMENT, runs=OPACITY, paper="0.979 (3 seeds; 2 more collapsed)")
def opacity_generalizes_without_the_condition(records: Sequence[Record]) -> Verdict:
    """Parts with opacity violate the rank condition, yet such a model draws all pairs."""
    return decide(opaque(records), above=0.6, what="R² on all pairs")


@claim(EXPERIMENT, runs=both(shown("orthogonal"), OPACITY), paper="0.979 - 0.951 = 0.028")
def opacity_does_best(records: Sequence[Record]) -> Verdict:
    """One network with opacity for both sprites does better than two with soft occlusion."""
    return decide(opaque(records) - r2(records, "orthogonal"), above=0.0, what=DIFFERENCE)


@claim(EXPERIMENT, runs=shown("star"))
def what_the_certificate_names_is_lost(records: Sequence[Record]) -> Verdict:
    """Without the third plane, sprite 2 is drawn worse in the pixels that the certificate names."""
    ratio = r2(records, "star", "named_ratio")
    return decide(ratio, above=2.0, what="error of sprite 2 in named pixels / in others")


@claim(EXPERIMENT, runs=shown("star", "orthogonal"))
def the_third_plane_repairs_these_pixels(records: Sequence[Record]) -> Verdict:
    """With the third plane, sprite 2 is drawn better in the pixels that it shows."""
    times = r2(records, "star", "error_named") / r2(records, "orthogonal", "error_named")
    return decide(times, above=2.0, what="error of sprite 2 there, without / with the third plane")


@claim(EXPERIMENT, runs=shown("star", "orthogonal"))
def these_pixels_are_not_hard_in_themselves(records: Sequence[Record]) -> Verdict:
    """The named pixels stand out less once the third plane is shown."""
    times = r2(records, "star", "named_ratio") / r2(records, "orthogonal", "named_ratio")
    return decide(times, above=1.0, what="ratio named / others, without / with the third plane")


SUFFICIENT, HIDING = ("random", "orthogonal", WIDE), ("star", NARROW)


@claim(EXPERIMENT, runs=shown(*SUFFICIENT, *HIDING), paper="0.951 - 0.869 = 0.082")
def the_certificate_tells_supports_apart(records: Sequence[Record]) -> Verdict:
    """Supports that leave over 5 % of sprite 2 undetermined do worse than those with under 1 %."""
    said = max(r2(records, s, "hidden_2").max() for s in SUFFICIENT) < 0.01
    said &= min(r2(records, s, "hidden_2").min() for s in HIDING) > 0.05
    best = np.max([r2(records, s) for s in HIDING], axis=0)
    gap = np.min([r2(records, s) for s in SUFFICIENT], axis=0) - best
    return decide(gap if said else np.minimum(gap, -1.0), above=0.0, what=DIFFERENCE)
