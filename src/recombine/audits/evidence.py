"""Measure from predictions alone how a model behaves on unseen combinations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from itertools import combinations
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.audits.cells import group_means
from recombine.audits.sample import Sample, finite_rows
from recombine.core.error import Refused
from recombine.core.space import Mask
from recombine.tables.certify import certify
from recombine.tables.conjunctions import Array, Codes, Conjunctions
from recombine.tables.network import answer
from recombine.tables.network import measure as measure_kernel
from recombine.tables.table import Table

ROUNDS = 60  # of alternating least squares for a product of factors
LARGE = 50_000  # combinations beyond which a random sample of
PART = 5_000  # this size is measured
NEAR = 400  # most unseen combinations that are compared with training targets
SAME = 0.02  # largest distance of a copy, in standard deviations of the target
LEFT = 3  # fewest residual degrees of freedom of a regression
IMAGE = 16  # fewest outputs of an image, or of a vector that is measured like one
CLEAR = 0.95  # R² of a law beyond which no other is tried
WIDEST = 3_000  # most conjunctions to fit
KERNEL = 2_000  # most training combinations for the comparison with a kernel model


@dataclass(frozen=True, eq=False)
class Means:
    """Mean output and target of each combination that has both."""

    z: Codes
    outputs: Array  # (cells, outputs)
    truth: Array
    seen: Mask
    train: Codes  # training combinations, with or without an output
    targets: Array  # their mean targets
    shape: tuple[int, ...]
    images: bool  # whether outputs are images or long vectors; class indicators are not


@dataclass(frozen=True)
class Evidence:
    """Measurements that the rules of the diagnosis use; nan where one is impossible."""

    unseen: int  # unseen combinations with a target
    r2_seen: float = nan
    r2_unseen: float = nan
    law: str = ""  # the simplest law that training determines and that holds on unseen ones
    law_r2: float = nan  # on unseen combinations, fitted to training targets
    determined: float = nan  # share of unseen combinations that training determines at its order
    margin: float = nan  # median noise amplification of these
    never: int = 0  # unseen combinations with a level that does not occur in training
    additive_outputs: float = nan  # adjusted share of variance over unseen combinations
    additive_truth: float = nan
    slope: float = nan  # of outputs against targets over unseen combinations
    straight: float = nan  # squared correlation of outputs and targets over unseen combinations
    variation: float = nan  # variance of unseen outputs over that of the targets
    shortcut: str = ""  # the factor whose share in the outputs most exceeds that in the targets
    shortcut_share: float = nan  # over all combinations
    shortcut_truth: float = nan
    conjunction: str = ""  # the two factors whose conjunctions carry most of the outputs
    conjunction_at: str = ""  # their levels with the largest effect
    conjunction_share: float = nan  # in the outputs' variance, beyond a sum over factors
    conjunction_truth: float = nan  # the same share of these factors in the targets
    kernel_r2: float = nan  # of the unseen outputs by the kernel model with the best saliences
    leak: float = nan  # slope of that kernel model's answers against the targets
    copies: float = nan  # share of unseen outputs that equal a training target with a common level
    copies_chance: float = nan  # the same share for the true values
    superposition: float = nan  # R² by training images of the same levels, minus R² by the truth
    superposition_images: float = nan

    def numbers(self) -> dict[str, float]:
        """Every number that was measured."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: float(v) for k, v in values.items() if not isinstance(v, str) and v == v}


def gather(sample: Sample, value: Array | None = None) -> Means:
    """Average outputs and targets by combination; classes become indicator columns.

    The unit is a power of two near the standard deviation of the targets, so that squares neither
    overflow nor underflow.

    - value: (cells, outputs) replaces missing targets; nan elsewhere
    """
    cells, cell = len(sample.cells), sample.cell
    truth, outputs = sample.truth, sample.outputs
    if sample.kind == "classes":
        classes = len(sample.table.classes)
        truth, outputs = (_indicators(v[:, 0], classes) for v in (truth, outputs))
    seen = sample.seen if sample.seen is not None else np.ones(cells, dtype=bool)
    rows, predicted = finite_rows(truth), finite_rows(outputs)
    true, count = group_means(truth[rows], cell[rows], cells)
    answers, answered = group_means(outputs[predicted], cell[predicted], cells)
    if value is not None:
        use = (count == 0) & np.isfinite(value).all(axis=1)
        true[use], count = value[use], np.where(use, 1, count)
    keep = (count > 0) & (answered > 0)
    training = sample.training.cells
    targets = training.y[:, 1:] if len(sample.table.classes) == 2 else training.y
    unit = 2.0 ** np.round(np.log2(sample.scale))
    return Means(
        sample.cells[keep],
        answers[keep] / unit,
        true[keep] / unit,
        seen[keep],
        training.z,
        targets / unit,
        sample.table.shape,
        sample.kind == "vector" and sample.outputs.shape[1] >= IMAGE,
    )


