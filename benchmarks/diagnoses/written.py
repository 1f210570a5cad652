"""Worlds that the rules of the diagnosis were written on."""

from __future__ import annotations

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
from recombine.theory.kernel import by_salience

WRITTEN: Worlds = {}


@world("memorizer", WRITTEN)
def lookup(rng: np.random.Generator) -> Sample:
    """A table of the training combinations that answers the mean elsewhere."""
    z = grid(8, 8)
    y, train = sums(z, rng), part(z, 0.6, rng)
    return sample(z, y, np.where(train, y, y[train].mean()), train)


@world("leaking adder", WRITTEN)
def kernel_leak(rng: np.random.Generator) -> Sample:
    """A kernel model with salience 0.3 on a sum of two factors, four rows and columns shown."""
    z = grid(10, 10)
    y, train = sums(z, rng), (z < 3).any(axis=1)
    return sample(z, y, kernel_answer(by_salience([0.3]), z, y, train), train)


@world("shortcut learner", WRITTEN)
def blind(rng: np.random.Generator) -> Sample:
    """The answer is the first factor; a regression sees the second, which mostly agrees."""
    z = grid(8, 8)
    value = np.linspace(-1, 1, 8)
    y = value[z[:, 0]] + 0.05 * rng.standard_normal(64)
    train = np.abs(z[:, 0] - z[:, 1]) <= 1
    guess = np.array([y[train & (z[:, 1] == b)].mean() for b in range(8)])
    return sample(z, y, guess[z[:, 1]], train)


@world("superposition", WRITTEN)
def pieced(rng: np.random.Generator) -> Sample:
    """Images in the hole are the mean of training images next to it in the row and column."""
    z = grid(12, 12)
    y, train = bumps(z, 12), hole(z, 4, 8)
    outputs = y + 0.01 * rng.standard_normal(y.shape)
    for i in np.flatnonzero(~train):
        near = train & (z == z[i]).any(axis=1) & (np.abs(z - z[i]).sum(axis=1) <= 4)
        outputs[i] = np.tensordot(rng.dirichlet(np.ones(near.sum())), y[near], 1)
    return sample(z, y, outputs, train)


@world("entangled but fitted", WRITTEN)
def scrambled_code(rng: np.random.Generator) -> Sample:
    """A random network mixes the factors of every combination; a kernel model reads its code."""
    z = grid(8, 8)
    y, train = sums(z, rng), part(z, 0.6, rng)
    code = np.tanh(one_hot(z) @ rng.standard_normal((16, 64)) * 3)
    code = np.tanh(code @ rng.standard_normal((64, 64)) * 1.5)
    away = ((code[:, None] - code[None]) ** 2).sum(axis=2)
    k = np.exp(-away / np.median(away) * 2)
    mean = y[train].mean()
    weights = np.linalg.solve(k[np.ix_(train, train)] + 1e-6 * np.eye(train.sum()), y[train] - mean)
    return sample(z, y, mean + k[:, train] @ weights, train)


@world("composer", WRITTEN)
def ridge(rng: np.random.Generator) -> Sample:
    """Ridge regression on one-hot codes of a sum."""
    from sklearn.linear_model import Ridge

    z = grid(8, 8)
    y, train = sums(z, rng), part(z, 0.6, rng)
    model = Ridge(1e-3).fit(one_hot(z)[train], y[train])
    return sample(z, y, model.predict(one_hot(z)), train)


@world("support does not determine it", WRITTEN)
def two_islands(rng: np.random.Generator) -> Sample:
    """Training shows two blocks without a common level; the blocks have different offsets."""
    from sklearn.linear_model import Ridge

    z = grid(8, 8)
    y, train = sums(z, rng), (z[:, 0] < 4) == (z[:, 1] < 4)
    y = y + 3 * rng.choice([-1, 1]) * (z[:, 0] < 4)
    model = Ridge(1e-3).fit(one_hot(z)[train], y[train])
    return sample(z, y, model.predict(one_hot(z)), train)


