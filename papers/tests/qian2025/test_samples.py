"""Samples that modules need: training sets and counts; and the penalty in the bump world."""

import numpy as np
import pytest
import torch
from scipy.stats import linregress
from torch import nn

from recombine.base.error import Refused
from recombine.claims.claim import FAILS, HOLDS, OPEN, Evidence
from recombine.claims.growth import Least
from recombine.claims.record import Record
from recombine.penalties import Batch
from recombine_papers.qian2025 import elsewhere, elsewhere_training, samples, samples_training
from recombine_papers.qian2025.independent import sines


def test_every_set_repeats_the_first_samples_equally_often():
    cfg = samples.Amounts(count=3, fewest=4, most=32)
    sets = samples_training.repeated(cfg, seed=2)
    assert samples.counts(cfg) == [4, 8, 16, 32]
    for n, data in zip(samples.counts(cfg), sets, strict=True):
        rows, times = np.unique(data.z, axis=0, return_counts=True)
        assert (len(rows), set(times)) == (n, {32 // n})
        np.testing.assert_array_equal(data.z[:n], sets[-1].z[:n])
    truth = [f(sets[-1].x[:, k]) for k, f in enumerate(sines(3, seed=147, nested=True))]
    torch.testing.assert_close(sets[-1].y, torch.stack(truth, dim=1))


@pytest.mark.parametrize("wrong", [(0, 8), (16, 8), (10, 15)])
def test_counts_that_do_not_double_are_refused(wrong):
    with pytest.raises(Refused, match="power of two"):
        samples.counts(samples.Amounts(fewest=wrong[0], most=wrong[1]))


@pytest.mark.parametrize(
    ("gaps", "least"),
    [
        ([0.5, 0.6, 0.7], Least(0, 8)),
        ([0.1, 0.6, 0.7], Least(8, 16)),
        ([0.5, 0.1, 0.7], Least(16, 32)),
        ([0.5, 0.6, 0.1], Least(32, None)),
        ([0.5, 0.6, float("nan")], Least(32, None)),
    ],
)
def test_a_number_is_enough_if_all_larger_ones_are(gaps, least):
    assert samples.first([8, 16, 32], gaps, 0.4) == least


def test_the_gap_of_a_network_is_that_of_its_worst_layer():
    net = nn.Sequential(*(nn.Linear(a, b) for a, b in ((2, 8), (8, 8), (8, 8), (8, 2))))
    blocks = torch.block_diag(torch.ones(4, 4), torch.ones(4, 4))
    x = torch.rand(20, 2)
    with torch.no_grad():
        net[0].weight.copy_(torch.kron(torch.eye(2), torch.ones(4, 1)))
        net[1].weight.copy_(blocks)
        net[2].weight.copy_(blocks)
        assert samples_training.gap(net, 2, x) == pytest.approx(1.0, abs=1e-5)
        net[2].weight[:, ::4] = 1e-4 * torch.rand(8, 2)  # mixed, but hardly any signal passes
        net[1].weight[::4] = 1e-4 * torch.rand(2, 8)
        assert samples_training.gap(net, 2, x) > 0.9
        net[2].weight.fill_(1.0)  # one module: eigenvalues 0, 1, 1, …
    assert samples_training.gap(net, 2, x) == pytest.approx(0.0, abs=1e-5)


def needed(table, reached=None):
    """Build records from a table of needs with one row per seed."""
    got = np.ones_like(table) if reached is None else reached
    return Evidence(
        {
            name: [
                Record(
                    id=f"{name}-{seed}",
                    experiment="qian2025.samples",
                    size="quick",
                    config={},
                    seed=seed,
                    scores={"least": float(table[seed, i]), "reached": float(got[seed, i])},
                )
                for seed in range(len(table))
            ]
            for i, name in enumerate(samples.RUNS)
        }
    )


def test_an_exponential_need_is_distinguished_from_a_power(rng):
    k = np.array(samples.COUNTS)
    noise = np.exp(rng.normal(scale=0.02, size=(5, 4)))
    for truth, outcome in ((4.0 * 3.0**k, HOLDS), (4.0 * k**3.0, FAILS)):
        records = needed(truth * noise)
        assert samples.the_need_for_samples_grows_exponentially(records).outcome == outcome
        verdict = samples.modules_need_more_samples_for_more_functions(records)
        slopes = [linregress(k, np.log(row)).slope for row in truth * noise]
        assert verdict.outcome == HOLDS
        assert verdict.value == pytest.approx(np.mean(slopes))
    assert samples.modules_form_with_enough_samples(records).outcome == HOLDS


def saturating(needs, seeds, rng):
    """Build records whose eigengaps rise to a plateau that falls with the number of functions."""
    sizes = 8 << np.arange(11)
    return Evidence(
        {
            name: [
                Record(
                    id=f"{name}-{seed}",
                    experiment="qian2025.samples",
                    size="quick",
                    config={"count": k, "most": 8192},
                    seed=seed,
                    scores={
                        f"gap_{n}": (1 - k / 10) * n / (n + need) + rng.normal(scale=0.02)
                        for n in sizes
                    },
                )
                for seed in range(seeds)
            ]
            for (name, run), need in zip(samples.RUNS.items(), needs, strict=True)
            for k in [run["count"]]
        }
    )


def test_the_law_is_told_whatever_the_plateau(rng):
    k = np.array(samples.COUNTS)
    for needs, outcome in ((5.0 * 2.2**k, HOLDS), (8.0 * k**2.0, FAILS)):
        records = saturating(needs, 40, rng)
        verdict = samples.half_the_plateau_needs_exponentially_many_samples(records)
        assert (verdict.outcome, verdict.seeds) == (outcome, 40)
        first = np.mean(samples.group_needs(records["2 functions"]))
        assert first == pytest.approx(needs[0], rel=0.15)


def test_half_the_plateau_is_interpolated_on_the_logarithm():
    gaps = np.array([0.0, 0.2, 0.6, 0.8, 0.8, 0.8])
    assert samples.halfway([8, 16, 32, 64, 128, 256], gaps) == pytest.approx(16 * 2**0.5)
    assert samples.halfway([8, 16, 32, 64], np.array([0.7, 0.8, 0.8, 0.8])) == 8.0


def test_needs_that_do_not_grow_are_reported(rng):
    noise = np.exp(rng.normal(scale=0.02, size=(5, 4)))
    shrinking = needed(256.0 / np.array(samples.COUNTS) * noise)
    verdict = samples.modules_need_more_samples_for_more_functions(shrinking)
    assert verdict.outcome == FAILS


@pytest.mark.parametrize(("at", "outcome"), [(-1, HOLDS), (0, OPEN)])
def test_needs_that_were_not_reached_are_bounds(at, outcome, rng):
    reached = np.ones((5, 4))
    reached[:, at] = 0
    table = 4.0 * 3.0 ** np.array(samples.COUNTS) * np.exp(rng.normal(scale=0.02, size=(5, 4)))
    records = needed(table, reached)
    assert samples.modules_need_more_samples_for_more_functions(records).outcome == outcome
    # A larger need of 5 functions favors the exponential, one of 2 functions the power.
    assert samples.the_need_for_samples_grows_exponentially(records).outcome == outcome
    assert samples.modules_form_with_enough_samples(records).outcome == FAILS


def test_an_unreached_need_counts_at_its_least_favorable_value():
    need = [64.0, 256.0, 1024.0, 2048.0]
    known = samples.advantage(need, [True] * 4)
    later = [samples.advantage([*need[:3], 2048.0 * f], [True] * 4) for f in (2, 4, 8, 1024)]
    assert samples.advantage(need, [True, True, True, False]) == pytest.approx(min(later))
    assert known < 0 < min(later)


def test_validation_cells_are_neither_trained_on_nor_in_the_square():
    cfg = elsewhere.Penalized(left=0.25)
    _, (whole,) = elsewhere_training.scenes(cfg, [3])
    split, left = elsewhere_training.halves(cfg, whole, 3)
    cells = [{tuple(z) for z in data.z} for data in (split.train, left, whole.held_out)]
    assert len(left) == round(0.25 * len(whole.train))
    assert cells[0] | cells[1] == {tuple(z) for z in whole.train.z}
    assert not any(a & b for a, b in zip(cells, (*cells[1:], cells[0]), strict=True))
    with pytest.raises(Refused, match="0 < left < 1"):
        elsewhere_training.halves(elsewhere.Penalized(left=1.0), whole, 3)


@torch.no_grad()
def test_penalties_are_their_documented_sums():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    batch = Batch(torch.randn(5, 3), torch.randn(5, 2))
    hidden = net[1](net[0](batch.x))
    squares = sum(float((w.weight**2).sum()) for w in (net[0], net[2]))
    acted = sum(float((net[2].weight[i] * a).square().sum()) for i in range(2) for a in hidden) / 5
    for name, truth in (("weights", squares), ("weight_activity", acted)):
        penalty = elsewhere_training.term(elsewhere.Penalized(penalty=name, strength=0.5))(
            net, batch
        )
        assert float(penalty) == pytest.approx(0.5 * truth, rel=1e-4)


def test_the_strength_is_chosen_by_validation_error_alone():
    left = [[0.1, 0.3, 0.2, 0.4, 0.5], [0.1, 0.5, 0.4, 0.2, 0.3]]  # one row per seed
    square = [[0.9, 0.1, 0.7, 0.2, 0.3], [0.8, 0.1, 0.1, 0.9, 0.1]]
    records = Evidence(
        {
            name: [
                Record(
                    id=f"{i}-{seed}",
                    experiment="qian2025.elsewhere",
                    size="quick",
                    config={},
                    seed=seed,
                    scores={"risk_left": left[seed][i], "risk_ood": square[seed][i]},
                )
                for seed in range(2)
            ]
            for i, name in enumerate(elsewhere.runs("weight_activity", "bumps"))
        }
    )
    np.testing.assert_allclose(elsewhere.gain(records), [0.2, -0.1])
