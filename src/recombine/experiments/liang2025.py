"""Liang et al. 2025: decoders with perfectly disentangled inputs fail on a hidden square."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from torch import nn

from recombine.claim import Verdict, decide, scores
from recombine.error import Refused
from recombine.experiment import Record, Result
from recombine.models.decoders import cnn, mlp, outer
from recombine.observation import examples, measure, observe
from recombine.registry import claim, experiment
from recombine.support import box, cross, values
from recombine.task import Data, Split, Task
from recombine.tasks.bumps import bumps, hole, striped_bumps
from recombine.train import cosine, fit

Run = Mapping[str, Any]


@dataclass(frozen=True)
class Square:
    """A bump world with a hidden region, a decoder, and how long it trains."""

    decoder: Literal["mlp", "cnn", "outer"] = "mlp"
    """mlp and cnn are standard; outer draws each factor on its own and multiplies."""
    encoding: Literal["population", "one_hot", "ramp"] = "population"
    """How each coordinate is written: a bump of activity, one unit, or the number itself."""
    hole: str = "center"
    """What is hidden: center, corner, or low:high,low:high for x and y (half-open)."""
    side: int = 14
    """Pixels along one side of the image, and positions along each axis."""
    sigma: float = 1.0
    """Width of the bump in pixels."""
    polarity: Literal["dark", "bright"] = "dark"
    stripes: float = 0.0
    """Also show stripes, images of one factor alone: this many for each bump shown."""
    absent: Literal["zeros", "mean", "outside"] = "zeros"
    """How a stripe's absent factor is encoded."""
    samples: int = 0
    """Training examples drawn with replacement; 0 shows every cell of the support once."""
    width: int = 256
    """Units a layer (mlp)."""
    channels: int = 32
    """Channels a layer (cnn)."""
    depth: int = 3
    """Hidden layers (mlp, cnn)."""
    steps: int = 4000
    batch: int = 32
    lr: float = 1e-3


def worlds(cfg: Square, seeds: Sequence[int]) -> tuple[Task, list[Split]]:
    """Make the task and what each seed is shown of it."""
    if cfg.stripes < 0:
        raise Refused(f"{cfg.stripes:g} stripes a bump were asked for; give 0 or more.")
    kind = (cfg.side, cfg.sigma, cfg.polarity, cfg.encoding)
    task = striped_bumps(*kind, absent=cfg.absent) if cfg.stripes else bumps(*kind)
    shown = ~hole(cfg.hole, cfg.side)
    rngs = [np.random.default_rng(seed) for seed in seeds]
    if not cfg.stripes:
        return task, [task.split(shown, n=cfg.samples or None, rng=rng) for rng in rngs]
    whole = box(x=(0, cfg.side), y=(0, cfg.side))
    lonely = cross(x=[cfg.side], y=[cfg.side]) - values(x=[cfg.side], y=[cfg.side])
    splits = []
    for rng in rngs:
        plain = task.split(shown & whole, n=cfg.samples or None, rng=rng, query=whole)
        z = np.resize(lonely.points(task.space), (round(cfg.stripes * len(plain.train)), 2))
        both = task.data(np.concatenate([plain.train.z, z]))
        splits.append(replace(plain, train=both))
    return task, splits


def build(cfg: Square, data: Data, seed: int) -> nn.Module:
    """Build the decoder that a config names."""
    if cfg.decoder == "mlp":
        return mlp(data, width=cfg.width, depth=cfg.depth, seed=seed)
    if cfg.decoder == "cnn":
        return cnn(data, channels=cfg.channels, depth=cfg.depth, seed=seed)
    return outer(data, seed=seed)


@experiment(
    smoke={"side": 7, "steps": 30, "width": 16, "channels": 4, "depth": 1},
    paper={"side": 28, "samples": 2000, "channels": 64, "steps": 12500},
    together=lambda cfg: 1 if cfg.decoder == "cnn" else 8,
)
def hidden_square(cfg: Square, seeds: Sequence[int]) -> list[Result]:
    """A decoder sees a bump everywhere except in a square, and is asked to draw it there."""
    task, splits = worlds(cfg, seeds)
    models = [build(cfg, s.train, seed) for s, seed in zip(splits, seeds, strict=True)]
    histories = fit(
        models,
        [s.train for s in splits],
        steps=cfg.steps,
        batch=cfg.batch,
        lr=cfg.lr,
        schedule=cosine(),
        seed=seeds,
    )
    results = []
    for model, split, history in zip(models, splits, histories, strict=True):
        seen = observe(model, task, split)
        found, arrays = measure(seen, ("risk", "position", "additivity", "error_map"))
        results.append(Result(found, arrays | examples(seen), history))
    return results


def own(size: str, decoder: str, encoding: str) -> Run:
    """Give what a decoder needs to fit what it is shown; chosen on seen combinations only."""
    if decoder == "cnn" and size == "quick":
        steps = 3000 if encoding == "ramp" else 800
        return {"depth": 4, "channels": 16, "steps": steps, "batch": 16, "lr": 3e-3}
    if decoder == "outer" and size == "quick":
        return {"steps": 1200}
    if decoder == "cnn" and size == "paper":
        return {"depth": 4, "steps": 3125}
    return {}


