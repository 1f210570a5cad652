"""Judge the diagnosis on worlds whose cause is known: `python docs/diagnoses.py` fills audit.md."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from recombine.audits.audit import judge
from recombine.audits.diagnosis import RULES
from recombine.audits.sample import Sample
from recombine.tables.read import read
from recombine.theory.kernel import by_salience, random_network
from recombine.theory.solve import regress

PAGE = Path(__file__).with_name("audit.md")
SEEDS = 5

World = Callable[[np.random.Generator], Sample]
WRITTEN: dict[str, tuple[str, World]] = {}  # name -> cause, world: used to write the rules
UNSEEN: dict[str, tuple[str, World]] = {}  # never looked at while the rules were written


def world(cause: str, shelf: dict[str, tuple[str, World]]) -> Callable[[World], World]:
    """Register a world with the cause that it has by construction."""

    def register(function: World) -> World:
        shelf[function.__name__] = (cause, function)
        return function

    return register


# ---------------------------------------------------------------------------------------- parts


def grid(*levels: int) -> Any:
    """All combinations."""
    return np.stack([a.ravel() for a in np.meshgrid(*map(np.arange, levels), indexing="ij")], 1)


def sums(z: Any, rng: np.random.Generator) -> Any:
    """A sum of one number per level."""
    return sum(rng.standard_normal(z[:, c].max() + 1)[z[:, c]] for c in range(z.shape[1]))


def part(z: Any, share: float, rng: np.random.Generator) -> Any:
    """A random training set that shows every level."""
    while True:
        train = rng.random(len(z)) < share
        if all(len(set(z[train, c])) == z[:, c].max() + 1 for c in range(z.shape[1])):
            return train


def sample(z: Any, y: Any, outputs: Any, train: Any, *, classes: bool = False) -> Sample:
    """Build what is audited."""
    names = [f"f{c}" for c in range(z.shape[1])]
    data = {name: z[:, c] for c, name in enumerate(names)}
    y, outputs = np.asarray(y), np.asarray(outputs, dtype=np.float64)
    if y.ndim > 1:
        shape, y = y.shape[1:], y.reshape(len(y), -1)
        targets = [f"y{i}" for i in range(y.shape[1])]
        table = read(data | dict(zip(targets, y.T, strict=True)), names, targets)
        return Sample(table, outputs.reshape(len(y), -1), train, shape)
    if classes:
        table = read(data | {"y": [f"c{int(v)}" for v in y]}, names, "y")
        return Sample(table, outputs[:, None], train)
    return Sample(read(data | {"y": y}, names, "y"), outputs[:, None], train)


def one_hot(z: Any) -> Any:
    """One-hot codes of all factors."""
    return np.concatenate([np.eye(z[:, c].max() + 1)[z[:, c]] for c in range(z.shape[1])], axis=1)


def bumps(z: Any, size: int, width: float = 1.5) -> Any:
    """Images of a bump at each place."""
    at = np.arange(size)
    x, y = (np.exp(-((at - z[:, c, None]) ** 2) / (2 * width**2)) for c in range(2))
    return x[:, :, None] * y[:, None, :]


def hole(z: Any, low: int, high: int) -> Any:
    """Training leaves out a square."""
    return ~((z >= low) & (z < high)).all(axis=1)


def kernel_answer(kernel: Any, z: Any, y: Any, train: Any) -> Any:
    """Answers of a kernel model at all combinations."""
    mean = y[train].mean()
    solved = regress(kernel, z[train].astype(float), y[train] - mean)
    return mean + solved.predict(z.astype(float))


# ------------------------------------------------------- worlds that were used to write the rules


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


# -------------------------------- worlds that were written after the rules, and looked at once


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


# ------------------------------------------------------------------------------------------ page


def confusion(worlds: dict[str, tuple[str, World]], seeds: int = SEEDS) -> dict[str, Any]:
    """Diagnose every world at every seed."""
    rows = {}
    for name, (cause, build) in worlds.items():
        answers = [judge(build(np.random.default_rng(s)), budget=0).diagnosis for s in range(seeds)]
        rows[name] = {"cause": cause, "answers": answers}
    return rows


def written(rows: dict[str, Any]) -> str:
    """Write a confusion matrix and the share that is right."""
    names = list(dict.fromkeys(rule.diagnosis for rule in RULES))
    causes = [n for n in names if any(r["cause"] == n for r in rows.values())]
    said = [n for n in names if any(n in r["answers"] for r in rows.values())]
    lines = [f"| cause | {' | '.join(said)} |", "| --- |" + " --- |" * len(said)]
    for cause in causes:
        answers = [a for r in rows.values() if r["cause"] == cause for a in r["answers"]]
        cells = [str(answers.count(n)) if n in answers else "" for n in said]
        lines.append(f"| {cause} | {' | '.join(cells)} |")
    pairs = [(r["cause"], a) for r in rows.values() for a in r["answers"]]
    told = [(c, a) for c, a in pairs if a != "cannot tell" and c != "cannot tell"]
    open_ = [(c, a) for c, a in pairs if c != "cannot tell" and a == "cannot tell"]
    right = sum(c == a for c, a in told)
    nothing = [a for c, a in pairs if c == "cannot tell"]
    wrong = [n for n, r in rows.items() if any(a != r["cause"] for a in r["answers"])]
    lines += [
        "",
        f"Right: {right} of {len(told)} diagnoses ({right / len(told):.0%}); *cannot tell* in "
        f"{len(open_)} further runs with a cause, and in {nothing.count('cannot tell')} of "
        f"{len(nothing)} runs without one. {len(rows)} worlds, {len(pairs)} runs."
        + (f" Worlds with a wrong answer: {', '.join(wrong)}." if wrong else ""),
    ]
    return "\n".join(lines)


def rules() -> str:
    """Write the rule table."""
    lines = ["| | diagnosis | when |", "| --- | --- | --- |"]
    lines += [f"| {i} | {r.diagnosis} | {r.when} |" for i, r in enumerate(RULES, 1)]
    return "\n".join(lines)


def fill(text: str, name: str, body: str) -> str:
    """Replace what stands between two marks."""
    return re.sub(
        rf"(<!-- {name}: [^>]*-->\n).*?(\n<!-- end of {name} -->)",
        lambda m: f"{m[1]}{body}{m[2]}",
        text,
        flags=re.DOTALL,
    )


def main() -> None:
    """Fill the page."""
    text = PAGE.read_text(encoding="utf-8")
    text = fill(text, "rules", rules())
    for name, worlds in (("unseen", UNSEEN), ("written", WRITTEN)):
        text = fill(text, name, written(confusion(worlds)))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
