"""Watchers: they do not affect training, may stop it, and the bar shows progress."""

import sys
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.training.fit import fit

ENGINES = ["stack", "map", "turn"]


def data():
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    return Data(np.zeros((40, 1)), x, x[:, :2].sin())


def build(seed, *extra):
    with seeded(seed):
        return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), *extra, nn.Linear(8, 2))


def state(model):
    return [p.detach().clone() for p in model.parameters()]


def equal(a, b):
    return all(p.equal(q) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_watcher_sees_every_step_and_changes_nothing(engine):
    dropout = [nn.Dropout(0.5)] if engine == "turn" else []
    models = [build(s, *dropout) for s in range(2)]
    plain = deepcopy(models)
    moments, losses, snapshots = [], [], {}

    def watch(moment):
        torch.rand(3)  # draws of a watcher are its own
        moments.append((moment.step, list(moment.rows), round(moment.share, 6)))
        losses.append(moment.losses)
        if moment.step == 4:
            assert not any(m.training for m in moment.models)
            for row, model in zip(moment.rows, moment.models, strict=True):
                snapshots[row] = state(model)

    keywords = {"steps": 6, "batch": 7, "every": 1, "engine": engine}
    histories = fit(models, data(), watch=watch, **keywords)
    fit(plain, data(), **keywords)
    assert all(equal(state(a), state(b)) for a, b in zip(models, plain, strict=True))
    shorter = [build(s, *dropout) for s in range(2)]
    fit(shorter, data(), **{**keywords, "steps": 4})
    assert all(equal(snapshots[i], state(m)) for i, m in enumerate(shorter))
    if engine == "turn":
        expected = [(s, [r], round(r / 2 + s / 12, 6)) for r in range(2) for s in range(1, 7)]
        curves = [[row[0] for row in losses[:6]], [row[0] for row in losses[6:]]]
    else:
        expected = [(s, [0, 1], round(s / 6, 6)) for s in range(1, 7)]
        curves = [list(column) for column in zip(*losses, strict=True)]
    assert moments == expected
    assert curves == [h.loss for h in histories]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_watcher_stops_training(engine):
    models = [build(s) for s in range(2)]
    start, shorter = state(models[1]), [build(s) for s in range(2)]
    keywords = {"batch": 7, "every": 3, "engine": engine}
    histories = fit(models, data(), steps=100, watch=lambda moment: moment.step == 5, **keywords)
    fit(shorter, data(), steps=5, **keywords)
    assert equal(state(models[0]), state(shorter[0]))
    assert (histories[0].steps, histories[0].end, histories[0].stopped) == ([3, 5], 5, False)
    if engine == "turn":  # the second model never began
        assert equal(state(models[1]), start)
        assert (histories[1].steps, histories[1].end) == ([], 0)
    else:
        assert equal(state(models[1]), state(shorter[1]))
        assert histories[1].end == 5
    assert not any(m.training for m in models)


@pytest.mark.parametrize("source", ["watch", "scores", "schedule", "loss"])
@pytest.mark.parametrize("problem", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("engine", [*ENGINES, "single"])
def test_interrupted_training_leaves_the_weights_it_reached(engine, problem, source):
    """As if it had been stopped after the same step: trained weights, evaluation mode."""
    seeds = range(1 if engine == "single" else 2)
    first = [0] if engine in ("turn", "single") else seeds  # the models that had begun
    models, shorter = [build(s) for s in seeds], [build(s) for s in seeds]
    keywords = {"steps": 6, "batch": 7, "every": 1, "engine": engine.replace("single", "turn")}
    reached = 0

    def watch(moment):
        nonlocal reached
        reached = moment.step
        interrupt("watch", None)

    def interrupt(name, value):
        if source == name and reached == 3:  # watchers come before scores
            raise problem
        return value

    def loss(outputs, targets):
        return interrupt("loss", (outputs - targets).square().mean())

    options = {
        "loss": loss,
        "scores": lambda model: interrupt("scores", {}),
        "schedule": lambda t: interrupt("schedule", 1.0),
    }
    with pytest.raises(problem):
        fit(models, data(), watch=watch, **options, **keywords)
    source = ""
    fit(shorter, data(), watch=lambda moment: moment.step == 3, loss=loss, **keywords)
    assert all(equal(state(models[i]), state(shorter[i])) for i in first)
    assert all(equal(state(models[i]), state(build(i))) for i in set(seeds) - set(first))
    assert not any(m.training for model in models for m in model.modules())
    assert all(p.grad is None for m in models for p in m.parameters())


def test_no_bar_without_the_option_and_a_terminal(monkeypatch, capsys):
    fit(build(0), data(), steps=3, progress=True)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    fit(build(0), data(), steps=3)
    assert capsys.readouterr() == ("", "")
    fit(build(0), data(), steps=3, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "100%" in shown.err
    assert "loss" in shown.err


def test_a_bar_in_a_notebook(monkeypatch, capsys):
    texts = []
    handle = SimpleNamespace(update=lambda content, raw: texts.append(content["text/plain"]))
    ipython = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=1),
        display=SimpleNamespace(display=lambda content, raw, display_id: handle),
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    fit([build(0), build(1)], data(), steps=250, progress=True, engine="turn")
    assert capsys.readouterr() == ("", "")
    assert 150 < len(texts) < 250
    assert texts[-1].startswith("fit " + "█" * 40 + " 100% loss 0.")
