"""The kernel over levels: polynomials by their definition, the evidence by dense algebra."""

from itertools import combinations
from math import comb, prod

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from recombine.tables.kernel import (
    DIMENSIONS,
    JITTER,
    _evidence,
    _near,
    halves,
    kernel,
    learn,
    mix,
    polynomials,
    unpack,
)

SHAPE = (3, 4, 2)


def by_definition(parts, variances):
    return sum(
        v / comb(len(parts), k) * sum(prod(chosen) for chosen in combinations(parts, k))
        for k, v in enumerate(variances)
    )


def problem(rng, placed):
    z = np.indices(SHAPE).reshape(3, -1).T[rng.permutation(24)[:15]]
    places = [rng.normal(size=(m, DIMENSIONS)) for m in SHAPE] if placed else None
    theta = rng.normal(size=5 + placed * 3 * (DIMENSIONS + 1)) / 2
    return theta, z, rng.normal(size=15), rng.uniform(1, 3, size=15), places


@pytest.mark.parametrize("upto", [1, 2, 4, 5])
def test_polynomials_are_sums_over_subsets(upto, rng):
    parts = list(rng.normal(size=(5, 3)))
    for k, e in enumerate(polynomials(parts, upto), start=1):
        np.testing.assert_allclose(e, sum(prod(chosen) for chosen in combinations(parts, k)))


@pytest.mark.parametrize("half", [1, 2, 3])
def test_halves_of_the_factors_give_the_whole_kernel(half, rng):
    columns = [rng.uniform(size=m) for m in (2, 3, 2, 4)]
    variances = rng.uniform(size=4)
    first, rests = halves(columns, variances, half)
    total = rests[0] + sum(e[:, None] * rest for e, rest in zip(first, rests[1:], strict=True))
    at = np.indices((2, 3, 2, 4)).reshape(4, -1)
    parts = [c[i] for c, i in zip(columns, at, strict=True)]
    whole = by_definition(parts, variances)
    np.testing.assert_allclose(mix(parts, variances), whole)
    np.testing.assert_allclose((total + np.zeros_like(total)).ravel(), whole)


def test_similar_levels_share_by_their_distance(rng):
    theta, *_, places = problem(rng, placed=True)
    kappas, variances, noise = unpack(SHAPE, theta, places)
    np.testing.assert_allclose([*variances, noise], np.exp(theta[:5]))
    for c, x in enumerate(places):
        *stretch, logit = theta[5 + 4 * c : 9 + 4 * c]
        mixed = 1 / (1 + np.exp(-logit))
        far = [[sum(((u - v) * np.exp(stretch)) ** 2) for v in x] for u in x]
        near = np.exp(-np.array(far) / 2)
        np.testing.assert_allclose(_near(theta, places)[c][0], near)
        np.testing.assert_allclose(kappas[c], mixed * np.eye(len(x)) + (1 - mixed) * near)


@pytest.mark.parametrize("placed", [False, True])
def test_the_evidence_is_that_of_a_normal_density_and_has_its_slope(placed, rng):
    theta, z, target, weight, places = problem(rng, placed)
    kappas, variances, noise = unpack(SHAPE, theta, places)
    parts = [k[np.ix_(c, c)] for k, c in zip(kappas, z.T, strict=True)]
    dense = by_definition(parts, variances)
    np.testing.assert_allclose(kernel(z, z, kappas, variances), dense)
    density = multivariate_normal(cov=dense + np.diag(noise / weight + JITTER))
    value, slope = _evidence(theta, SHAPE, z, target, weight, places)
    expected = -density.logpdf(target) - 15 / 2 * np.log(2 * np.pi)
    assert value == pytest.approx(expected)
    step = 1e-5 * np.eye(len(theta))
    ends = [
        [_evidence(theta + sign * s, SHAPE, z, target, weight, places)[0] for s in step]
        for sign in (1, -1)
    ]
    np.testing.assert_allclose(slope, (np.subtract(*ends)) / 2e-5, rtol=1e-5, atol=1e-6)


def test_what_is_learned_is_the_most_probable(rng):
    theta, z, target, weight, places = problem(rng, placed=True)
    middle = np.array([-1.5] * 5 + [*[-0.5] * DIMENSIONS, -2.0] * 3)
    sizes = np.array([2.0] * 5 + [1.0] * (DIMENSIONS + 1) * 3)

    def loss(at):
        prior = np.square((at - middle) / sizes).sum() / 2
        return _evidence(at, SHAPE, z, target, weight, places)[0] + prior

    best = learn(SHAPE, z, target, weight, places)
    assert loss(best) < loss(middle)
    for nudge in rng.normal(size=(20, len(theta))):
        assert loss(best) < loss(best + 0.3 * nudge)
    again = learn(SHAPE, z, target, weight, places, start=best)
    np.testing.assert_allclose(loss(again), loss(best), rtol=1e-3)
    known = learn(SHAPE, z, target, weight, places, noise=0.04)
    assert np.exp(known[4]) == pytest.approx(0.04, rel=0.2)
