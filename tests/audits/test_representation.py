"""Scores of representations on codes whose scores are known, and against the definitions."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score, roc_auc_score
from sklearn.svm import LinearSVC

from recombine import Refused, representation
from recombine.audits import disentanglement as d
from recombine.audits import probes
from recombine.audits.factors import read
from recombine.audits.geometry import overlaps
from recombine.audits.representation import BELOW_CHANCE, _matrix
from recombine.audits.standard import standardized

GRID = np.array([(a, b) for a in range(5) for b in range(4)])


def grid_of(*levels):
    return np.stack([a.ravel() for a in np.meshgrid(*map(np.arange, levels))], axis=1)


def rows(grid=GRID, repeats=6):
    return np.repeat(grid, repeats, axis=0)


def columns(z):
    return {name: z[:, c] for c, name in enumerate("ab")}


@pytest.fixture(scope="module")
def perfect():
    z = rows()
    noise = 0.01 * np.random.default_rng(0).standard_normal(z.shape)
    return representation(z + noise, columns(z))


def test_one_code_per_factor_has_every_virtue(perfect):
    for name in ("additivity", "additivity_held_out", "disentanglement", "modularity", "mig"):
        assert perfect.scores[name].value > 0.95, name
    for f, levels in (("a", 5), ("b", 4)):
        scores = {name: e.value for name, e in perfect.factors[f].items()}
        assert scores["decodability_held_out"] > 0.99
        assert scores["orthogonality"] > 0.99
        assert scores["completeness"] > 0.95
        assert abs(scores["sap"] - (1 - 1 / levels)) < 0.15


def test_intervals_contain_the_score_and_do_not_exceed_one(perfect):
    for e in perfect.scores.values():
        assert e.low <= e.value <= e.high <= 1 + 1e-9
    assert "decodability held out" in str(perfect)
    assert repr(perfect) == str(perfect)
    assert '"mig"' in perfect.to_json()


def test_a_lookup_table_is_decodable_on_seen_combinations_only():
    rng = np.random.default_rng(1)
    z, table = rows(), rng.standard_normal((5, 4, 40))  # more codes than combinations
    r = representation(table[tuple(z.T)] + 0.01 * rng.standard_normal((len(z), 40)), columns(z))
    for f in "ab":
        assert r.factors[f]["decodability_seen"].value > 0.95
        assert r.factors[f]["decodability_held_out"].value < 0.4
    assert r.scores["additivity_held_out"].value < 0
    assert r.scores["additivity"].value < 0.7


def test_a_rotated_code_is_linear_and_additive_but_not_disentangled():
    rng = np.random.default_rng(2)
    z = rows()
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]])
    r = representation(z @ turn + 0.01 * rng.standard_normal(z.shape), columns(z))
    assert r.scores["additivity_held_out"].value > 0.99
    assert r.factors["a"]["decodability_held_out"].value > 0.99
    assert r.factors["a"]["orthogonality"].value > 0.99
    assert r.scores["modularity"].value < 0.8
    assert r.scores["disentanglement"].value < 0.4


def test_directions_that_coincide_overlap():
    z = rows()
    code = (z @ np.array([1.0, 10.0]))[:, None] * np.ones(3)
    np.testing.assert_allclose(overlaps(code, read(columns(z), len(z))), 1)


def test_missing_combinations_do_not_entangle_a_code_of_each_factor():
    z = rows(GRID[~((GRID < 2).all(axis=1) | (GRID > 2).all(axis=1))])
    factors = read(columns(z), len(z))
    assert d.dependence(factors, 0, 1) > 0.1  # the codes below carry each other's factor
    mutual = d.information(z.astype(float), factors)
    assert mutual_info_score(z[:, 0], z[:, 1]) > 0.1
    np.testing.assert_allclose(mutual[[0, 1], [1, 0]], 0, atol=1e-12)
    np.testing.assert_allclose(d.mig(mutual, factors), 1)
    np.testing.assert_allclose(d.modularity(mutual), 1)
    gaps = d.sap(z.astype(float), factors, mutual, np.random.default_rng(0))
    np.testing.assert_allclose(gaps, [1 - 1 / 5, 1 - 1 / 4], atol=0.05)


def test_scores_on_complete_grids_are_the_published_ones():
    """Each definition written out anew, with loops and scikit-learn."""
    rng = np.random.default_rng(3)
    z = rows(repeats=10)
    codes = z @ rng.standard_normal((2, 3)) + 0.3 * rng.standard_normal((len(z), 3))
    factors = read(columns(z), len(z))
    binned = np.stack(
        [np.digitize(c, np.histogram(c, 20)[1][:-1], right=False) for c in codes.T], axis=1
    )
    mutual = np.array([[mutual_info_score(z[:, f], b) for f in range(2)] for b in binned.T])
    np.testing.assert_allclose(d.information(codes, factors), mutual, rtol=1e-9)

    ordered = np.sort(mutual, axis=0)
    gap = (ordered[-1] - ordered[-2]) / np.array([log(5), log(4)])
    np.testing.assert_allclose(d.mig(mutual, factors), gap)

    for i, row in enumerate(mutual):
        template = np.where(np.arange(2) == row.argmax(), row.max(), 0)
        away = ((row - template) ** 2).sum() / (row.max() ** 2 * (2 - 1))
        assert d.modularity(mutual)[i] == pytest.approx(1 - away)

    importance = np.abs(rng.standard_normal((3, 2)))
    of_codes, of_factors = d.dci(importance)
    for i, row in enumerate(importance):
        p = row / row.sum()
        assert of_codes[i] == pytest.approx(1 + sum(p * np.log(p)) / log(2))
    for j, column in enumerate(importance.T):
        p = column / column.sum()
        assert of_factors[j] == pytest.approx(1 + sum(p * np.log(p)) / log(3))

    odds = probes.level_scores(codes, factors, np.random.default_rng(0))
    ours = probes.explicitness(odds, factors)
    for f, levels in enumerate((5, 4)):
        areas = []
        for level in range(levels):
            is_level = z[:, f] == level
            model = LogisticRegression(C=10).fit(codes, is_level)
            areas.append(roc_auc_score(is_level, model.decision_function(codes)))
        assert ours[f] == pytest.approx(np.mean(areas), abs=0.03)


def test_sap_ranks_codes_as_a_linear_machine_does():
    rng = np.random.default_rng(4)
    z = rows(repeats=20)
    binary = {"a": z[:, 0] > 2, "b": z[:, 1] > 1}
    noise = np.array([0.5, 1.5])
    codes = z + noise * rng.standard_normal(z.shape)
    factors = read(binary, len(z))
    mutual = d.information(codes, factors)
    ours = d.sap(codes, factors, mutual, np.random.default_rng(0))
    for f, y in enumerate(binary.values()):
        scores = [
            LinearSVC(C=1, class_weight="balanced", dual="auto")
            .fit(c[:, None], y)
            .score(c[:, None], y)
            for c in codes.T
        ]
        gap = abs(scores[0] - scores[1])
        assert ours[f] == pytest.approx(gap, abs=0.1)


def test_published_scores_are_means_over_factors(perfect):
    for name in ("mig", "sap", "completeness", "explicitness"):
        each = [scores[name].value for scores in perfect.factors.values()]
        assert perfect.scores[name].value == pytest.approx(np.mean(each))


def test_continuous_factors_are_regressed():
    rng = np.random.default_rng(5)
    z = rng.random((600, 2))
    r = representation(np.stack([z[:, 0], z[:, 1] ** 2], axis=1), columns(z))
    assert r.shape == {"a": 10, "b": 10}
    assert r.factors["a"]["decodability_held_out"].value > 0.99
    assert 0.85 < r.factors["b"]["decodability_held_out"].value < 0.99
    assert r.factors["a"]["sap"].value > 0.9
    assert r.scores["mig"].value > 0.6


def test_folds_leave_every_level_in_training():
    rng = np.random.default_rng(6)
    z = GRID[rng.permutation(len(GRID))[:9]]
    factors = read(columns(np.concatenate([z, z])), 18)
    fold = factors.folds(5, rng)
    for k in range(5):
        for c in range(2):
            assert set(factors.cells[fold != k, c]) == set(factors.cells[:, c])


@pytest.mark.parametrize(
    ("codes", "factors", "sentence"),
    [
        (np.ones((6, 2)), columns(GRID[:6]), "All rows of the codes are equal"),
        (np.eye(6), columns(GRID[:5]), "5 rows, but there are 6 rows of codes"),
        (np.full((6, 2), np.nan), columns(GRID[:6]), "not finite in 6 of 6 rows"),
        ([["x"]] * 6, columns(GRID[:6]), "not an array of numbers"),
        ([[1.0, 2.0], [3.0]], columns(GRID[:2]), "not an array of numbers"),
        (1j * np.eye(6), columns(GRID[:6]), "complex numbers"),
        (np.eye(6), {"a": [0] * 6, "b": [0, 1] * 3}, "one level only"),
        (np.eye(6), {"a": [0, 1] * 3}, "two or more factors"),
        (np.eye(6), {"a": [0, 0, 0, 1, 1, 1], "b": [0, 0, 0, 1, 1, 1]}, "2 combinations"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(codes, factors, sentence):
    with pytest.raises(Refused, match=sentence):
        representation(codes, factors)


def numbers(r):
    """Every number of a representation under a name."""
    listed = {f"{f}.{n}": e for f, scores in r.factors.items() for n, e in scores.items()}
    table = {n: np.array([e.value, e.low, e.high]) for n, e in (listed | r.scores).items()}
    return table | {"rest": np.array([r.dependence, r.left_out, r.combinations])}


def assert_same(one, other):
    assert one.shape == other.shape
    names, others = numbers(one), numbers(other)
    for name, values in names.items():
        np.testing.assert_allclose(others[name], values, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.fixture(scope="module")
def mixed():
    """Codes of every kind: of one factor, of both, of none, of noise, constant."""
    rng = np.random.default_rng(7)
    z = rows(GRID[rng.permutation(len(GRID))[:14]], repeats=4)
    noise = 0.2 * rng.standard_normal((len(z), 3))
    codes = [z[:, 0] + noise[:, 0], z.sum(axis=1) * 1.0, z[:, 1] ** 2.0, noise[:, 1], noise[:, 1]]
    codes = np.stack([*codes, np.full(len(z), 0.1)], axis=1)
    return codes, z, representation(codes, columns(z))


@pytest.mark.parametrize("code", [0, 2])
@pytest.mark.parametrize("unit", [1e-8, -1e8])
def test_no_score_depends_on_the_unit_sign_or_origin_of_one_code(mixed, code, unit):
    codes, z, scores = mixed
    other = codes.copy()
    other[:, code] = unit * (codes[:, code] + 100)
    assert_same(representation(other, columns(z)), scores)


def test_a_decodable_factor_stays_decodable_beside_a_large_code():
    z = rows(grid_of(10, 10))
    codes = np.stack([z[:, 0], 1_000 * z[:, 1]], axis=1)
    scores = representation(codes, columns(z)).factors["a"]
    assert scores["decodability_held_out"].value > 0.99
    assert scores["orthogonality"].value > 0.99


def test_no_score_depends_on_names_or_order(mixed):
    codes, z, scores = mixed
    rng = np.random.default_rng(8)
    p = rng.permutation(len(z))
    names = [rng.permutation([f"level {k}" for k in range(m)]) for m in (5, 4)]
    other = {"b": names[1][z[p, 1]], "a": names[0][z[p, 0]]}
    renamed = representation(codes[p][:, rng.permutation(codes.shape[1])], other)
    assert list(renamed.factors) == ["b", "a"]
    assert renamed.shape == {"b": 4, "a": 5}
    assert_same(replace(renamed, shape=scores.shape), scores)


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_no_score_depends_on_the_unit_of_a_continuous_factor(unit):
    """Values have few digits, so that in the larger unit all of them are whole numbers."""
    rng = np.random.default_rng(9)
    z = rng.random((200, 2)).round(6)
    codes = np.stack([z[:, 0], z[:, 1] ** 2 + z[:, 0]], axis=1)
    scores = representation(codes, columns(z))
    assert_same(representation(codes, columns(z * [unit, 1])), scores)
    assert scores.shape == {"a": 10, "b": 10}


def test_evenly_spaced_numbers_are_levels_in_any_unit():
    z = grid_of(30, 6)
    for unit in (1, 0.1, 2 * np.pi / 30):
        assert read({"a": z[:, 0] * unit, "b": z[:, 1]}, len(z)).shape == (30, 6)


def test_logistic_regressions_converge(recwarn):
    """Also on separable codes that are more than rows."""
    rng = np.random.default_rng(10)
    z = rows(GRID, 3)
    codes = rng.standard_normal((5, 4, 200))[tuple(z.T)] * np.logspace(-6, 6, 200)
    odds = probes.level_scores(standardized(codes), read(columns(z), len(z)), rng)
    assert not recwarn.list
    assert np.isfinite(odds[0]).all()


def test_codes_have_neither_unit_nor_origin():
    """Every score is computed from this matrix alone."""
    x = np.random.default_rng(0).normal(size=(36, 4))
    for unit in (1e-150, 1e-9, 1e150):
        np.testing.assert_allclose(_matrix(unit * (x + 10.0)), _matrix(x), atol=1e-9)
    z = np.array([(a, b) for a in range(3) for b in range(3)] * 4)
    codes = np.concatenate([np.eye(3)[z[:, 0]], np.eye(3)[z[:, 1]]], axis=1)
    scores = representation(1e-9 * codes, {"a": z[:, 0], "b": z[:, 1]}).factors["a"]
    assert scores["decodability_held_out"].value == 1.0


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
def test_every_interval_contains_its_score_and_ends_where_the_score_does(noise):
    """Between 0 and 1, or below 1 where a score may be below chance."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(4, size=(2, 200))
    codes = np.stack([a, b, a + b], axis=1) + noise * rng.normal(size=(200, 3))
    found = representation(codes, {"a": a, "b": b})
    estimates = [*found.scores.items()]
    estimates += [item for scores in found.factors.values() for item in scores.items()]
    assert len(estimates) > 15
    for name, e in estimates:
        if np.isfinite(e.low):
            assert e.low <= e.value <= e.high <= max(1.0, e.value), name
            assert e.low >= min(0.0, e.value) or name in BELOW_CHANCE, name


def test_a_code_with_little_information_counts_in_units_of_the_best_one():
    """The first code tells both factors equally well; the second only hints at the first factor.

    It has 0.0085 nats of information, which is more than a hundredth of the best code's log 2.
    """
    z = rows(grid_of(2, 2), 100)
    at = np.tile(np.arange(100), 4)
    weak = at < np.where(z[:, 0] == 0, 56, 43)
    scores = representation(np.stack([z @ [1.0, 2.0], weak], axis=1), columns(z)).scores
    assert 0.0069 < mutual_info_score(z[:, 0], weak) < 0.01
    assert scores["modularity"].value == pytest.approx(0.5, abs=1e-9)


def test_rows_are_predicted_from_the_other_folds(monkeypatch):
    folds, predict = [], probes.out_of_fold
    monkeypatch.setattr(
        probes, "out_of_fold", lambda x, z, fold: folds.append(fold) or predict(x, z, fold)
    )
    z = rows(grid_of(3, 3), 4)
    representation(z * 1.0, columns(z))
    sizes = np.bincount(folds[1])
    assert (len(sizes), sizes.sum()) == (probes.FOLDS, 36)
    assert np.ptp(sizes) <= 1
