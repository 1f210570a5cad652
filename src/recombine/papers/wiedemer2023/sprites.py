"""Wiedemer et al. 2023: networks that compose two sprites generalize to held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recombine.core.experiment import Result, Training, experiment
from recombine.core.score import POSITIVE, UNIT, Score
from recombine.core.space import Mask, Points

if TYPE_CHECKING:
    from torch import Tensor, nn

    from recombine.core.diagnostic import Measured, Observed
    from recombine.core.task import Data, Split, Task
    from recombine.diagnostics.certificate import Certificate
    from recombine.maps.compose import Part
    from recombine.runs.trial import Trained

SUCCESS = 0.5  # R² on all pairs above which a run counts as a success


@dataclass(frozen=True)
class Sprites(Training):
    """Two sprites, the first in front; the training pairs, and a decoder."""

    model: Literal["compositional", "monolithic"] = "compositional"
    """compositional renders each sprite and combines the two; monolithic renders the pair."""
    combine: Literal["sigmoid", "alpha", "add"] = "sigmoid"
    """How the compositional model combines: soft occlusion, opacity (RGBa), or a sum."""
    shared: bool = False
    """Let one network render both sprites (compositional)."""
    support: str = "orthogonal"
    """Training pairs: random, orthogonal, star, broad, normal, gap, or diagonal(delta)."""
    factors: str = "x,y,shape,scale,hue"
    """Factors of each sprite."""
    side: int = 16
    """Pixels per side."""
    finer: int = 2
    """Sprites are composed at this multiple of the resolution, then averaged."""
    smallest: float = 0.2
    """Side of the smallest square, as a share of the image."""
    largest: float = 0.45
    """Side of the largest square, as a share of the image."""
    inputs: Literal["standard", "scaled", "unit"] = "standard"
    """Latents as inputs: standardized, as values, or within [0, 1]."""
    samples: int = 16_000
    """Training pairs."""
    asked: int = 4096
    """Test pairs, drawn uniformly from all."""
    width: int = 128
    """Units per layer."""
    depth: int = 3
    """Hidden layers."""
    channels: int = 0
    """Channels of upsampling networks; 0 uses MLPs."""
    steps: int = 3000
    batch: int = 64
    lr: float = 3e-3
    decay: float = 1e-5
    """Weight decay of AdamW."""
    tried: int = 16
    """Values of each sprite at which the certificate computes the rank."""
    partners: int = 64
    """Sprites with which each of these values is paired, at most."""


def world(cfg: Sprites, objects: int = 2, times: int = 1) -> Task:
    """Build the task, or that of a single sprite at `times` the resolution."""
    from recombine.tasks.sprites import sprites as sprite_task

    return sprite_task(
        size=cfg.side * times,
        objects=objects,
        factors=cfg.factors,
        smallest=cfg.smallest,
        largest=cfg.largest,
        inputs=cfg.inputs,
        finer=cfg.finer // times,
    )


def worlds(cfg: Sprites, seeds: Sequence[int]) -> tuple[Task, list[Split]]:
    """Build the task, and split it for each seed."""
    from recombine.runs.trial import splits
    from recombine.tasks.sprites import sprite_support

    task, support = world(cfg), sprite_support(cfg.support, cfg.factors)
    return task, splits(task, support, seeds, n=cfg.samples, queries=cfg.asked)


def alone(cfg: Sprites, *, opacity: bool = False) -> Part:
    """Render one sprite on black at the resolution of the composition: a true component.

    A sprite is nowhere black, so it is opaque wherever the image is not.
    """
    import torch
    from torch.func import vmap

    targets = world(cfg, 1, cfg.finer).targets

    def draw(z: Tensor) -> Tensor:
        rgb = vmap(targets, chunk_size=4096)(z)
        if not opacity:
            return rgb
        return torch.cat([rgb, (rgb.sum(dim=1, keepdim=True) > 0).to(rgb)], dim=1)

    return draw


def certify(cfg: Sprites, combine: str, support: str, tried: int) -> Certificate:
    """Test whether training pairs determine the true sprites under a composition function."""
    from recombine.diagnostics.sufficiency import sufficiency
    from recombine.maps.compose import compose
    from recombine.tasks.sprites import sprite_support

    f = compose([alone(cfg, opacity=combine == "alpha")] * 2, combine)
    return sufficiency(
        f, world(cfg).space, sprite_support(support, cfg.factors),
        tried=tried, n=cfg.partners, repair=False,
    )  # fmt: skip


def pixels(cfg: Sprites, marked: Mask) -> NDArray[np.float64]:
    """Average marks of (channels, rows, columns) at the finer resolution over image pixels."""
    import torch

    from recombine.tasks.drawing.sprite import shrink

    fine = torch.from_numpy(marked).any(dim=0, keepdim=True).double()
    return np.asarray(shrink(fine, cfg.finer)[0])


def undetermined_share(cfg: Sprites, certificate: Certificate) -> float:
    """Share of sprite 2 itself that is undetermined, averaged over the values tried."""
    import torch

    ranks = certificate.ranks["sprite2"]
    drawn = alone(cfg)(torch.tensor([r.value for r in ranks])).sum(dim=1) > 0
    lost = torch.stack([torch.from_numpy(r.lost).any(dim=0) for r in ranks])
    shares = (drawn & lost).flatten(1).sum(dim=1) / drawn.flatten(1).sum(dim=1).clamp(min=1)
    return float(shares.mean())


def certified(cfg: Sprites) -> Measured:
    """Test the rank condition before any training, for hard occlusion and for opacity if used.

    Under hard occlusion, which renders the images, `lost_pixels` is the share of each pixel in
    which sprite 2 is undetermined; `named_pixels` are undetermined without the third plane.
    """
    hard = certify(cfg, "step", cfg.support, cfg.tried)
    certificate = hard if cfg.combine != "alpha" else certify(cfg, "alpha", cfg.support, cfg.tried)
    measured: Measured = {"hidden_2": undetermined_share(cfg, hard)}
    for k in (1, 2):
        worst = certificate.worst(f"sprite{k}")
        measured[f"determined_{k}"] = worst.stack / worst.width
    marked = pixels(cfg, certify(cfg, "step", "star", 1).lost("sprite2")) == 1
    lost = pixels(cfg, hard.lost("sprite2"))
    return measured | {"lost_pixels": lost, "named_pixels": marked}


def shows_sprite_2(cfg: Sprites, z: Points) -> Tensor:
    """Mark the pixels (n, rows, columns) that show mostly sprite 2."""
    import torch

    from recombine.tasks.drawing.sprite import shrink, visible

    draw, dim = alone(cfg), z.shape[1] // 2
    points = torch.as_tensor(z, dtype=torch.float32)
    cover = [draw(points[:, at : at + dim]).sum(dim=1) > 0 for at in (0, dim)]
    return shrink(visible(torch.stack(cover, dim=1).float())[:, 1], cfg.finer) > 0.5


def by_pixel(cfg: Sprites, observed: Observed, marked: Mask) -> Measured:
    """Compare the error of sprite 2 in marked pixels with its error in others of the same scenes.

    Only pixels that show sprite 2 count, in scenes where it is visible in a marked pixel.
    """
    import torch

    query = observed.split.query
    error = (observed.outputs - query.y).square().mean(dim=1).cpu()
    shows, lost = shows_sprite_2(cfg, query.z), torch.from_numpy(marked)
    count = shows.sum(dim=0)
    mean = (error * shows).sum(dim=0) / count.where(count > 0, torch.nan)
    measured: Measured = {"error_pixels": mean}
    scenes = (shows & lost).flatten(1).any(dim=1)
    inside, outside = shows[scenes] & lost, shows[scenes] & ~lost
    if inside.any() and outside.any():
        within, rest = (float(error[scenes][at].double().mean()) for at in (inside, outside))
        measured |= {"error_named": within, "error_others": rest}
        measured["named_ratio"] = within / max(rest, 1e-12)
    return measured


def build(cfg: Sprites, data: Data, seed: int) -> nn.Module:
    """Build the model that a config names."""
    from recombine.models.compositional import compositional, monolithic

    size: dict[str, Any] = {"width": cfg.width, "depth": cfg.depth, "seed": seed}
    size["channels"] = cfg.channels or None
    if cfg.model == "monolithic":
        return monolithic(data, **size)
    return compositional(data, combine=cfg.combine, shared=cfg.shared, **size)


def further_scores(cfg: Sprites, certificate: Measured, trained: Trained) -> Measured:
    """Return errors, success, the certificate, and errors in the pixels it marks."""
    scores = trained.scores
    measured: Measured = {
        f"mse_{group}": (1 - scores[f"r2_{group}"]) * scores[f"variance_{group}"]
        for group in ("id", "all")
    }
    measured["success"] = float(scores["r2_all"] > SUCCESS)
    marked = certificate["named_pixels"]
    return measured | certificate | by_pixel(cfg, trained.observed, marked)


@experiment(
    smoke={
        "samples": 32, "asked": 96, "width": 8, "depth": 1, "steps": 4, "batch": 16, "tried": 2,
        "partners": 4,
    },
    paper={
        "side": 64, "finer": 1, "smallest": 0.09, "largest": 0.22, "inputs": "scaled",
        "samples": 100_000, "asked": 10_000, "width": 256, "channels": 32, "batch": 512,
        "steps": 392_000, "lr": 1e-3,
    },
    seeds_per_job=lambda cfg: 1 if cfg.channels else 5,
    scores=[
        Score("success", f"1 if R² on all pairs exceeds {SUCCESS:g}", better="higher", within=UNIT),
        Score("hidden_2", "share of sprite 2 that the training pairs leave undetermined",
              within=UNIT),
        Score("determined_*", "rank of a sprite's Jacobians over the full rank", within=UNIT),
        Score("error_named", "error of sprite 2 in the pixels that two planes leave undetermined",
              within=POSITIVE),
        Score("error_others", "error of sprite 2 in other pixels of the same scenes",
              within=POSITIVE),
        Score("named_ratio", "the former error over the latter", within=POSITIVE),
        Score("error_pixels", "error of sprite 2 by pixel", better="lower", draw="matrix"),
        Score("lost_pixels", "share of a pixel's sprite 2 that is undetermined", draw="matrix"),
        Score("named_pixels", "pixels that two planes leave undetermined", draw="none"),
    ],
)  # fmt: skip
def sprites(cfg: Sprites, seeds: Sequence[int]) -> list[Result]:
    """Train a decoder on some pairs of sprites and test it on all pairs."""
    from recombine.runs.trial import trial
    from recombine.training.fit import cosine

    return trial(
        cfg,
        seeds,
        *worlds(cfg, seeds),
        partial(build, cfg),
        diagnostics=("explained", "block_map", "gallery", "examples"),
        after=partial(further_scores, cfg, certified(cfg)),
        options={"weight_decay": cfg.decay},
        schedule=cosine(0.01),
    )
