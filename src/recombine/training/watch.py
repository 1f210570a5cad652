"""Callbacks of training: what they receive after each step, and a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.progress import TimeRemainingColumn as TimeLeft
from torch import Tensor, nn


@dataclass(frozen=True)
class Moment:
    """Training after one step; losses and weights are fetched only when they are read.

    - step, steps: steps done and to do, of the models that train now
    - rows: indices of the models that train now: all of them, or one after another
    - share: how much of the training of all models is done, from 0 to 1
    """

    step: int
    steps: int
    rows: Sequence[int]
    share: float
    latest: Tensor  # data loss of each model in `rows`
    fetch: Callable[[], list[nn.Module]]

    @property
    def losses(self) -> list[float]:
        """The latest data loss of each model in `rows`."""
        losses: list[float] = self.latest.tolist()
        return losses

    @property
    def models(self) -> list[nn.Module]:
        """The models in `rows` with their present weights, in evaluation mode.

        Training goes on in these modules: evaluate them before the callback returns, or copy them.
        """
        return self.fetch()


Watch = Callable[[Moment], bool | None]  # True stops training

UPDATES = 200  # of the progress bar, in all


@contextmanager
def progress_bar() -> Iterator[Watch]:
    """Show a bar in a terminal (on standard error) or a notebook, and nothing elsewhere."""
    with _notebook_bar() if _in_notebook() else _terminal_bar() as show:
        last = -1

        def watch(moment: Moment) -> None:
            nonlocal last
            tick = int(moment.share * UPDATES)
            if tick != last:
                last = tick
                losses = moment.losses
                show(moment.share, f"loss {sum(losses) / len(losses):.4g}")

        yield watch


Show = Callable[[float, str], None]  # share done, note


@contextmanager
def _terminal_bar() -> Iterator[Show]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda share, note: None
        return
    columns = (TextColumn("fit"), BarColumn(), TaskProgressColumn(), TimeLeft())
    with Progress(*columns, TextColumn("{task.description}"), console=console) as bar:
        row = bar.add_task("", total=1.0)
        yield lambda share, note: bar.update(row, completed=share, description=note)


def _in_notebook() -> bool:
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def _notebook_bar(width: int = 40) -> Iterator[Show]:
    display: Any = sys.modules["IPython"].display
    handle = display.display({"text/plain": "fit"}, raw=True, display_id=True)

    def show(share: float, note: str) -> None:
        done = round(share * width)
        text = f"fit {'█' * done}{'░' * (width - done)} {share:4.0%} {note}"
        handle.update({"text/plain": text}, raw=True)

    yield show
