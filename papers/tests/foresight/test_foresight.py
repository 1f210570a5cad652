"""Foresight: worlds and supports are what their names say, and scores count what they claim."""

import numpy as np
import pytest

from recombine.claims.claim import CLAIMS
from recombine.tables.datasets import dataset
from recombine_papers.foresight import collecting, real, synthetic
from recombine_papers.foresight.rivals import RIVALS, auroc
from recombine_papers.foresight.rivals_training import fit_rivals, forest_deviation
from recombine_papers.foresight.worlds import (
    FRESH,
    FRESHER,
    TARGETS,
    WORLDS,
    draw_support,
    draw_target,
    table_of,
)


@pytest.mark.parametrize(("shape", "support"), WORLDS)
def test_a_support_measures_every_level_but_not_every_combination(shape, support):
    seen = draw_support(shape, support, np.random.default_rng(3))
    assert 16 <= seen.sum() < seen.size
    for c in range(len(shape)):
        assert seen.any(axis=tuple(a for a in range(len(shape)) if a != c)).all()


def interactions(truth):
    """Sum of squares beyond the additive part."""
    away = truth - truth.mean()
    for c in range(truth.ndim):
        rest = tuple(a for a in range(truth.ndim) if a != c)
        away = away - away.mean(axis=rest, keepdims=True)
    return np.square(away).mean()


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_has_the_structure_of_its_name(target):
    truth = draw_target((12, 12), target, np.random.default_rng(5))
    assert truth.mean() == pytest.approx(0)
    assert truth.std() == pytest.approx(1)
    rank = np.linalg.matrix_rank(truth - truth.mean(), tol=1e-8)
    if target in ("additive", "noisy"):
        assert interactions(truth) < 1e-20
    else:
        assert interactions(truth) > 0.05
    if target in ("product", "xor"):
        assert rank <= 2  # one product, shifted to mean zero
    if target == "random":
        assert rank == 12


def test_every_target_has_other_worlds_in_every_seed():
    drawn = [synthetic.chosen(",".join(TARGETS), 1, FRESH + s) for s in range(5)]
    for k, target in enumerate(TARGETS):
        assert [d[k][2] for d in drawn] == [target] * 5
        assert len({d[k][:2] for d in drawn}) == 5
    everything = synthetic.chosen(",".join(TARGETS), len(WORLDS), FRESH)
    assert len(set(everything)) == len(WORLDS) * len(TARGETS)


@pytest.mark.parametrize("support", real.SUPPORTS)
def test_real_supports(support):
    table = real.load("direct_arylation")
    rng = np.random.default_rng(1)
    seen, queried = real.draw_support(table, support, 0.2, rng)
    z = table.cells.z
    assert not (seen & queried).any()
    assert all(set(z[seen, c]) == set(range(m)) for c, m in enumerate(table.shape))
    if support == "order":
        center = np.array([np.bincount(column).argmax() for column in z[seen].T])
        assert ((z[seen] != center).sum(axis=1) <= real.DIFFER).all()
        assert ((z[queried] != center).sum(axis=1) > real.DIFFER).all()
    else:
        assert seen.mean() == pytest.approx(0.2, abs=0.01)
    if support == "block":  # the queried combinations are a full product of levels
        sides = [len(set(z[queried, c])) for c in range(z.shape[1])]
        assert queried.sum() == np.prod(sides)


def test_repeats_are_averaged_before_judging():
    table, averaged = dataset("french_fries"), real.load("french_fries")
    assert table.rows == 3471
    assert len(table.cells) == averaged.rows == 1740
    np.testing.assert_array_equal(table.cells.y, averaged.cells.y)


def test_the_direct_arylation_table_is_complete():
    table = dataset("direct_arylation")
    assert table.shape == (12, 4, 4, 3, 3)
    assert len(table.cells) == table.size == 1728
    assert 0 <= table.y.min() < table.y.max() <= 100


def test_rivals_fit_an_additive_table():
    truth = draw_target((4, 3, 3), "additive", np.random.default_rng(0))
    z = np.argwhere(np.ones(truth.shape))
    table = table_of(truth, z)
    models = fit_rivals(table, 0)
    assert tuple(models) == RIVALS
    for name, model in models.items():
        error = np.square(model.predict(z) - truth.ravel()).mean()
        assert error < (0.7 if name == "knn" else 0.2), name
    assert (forest_deviation(models["forest"], z) >= 0).all()


def test_auroc_of_ties_and_of_one_class():
    fails = np.array([True, False, True, False])
    assert auroc(np.array([1.0, 1.0, 1.0, 1.0]), fails) == 0.5
    assert auroc(np.array([2.0, 1.0, 0.0, 3.0]), fails) == 0.25
    assert auroc(np.array([1.0, 2.0]), np.array([True, True])) == 0.5


def test_crossings_are_found_on_both_sides_and_counted_when_out_of_reach():
    assert collecting.crossing(lambda f: 1 / f, 2**0.5)[0] == pytest.approx(2**-0.5)
    assert collecting.crossing(lambda f: 1 / f, 1e-3) == (8.0, 1.0)
    assert collecting.crossing(lambda f: 1 / f, 1e-3, 2.0)[0] == 2.0
    assert collecting.crossing(lambda f: 1 / f, 9.0)[0] == 0.5


def test_all_claims_are_ours_on_fresh_seeds():
    claims = [c for c in CLAIMS.values() if c.family == "foresight"]
    assert len(claims) >= 14
    assert all(c.source == "ours" and c.seeds == 5 for c in claims)
    for c in claims:  # the number of synthetic tables was changed after seeds from 5000 on
        assert c.start == (FRESHER if c.experiment == "foresight.synthetic" else FRESH), c.name