def _indicators(numbers: Array, classes: int) -> Array:
    known = np.isfinite(numbers)
    table = np.eye(classes)[np.where(known, numbers, 0).astype(np.int64)]
    table[~known] = np.nan
    return table[:, 1:] if classes == 2 else table


def measure(means: Means, training: Table, *, seed: int = 0) -> Evidence:
    """Take every measurement that the combinations allow.

    - training: the training rows, which decide what is determined
    """
    rng = np.random.default_rng(seed)
    unseen = np.flatnonzero(~means.seen)
    if not len(unseen):
        return Evidence(0, r2_seen=_r2(means.truth, means.outputs))
    unseen = _sampled(unseen, rng)
    z, outputs, truth = means.z[unseen], means.outputs[unseen], means.truth[unseen]
    numbers: dict[str, Any] = {
        "r2_seen": _r2(means.truth[means.seen], means.outputs[means.seen]),
        "r2_unseen": _r2(truth, outputs, means.truth.mean(axis=0)),
    }
    numbers |= _law(means, training, z, truth)
    numbers["additive_outputs"] = shares(outputs, z, means.shape)[1]
    numbers["additive_truth"] = shares(truth, z, means.shape)[1]
    some = _sampled(np.arange(len(means.z)), rng)
    shares_out = shares(means.outputs[some], means.z[some], means.shape)[0]
    shares_true = shares(means.truth[some], means.z[some], means.shape)[0]
    away = shares_out - shares_true
    if np.isfinite(away).any():
        f = int(np.nanargmax(away))
        numbers |= {
            "shortcut": training.columns[f],
            "shortcut_share": float(shares_out[f]),
            "shortcut_truth": float(shares_true[f]),
        }
    if not means.images:
        numbers |= _conjunction(means, training, some)
    numbers |= _line(truth, outputs)
    if not numbers["r2_unseen"] >= 0.9:  # otherwise there are no errors to explain
        numbers |= _kernel(means, z, outputs, truth, seed)
    numbers |= _copies(means, z, outputs, truth, rng)
    if means.images:
        numbers |= _superposition(means, z, outputs, truth, rng)
    return Evidence(len(unseen), **numbers)


