"""The lab as an experiment: a painted support, trained from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

from recombine.base.error import Refused
from recombine.claims.experiment import Result
from recombine.lab import theory
from recombine.lab.network import build, errors, problem, run
from recombine.lab.painted import Painted
from recombine.lab.state import Net, State, parse
from recombine.lab.upload import open_table
from recombine.lab.worlds import World, builtin, from_table
from recombine.measures.trial import on_device


def state_of(cfg: Painted) -> tuple[State, World]:
    """Turn a config into a state of the lab and its world."""
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


def painted(cfg: Painted, seeds: Sequence[int]) -> list[Result]:
    """A network trains on the combinations that a person painted and is tested on the others."""
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
