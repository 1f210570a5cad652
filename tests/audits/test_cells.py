"""Errors by combination and group: intervals that cover, thin cells, missing groups."""

import numpy as np
import pytest
from scipy.stats import beta

from recombine.audits.cells import THIN, by_cell, by_group, mean_error


def test_binary_errors_have_exact_intervals_at_the_level_of_all_cells():
    cell = np.repeat([0, 1, 2], [10, 20, 3])
    errors = np.concatenate([np.eye(10)[0], np.ones(20), np.zeros(3)])
    e = by_cell(errors, cell, 4)
    assert e.rows.tolist() == [10, 20, 3, 0]
    assert e.mean[:3].tolist() == [0.1, 1.0, 0.0]
    assert np.isnan(e.mean[3])
    alpha = 1 - 0.95 ** (1 / 2)  # two cells are not thin
    assert e.low[0] == pytest.approx(beta.ppf(alpha / 2, 1, 10))
    assert e.high[1] == 1
    assert e.thin.tolist() == [False, False, True, True]
    assert (e.low[2:] == 0).all()


def test_intervals_of_all_cells_hold_at_once():
    rng = np.random.default_rng(0)
    cell, covered = np.repeat(np.arange(20), 8), []
    for _ in range(200):
        e = by_cell(1 + rng.random(160), cell, 20)
        covered.append(((e.low <= 1.5) & (e.high >= 1.5)).all())
    assert 0.9 < np.mean(covered) <= 1


def two_factors(rng, cost=3.0, rows=6):
    z = np.array([(a, b) for a in range(6) for b in range(6)])
    of_cell = rng.gamma(4.0, 0.25, size=len(z))  # rows of a combination share its error
    of_cell[z[:, 0] == 2] *= cost
    cell = np.repeat(np.arange(len(z)), rows)
    return z, cell, of_cell[cell] * (0.9 + 0.2 * rng.random(len(cell)))


NAMES, LABELS = ["pose", "color"], [list("uvwxyz"), list("123456")]


def test_a_costly_level_is_found_and_the_others_are_not():
    rng = np.random.default_rng(1)
    z, cell, errors = two_factors(rng)
    groups = by_group(errors, z, NAMES, LABELS, cell, rng)
    assert [(g.factors, g.levels) for g in groups if g.worse] == [(("pose",), ("w",))]
    assert "pose=w (2.34 ×" in str(groups[0])


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_groups_are_the_same_in_every_unit(unit):
    z, cell, errors = two_factors(np.random.default_rng(1))
    plain, scaled = (
        by_group(e, z, NAMES, LABELS, cell, np.random.default_rng(2))
        for e in (errors, unit * errors)
    )
    assert len(plain) > 12
    assert [(g.levels, g.worse) for g in scaled] == [(g.levels, g.worse) for g in plain]


def test_without_a_cause_levels_are_rarely_called_worse():
    wrong = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z, cell, errors = two_factors(rng, cost=1.0, rows=2)
        wrong += any(g.worse for g in by_group(errors, z, NAMES, LABELS, cell, rng))
    assert wrong <= 6


def test_rows_of_one_combination_are_no_independent_evidence():
    """Resampled rows would call nearly every level different; combinations are the clusters."""
    rng = np.random.default_rng(3)
    z, cell, errors = two_factors(rng, cost=1.0, rows=500)
    assert not any(g.worse for g in by_group(errors, z, NAMES, LABELS, cell, rng))


def test_thin_groups_are_never_worse_and_missing_ones_do_no_harm():
    rng = np.random.default_rng(4)
    z, cell, errors = two_factors(rng)
    rare = np.array([(5, 5)])
    z = np.concatenate([z[:-1], rare])  # one combination carries the pair z & 6
    errors[cell == len(z) - 1] = 1e3
    groups = by_group(errors, z, NAMES, LABELS, cell, rng)
    pairs = [g for g in groups if len(g.factors) == 2]
    assert all(g.combinations < THIN and not g.worse for g in pairs)
    assert max(pairs, key=lambda g: g.ratio).levels == ("z", "6")


def test_mean_error_covers_the_truth():
    hits = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        z, cell, errors = two_factors(rng, cost=1.0, rows=3)
        _, low, high = mean_error(errors, cell, len(z), rng)
        hits.append(low <= 1 <= high)
    assert np.mean(hits) > 0.85


def test_no_error_at_all_gives_no_groups():
    rng = np.random.default_rng(5)
    z, cell, errors = two_factors(rng)
    assert by_group(0 * errors, z, NAMES, LABELS, cell, rng) == []
    assert by_group(np.nan * errors, z, NAMES, LABELS, cell, rng) == []


def test_a_mean_error_counts_every_row_once_and_needs_two_combinations_for_an_interval(rng):
    errors, cell = np.array([1.0, 2.0, 3.0, 10.0]), np.array([0, 1, 1, 3])
    value, low, high = mean_error(errors, cell, 5, rng)
    assert value == 4
    assert low < value < high <= 10
    one = mean_error(errors[:1], cell[:1], 5, rng)
    assert one[0] == 1
    assert np.isnan(one[1:]).all()
    assert np.isnan(mean_error(errors[:0], cell[:0], 5, rng)).all()