def _sampled(rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= LARGE else np.sort(rng.choice(rows, PART, replace=False))


def _r2(truth: Array, outputs: Array, center: Array | None = None) -> float:
    """Variance-weighted R² against a constant, by default the mean of the targets."""
    if not len(truth):
        return nan
    center = truth.mean(axis=0) if center is None else center
    total = float(np.square(truth - center).sum())
    left = float(np.square(truth - outputs).sum())
    return 1 - left / total if total > 0 else nan


def _law(means: Means, training: Table, z: Codes, truth: Array) -> dict[str, Any]:
    """Find the simplest law that training determines and that predicts the unseen targets."""
    train, values = means.train, means.targets
    counts = [np.bincount(train[:, f], minlength=m) for f, m in enumerate(means.shape)]
    never = np.any([c[z[:, f]] == 0 for f, c in enumerate(counts)], axis=0)
    numbers: dict[str, Any] = {"never": int(never.sum())}
    best, center = -np.inf, means.truth.mean(axis=0)
    for order in range(1, len(means.shape)):
        c = Conjunctions(means.shape, order, tuple(int(count.argmax()) for count in counts))
        if c.width > WIDEST:
            break
        try:
            certificate = certify(training, order, z)
        except Refused:
            break
        determined = certificate.determined
        margins = certificate.margin[determined]
        support = {
            "determined": float(determined.mean()),
            "margin": float(np.median(margins)) if len(margins) else nan,
        }
        if order == 1:
            numbers |= support
        if support["determined"] < 0.5 or determined.sum() < LEFT:
            continue
        name = "a sum over factors" if order == 1 else f"a sum over {order} factors at a time"
        laws: dict[str, Callable[[], Array]] = {name: partial(_sums, c, train, values, z)}
        if order == 1:
            laws["a product of factors"] = partial(_product, means.shape, train, values, z)
        for name, law in laws.items():
            r2 = _r2(truth[determined], law()[determined], center)
            if r2 > best:
                best = r2
                numbers |= {"law": name, "law_r2": r2} | support
            if best >= CLEAR:
                return numbers
    return numbers


def _sums(c: Conjunctions, train: Codes, values: Array, z: Codes) -> Array:
    """Predict by the minimum-norm least-squares sum over conjunctions."""
    phi = c.matrix(train)
    gram = (phi.T @ phi).toarray()
    weights = np.linalg.lstsq(gram, phi.T @ values, rcond=1e-10)[0]
    return np.asarray(c.matrix(z) @ weights)


def _product(shape: tuple[int, ...], train: Codes, values: Array, z: Codes) -> Array:
    """Predict each output by a product of one number per factor (alternating least squares)."""
    if values.shape[1] * len(values) > 1 << 25:  # images of many combinations: too slow
        return np.full((len(z), values.shape[1]), values.mean(axis=0))
    size = np.abs(values).mean(axis=0)
    parts = []
    for f, m in enumerate(shape):
        u, _ = group_means(values, train[:, f], m)
        parts.append(u / np.where(size > 0, size, 1) + 1e-3)
    parts[0] *= size
    for _ in range(ROUNDS):
        for f, m in enumerate(shape):
            others = np.ones(values.shape)
            for g in range(len(shape)):
                if g != f:
                    others *= parts[g][train[:, g]]
            top, below = np.zeros((2, m, values.shape[1]))
            np.add.at(top, train[:, f], others * values)
            np.add.at(below, train[:, f], others**2)
            parts[f] = top / np.where(below > 1e-12, below, np.inf)
    guess = np.ones((len(z), values.shape[1]))
    for f in range(len(shape)):
        guess *= parts[f][z[:, f]]
    return np.where(np.isfinite(guess), guess, 0.0)


def shares(values: Array, z: Codes, shape: tuple[int, ...]) -> tuple[Array, float]:
    """Share of each factor in the variance over combinations (ω²), and adjusted additive share.

    The share of a factor is what it adds to a sum over the other factors, minus the expectation
    under chance.
    """
    n, nothing = len(z), np.full(len(shape), nan)
    center = values - values.mean(axis=0)
    total = float(np.square(center).sum())
    columns = [np.eye(m)[z[:, f]] for f, m in enumerate(shape)]
    rest, width = _beyond(columns, center)
    full = float(np.square(rest).sum())
    if n - width < LEFT or total <= 1e-12 * float(np.square(values).sum()):
        return nothing, nan
    noise = full / (n - width)
    share = nothing.copy()
    for f in range(len(shape)):
        rest, fewer = _beyond(columns[:f] + columns[f + 1 :], center)
        without = float(np.square(rest).sum())
        share[f] = (without - full - (width - fewer) * noise) / (total + noise)
    return share, 1 - noise / (total / (n - 1))


def _beyond(columns: list[Array], values: Array) -> tuple[Array, int]:
    """Residual of the best sum over some factors, and the rank of these sums."""
    x = np.concatenate([np.ones((len(values), 1)), *columns], axis=1)
    gram = x.T @ x
    rank = int(np.linalg.matrix_rank(gram, hermitian=True))
    return values - x @ np.linalg.lstsq(gram, x.T @ values, rcond=1e-10)[0], rank


def _conjunction(means: Means, training: Table, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Find the two factors whose conjunctions explain most of the outputs beyond a sum.

    The share of a pair is the variance of the mean residuals of its conjunctions in the variance
    over combinations, minus the expectation under chance if there are more than two factors.
    """
    z, shape, tables = means.z[rows], means.shape, (means.outputs[rows], means.truth[rows])
    columns = [np.eye(m)[z[:, f]] for f, m in enumerate(shape)]
    pairs = list(combinations(range(len(shape)), 2))
    groups = [np.ravel_multi_index((z[:, f], z[:, g]), (shape[f], shape[g])) for f, g in pairs]
    share, effects = np.zeros((2, len(pairs))), []
    for t, values in enumerate(tables):
        rest, width = _beyond(columns, values)
        total, left = float(np.square(values - values.mean(axis=0)).sum()), len(z) - width
        if left < LEFT or total <= 1e-12 * float(np.square(values).sum()):
            return {}
        for p, (group, (f, g)) in enumerate(zip(groups, pairs, strict=True)):
            effect, count = group_means(rest, group, shape[f] * shape[g])
            energy = float((count[:, None] * effect**2).sum())
            free = int((count > 0).sum()) - shape[f] - shape[g] + 1
            spare = left - free
            noise = (float(np.square(rest).sum()) - energy) / spare if spare >= LEFT else 0.0
            share[t, p] = max(energy - free * noise, 0.0) / total
            effects += [effect] if t == 0 else []
    p = int(share[0].argmax())
    f, g = pairs[p]
    at = np.unravel_index(int(np.square(effects[p]).sum(axis=1).argmax()), (shape[f], shape[g]))
    labels = [training.space.factors[c].labels[int(i)] for c, i in zip((f, g), at, strict=True)]
    names = [training.columns[c] for c in (f, g)]
    return {
        "conjunction": " and ".join(names),
        "conjunction_at": " & ".join(f"{n}={v}" for n, v in zip(names, labels, strict=True)),
        "conjunction_share": float(share[0, p]),
        "conjunction_truth": float(share[1, p]),
    }


def _line(truth: Array, outputs: Array) -> dict[str, float]:
    """Slope, squared correlation and variance ratio of outputs against targets, all pooled."""
    t, o = truth - truth.mean(axis=0), outputs - outputs.mean(axis=0)
    tt, oo, to = (float((a * b).sum()) for a, b in ((t, t), (o, o), (t, o)))
    if tt <= 0 or len(truth) < LEFT:
        return {}
    straight = (to / tt) * (to / oo) if oo > 1e-12 * tt else 0.0
    return {"slope": to / tt, "straight": straight, "variation": oo / tt}


def _kernel(means: Means, z: Codes, outputs: Array, truth: Array, seed: int) -> dict[str, float]:
    """Compare unseen outputs with the best-matching kernel model of conjunctions."""
    if outputs.shape[1] > 1 or len(means.train) > KERNEL or len(z) < LEFT:
        return {}
    y, o = means.targets[:, 0], outputs[:, 0]
    guess = answer(measure_kernel(means.train, y, z, o, seed), means.train, y, z)
    total = float(np.square(o - o.mean()).sum())
    line = _line(truth, guess[:, None])
    if not total > 0 or not line:
        return {}
    return {"kernel_r2": 1 - float(np.square(o - guess).sum()) / total, "leak": line["slope"]}


def _copies(
    means: Means, z: Codes, outputs: Array, truth: Array, rng: np.random.Generator
) -> dict[str, float]:
    """Share of unseen outputs, and of true values, that equal a training target nearby.

    Nearby training combinations have at least one level in common.
    """
    rows = rng.permutation(len(z))[:NEAR]
    few = rng.permutation(len(means.train))[:PART]
    train, values = means.train[few], means.targets[few]
    near = SAME * np.sqrt(max(float(means.truth.var(axis=0).mean()), 1e-300))
    hits = np.zeros(2)
    for i in rows:
        neighbors = values[(train == z[i]).any(axis=1)]
        for k, v in enumerate((outputs[i], truth[i])):
            if len(neighbors):
                away = np.sqrt(np.square(neighbors - v).mean(axis=1)).min()
                hits[k] += away <= near
    copied, chance = hits / len(rows)
    return {"copies": float(copied), "copies_chance": float(chance)}


def _superposition(
    means: Means, z: Codes, outputs: Array, truth: Array, rng: np.random.Generator
) -> dict[str, float]:
    from recombine.diagnostics.superposition import superposed

    rows = rng.permutation(len(z))[:NEAR]
    few = np.sort(rng.permutation(len(means.train))[:2_000])
    train, images = means.train[few], means.targets[few]
    explained = superposed(outputs[rows], truth[rows], z[rows], train, images, rng=rng)
    if not len(explained.images):
        return {}
    return {
        "superposition": explained.excess,
        "superposition_images": float(explained.images.mean()),
    }