@world("cannot tell", WRITTEN)
def stump(rng: np.random.Generator) -> Sample:
    """A tree with two leaves fits neither."""
    from sklearn.tree import DecisionTreeRegressor

    z = grid(8, 8)
    y, train = sums(z, rng), part(z, 0.6, rng)
    model = DecisionTreeRegressor(max_depth=1).fit(z[train], y[train])
    return sample(z, y, model.predict(z), train)


@world("memorizer", WRITTEN)
def neighbor(rng: np.random.Generator) -> Sample:
    """The answer of a training combination that has the most levels in common, any of them."""
    z = grid(6, 5, 4)
    y, train = sums(z, rng) + 0.05 * rng.standard_normal(120), part(z, 0.4, rng)
    common = (z[:, None] == z[train][None]).sum(axis=2) + 0.5 * rng.random((120, train.sum()))
    return sample(z, y, np.where(train, y, y[train][common.argmax(axis=1)]), train)


@world("support does not determine it", WRITTEN)
def random_table(rng: np.random.Generator) -> Sample:
    """Every combination has a number of its own; a forest fits those it was shown."""
    from sklearn.ensemble import ExtraTreesRegressor

    z = grid(8, 8)
    y, train = rng.standard_normal(64), part(z, 0.6, rng)
    model = ExtraTreesRegressor(30, random_state=0).fit(one_hot(z)[train], y[train])
    return sample(z, y, model.predict(one_hot(z)), train)


@world("shortcut learner", WRITTEN)
def blind_classes(rng: np.random.Generator) -> Sample:
    """The class is the first factor's; the answer follows the second, which mostly agrees."""
    z = np.repeat(grid(6, 6), 4, axis=0)
    y, guess = z[:, 0] > 2, z[:, 1] > 2
    train = ((y == guess) | ((z == 2).any(axis=1) & (z == 3).any(axis=1))) & (rng.random(144) < 0.8)
    return sample(z, y, guess, train, classes=True)


@world("composer", WRITTEN)
def products(rng: np.random.Generator) -> Sample:
    """Logarithms of a product of three factors, fitted by ridge regression."""
    from sklearn.linear_model import Ridge

    z = grid(5, 5, 4)
    y, train = np.exp(sums(z, rng) / 2), part(z, 0.5, rng)
    model = Ridge(1e-2).fit(
        one_hot(z)[train], np.log(y[train]) + 0.02 * rng.standard_normal(train.sum())
    )
    return sample(z, y, np.exp(model.predict(one_hot(z))), train)


@world("leaking adder", WRITTEN)
def polynomial_kernel(rng: np.random.Generator) -> Sample:
    """Kernel regression with a cubic kernel of the number of common levels, three factors."""
    from sklearn.kernel_ridge import KernelRidge

    z = grid(6, 6, 5)
    y, train = sums(z, rng), part(z, 0.3, rng)
    model = KernelRidge(alpha=1e-3, kernel="poly", degree=5, coef0=0.2, gamma=1)
    mean = y[train].mean()
    model.fit(one_hot(z)[train], y[train] - mean)
    return sample(z, y, mean + model.predict(one_hot(z)), train)


@world("superposition", WRITTEN)
def trained_mlp(rng: np.random.Generator) -> Sample:
    """A network trained to draw a bump from one-hot codes of its place, outside a square."""
    from sklearn.neural_network import MLPRegressor

    z = grid(12, 12)
    y, train = bumps(z, 12), hole(z, 3, 9)
    model = MLPRegressor(
        hidden_layer_sizes=(128, 128),
        max_iter=600,
        learning_rate_init=3e-3,
        random_state=int(rng.integers(99)),
    )
    model.fit(one_hot(z)[train], y[train].reshape(train.sum(), -1))
    return sample(z, y, model.predict(one_hot(z)).reshape(y.shape), train)
