"""The lab as a widget: it answers what is painted, trains, and gives the support back."""

import re
from importlib.resources import files

import numpy as np
import pytest

import recombine as rc
from recombine.base.error import Refused


def sums(a=4, b=3):
    return rc.Task(
        rc.grid(a=a, b=b),
        inputs=rc.join(rc.one_hot(a), rc.one_hot(b)),
        targets=lambda z: z.sum()[None].float(),
    )


def test_a_widget_follows_what_is_painted_and_gives_the_support_back():
    task = sums()
    widget = rc.lab(task, rc.cross(a=[0], b=[0]), steps=20, width=8, depth=1)
    assert (widget.theory["shown"], widget.theory["held_out"]) == (6, 6)
    assert widget.theory["determined"] == 6
    assert "export default" in widget._esm
    widget.shown = np.eye(4, 3).astype(int).tolist()
    assert widget.theory["determined"] == 0
    assert widget.support.contains(task.space, task.space.points()).sum() == 3
    widget.train()
    widget._thread.join()
    assert widget.training == "done"
    assert widget.frame["step"] == 20
    assert len(widget.frame["error"]) == 4


def test_the_package_is_the_function_even_after_its_import():
    import recombine.lab.state  # noqa: F401 - this puts the package where rc.lab is looked up

    assert rc.lab(sums()).theory["held_out"] == 0


def test_a_widget_has_the_colors_of_the_page():
    folder = files("recombine.lab") / "static"
    page = (folder / "lab.css").read_text().partition("@media (prefers-color-scheme: dark)")
    widget = (folder / "widget.js").read_text()
    for name, sheet in (("light", page[0]), ("dark", page[2].partition("@media")[0])):
        row = re.search(rf"{name}: {{(.*)}}", widget)[1]
        colors = re.findall(r'(\w+): "(#\w+)"', row)
        assert len(colors) == 10
        assert all(f"--{color}: {value};" in sheet for color, value in colors)


def test_tasks_that_the_grid_cannot_show_are_refused():
    with pytest.raises(Refused, match="two discrete factors"):
        rc.lab(rc.Task(rc.cube(a=1, b=1), inputs=lambda z: z, targets=lambda z: z))
