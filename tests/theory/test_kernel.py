"""Kernel theory: saliences, solvability, and closed forms against brute force."""

import numpy as np
import pytest

from recombine.base.error import Refused
from recombine.theory.conjunction import conjunctions, indicators, solvable, values
from recombine.theory.kernel import Kernel, by_overlap, by_salience, by_set, random_network, subsets
from recombine.theory.solve import margin, regress, svr
from recombine_papers.lippl2025 import leak

RELU = 0.4264  # S(1;2) of one ReLU layer


def grid(*levels):
    return np.indices(levels).reshape(len(levels), -1).T.astype(float)


def addition(anchors, values=9):
    """Training and held-out cells of rows and columns whose value, -4 … 4, is an anchor."""
    z = grid(values, values) - values // 2
    shown = np.isin(z, anchors).any(axis=1)
    return z[shown], z[~shown]


def context(n=3, hidden=3):
    """Training points, labels, held-out points, labels of CD with n values per class."""
    z = grid(2, 2 * n, 2 * n)
    y = np.where(z[np.arange(len(z)), 1 + z[:, 0].astype(int)] < n, -1.0, 1.0)
    out = (z[:, 1] < hidden) & (z[:, 2] >= n) & (z[:, 2] < n + hidden)
    return z[~out], y[~out], z[out], y[out]


def equivalence(classes, anchors):
    """Training pairs, labels, held-out pairs, labels; all classes have one size."""
    items = classes[0]
    z = grid(sum(classes), sum(classes))
    y = np.where(z[:, 0] // items == z[:, 1] // items, 1.0, -1.0)
    out = (z % items >= anchors).all(axis=1)
    return z[~out], y[~out], z[out], y[out]


def ordering(n):
    z = grid(n, n)
    z = z[z[:, 0] != z[:, 1]]
    y = np.sign(z[:, 1] - z[:, 0])
    near = np.abs(z[:, 1] - z[:, 0]) == 1
    return z[near], y[near], z, y


# Saliences


@pytest.mark.parametrize(
    ("activation", "expected"),
    {
        "relu": (0.5, 0.4264, 0.3756, 0.3373, 0.3070, 0.2822, 0.2033, 0.1325, 0.0362),
        "leaky": (0.5, 0.4460, 0.4046, 0.3713, 0.3437, 0.3203, 0.2410, 0.1634, 0.0472),
        "step": (0.5, 0.3333, 0.1968, 0.1093, 0.0588, 0.0311, 0.0012, 0, 0),
        "quadratic": (0.5, 0.3654, 0.2671, 0.1942, 0.1404, 0.1010, 0.0187, 0.0006, 0),
        "gaussian": (0.5, 0.1776, 0.1287, 0.1060, 0.0930, 0.0847, 0.0684, 0.0631, 0.0625),
    }.items(),
)
def test_salience_of_two_components_by_depth(activation, expected):
    depths = (0, 1, 2, 3, 4, 5, 10, 20, 100)
    result = [random_network(activation, d, 2).salience()[0] for d in depths]
    np.testing.assert_allclose(result, expected, atol=5.1e-5)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (random_network("relu", 1, 3), (0.2707, 0.0559, 0.0203)),
        (random_network("relu", 2, 3), (0.2314, 0.0814, 0.0617)),
        (random_network("relu", 5, 3), (0.1655, 0.1038, 0.1922)),
        (random_network("relu", 10, 3), (0.1149, 0.0999, 0.3555)),
        (random_network("relu", 20, 3), (0.0727, 0.0796, 0.5430)),
        (random_network("relu", 100, 3), (0.0192, 0.0271, 0.8611)),
        (random_network("quadratic", 1, 3), (0.2174, 0.1083, 0.0229)),
        (random_network("quadratic", 2, 3), (0.1469, 0.1411, 0.1361)),
        (random_network("quadratic", 3, 3), (0.1010, 0.1391, 0.2796)),
        (random_network("quadratic", 5, 3), (0.0491, 0.1001, 0.5526)),
        (random_network("gaussian", 1, 3), (0.0751, 0.1903, 0.2038)),
        (random_network("gaussian", 60, 3), (0.0244, 0.0891, 0.6594)),
        (random_network("step", 1, 3), (0.2163, 0.0319, 0.2554)),
        (random_network("relu", 3, 4), (0.1455, 0.0463, 0.0227, 0.0492)),
    ],
)
def test_salience_of_more_components(kernel, expected):
    np.testing.assert_allclose(kernel.salience(), expected, atol=5.1e-5)


