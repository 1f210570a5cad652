"""Worlds that were written after the rules, and looked at once; they decide what is reported."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.diagnoses.parts import (
    Worlds,
    bumps,
    grid,
    hole,
    kernel_answer,
    one_hot,
    part,
    sample,
    sums,
    world,
)
from recombine.audits.sample import Sample
from recombine.theory.kernel import by_salience, random_network

UNSEEN: Worlds = {}


@world("memorizer", UNSEEN)
def deep_lookup(rng: np.random.Generator) -> Sample:
    """A kernel model with salience 0.01, as very deep networks have: nearly a lookup table."""
    z = grid(9, 7)
    y, train = sums(z, rng), (z < 3).any(axis=1)
    return sample(z, y, kernel_answer(by_salience([0.01]), z, y, train), train)


@world("memorizer", UNSEEN)
def retrieved_images(rng: np.random.Generator) -> Sample:
    """The training image of the nearest place, with a little noise in its choice."""
    z = grid(10, 10)
    y, train = bumps(z, 10, 1.2), part(z, 0.5, rng)
    away = ((z[:, None] - z[train][None]) ** 2).sum(axis=2) + rng.random((100, train.sum()))
    away[train] += 99 * (away[train] >= 1)  # training images retrieve themselves
    return sample(z, y, y[train][away.argmin(axis=1)], train)


@world("leaking adder", UNSEEN)
def infinite_network(rng: np.random.Generator) -> Sample:
    """An infinitely wide network with three hidden layers of ReLU units, three factors."""
    z = grid(7, 5, 5)
    y, train = sums(z, rng) + 0.02 * rng.standard_normal(175), part(z, 0.25, rng)
    return sample(z, y, kernel_answer(random_network("relu", 3, 3), z, y, train), train)


@world("leaking adder", UNSEEN)
def support_vectors(rng: np.random.Generator) -> Sample:
    """Support vector regression with a Gaussian kernel on one-hot codes, two in each row."""
    from sklearn.svm import SVR

    z = grid(9, 9)
    y = sums(z, rng)
    turn = rng.permutation(9)
    train = (z[:, 1] - turn[z[:, 0]]) % 9 <= 2
    model = SVR(C=100, gamma=0.7, epsilon=0.01).fit(one_hot(z)[train], y[train])
    return sample(z, y, model.predict(one_hot(z)), train)


@world("shortcut learner", UNSEEN)
def tree_without_the_cause(rng: np.random.Generator) -> Sample:
    """Three classes by the first factor; a tree sees only the third, which agrees in training."""
    from sklearn.tree import DecisionTreeClassifier

    z = np.repeat(grid(6, 3, 6), 3, axis=0)
    y = z[:, 0] // 2
    train = (y == z[:, 2] // 2) | ((z[:, 0] + z[:, 2] == 5) & (rng.random(len(z)) < 0.2))
    model = DecisionTreeClassifier().fit(z[train][:, 2:], y[train])
    return sample(z, y, model.predict(z[:, 2:]), train, classes=True)


@world("shortcut learner", UNSEEN)
def masked_regression(rng: np.random.Generator) -> Sample:
    """The target depends on two factors; boosting does not see one and leans on its companion."""
    from sklearn.ensemble import GradientBoostingRegressor

    z = grid(7, 7, 3)
    y = 2 * np.linspace(-1, 1, 7)[z[:, 0]] + 0.3 * rng.standard_normal(3)[z[:, 2]]
    y = y + 0.05 * rng.standard_normal(len(z))
    train = np.abs(z[:, 0] - z[:, 1]) <= 1
    model = GradientBoostingRegressor(random_state=0).fit(z[train][:, 1:], y[train])
    return sample(z, y, model.predict(z[:, 1:]), train)


@world("superposition", UNSEEN)
def trained_cnn(rng: np.random.Generator) -> Sample:
    """A convolutional decoder trained to draw a bump from one-hot codes, outside a square."""
    import recombine as rc

    size, seed = 12, int(rng.integers(1000))
    space = rc.grid(x=size, y=size)
    z = grid(size, size)
    y, train = bumps(z, size), hole(z, 3, 9)
    import torch

    x = torch.tensor(one_hot(z), dtype=torch.float32)
    data = rc.Data(z.astype(float), x, torch.tensor(y, dtype=torch.float32))
    assert space.shape == (size, size)
    model = rc.cnn(data, channels=16, depth=2, seed=seed)
    rc.fit(model, data.take(train), steps=1200, batch=32, lr=3e-3, seed=seed)
    return sample(z, y, rc.predict(model, x).numpy(), train)


@world("superposition", UNSEEN)
def cross_faded(rng: np.random.Generator) -> Sample:
    """Unseen images fade from the nearest training image of the row to that of the column."""
    z = grid(14, 14)
    y, train = bumps(z, 14, 1.3), hole(z, 4, 9)
    outputs = y + 0.02 * rng.standard_normal(y.shape)
    for i in np.flatnonzero(~train):
        near = []
        for c in range(2):
            rows = np.flatnonzero(train & (z[:, c] == z[i, c]))
            near.append(rows[np.abs(z[rows, 1 - c] - z[i, 1 - c]).argmin()])
        share = 0.3 + 0.4 * rng.random()
        outputs[i] = share * y[near[0]] + (1 - share) * y[near[1]]
    return sample(z, y, outputs, train)


@world("entangled but fitted", UNSEEN)
def random_places(rng: np.random.Generator) -> Sample:
    """Each combination has a random place in a plane; a Gaussian process smooths over places."""
    z = grid(6, 5, 4)
    y, train = sums(z, rng) + 0.02 * rng.standard_normal(120), part(z, 0.5, rng)
    place = rng.random((120, 2))
    away = ((place[:, None] - place[None]) ** 2).sum(axis=2)
    k = np.exp(-away / 0.01)
    mean = y[train].mean()
    weights = np.linalg.solve(k[np.ix_(train, train)] + 1e-2 * np.eye(train.sum()), y[train] - mean)
    return sample(z, y, mean + k[:, train] @ weights, train)


@world("entangled but fitted", UNSEEN)
def wiggly_polynomial(rng: np.random.Generator) -> Sample:
    """A polynomial of degree nine through scrambled level numbers fits and oscillates."""
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import PolynomialFeatures

    z = grid(8, 8)
    y, train = sums(z, rng), part(z, 0.6, rng)
    places = np.stack([rng.permutation(8)[z[:, c]] for c in range(2)], axis=1) / 3.5 - 1
    x = PolynomialFeatures(9).fit_transform(places)
    model = Ridge(1e-9).fit(x[train], y[train])
    return sample(z, y, model.predict(x), train)


@world("composer", UNSEEN)
def additive_boosting(rng: np.random.Generator) -> Sample:
    """Boosted stumps, which can only add, on a sum of three factors."""
    from sklearn.ensemble import GradientBoostingRegressor

    z = grid(5, 5, 4)
    y, train = sums(z, rng), part(z, 0.6, rng)
    model = GradientBoostingRegressor(n_estimators=800, max_depth=1, random_state=0)
    model.fit(one_hot(z)[train], y[train])
    return sample(z, y, model.predict(one_hot(z)), train)


@world("composer", UNSEEN)
def rendered_by_factor(rng: np.random.Generator) -> Sample:
    """Images as outer products of one profile per level, read off a cross of training images."""
    z = grid(11, 11)
    y, train = bumps(z, 11, 1.4), (z == 5).any(axis=1)
    rows = np.stack([y[(z == (a, 5)).all(axis=1)][0][:, 5] for a in range(11)])
    columns = np.stack([y[(z == (5, b)).all(axis=1)][0][5] for b in range(11)])
    outputs = rows[z[:, 0]][:, :, None] * columns[z[:, 1]][:, None, :]
    return sample(z, y, outputs + 0.02 * rng.standard_normal(y.shape), train)


@world("support does not determine it", UNSEEN)
def new_levels(rng: np.random.Generator) -> Sample:
    """Two levels never occur in training; boosting guesses them."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    z = grid(9, 6)
    y, train = sums(z, rng), (z[:, 0] < 7) & (rng.random(54) < 0.9)
    model = HistGradientBoostingRegressor(min_samples_leaf=2, max_iter=200)
    model.fit(z[train], y[train])
    return sample(z, y, model.predict(z), train)


