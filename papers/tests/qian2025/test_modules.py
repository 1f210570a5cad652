"""Modules in weights: the experiment's penalties, graphs and disturbances on known networks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from recombine.claims.claim import CLAIMS, FAILS, HOLDS, MISSING, Evidence
from recombine.claims.record import Record
from recombine.measures.modularity import layer_modules
from recombine.models.modular import fully_connected
from recombine.penalties import Batch
from recombine.spaces.sets import everything
from recombine_papers.qian2025.figures.modules import label
from recombine_papers.qian2025.modules import Parts
from recombine_papers.qian2025.modules_training import disturbed, graphs, modules, penalties, world

SMALL = Parts(steps=30, samples=100, batch=50, width=8)


def split_of(cfg, seed=0):
    task = world(cfg)
    return task, task.split(everything(), n=50, rng=np.random.default_rng(seed), queries=60)


def blocks(width=8, count=4):
    """Build a network of `count` separate paths that give half their input."""
    task, split = split_of(Parts(count=count, function="lines"))
    model = fully_connected(split.train, widths=(width,) * 3, activation="linear")
    each = width // count
    member = torch.eye(count).repeat_interleave(each, dim=0)  # (units, parts)
    with torch.no_grad():
        first, second, third, last = (m for m in model if isinstance(m, nn.Linear))
        first.weight.copy_(member)
        second.weight.copy_(member @ member.T / each)
        third.weight.copy_(member @ member.T / each)
        last.weight.copy_(member.T / each / 2)
    return task, split, model


@pytest.mark.parametrize("condition", ["l2", "l1", "activity", "weight_activity", "noise"])
def test_penalties_are_the_sums_of_the_paper(condition):
    _, split = split_of(Parts())
    model = fully_connected(split.train, widths=(5, 6, 7), seed=3)
    cfg = Parts(condition=condition, l2=0.01, weight=0.1, alpha=1.5)
    actual = sum(
        float(p(model, Batch(split.train.x, split.train.y)).detach()) for p in penalties(cfg)
    )
    layers = [m for m in model if isinstance(m, nn.Linear)]
    weights = [m.weight.detach().double().numpy() for m in layers]
    biases = [m.bias.detach().double().numpy() for m in layers]
    a, acts = split.train.x.double().numpy(), []
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        a = a @ w.T + b
        a = np.where(a > 0, a, 0.1 * a)
        acts.append(a)
    expected = 0.01 * sum((w**2).sum() for w in weights)
    if condition == "l1":
        expected += 0.1 * sum(np.abs(w).sum() for w in weights)
    if condition == "activity":
        expected += 0.1 * sum((np.abs(h) ** 1.5).sum(axis=1).mean() for h in acts)
    if condition == "weight_activity":
        expected += 0.1 * sum(
            np.mean([((w**2) * np.abs(row) ** 1.5).sum() for row in h])
            for w, h in zip(weights[1:], acts, strict=True)
        )
    assert actual == pytest.approx(expected, rel=1e-5)


def test_separate_paths_are_modules_and_shield_each_other():
    _, split, model = blocks()
    result = graphs(model, 4)
    assert result["eigengap_out_max"] == pytest.approx(1, abs=1e-4)
    assert result["cross_out"] == pytest.approx(0, abs=1e-6)
    np.testing.assert_array_equal(result["sorted_out_0"] > 0.1, np.kron(np.eye(4), np.ones((2, 2))))
    result = disturbed(model, split.query)
    assert result["moved_others"] == pytest.approx(0, abs=1e-5)
    assert result["worse_others"] == pytest.approx(1, abs=1e-4)
    x, first = split.query.x[:, 0].double().numpy(), result["shift_errors"][:, 0]
    for offset, error in zip([0, *result["offsets"]], first, strict=True):
        assert error == pytest.approx(((x - offset) ** 2).mean() / 4, rel=1e-4)


def test_a_leak_between_paths_moves_the_other_outputs_in_proportion():
    _, split, model = blocks()
    with torch.no_grad():
        model[-1].weight[2, 0] += 0.25  # of the first path, whose units repeat the first input
    result = disturbed(model, split.query)
    assert result["moved_others"] == pytest.approx(10 * 0.25 / 3, rel=1e-4)  # one of three outputs


def test_columns_of_sorted_weights_are_the_units_that_are_read():
    _, split = split_of(Parts())
    model = fully_connected(split.train, widths=(9, 7, 8))
    arrays = graphs(model, 4)
    assert arrays["sorted_out_0"].shape == (7, 9)  # reading × read units
    read = layer_modules(model, 4, outgoing=True)[0]
    np.testing.assert_allclose(
        np.sort(np.abs(read.matrix).ravel()), np.sort(arrays["sorted_out_0"].ravel()), rtol=1e-6
    )


def test_seeds_train_in_a_stack_as_alone_and_conditions_differ():
    stacked = modules(SMALL, [0, 3])
    (alone,) = modules(SMALL, [3])
    for name in ("mse_id", "eigengap_out_min", "moved_others"):
        assert stacked[1].scores[name] == pytest.approx(alone.scores[name], rel=1e-3)
    (plain,) = modules(replace(SMALL, condition="l2"), [3])
    assert plain.scores["mse_id"] != pytest.approx(alone.scores["mse_id"], rel=1e-6)


def test_noise_stays_on_in_the_noisy_error_only():
    (result,) = modules(replace(SMALL, condition="noise", amount=0.5), [0])
    assert result.scores["mse_noisy"] > result.scores["mse_id"]
    (quiet,) = modules(replace(SMALL, condition="l2"), [0])
    assert quiet.scores["mse_noisy"] == quiet.scores["mse_id"]


def evidence(**runs):
    """Build records from the scores of each run: one dictionary per seed."""
    return Evidence(
        {
            name: [
                Record(f"{name}{s}", "", "quick", {}, s, scores=row) for s, row in enumerate(rows)
            ]
            for name, rows in runs.items()
        }
    )


@pytest.mark.parametrize(
    ("gap", "modular", "mixed"), [(0.6, HOLDS, FAILS), (0.4, FAILS, FAILS), (0.2, FAILS, HOLDS)]
)
def test_a_gap_between_the_bounds_decides_neither_claim(gap, modular, mixed):
    rows = [{"collapsed_gap_live": gap}] * 5
    made, none = (
        CLAIMS[f"qian2025.{name}"].check
        for name in ("penalty_makes_modules", "l2_makes_no_modules")
    )
    assert made(evidence(penalty=rows)).outcome == modular
    assert none(evidence(l2=rows)).outcome == mixed
    assert made(evidence(penalty=rows[:4])).outcome == MISSING


@pytest.mark.parametrize(
    ("claim", "score", "other", "bound"),
    [
        ("penalty_costs_less_than_noise", "mse_noisy", "multiplicative", 0.2),
        ("modules_shield_the_other_outputs", "moved_others", "l2", 0.5),
    ],
)
def test_ratios_are_of_the_penalty_over_the_other(claim, score, other, bound):
    for factor, outcome in ((0.9, HOLDS), (1.1, FAILS)):
        penalty = [{score: factor * bound * (s + 1)} for s in range(5)]
        rest = [{score: float(s + 1)} for s in range(5)]
        records = evidence(**{"penalty": penalty, other: rest})
        assert CLAIMS[f"qian2025.{claim}"].check(records).outcome == outcome


def test_noise_makes_modules_where_units_are_purer_than_with_l2():
    pure, mixed = [{"purity": 0.9}] * 5, [{"purity": 0.75}] * 5
    check = CLAIMS["qian2025.poisson_noise_makes_modules"].check
    assert check(evidence(noise=pure, l2=mixed)).value == pytest.approx(0.15)
    assert check(evidence(noise=pure, l2=mixed)).outcome == HOLDS
    assert check(evidence(noise=mixed, l2=mixed)).outcome == FAILS


def test_claims_of_modules_are_decided_on_fresh_seeds():
    starts = {c.start for c in CLAIMS.values() if c.experiment == "qian2025.modules"}
    assert starts == {1000}


def test_conditions_have_distinct_names():
    names = {
        label({"condition": c, "power": p, "unit": u})
        for c, p in (("l2", 1.0), ("l1", 1.0), ("noise", 1.0), ("noise", 2.0), ("noise", 0.5))
        for u in ("leaky", "linear")
    }
    assert len(names) == 10