def runs(decoders: Sequence[str], encodings: Sequence[str]) -> Callable[[str], list[Run]]:
    """List a run for every decoder and encoding, with the decoder's own settings at each size."""
    return lambda size: [
        {"decoder": d, "encoding": e, **own(size, d, e)} for d in decoders for e in encodings
    ]


def worst(records: Sequence[Record], name: str, pick: Any) -> Any:
    """Take, for each seed, the least favorable score over decoders and encodings."""
    found = [
        scores(records, name, decoder=d, encoding=e)
        for d, e in sorted({(r.config["decoder"], r.config["encoding"]) for r in records})
    ]
    return pick(found, axis=0)


POPULATION = runs(("mlp", "cnn"), ("population",))
RAMP = runs(("mlp", "cnn"), ("ramp",))
PLACED = "largest share of bumps within a pixel of their place"


@claim("liang2025.hidden_square", runs=POPULATION, reference="CNN: 0.015")
def decoders_fit_what_they_see(records: Sequence[Record]) -> Verdict:
    """Standard decoders (MLP, CNN) draw the bump where it was shown."""
    return decide(worst(records, "risk_id", np.max), below=0.2, what="largest ID error / blank")


@claim("liang2025.hidden_square", runs=POPULATION, reference="CNN: 0.77")
def decoders_fail_in_the_hole(records: Sequence[Record]) -> Verdict:
    """In the hidden square the same decoders are more than half as wrong as a blank image."""
    return decide(worst(records, "risk_ood", np.min), above=0.5, what="smallest OOD error / blank")


@claim("liang2025.hidden_square", runs=POPULATION)
def decoders_misplace_the_bump(records: Sequence[Record]) -> Verdict:
    """Where no neighbor was shown, they put fewer than three bumps in ten in their place."""
    return decide(worst(records, "position_deep", np.max), below=0.3, what=PLACED)


@claim("liang2025.hidden_square", runs=RAMP, reference="CNN: 0.18")
def ramp_codes_are_fitted(records: Sequence[Record]) -> Verdict:
    """With plain numbers (ramp code) as inputs, too, they draw the bump where it was shown."""
    return decide(worst(records, "risk_id", np.max), below=0.2, what="largest ID error / blank")


@claim("liang2025.hidden_square", runs=RAMP, reference="CNN: 1.22")
def ramp_codes_fail_in_the_hole(records: Sequence[Record]) -> Verdict:
    """With ramp codes, too, they are more than half as wrong as a blank image in the hole."""
    return decide(worst(records, "risk_ood", np.min), above=0.5, what="smallest OOD error / blank")


@claim("liang2025.hidden_square", runs=RAMP)
def ramp_codes_misplace_the_bump(records: Sequence[Record]) -> Verdict:
    """With ramp codes, too, they put fewer than three bumps in ten in their place."""
    return decide(worst(records, "position_deep", np.max), below=0.3, what=PLACED)


@claim("liang2025.hidden_square", runs=runs(("mlp",), ("population",)))
def failure_is_a_superposition(records: Sequence[Record]) -> Verdict:
    """What an MLP draws in the hole is closer to a sum of one image a factor than the truth is."""
    gain = scores(records, "additive_ood") - scores(records, "additive_truth")
    return decide(gain, above=0.0, what="additive share of the outputs minus that of the truth")


@claim("liang2025.hidden_square", runs=runs(("outer",), ("population",)))
def rendering_by_factor_composes(records: Sequence[Record]) -> Verdict:
    """A decoder that draws each factor on its own and multiplies is right in the hole as well."""
    return decide(scores(records, "risk_ood"), below=0.05, what="OOD error / blank")


def striped(decoder: str) -> Callable[[str], list[Run]]:
    """Show stripes beside the bumps: one for every two."""
    plain = runs((decoder,), ("population",))
    return lambda size: [{**run, "stripes": 0.5} for run in plain(size)]


@claim("liang2025.hidden_square", runs=striped("cnn"), reference="cured (no number is published)")
def stripes_cure_the_cnn(records: Sequence[Record]) -> Verdict:
    """A CNN that also sees stripes, images of one factor alone, draws the bump in the hole."""
    return decide(scores(records, "risk_ood"), below=0.35, what="OOD error / blank")


@claim("liang2025.hidden_square", runs=striped("cnn"))
def stripes_place_the_bump(records: Sequence[Record]) -> Verdict:
    """With stripes the CNN puts bumps in their place even where no neighbor was shown."""
    return decide(scores(records, "position_deep"), above=0.95, what=PLACED)


@claim("liang2025.hidden_square", runs=striped("mlp"))
def stripes_do_not_cure_the_mlp(records: Sequence[Record]) -> Verdict:
    """An MLP that also sees stripes adds them up to a cross: more wrong than a blank image."""
    return decide(scores(records, "risk_ood"), above=1.0, what="OOD error / blank")
