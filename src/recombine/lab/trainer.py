"""The training process: fits the networks of a state and sends frames over a pipe."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import Empty, Queue
from typing import Any

import torch
from torch import nn

from recombine.base.error import Refused
from recombine.lab.network import Problem, frame, prepared, run
from recombine.lab.state import State
from recombine.lab.worlds import World, builtin, from_table
from recombine.measures.observed import predict
from recombine.training.cpu import prepare_cpu
from recombine.training.watch import Moment

FRAME = 0.05  # seconds between two frames at least
MEASURING = 0.05  # largest share of the time that frames take
SLOW = 0.25  # seconds that a step takes in slow motion


class Reporter:
    """Answers the page between steps: frames, pauses, single steps and outputs of one cell."""

    def __init__(
        self,
        pipe: Connection,
        problem: Problem,
        models: Sequence[nn.Module],
        commands: Queue[dict[str, Any]],
    ) -> None:
        self.pipe, self.problem, self.models, self.commands = pipe, problem, models, commands
        self.started = list(models)  # models that train or have trained
        self.paused = self.slow = False
        self.single = 0  # steps to take while paused
        self.cell: tuple[int, int] | None = None
        self.last, self.interval = 0.0, FRAME

    def watch(self, moment: Moment) -> None:
        """Send a frame if it is time, and carry out the page's commands."""
        while not self.commands.empty():
            self.take(self.commands.get(), moment)
        if self.paused or self.slow or time.monotonic() - self.last >= self.interval:
            self.started = list(self.models[: moment.rows[-1] + 1])
            start = time.monotonic()
            moment.fetch()
            self.frame(round(moment.share * moment.steps), moment.steps)
            self.interval = max(FRAME, (time.monotonic() - start) / MEASURING)
        if self.slow:
            self.wait(SLOW, moment)
        while self.paused and not self.single:
            self.wait(1.0, moment)
        self.single = max(0, self.single - 1)

    def wait(self, seconds: float, moment: Moment) -> None:
        """Wait for a command, or for some time."""
        with suppress(Empty):
            self.take(self.commands.get(timeout=seconds), moment)

    def take(self, command: dict[str, Any], moment: Moment | None = None) -> None:
        """Carry out one command."""
        action = command["action"]
        if action in ("pause", "resume"):
            self.paused = action == "pause"
        if action == "step":
            self.paused, self.single = True, self.single + 1
        if action == "slow":
            self.slow = bool(command["on"])
        if command.get("cell"):
            self.cell = command["cell"]
            if moment:
                moment.fetch()
            self.send({"type": "drawing", **self.drawing()})

    def drawing(self) -> dict[str, Any]:
        """Return the mean output of the models at the hovered cell."""
        p = self.problem
        if self.cell is None or not (self.cell[0] < p.shape[0] and self.cell[1] < p.shape[1]):
            return {}
        row = self.cell[0] * p.shape[1] + self.cell[1]
        mean = torch.stack([predict(m, p.grid.x[row : row + 1]) for m in self.started]).mean(dim=0)
        values = p.truth.picture(mean[0].double().nan_to_num().cpu().numpy())
        return {"cell": self.cell, "drawing": values}

    def frame(self, step: int, steps: int) -> None:
        """Measure every cell and send it."""
        self.send(frame(self.problem, self.started, step, steps) | self.drawing())
        self.last = time.monotonic()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self.pipe.send_bytes(json.dumps(message, separators=(",", ":")).encode())


def train(
    pipe: Connection, world: World, state: State, commands: Queue[dict[str, Any]]
) -> dict[str, Any]:
    """Train the networks of one state, report, and return the next job."""
    (p, models), net = prepared(world, state), state.net
    for model in models:
        model.eval()
    reporter = Reporter(pipe, p, models, commands)
    start = time.perf_counter()
    count = sum(w.numel() for w in models[0].parameters())
    about = {"parameters": count, "seeds": net.seeds, "process": os.getpid()}
    reporter.send({"type": "started", **about})
    reporter.frame(0, net.steps)
    histories = run(p, models, net, reporter.watch)
    reporter.started = models
    diverged = [h.diverged for h in histories if h.diverged is not None]
    if not diverged:
        reporter.frame(net.steps, net.steps)
    end = ("diverged", min(diverged)) if diverged else ("done", net.steps)
    seconds = round(time.perf_counter() - start, 2)
    reporter.send({"type": end[0], "step": end[1], "seconds": seconds})
    while "state" not in (command := commands.get()):  # hovered cells are still drawn
        reporter.take(command)
    return command


def main(pipe: Connection) -> None:
    """Run one job after another and report; exit when the parent is gone."""
    prepare_cpu()
    inbox: Queue[dict[str, Any]] = Queue()

    def listen() -> None:
        while True:
            try:
                inbox.put(pipe.recv())
            except (EOFError, OSError):
                os._exit(0)  # nobody is left to report to

    threading.Thread(target=listen, daemon=True).start()
    job = inbox.get()
    while True:
        try:
            world = from_table(job["table"]) if job["table"] else builtin()[job["state"].world]
            job = train(pipe, world, job["state"], inbox)
        except Refused as problem:
            pipe.send_bytes(json.dumps({"type": "refused", "error": str(problem)}).encode())
            while "state" not in (job := inbox.get()):
                continue
        except BrokenPipeError:
            return
