"""What the lab costs: theory after a stroke, and training that a page watches."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from queue import Queue
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure import Result, benchmark, interleave, ratio
from recombine.lab.network import build, problem, run
from recombine.lab.state import Net, State
from recombine.lab.theory import look
from recombine.lab.trainer import Reporter
from recombine.lab.worlds import builtin

STEPS = 1500


def theory_seconds(size: int, rounds: int) -> float:
    """CPU seconds of one answer about bumps; every call paints another cell, so none is cached."""
    world, rng = builtin()["bumps"], np.random.default_rng(0)

    def stroke() -> None:
        look(world, State(size=size).with_mask(rng.random((size, size)) < 0.7))

    return median(interleave({"look": stroke}, rounds)["look"])


@benchmark
def lab_theory_after_a_stroke(rounds: int) -> Result:
    """The lab's theory after a stroke on 14 × 14 and on 32 × 32 bump images, CPU time."""
    small, large = theory_seconds(14, rounds), theory_seconds(32, rounds)
    measured = f"{1000 * small:.0f} ms and {1000 * large:.0f} ms"
    return Result("under 100 ms and 300 ms", measured, small < 0.1 and large < 0.3)


@benchmark
def lab_watched_training(rounds: int) -> Result:
    """CPU time of training that the lab's page watches, over the same `fit` without a page."""
    world = builtin()["bumps"]
    mask = np.ones((14, 14), dtype=bool)
    mask[3:11, 3:11] = False
    state = State(net=Net(steps=STEPS)).with_mask(mask)
    p = problem(world, state)
    pipe = Connection(os.open(os.devnull, os.O_WRONLY), readable=False)

    def train(watched: bool) -> None:
        models = [build(state.net, p, 0)]
        commands: Queue[dict[str, Any]] = Queue()
        run(p, models, state.net, Reporter(pipe, p, models, commands).watch if watched else None)

    pieces = {"page": lambda: train(True), "alone": lambda: train(False)}
    found = ratio(interleave(pieces, rounds), "page", "alone")
    pipe.close()
    return Result("at most 1.10", f"{found:.2f}", found <= 1.1)