@world("support does not determine it", UNSEEN)
def private_interactions(rng: np.random.Generator) -> Sample:
    """A sum, and as large a random number for every combination; a deep forest."""
    from sklearn.ensemble import RandomForestRegressor

    z = grid(6, 5, 4)
    y, train = sums(z, rng), part(z, 0.5, rng)
    y = y / y.std() + 1.5 * rng.standard_normal(120)
    model = RandomForestRegressor(60, bootstrap=False, max_features=0.5, random_state=0)
    model.fit(one_hot(z)[train], y[train])
    return sample(z, y, model.predict(one_hot(z)), train)


@world("cannot tell", UNSEEN)
def stopped_early(rng: np.random.Generator) -> Sample:
    """A network after three epochs fits nothing yet."""
    from sklearn.neural_network import MLPRegressor

    z = grid(8, 6)
    y, train = sums(z, rng), part(z, 0.6, rng)
    model = MLPRegressor(hidden_layer_sizes=(32,), max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(one_hot(z)[train], y[train])
    return sample(z, y, model.predict(one_hot(z)), train)


@world("cannot tell", UNSEEN)
def three_unseen(rng: np.random.Generator) -> Sample:
    """A lookup table with only three unseen combinations."""
    z = grid(6, 6)
    y, train = sums(z, rng), np.ones(36, dtype=bool)
    train[rng.permutation(36)[:3]] = False
    return sample(z, y, np.where(train, y, y[train].mean()), train)
