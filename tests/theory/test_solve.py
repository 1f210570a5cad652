"""Kernel models: all solvers agree, reductions are exact, and bad problems are refused."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recombine.base.error import Refused
from recombine.theory.dual import hard_margin
from recombine.theory.groups import group, needed
from recombine.theory.kernel import Kernel, by_overlap, by_salience, random_network, subsets
from recombine.theory.solve import METHODS, margin, regress, svr
from recombine.theory.symmetry import _mix, cells, quotient
from recombine_papers.lippl2025 import leak


def grid(*levels):
    return np.indices(levels).reshape(len(levels), -1).T.astype(float)


def context(n, hidden):
    z = grid(2, 2 * n, 2 * n)
    y = np.where(z[np.arange(len(z)), 1 + z[:, 0].astype(int)] < n, -1.0, 1.0)
    out = (z[:, 1] < hidden) & (z[:, 2] >= n) & (z[:, 2] < n + hidden)
    return z[~out], y[~out], z[out], y[out]


@pytest.mark.parametrize("levels", [(9, 9), (2, 6, 6), (4, 5, 3, 3), (3, 3, 3, 3, 3), (1, 5, 4)])
@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("bias", [False, True])
def test_all_methods_agree_with_brute_force(levels, share, ridge, bias, rng):
    z = grid(*levels)
    shown = rng.permutation(z)[: int(share * len(z))]
    y = rng.normal(size=(len(shown), 2))
    for kernel in (
        random_network("relu", 3, len(levels)),
        Kernel({j: float(rng.uniform(0.1, 1)) for j in subsets(len(levels))}, len(levels)),
    ):
        k = np.pad(kernel.gram(shown, shown) + ridge * np.eye(len(shown)), (0, int(bias)))
        if bias:
            k[-1, :-1] = k[:-1, -1] = 1
        brute = np.linalg.solve(k, np.pad(y, ((0, int(bias)), (0, 0))))
        dual = brute[: len(shown)]
        expected = kernel.gram(z, shown) @ dual + (brute[-1] if bias else 0)
        for method in METHODS if share == 1 else set(METHODS) - {"grid"}:
            model = regress(kernel, shown, y, ridge=ridge, method=method, bias=bias)
            assert model.method == method
            assert np.abs(model.predict(z) - expected).max() < 1e-9, method
            assert np.abs(model.dual - dual).max() < 1e-9, method


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
    st.integers(1, 60),
)
def test_group_products_are_kernel_products(levels, seed, n):
    rng = np.random.default_rng(seed)
    z = rng.integers(levels, size=(n, len(levels))).astype(float)
    weights = {j: float(rng.normal()) for j in subsets(len(levels)) if rng.random() < 0.7}
    kernel = Kernel(weights, len(levels))
    groups = group(z, weights)
    assert groups.points[groups.at].tolist() == z.tolist()
    v = rng.normal(size=groups.size)
    expected = kernel.gram(groups.points, groups.points) @ v
    np.testing.assert_allclose(groups.product(kernel, v), expected, atol=1e-12)
    query = rng.integers(5, size=(7, len(levels))).astype(float)
    result = sum(groups.values_at(kernel, v, query).values())
    np.testing.assert_allclose(result, kernel.gram(query, groups.points) @ v, atol=1e-12)


def test_conjugate_gradients_agree_with_factors_on_many_points(rng):
    z = grid(12, 12, 12)
    shown = z[rng.random(len(z)) < 0.5]
    y = rng.normal(size=len(shown))
    kernel = random_network("relu", 3, 3)
    outputs = [regress(kernel, shown, y, method=m).predict(z) for m in ("groups", "dense")]
    assert np.abs(outputs[0] - outputs[1]).max() < 1e-9
    assert regress(kernel, shown, y).method == "groups"
    whole = regress(kernel, z, rng.normal(size=len(z)))
    assert whole.method == "grid"
    assert whole.residual < 1e-11
    assert "1,728 points, solved by grid (8 unknowns" in str(whole)


def test_addition_of_three_thousand_values():
    n, p = 3001, 30
    z = np.array([(i, j) for i in range(n) for j in range(p)], dtype=float)
    shown = np.unique(np.concatenate([z, z[:, ::-1]]), axis=0)
    assert len(shown) == 179_160
    S = 0.4264
    model = regress(by_salience([S]), shown, shown.sum(axis=1))
    outputs = model.predict(np.array([[100.0, 100.0], [101.0, 100.0], [100.0, 3000.0]]))
    assert outputs[1] - outputs[0] == pytest.approx(leak.slope(p, S), abs=1e-7)
    assert (outputs[2] - outputs[0]) / 2900 == pytest.approx(leak.slope(p, S), abs=1e-9)


@pytest.mark.parametrize(("n", "hidden"), [(3, 1), (3, 2), (3, 3), (5, 4), (12, 7), (12, 12)])
def test_cells_of_context_dependence(n, hidden):
    shown, y, held_out, truth = context(n, hidden)
    kernel = random_network("relu", 3, 3)
    model = margin(kernel, shown, y, method="quotient")
    assert model.unknowns == (16 if hidden < n else 6)
    widest = truth * model.predict(held_out)
    brute = truth * margin(kernel, shown, y, method="dense").predict(held_out)
    np.testing.assert_allclose(widest, brute, atol=1e-8)


def test_cells_are_equitable_for_uneven_kernels_too(rng):
    shown, y, _, _ = context(4, 2)
    kernel = Kernel({j: float(rng.uniform(0.1, 1)) for j in subsets(3)}, 3)
    order = rng.permutation(len(shown))
    groups = group(shown[order])
    cell = cells(groups, kernel, groups.gather(y[order]))
    small = quotient(groups, kernel, cell)
    k = kernel.gram(groups.points, groups.points)
    indicator = np.eye(len(small))[cell]
    expected = indicator.T @ k @ indicator / np.outer(indicator.sum(0), indicator.sum(0))
    np.testing.assert_allclose(small, expected, atol=1e-12)
    assert len(small) == 16


def test_a_false_symmetry_is_noticed():
    groups = group(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 2.0]]))
    with pytest.raises(Refused, match="Points of one cell"):
        quotient(groups, by_salience([0.4]), np.zeros(3, dtype=np.int64))


def test_margin_is_optimal_and_serves_one_label_and_copies(rng):
    z = grid(3, 4)
    kernel = random_network("relu", 1, 2)
    y = np.sign(rng.normal(size=len(z)))
    model = margin(kernel, z, y)
    assert (y * model.predict(z)).min() == pytest.approx(1, abs=1e-9)
    assert (model.dual * y).min() >= 0
    idle = y * model.predict(z) > 1 + 1e-6
    assert not model.dual[idle].any()
    same = margin(kernel, z, np.ones(len(z)))
    assert (same.predict(z) == 1).all()
    doubled = margin(kernel, np.concatenate([z, z[:3]]), np.concatenate([y, y[:3]]))
    np.testing.assert_allclose(doubled.predict(z), model.predict(z), atol=1e-9)


def test_margin_agrees_with_an_independent_solver(rng):
    from scipy.optimize import minimize

    z = grid(3, 3)
    y = np.where(rng.random(9) < 0.5, -1.0, 1.0)
    kernel = by_salience([0.3])
    root = np.linalg.cholesky(kernel.gram(z, z))

    def margins(w):
        return y * (root @ w[:-1] + w[-1]) - 1

    result = minimize(
        lambda w: w[:-1] @ w[:-1] / 2,
        np.zeros(10),
        constraints={"type": "ineq", "fun": margins},
        tol=1e-12,
    )
    np.testing.assert_allclose(
        margin(kernel, z, y).predict(z), root @ result.x[:-1] + result.x[-1], atol=1e-5
    )


def test_copies_of_a_point_count(rng):
    kernel = random_network("relu", 2, 2)
    z = rng.integers(3, size=(30, 2)).astype(float)
    y = rng.normal(size=30)
    brute = np.linalg.solve(kernel.gram(z, z) + 0.2 * np.eye(30), y)
    for method in ("dense", "groups"):
        model = regress(kernel, z, y, ridge=0.2, method=method)
        np.testing.assert_allclose(model.dual, brute, atol=1e-9)
    distinct, at = np.unique(z, axis=0, return_inverse=True)
    once = regress(kernel, distinct, np.arange(len(distinct)) ** 2.0)
    twice = regress(kernel, z, (np.arange(len(distinct)) ** 2.0)[at.ravel()])
    np.testing.assert_allclose(twice.predict(grid(3, 3)), once.predict(grid(3, 3)), atol=1e-9)
    np.testing.assert_allclose(kernel.gram(z, z) @ twice.dual, twice.predict(z), atol=1e-12)


@pytest.mark.parametrize("method", list(METHODS))
def test_a_kernel_without_memory_fits_sums_with_the_least_norm(method):
    linear = random_network("relu", 0, 2)
    assert linear.memory == 0
    z = grid(4, 5)
    sums = z @ [1.0, 2.0]
    model = regress(linear, z, sums, method=method)
    assert model.residual < 1e-8
    k = linear.gram(z, z)
    expected = k @ np.linalg.pinv(k, rcond=1e-10) @ sums
    np.testing.assert_allclose(model.predict(z), expected, atol=1e-8)


@pytest.mark.parametrize("method", ["dense", "grid"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_kernel_without_memory_reports_its_residual(method, bias):
    linear = by_overlap([0, 0.5, 1])
    z = grid(3, 3) - 1
    model = regress(linear, z, z.prod(axis=1), method=method, bias=bias)
    assert model.residual == pytest.approx(1)
    np.testing.assert_allclose(model.predict(z), 0, atol=1e-12)
    limit = regress(linear, z, z.prod(axis=1) + z[:, 0], ridge=1e-7, bias=bias).predict(z)
    outputs = regress(linear, z, z.prod(axis=1) + z[:, 0], method=method, bias=bias).predict(z)
    np.testing.assert_allclose(outputs, limit, atol=1e-6)


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("levels", [(2, 1), (3, 4), (20, 20)])
def test_with_a_bias_a_kernel_that_is_constant_in_training_predicts_the_mean(method, levels, rng):
    z = np.column_stack([grid(*levels), np.full(np.prod(levels), 7.0)])
    for kernel in (Kernel({(): 0.3}, 3), Kernel({(2,): 0.1, (): 1e6}, 3)):
        y = 1.5 + (rng.permutation(len(z)) - (len(z) - 1) / 2)
        if method == "groups":
            if len(z) > 20:  # it gives up late
                return
            with pytest.raises(Refused, match="Give a ridge"):
                regress(kernel, z, y, method=method, bias=True)
            y = np.full(len(z), 1.5)
        model = regress(kernel, z, y, method=method, bias=True)
        np.testing.assert_allclose(model.predict(z), 1.5, atol=1e-6)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_copies_weigh_what_a_singular_kernel_cannot_fit(bias, offset, rng):
    linear = by_overlap([0.1, 0.5, 0.9])
    z = grid(3, 3)
    y = z.prod(axis=1) + offset
    copies = rng.integers(1, 5, size=9)
    copies[0] = 30
    at = rng.permutation(np.repeat(np.arange(9), copies))
    limit = regress(linear, z[at], y[at], ridge=1e-8, bias=bias).predict(z)
    assert np.abs(limit - regress(linear, z, y, bias=bias).predict(z)).max() > 0.1
    for method in ("auto", "dense"):
        model = regress(linear, z[at], y[at], bias=bias, method=method)
        np.testing.assert_allclose(model.predict(z), limit, atol=1e-5)
        np.testing.assert_allclose(
            linear.gram(z, z[at]) @ model.dual + model.bias, limit, atol=1e-5
        )
    with pytest.raises(Refused, match="each shown equally often"):
        regress(linear, z[at], y[at], bias=bias, method="grid")
    even = np.tile(np.arange(9), 3)
    np.testing.assert_allclose(
        regress(linear, z[even], y[even], bias=bias, method="grid").predict(z),
        regress(linear, z, y, bias=bias).predict(z),
        atol=1e-9,
    )


def test_large_problems_with_copies_are_not_sent_to_the_grid(rng):
    linear, z = by_overlap([0, 0.5, 1]), grid(25, 25)
    at = np.append(np.arange(625), [7] * 50)
    assert regress(linear, z[at], z[at].sum(axis=1)).method == "groups"


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("memory", [10.0**e for e in range(-15, -6)])
def test_grid_and_dense_agree_on_which_weights_are_null(bias, memory, rng):
    kernel = Kernel({(): 0.1, (0,): 0.4, (1,): 0.4, (0, 1): memory}, 2)
    z, y = grid(12, 12), rng.normal(size=144)
    dense, direct = (regress(kernel, z, y, method=m, bias=bias).residual for m in ("dense", "grid"))
    assert (dense < 0.1) == (direct < 0.1)


@pytest.mark.parametrize("unit", [1e-13, 1.0, 1e13])
def test_different_targets_of_one_point_are_refused_in_any_unit(unit):
    z, y = np.zeros((2, 2)), np.array([0.0, 1.0]) * unit
    with pytest.raises(Refused, match="different targets"):
        regress(by_salience([0.4]), np.concatenate([z, z + 1]), np.append(y, y))
    same = regress(by_salience([0.4]), np.tile(z, (5, 1)), np.full(10, 0.1 * unit))
    assert same.residual < 1e-12 * unit


def test_a_component_with_one_value_is_a_constant(rng):
    z, y = grid(4, 4), rng.normal(size=16)
    kernel = random_network("relu", 3, 3)
    flat = Kernel(
        {j: kernel.weight(j) + kernel.weight((*j, 2)) for j in subsets(2)}, 2
    )  # the third component is always shared
    stuck = np.column_stack([z, np.full(16, 7.0)])
    for method in METHODS:
        result = regress(kernel, stuck[:: 1 if method == "grid" else 2],
                        y[:: 1 if method == "grid" else 2], method=method)  # fmt: skip
        expected = regress(flat, z[:: 1 if method == "grid" else 2],
                         y[:: 1 if method == "grid" else 2])  # fmt: skip
        np.testing.assert_allclose(result.predict(stuck), expected.predict(z), atol=1e-9)


def test_what_does_not_fit_into_memory_is_refused_before_it_starts(rng):
    z = grid(30, 30)[:800]
    y = rng.normal(size=800)
    kernel = random_network("relu", 3, 2)
    for method in METHODS:
        with pytest.raises(Refused, match=r"GB|complete grid"):
            regress(kernel, z, y, method=method, memory=1e3)
    many = Kernel({(): 0.1, **{(c,): 0.01 for c in range(14)}, tuple(range(14)): 1.0}, 14)
    wide = rng.integers(3, size=(700, 14)).astype(float)
    assert regress(many, wide, y[:700]).residual < 1e-9  # 16 weights, though 2^14 conjunctions


def test_predictions_without_grouping_are_the_same(rng, monkeypatch):
    kernel = random_network("relu", 3, 3)
    z, y = grid(4, 4, 4), rng.normal(size=(40, 2))
    model = regress(kernel, z[:40], y)
    grouped = model.predict(z)
    monkeypatch.setattr("recombine.theory.solve.MEMORY", 0.0)
    np.testing.assert_allclose(model.predict(z), grouped, atol=1e-12)


BAD = {
    "not positive": (
        lambda: regress(Kernel({(0,): -1.0, (0, 1): 1.0}, 2), grid(3, 3), np.zeros(9)),
        "not positive semi-definite",
    ),
    "labels": (lambda: margin(by_salience([0.4]), grid(2, 2), np.arange(4.0)), "Labels are -1 and"),
    "both labels": (
        lambda: margin(by_salience([0.4]), np.zeros((2, 2)), np.array([-1.0, 1.0])),
        "with both labels",
    ),
    "inseparable": (
        lambda: margin(by_overlap([0, 0.5, 1]), grid(2, 2), np.array([1.0, -1.0, -1.0, 1.0])),
        "cannot separate",
    ),
    "two targets": (
        lambda: regress(by_salience([0.4]), np.zeros((2, 2)), np.array([0.0, 1.0])),
        "different targets",
    ),
    "no fit": (
        lambda: regress(
            by_overlap([0, 0.5, 1]), grid(3, 3), (grid(3, 3) - 1).prod(1), method="groups"
        ),
        "Give a ridge",
    ),
    "shape": (lambda: regress(by_salience([0.4]), grid(2, 2), np.zeros(3)), "for 4 points"),
    "labels' shape": (lambda: margin(by_salience([0.4]), grid(2, 2), np.ones(3)), "shape"),
    "svr's shape": (lambda: svr(by_salience([0.4]), grid(2, 2), np.ones(3)), "shape"),
    "components": (lambda: regress(by_salience([0.4]), grid(2, 2, 2), np.zeros(8)), "compares 2"),
    "empty": (lambda: regress(by_salience([0.4]), np.empty((0, 2)), np.empty(0)), "n >= 1"),
    "nan": (lambda: regress(by_salience([0.4]), grid(2, 2) * np.nan, np.zeros(4)), "finite values"),
    "ridge": (lambda: regress(by_salience([0.4]), grid(2, 2), np.zeros(4), ridge=-1.0), "ridge"),
    "method": (
        lambda: regress(by_salience([0.4]), grid(2, 2), np.zeros(4), method="gruops"),
        "Did you mean 'groups'",
    ),
    "margin's method": (
        lambda: margin(by_salience([0.4]), grid(2, 2), np.ones(4), method="groups"),
        "no method",
    ),
    "incomplete": (
        lambda: regress(by_salience([0.4]), grid(2, 2)[:3], np.zeros(3), method="grid"),
        "not the complete grid",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_problems_are_refused_in_a_sentence(name):
    act, says = BAD[name]
    with pytest.raises(Refused, match=says) as refusal:
        act()
    assert str(refusal.value).endswith(".")


def test_colors_are_scattered_by_splitmix64():
    """The first numbers of the generator seeded with 0 and 1, as its author published them."""
    state = np.array([0, 1], dtype=np.uint64)
    known = [0xE220A8397B1DCDAF, 0x910A2DEC89025CC1]
    assert _mix(state).tolist() == known


@pytest.mark.parametrize(("factors", "order"), [(2, 2), (6, 3), (8, 1), (20, 0)])
def test_grouping_takes_no_more_memory_than_it_says(factors, order, rng):
    """Points without a common value have the most conjunctions."""
    chosen = {j for k in range(order + 1) for j in combinations(range(factors), k)}
    z = rng.normal(size=(2000, factors))
    tracemalloc.start()
    groups = group(z, chosen)
    groups.sums(np.ones(groups.size))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    bound = needed(2000, factors, len(chosen | {tuple(range(factors))}))
    assert bound / 3 < peak <= bound


def test_the_grid_method_needs_the_memory_of_all_conjunctions():
    z = grid(3, 3, 3)
    memory = needed(27, 3, 8)
    regress(random_network("relu", 3, 3), z, z[:, 0], method="grid", memory=memory)
    with pytest.raises(Refused, match="Numbering all conjunctions"):
        regress(random_network("relu", 3, 3), z, z[:, 0], method="grid", memory=memory - 1)


def test_grouping_says_eight_bytes_for_each_of_its_numbers():
    """Six numbers per point and factor, and four per point and conjunction."""
    assert needed(5, 3, 7) == 8 * (5 * 3 * 6 + 5 * 7 * 4)


@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e15])
def test_a_margin_is_that_of_two_points_in_every_unit(unit):
    """Of labels ±1 at distance d, the dual coefficients are 2 / d² and the offset is midway."""
    x = np.array([1.0, 3.0, 7.0])
    a, b = hard_margin(unit * np.outer(x, x), np.array([-1.0, 1.0, 1.0]))
    np.testing.assert_allclose(a * unit, [-0.5, 0.5, 0], atol=1e-9)
    assert b == pytest.approx(-2)
