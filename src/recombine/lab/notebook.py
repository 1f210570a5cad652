"""The lab in a notebook: paint a support, compare theory with a network, read the support back."""

from __future__ import annotations

import threading
from dataclasses import replace
from importlib.resources import files
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.base.error import Refused
from recombine.lab import theory
from recombine.lab.export import plain_script
from recombine.lab.network import frame, prepared, run
from recombine.lab.state import Net, State
from recombine.lab.worlds import CELLS, World
from recombine.spaces.sets import table

if TYPE_CHECKING:
    from recombine.spaces.support import Support
    from recombine.tasks.task import Task
    from recombine.training.watch import Moment


def world_of(task: Task) -> World:
    """Make a world of a task over two discrete factors."""
    factors = task.space.factors
    if len(factors) != 2 or any(f.levels is None or f.dim != 1 for f in factors):
        raise Refused(f"lab() needs a task with two discrete factors; got {task.space}.")
    labels = [
        tuple(map(str, f.decode(np.arange(f.levels or 0, dtype=np.float64)))) for f in factors
    ]
    if len(labels[0]) * len(labels[1]) > CELLS:
        raise Refused(
            f"lab() shows at most {CELLS} combinations; got {len(labels[0])} × {len(labels[1])}."
        )
    y = task.data(task.space.points()[:1]).y
    kind = "image" if y.ndim == 3 and y.shape[1] == y.shape[2] else "number"
    names = (factors[0].name, factors[1].name)
    return World(
        "task", "your task", "", names, kind, lambda size: task, labels=(labels[0], labels[1])
    )


def lab(task: Task, support: Support | None = None, **net: Any) -> Any:
    """Show a task over two discrete factors as a widget on which training combinations are painted.

    - support: the combinations to start from (default: all)
    - net: fields of `recombine.lab.state.Net`, such as model="factored", steps=1000

    The widget's `support` is the painted one, for `task.split`. Needs the extra `notebook`.
    """
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as problem:
        raise Refused(
            f"lab() needs the package {problem.name!r}. Install it with: "
            "pip install 'recombine[notebook]'"
        ) from problem
    world = world_of(task)
    shape = world.shape(0)
    points = task.space.points()
    start = np.ones(shape, dtype=bool)
    if support is not None:
        start = support.contains(task.space, points).reshape(shape)
    folder = files("recombine.lab") / "static"
    modules = [(folder / name).read_text("utf-8") for name in ("maps.js", "grid.js")]
    script = [plain_script(text) for text in modules] + [(folder / "widget.js").read_text("utf-8")]

    class Lab(anywidget.AnyWidget):
        """A grid to paint, its theory, and a network."""

        _esm = "\n".join(script)
        row = traitlets.Dict(world.row()).tag(sync=True)
        shown = traitlets.List(start.astype(int).tolist()).tag(sync=True)
        theory = traitlets.Dict({}).tag(sync=True)
        frame = traitlets.Dict({}).tag(sync=True)
        training = traitlets.Unicode("idle").tag(sync=True)

        def __init__(self) -> None:
            super().__init__()
            self._thread: threading.Thread | None = None
            self._stop = threading.Event()
            self.observe(lambda change: self._ask(), "shown")
            self.on_msg(lambda widget, content, buffers: self._hear(content))
            self._ask()

        @property
        def state(self) -> State:
            """The painted cells and the network."""
            return replace(State(world="task"), net=Net(**net)).with_mask(np.array(self.shown) > 0)

        @property
        def support(self) -> Support:
            """The painted combinations."""
            return table(points[np.array(self.shown).ravel() > 0].tolist())

        def _ask(self) -> None:
            self.stop()
            self.frame = {}
            self.theory = theory.look(world, self.state)

        def _hear(self, content: Any) -> None:
            if isinstance(content, dict) and content.get("action") == "train":
                self.train()
            else:
                self.stop()

        def train(self) -> None:
            """Train in a thread; frames arrive at the widget at most ten times per second."""
            self.stop()
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._train, args=(self._stop,), daemon=True)
            self._thread.start()

        def stop(self) -> None:
            """Stop training."""
            self._stop.set()
            if self._thread and self._thread is not threading.current_thread():
                self._thread.join()
            self._thread = None

        def _train(self, stop: threading.Event) -> None:
            state, last = self.state, 0.0
            try:
                p, models = prepared(world, state)
            except Refused as refusal:
                self.training = str(refusal)
                return
            self.training = "running"

            def watch(moment: Moment) -> bool:
                nonlocal last
                if monotonic() - last > 0.1:
                    moment.fetch()
                    step = round(moment.share * moment.steps)
                    self.frame = frame(p, models[: moment.rows[-1] + 1], step, moment.steps)
                    last = monotonic()
                return stop.is_set()

            run(p, models, state.net, watch)
            if not stop.is_set():
                self.frame = frame(p, models, state.net.steps, state.net.steps)
            self.training = "stopped" if stop.is_set() else "done"

    return Lab()