def test_salience_of_the_authors_notebook():
    result = random_network("relu", 3, 3).salience()
    np.testing.assert_allclose(result[:2], (0.20350064, 0.09423825), atol=5e-9)


def test_deep_relu_networks_are_lookup_tables():
    for factors, rate in ((2, 8), (3, 16)):
        memory = random_network("relu", 3000, factors).salience()[-1]
        assert (1 - memory) * 3000 == pytest.approx(rate, rel=0.02)


def test_constructors_agree():
    kernel = random_network("relu", 3, 3)
    kappa, s = kernel.overlap(), kernel.salience()
    others = [
        by_overlap(kappa),
        by_overlap(list(kappa)),
        by_set({j: kappa[len(j)] for j in subsets(3)}),
        Kernel({j: kernel.weight(j) for j in reversed(subsets(3))}, 3),
    ]
    for other in others:
        np.testing.assert_allclose(other.overlap(), kappa, atol=1e-15)
    for saliences in (s, s[:-1]):
        result = by_salience(saliences, constant=0.3)
        np.testing.assert_allclose(result.salience(), s, atol=1e-15)
        assert result.overlap()[0] == 0.3
        assert result.overlap()[-1] == pytest.approx(1.3)


def test_gram_counts_shared_components(rng):
    a, b = rng.integers(3, size=(20, 4)).astype(float), rng.integers(3, size=(30, 4)).astype(float)
    kernel = random_network("relu", 2, 4)
    shared = (a[:, None] == b).sum(axis=-1)
    np.testing.assert_allclose(kernel.gram(a, b), kernel.overlap()[shared], atol=1e-15)
    uneven = by_set({(): 0.0, (0,): 0.4, (1,): 0.1, (0, 1): 1.0})
    pair = np.array([[0.0, 0.0]])
    others = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(uneven.gram(pair, others), [[0, 0.4, 0.1, 1]], atol=1e-15)


@pytest.mark.parametrize("levels", [(4, 4), (3, 3, 3), (2, 3, 4)])
def test_eigenvalues_are_those_of_the_hamming_scheme(levels, rng):
    z = grid(*levels)
    weights = {j: float(rng.uniform(0.1, 1)) for j in subsets(len(levels))}
    for kernel in (Kernel(weights, len(levels)), random_network("relu", 3, len(levels))):
        result = kernel.spectrum(levels)
        often = [int(np.prod([levels[c] - 1 for c in a])) for a in result]
        all_ = np.sort(np.repeat(list(result.values()), often))
        brute = np.linalg.eigvalsh(kernel.gram(z, z))
        assert np.abs(all_ - brute).max() <= 1e-12 * brute.max() * 10
        assert kernel.psd(list(levels))


def test_a_slightly_negative_salience_is_legal_for_few_values():
    kernel = Kernel({(): 1.0, (0,): -0.05, (1,): -0.05, (0, 1): 1.0}, 2)
    assert kernel.psd([3, 3])
    assert not kernel.psd([100, 100])


# Conjunctions


@pytest.mark.parametrize("levels", [(9, 9), (2, 6, 6), (4, 5, 3, 3), (3, 3, 3, 3, 3)])
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_predictions_are_sums_over_training_conjunctions(levels, ridge, rng):
    z = grid(*levels)
    shown = z[rng.random(len(z)) < 0.5]
    kernel = random_network("relu", 3, len(levels))
    model = regress(kernel, shown, rng.normal(size=len(shown)), ridge=ridge)
    parts = values(kernel, shown, model.dual, z)
    brute = kernel.gram(z, shown) @ model.dual
    assert np.abs(sum(parts.values()) - brute).max() <= 1e-12
    assert np.abs(model.predict(z) - brute).max() <= 1e-12
    new = (indicators(z, shown, full=True).sum(axis=1)) < (indicators(z, shown).sum(axis=1) + 1)
    assert not parts[tuple(range(len(levels)))][new].any()  # memory ends where training ends
    w = np.concatenate(  # the same values, as coefficients of the indicators
        [
            kernel.weight(j) * np.array([model.dual[(shown[:, j] == v).all(1)].sum() for v in rows])
            for j, rows in conjunctions(shown).items()
        ]
    )
    assert np.abs(indicators(z, shown, full=True) @ w - brute).max() <= 1e-12


