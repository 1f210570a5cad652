"""The lab as an experiment: a painted support, trained from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from recombine.core.error import Refused
from recombine.core.experiment import Result, experiment
from recombine.core.score import POSITIVE, Score
from recombine.lab.state import Net, State, parse

if TYPE_CHECKING:
    from recombine.lab.worlds import World


@dataclass(frozen=True)
class Painted:
    """A world of two factors, its training combinations, and a network; fields are the lab's."""

    world: str = "bumps"
    levels: int = 14
    """Levels of each factor."""
    shown: str = ""
    """Training combinations as hexadecimal digits of a mask; empty trains on all."""
    table: str = ""
    """CSV file of the world 'table'."""
    factor_a: str = ""
    """Its first factor column."""
    factor_b: str = ""
    """Its second factor column."""
    target: str = ""
    """Its column of numbers."""
    fixed: str = ""
    """Other columns held at one value, as in an address: pose=left&light=dim. Rows are averaged
    over the rest."""
    kernel_depth: int = 1
    """Hidden layers of the infinitely wide network."""
    salience: float = -1.0
    """Salience of the conjunction of both factors; below 0 it follows from the depth."""
    model: str = "mlp"
    width: int = 128
    depth: int = 3
    steps: int = 2000
    batch: int = 32
    lr: float = 1e-3
    stripes: float = 0.0
    """Images of one factor alone, per training image (bumps only)."""
    penalty: str = "none"
    strength: float = 1e-3
    """Weight of the penalty in the loss."""
    noise: float = 0.0
    """Standard deviation of the activity noise at activity 1."""
    power: float = 1.0
    """Exponent of the activity in the variance of the noise."""


def state_of(cfg: Painted) -> tuple[State, World]:
    """Turn a config into a state of the lab and its world."""
    from recombine.lab.upload import open_table
    from recombine.lab.worlds import builtin, from_table

    worlds = builtin()
    if cfg.world == "table":
        if not cfg.table:
            raise Refused("The world 'table' needs a CSV file: --table file.csv.")
        columns = [name for name in (cfg.factor_a, cfg.factor_b) if name]
        fixed = dict(parse_qsl(cfg.fixed, keep_blank_values=True))
        worlds["table"] = from_table(open_table(Path(cfg.table), columns, cfg.target, fixed))
    salience = None if cfg.salience < 0 else cfg.salience
    net = {name: getattr(cfg, name) for name in Net.__dataclass_fields__ if name != "seeds"}
    plain = {"world": cfg.world, "size": cfg.levels, "shown": cfg.shown, "salience": salience}
    state = parse({**plain, "kernel_depth": cfg.kernel_depth, "net": net}, worlds)
    return state, worlds[state.world]


UNIT = "1 = best constant output"


@experiment(
    smoke={"levels": 6, "shown": "fffffc3cc0", "steps": 20, "width": 8, "depth": 1},
    family="lab",
    scores=[
        Score(
            "error_id", "error on training combinations", unit=UNIT, better="lower", within=POSITIVE
        ),
        Score(
            "error_ood",
            "error on held-out combinations",
            unit=UNIT,
            better="lower",
            summary=True,
            within=POSITIVE,
        ),
        Score(
            "kernel_ood", "the kernel's error on held-out combinations", unit=UNIT, within=POSITIVE
        ),
        Score("error_map", "error at every combination", draw="map", beside=("support",)),
        Score("support", "training combinations", draw="none"),
    ],
)
def painted(cfg: Painted, seeds: Sequence[int]) -> list[Result]:
    """A network trains on the combinations that a person painted and is tested on the others."""
    from recombine.lab import theory
    from recombine.lab.network import build, errors, problem, run
    from recombine.runs.trial import on_device

    state, world = state_of(cfg)
    p = problem(world, state)
    p = replace(p, train=on_device(p.train), grid=on_device(p.grid))
    models = [on_device(build(state.net, p, seed)) for seed in seeds]
    histories = run(p, models, state.net, seeds=seeds)
    kernel_error = theory.look(world, state)["mean_error"]
    results = []
    for error, history in zip(errors(p, models), histories, strict=True):
        scores = {"error_id": float(error[p.shown].mean())}
        if p.held_out.any():
            scores["error_ood"] = float(error[p.held_out].mean())
            scores["kernel_ood"] = float(kernel_error)
        arrays = {"error_map": error.reshape(p.shape), "support": p.shown.reshape(p.shape)}
        results.append(Result(scores, arrays, history))
    return results