def test_a_ridge_is_additional_memory_on_unseen_points(rng):
    z = grid(4, 5, 3)
    mask = rng.random(len(z)) < 0.5
    kernel = random_network("relu", 2, 3)
    full = (0, 1, 2)
    more = Kernel({**kernel.weights, full: kernel.memory + 0.1}, 3)
    y = rng.normal(size=mask.sum())
    ridged = regress(kernel, z[mask], y, ridge=0.1).predict(z[~mask])
    assert np.abs(ridged - regress(more, z[mask], y).predict(z[~mask])).max() <= 1e-12


def test_addition_is_solvable_and_multiplication_is_not():
    shown, hidden = addition([0])
    sums = solvable(shown, hidden, hidden.sum(axis=1))
    assert (sums.solvable, sums.rank, sums.points) == (True, 15, 64)
    assert sums.residual < 1e-13
    assert str(sums).startswith("Solvable: the targets of 64 held-out points are a sum")
    products = solvable(shown, hidden, hidden.prod(axis=1))
    assert not products.solvable
    assert products.residual == pytest.approx(16)
    witness = products.witness
    assert np.abs(indicators(hidden, shown).T @ witness).max() < 1e-12
    assert witness @ hidden.prod(axis=1) == pytest.approx(1)
    assert "Not solvable" in str(products)


@pytest.mark.parametrize(
    ("scale", "shift"), [(1e-10, 0.0), (1e10, 0.0), (1.0, 1e10), (1e-10, 1e-3), (-1.0, 0.1)]
)
def test_solvability_does_not_depend_on_unit_or_offset(scale, shift):
    shown, hidden = addition([0])
    assert solvable(shown, hidden, scale * hidden.sum(axis=1) + shift).solvable
    assert not solvable(shown, hidden, scale * hidden.prod(axis=1) + shift).solvable


@pytest.mark.parametrize("hidden", [1, 2, 3])
def test_context_dependence_is_solvable(hidden):
    shown, _, held_out, y = context(3, hidden)
    assert len(shown) == {1: 70, 2: 64, 3: 54}[hidden]
    assert solvable(shown, held_out, y, "labels").solvable


def substitution():
    z = grid(4, 6, 6)
    y = np.where(z[np.arange(len(z)), 1 + z[:, 0].astype(int) // 2] < 3, -1.0, 1.0)
    out = np.isin(z[:, 0], (0, 2)) & np.isin(z[:, 1:], (0, 3)).any(axis=1)
    return z[~out], y[~out], z[out], y[out]


@pytest.mark.parametrize(
    "puzzle",
    [
        equivalence([2, 2], 1),
        equivalence([5, 5], 1),
        equivalence([5, 5], 4),
        equivalence([3, 3, 3], 2),
        substitution(),
    ],
    ids=["te2", "te5-1", "te5-4", "te3x3", "substitution"],
)
def test_equivalence_is_not_solvable_and_the_weights_prove_it(puzzle):
    shown, _, held_out, y = puzzle
    certificate = solvable(shown, held_out, y, "labels")
    assert not certificate.solvable
    assert certificate.witness.min() >= 0
    assert certificate.witness.sum() == pytest.approx(1)
    assert np.abs(indicators(held_out, shown).T @ (certificate.witness * y)).max() < 1e-9
    assert "Witness" in str(certificate)


def test_ordering_is_solvable():
    shown, _, held_out, y = ordering(7)
    assert solvable(shown, held_out, y, "labels").solvable


def test_training_points_impose_nothing_and_unseen_values_are_counted():
    shown = grid(3, 3)
    assert solvable(shown, shown, np.arange(9.0) ** 2).points == 0
    certificate = solvable(shown, np.array([[0.0, 7.0]]), np.array([1.0]))
    assert certificate.unseen == 1
    assert "never occurs in training" in str(certificate)


def test_an_unseen_value_contributes_nothing():
    kernel = by_salience([0.4], constant=0.2)
    shown, y = grid(3, 3), np.arange(9.0)
    model = regress(kernel, shown, y)
    parts = values(kernel, shown, model.dual, np.array([[1.0, 7.0]]))
    assert parts[(1,)] == parts[(0, 1)] == 0
    assert model.predict(np.array([[1.0, 7.0]])) == pytest.approx(parts[()] + parts[(0,)])


# Leak, shortcut, impossibility


@pytest.mark.parametrize("anchors", [[0], [-4, 4], [-2, 2], [-4], [0, 4], [-1, 0, 1], range(-1, 3)])
@pytest.mark.parametrize("S", [0.3, RELU, 0.5])
@pytest.mark.parametrize("constant", [0.0, 0.5])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_slope_of_addition(anchors, S, constant, ridge):
    shown, hidden = addition(list(anchors))
    model = regress(by_salience([S], constant), shown, shown.sum(axis=1), ridge=ridge)
    line = np.polynomial.Polynomial.fit(hidden.sum(axis=1), model.predict(hidden), 1)
    slope, total = line.convert().coef[1], hidden.sum(axis=1)
    assert abs(slope - leak.slope(len(anchors), S, ridge)) < 1e-8
    assert np.abs(model.predict(hidden) - line(total)).max() < 1e-8


def test_slopes_in_the_paper():
    result = [leak.slope(p, 0.4264) for p in range(1, 6)]
    np.testing.assert_allclose(result, (0.7434, 0.8528, 0.8968, 0.9206, 0.9354), atol=5.1e-5)
    assert (leak.slope(1, 0.3), leak.slope(2, 0.3)) == pytest.approx((0.4286, 0.6), abs=5e-5)
    shown, hidden = addition([-4])
    offsets = [
        np.mean(
            regress(by_salience([RELU], constant), shown, shown.sum(axis=1), bias=bias)
            .predict(hidden) - leak.slope(1, RELU) * hidden.sum(axis=1)
        )
        for constant, bias in ((0.0, False), (0.5, False), (0.0, True), (0.5, True))
    ]  # fmt: skip
    np.testing.assert_allclose(offsets, (-0.814, -1.419, -1.624, -1.624), atol=6e-4)


def test_a_tolerance_of_a_tenth_shrinks_slopes():
    for anchors, expected in (([0], 0.644), ([-4, 4], 0.77)):
        shown, hidden = addition(anchors)
        for epsilon, slope in ((0.1, expected), (1e-6, leak.slope(len(anchors), 0.4))):
            model = svr(by_salience([0.4]), shown, shown.sum(axis=1), epsilon)
            outputs = np.polyfit(hidden.sum(axis=1), model.predict(hidden), 1)[0]
            assert outputs == pytest.approx(slope, abs=1e-3 if epsilon < 0.1 else 6e-3)


@pytest.mark.parametrize(
    ("S", "true", "published"),
    [
        (0.0, 13.228, 13.228),
        (0.1, 9.564, 9.636),
        (0.2, 7.053, 7.166),
        (0.3, 5.064, 5.207),
        (0.4, 3.080, 3.272),
        (0.45, 1.760, 2.023),
        (0.5, 0.0, 0.121),
    ],
)
def test_dispersed_errors(S, true, published):
    assert leak.dispersed_error(S, range(1, 51)) == pytest.approx(true, abs=6e-4)
    result = leak.dispersed_error(S, range(1, 51), method="svr")
    assert result == pytest.approx(published, abs=1.5e-3)


def tiles():
    pairs = [(i / 147, 2 * q / 147) for i in range(50) for q in range(25) if i + 2 * q <= 49]
    return [(s1, s2, 1 - 3 * s1 - 3 * s2) for s1, s2 in pairs]


def cd3_regression_margin(n, s):
    """Test margin of the least norm on CD-3, as published."""
    s1, s2, s3 = s
    below = 2 * n**3 * s1 * s2 + 3 * n**2 * s1 * s3 + 2 * n**2 * s2**2 + 4 * n * s2 * s3 + s3**2
    return n**2 * (2 * n * s1 * s2 + 2 * s2**2 - s1 * s3) / below


def test_phases_of_context_dependence():
    assert len(tiles()) == 650
    assert sum(leak.cd3_margin_succeeds(3, s) for s in tiles()) == 327
    assert sum(leak.cd3_regression_succeeds(3, s) for s in tiles()) == 460
    shown, y, held_out, truth = context(3, 3)
    for s in tiles()[::13]:
        kernel = by_salience(s)
        widest = (truth * margin(kernel, shown, y).predict(held_out)).min()
        assert (widest > 1e-7) == leak.cd3_margin_succeeds(3, s)
        if s[1] or kernel.memory:
            least = (truth * regress(kernel, shown, y).predict(held_out)).min()
            assert abs(least - cd3_regression_margin(3, s)) < 1e-9
            assert (least > 1e-9) == leak.cd3_regression_succeeds(3, s)


@pytest.mark.parametrize(
    ("activation", "least", "widest"),
    [
        ("relu", (0.785, 0.692, 0.522), (0.785, 0.596, -0.217)),
        ("quadratic", (0.672, 0.553, 0.353), (0.672, 0.553, 0.188)),
    ],
)
def test_least_squares_and_the_margin_differ(activation, least, widest):
    kernel = random_network(activation, 3, 3)
    for hidden in (1, 2, 3):
        shown, y, held_out, truth = context(3, hidden)
        outputs = (truth * regress(kernel, shown, y).predict(held_out)).min()
        assert outputs == pytest.approx(least[hidden - 1], abs=6e-4)
        for method in ("dense", "quotient", "auto"):
            model = margin(kernel, shown, y, method=method)
            outputs = (truth * model.predict(held_out)).min()
            assert outputs == pytest.approx(widest[hidden - 1], abs=6e-4)
            assert (y * model.predict(shown)).min() == pytest.approx(1, abs=1e-9)
        assert model.method == "quotient"
        assert model.unknowns == (6 if hidden == 3 else 16)


def test_depths_that_solve_context_dependence():
    def depths(activation, rule):
        result = [d for d in range(1, 41) if rule(3, random_network(activation, d, 3).salience())]
        return (result[0], result[-1], len(result)) if result else None

    assert depths("relu", leak.cd3_margin_succeeds) == (8, 24, 17)
    assert depths("leaky", leak.cd3_margin_succeeds) == (12, 31, 20)
    assert depths("quadratic", leak.cd3_margin_succeeds) == (2, 6, 5)
    assert depths("gaussian", leak.cd3_margin_succeeds) == (1, 40, 40)
    assert depths("step", leak.cd3_margin_succeeds) is None
    assert depths("relu", leak.cd3_regression_succeeds) == (1, 24, 24)
    assert depths("leaky", leak.cd3_regression_succeeds) == (1, 31, 31)
    assert depths("quadratic", leak.cd3_regression_succeeds) == (1, 6, 6)


@pytest.mark.parametrize(
    ("s1", "widest", "least"),
    [
        (0.05, 0.0717, 0.0717),
        (0.10, 0.0689, 0.0677),
        (0.15, 0.1159, 0.0564),
        (0.20, None, 0.0425),
        (0.25, None, 0.0271),
    ],
)
def test_least_salience_of_pairs_that_beats_the_shortcut(s1, widest, least):
    for rule, expected in (
        (leak.cd3_margin_succeeds, widest),
        (leak.cd3_regression_succeeds, least),
    ):
        last = 1 / 3 - s1 if expected is None else expected - 1e-4  # as exact as the table

        def beats(s2, rule=rule):
            return rule(3, (s1, s2, 1 - 3 * s1 - 3 * s2))

        assert not any(map(beats, np.linspace(0, last, 200, endpoint=False)))
        assert expected is None or beats(expected + 1e-4)


def test_least_salience_is_a_root():
    """Where 2n s1 s2 + 2 s2² = s1 (1 - 3 s1 - 3 s2), the margin of the least norm is zero."""
    shown, y, held_out, _ = context(3, 3)
    for s1 in (0.05, 0.1, 0.15, 0.2, 0.25):
        s2 = max(np.roots([2, 9 * s1, -s1 * (1 - 3 * s1)]))
        assert np.abs(regress(by_salience([s1, s2]), shown, y).predict(held_out)).max() < 1e-9


@pytest.mark.parametrize("S", [0.2, RELU])
def test_predictions_of_equivalence_are_zero_for_two_classes(S):
    for classes, anchors in (([2, 2], 1), ([5, 5], 1), ([5, 5], 4)):
        shown, y, held_out, _ = equivalence(classes, anchors)
        for fit in (regress, margin):
            assert np.abs(fit(by_salience([S]), shown, y).predict(held_out)).max() < 1e-9


def test_three_classes_are_always_different():
    shown, y, held_out, _ = equivalence([3, 3, 3], 2)
    for S, expected in ((0.2, -0.25), (RELU, -0.32), (0.5, -1 / 3)):
        outputs = regress(by_salience([S]), shown, y).predict(held_out)
        assert np.abs(outputs - expected).max() < 5e-4


@pytest.mark.parametrize(
    ("S", "expected"),
    [
        (RELU, (1, 0.738, 1.058, 1.410, 1.846, 2.427)),
        (0.3, (1, 0.265, 0.356, 0.475, 0.664, 0.998)),
        (0.5, (1, 2, 3, 4, 5, 6)),
    ],
)
def test_ordering_by_distance(S, expected):
    shown, y, held_out, truth = ordering(7)
    outputs = truth * regress(by_salience([S]), shown, y).predict(held_out)
    apart = np.abs(held_out[:, 0] - held_out[:, 1])
    means = [outputs[apart == d].mean() for d in range(1, 7)]
    np.testing.assert_allclose(means, expected, atol=6e-4)


def test_orderings_are_right_everywhere():
    for n in (5, 7, 9):
        for S in (0.3, RELU, 0.5):
            shown, y, held_out, truth = ordering(n)
            assert (truth * regress(by_salience([S]), shown, y).predict(held_out)).min() > 0


@pytest.mark.parametrize("k", [0.1, 0.2, RELU, 0.5])
def test_invariance_and_partial_exposure(k):
    kernel = by_overlap([0, k, 1])
    z = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    y = np.array([-1.0, 1.0, -1.0, 1.0])
    two = y[2:] * regress(kernel, z[:2], y[:2]).predict(z[2:])
    three = y[3:] * regress(kernel, z[:3], y[:3]).predict(z[3:])
    np.testing.assert_allclose(two, leak.invariance(k), atol=1e-12)
    np.testing.assert_allclose(three, leak.partial_exposure(k), atol=1e-12)


def test_exposure_numbers():
    assert (leak.invariance(0.2), leak.partial_exposure(0.2)) == pytest.approx(
        (0.25, 0.08696), abs=5e-6
    )
    assert (leak.invariance(RELU), leak.partial_exposure(RELU)) == pytest.approx(
        (0.7434, 0.5714), abs=1e-4
    )
    assert leak.invariance(0.5) == leak.partial_exposure(0.5) == 1


# Bad input


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: Kernel({(1, 0): 1.0}, 2), "increasing tuples"),
        (lambda: Kernel({(0,): np.nan}, 1), "needs finite weights"),
        (lambda: Kernel({}, 0), "components; got 0"),
        (lambda: by_overlap([1.0]), "C \\+ 1"),
        (lambda: by_set({(): 0.0, (0, 1): 1.0}), "is missing"),
        (lambda: by_salience([0.9]), "must be 1"),
        (lambda: by_salience([]), "needs one salience or more"),
        (lambda: random_network("relo", 1, 2), "Did you mean 'relu'"),
        (lambda: random_network("relu", -1, 2), "needs depth >= 0"),
        (lambda: random_network("gaussian", 1000, 3), "the cosine of any two inputs"),
        (lambda: by_set({(): 0.0, (0,): 0.4, (1,): 0.1, (0, 1): 1.0}).salience(), "size"),
        (lambda: by_set({(): 0.0, (0,): 0.4, (1,): 0.1, (0, 1): 1.0}).overlap(), "size"),
        (lambda: by_overlap([1.0, 1.0]).salience(), "cannot be normalized"),
        (lambda: by_salience([0.4]).gram(grid(2, 2), grid(2, 2, 2)), "compares 2 components"),
        (lambda: indicators(grid(2, 2, 2), grid(2, 2)), "2 components"),
        (lambda: conjunctions(np.empty((0, 2))), "with n >= 1"),
        (lambda: solvable(grid(2, 2), grid(3, 3), np.zeros(4)), "for 9 points"),
        (lambda: solvable(grid(2, 2), grid(3, 3), np.full(9, np.nan)), "one finite target"),
        (lambda: solvable(grid(2, 2), grid(3, 3), np.zeros(9), "labels"), "Labels are -1 and"),
        (
            lambda: values(by_salience([0.4]), grid(2, 2), np.zeros(3), grid(2, 2)),
            "one dual coefficient per training point",
        ),
        (lambda: leak.slope(0, 0.4), "needs p >= 1"),
        (lambda: leak.slope(1, 0.6), "0 <= S <= 1/2"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(act, says):
    with pytest.raises(Refused, match=says) as refusal:
        act()
    assert str(refusal.value).endswith(".")
