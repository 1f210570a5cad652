"""Measurements of what a model does on unseen combinations, from predictions alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from itertools import combinations
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.audits.sample import Sample
from recombine.core.error import Refused
from recombine.core.space import Mask
from recombine.tables.certify import certify
from recombine.tables.conjunctions import Array, Codes, Conjunctions
from recombine.tables.network import answer
from recombine.tables.network import measure as measure_kernel
from recombine.tables.table import Table

ROUNDS = 60  # of alternating least squares for a product of factors
LARGE = 50_000  # combinations beyond which a random part of the unseen ones is looked at
PART = 5_000
NEAR = 400  # unseen combinations whose outputs are compared with training targets
SAME = 0.02  # of the target's standard deviation: outputs closer than this are copies
LEFT = 3  # degrees of freedom that a regression over unseen combinations must leave
IMAGE = 16  # outputs that make a vector an image for the superposition index
CLEAR = 0.95  # R² of a law that makes it unnecessary to look for another
WIDEST = 3_000  # conjunctions that are fitted
KERNEL = 2_000  # training combinations up to which a kernel model is compared


@dataclass(frozen=True, eq=False)
class Means:
    """Mean output and target of each combination that has both."""

    z: Codes
    outputs: Array  # (cells, outputs)
    truth: Array
    seen: Mask
    shown: Codes  # training combinations, with or without an output
    targets: Array  # their mean targets
    shape: tuple[int, ...]
    images: bool  # whether outputs are images or long vectors; indicators of classes are not

    @property
    def unseen(self) -> Mask:
        """Combinations that were not trained on."""
        return ~self.seen


@dataclass(frozen=True)
class Evidence:
    """Numbers that the rules of the diagnosis read; nan where one cannot be measured."""

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
    copies: float = nan  # share of unseen outputs that equal a training target next to them
    copies_chance: float = nan  # the same share for the true values
    superposition: float = nan  # R² by training images of the same levels less R² by the truth
    superposition_images: float = nan

    def numbers(self) -> dict[str, float]:
        """Every number that was measured."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: float(v) for k, v in values.items() if not isinstance(v, str) and v == v}


def gather(sample: Sample, value: Array | None = None) -> Means:
    """Average outputs and targets by combination; classes become indicator columns.

    The unit is a power of two near the spread of the targets, so that squares neither overflow nor
    vanish.

    - value: (cells, outputs) stands in for the targets of combinations without one; nan elsewhere
    """
    cells, cell = len(sample.cells), sample.cell
    truth, outputs = sample.truth, sample.outputs
    if sample.kind == "classes":
        classes = len(sample.table.classes)
        truth, outputs = (_indicators(v[:, 0], classes) for v in (truth, outputs))
    seen = sample.seen if sample.seen is not None else np.ones(cells, dtype=bool)
    true, count = _mean(truth, cell, cells, _whole(truth))
    answers, answered = _mean(outputs, cell, cells, _whole(outputs))
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


def _whole(values: Array) -> Mask:
    return np.asarray(np.isfinite(values).all(axis=1))


def _indicators(numbers: Array, classes: int) -> Array:
    known = np.isfinite(numbers)
    table = np.eye(classes)[np.where(known, numbers, 0).astype(np.int64)]
    table[~known] = np.nan
    return table[:, 1:] if classes == 2 else table


def _mean(
    values: Array, cell: NDArray[np.int64], cells: int, rows: Mask
) -> tuple[Array, NDArray[np.int64]]:
    count = np.bincount(cell[rows], minlength=cells)
    sums = np.empty((cells, values.shape[1]))
    for c, column in enumerate(values.T):
        sums[:, c] = np.bincount(cell[rows], column[rows], minlength=cells)
    return sums / np.maximum(count, 1)[:, None], count


def measure(means: Means, training: Table, *, seed: int = 0) -> Evidence:
    """Take every measurement that the combinations allow.

    - training: the training rows; what they determine decides whether anybody could be right
    """
    rng = np.random.default_rng(seed)
    unseen = np.flatnonzero(means.unseen)
    if not len(unseen):
        return Evidence(0, r2_seen=_r2(means.truth, means.outputs))
    if len(unseen) > LARGE:
        unseen = np.sort(rng.choice(unseen, PART, replace=False))
    z, outputs, truth = means.z[unseen], means.outputs[unseen], means.truth[unseen]
    numbers: dict[str, Any] = {
        "r2_seen": _r2(means.truth[means.seen], means.outputs[means.seen]),
        "r2_unseen": _r2(truth, outputs, means.truth.mean(axis=0)),
    }
    numbers |= _law(means, training, z, truth)
    numbers["additive_outputs"] = shares(outputs, z, means.shape)[1]
    numbers["additive_truth"] = shares(truth, z, means.shape)[1]
    some = np.arange(len(means.z))
    if len(some) > LARGE:
        some = np.sort(rng.choice(some, PART, replace=False))
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
    if not numbers["r2_unseen"] >= 0.9:  # what is right needs no model of its errors
        numbers |= _kernel(means, z, outputs, truth, seed)
    numbers |= _copies(means, z, outputs, truth, rng)
    if means.images:
        numbers |= _superposition(means, z, outputs, truth, rng)
    return Evidence(len(unseen), **numbers)


def _r2(truth: Array, outputs: Array, center: Array | None = None) -> float:
    """Variance-weighted R²; unseen outputs are compared with the mean of all combinations."""
    if not len(truth):
        return nan
    center = truth.mean(axis=0) if center is None else center
    total = float(np.square(truth - center).sum())
    left = float(np.square(truth - outputs).sum())
    return 1 - left / total if total > 0 else nan


def _law(means: Means, training: Table, z: Codes, truth: Array) -> dict[str, Any]:
    """Find the simplest law that training determines and that predicts the unseen targets."""
    shown, values = means.shown, means.targets
    counts = [np.bincount(shown[:, f], minlength=m) for f, m in enumerate(means.shape)]
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
        support = {
            "determined": float(determined.mean()),
            "margin": _median(certificate.margin[determined]),
        }
        if order == 1:
            numbers |= support
        if support["determined"] < 0.5 or determined.sum() < LEFT:
            continue
        name = "a sum over factors" if order == 1 else f"a sum over {order} factors at a time"
        laws: dict[str, Callable[[], Array]] = {name: partial(_sums, c, shown, values, z)}
        if order == 1:
            laws["a product of factors"] = partial(_product, means.shape, shown, values, z)
        for name, law in laws.items():
            r2 = _r2(truth[determined], law()[determined], center)
            if r2 > best:
                best = r2
                numbers |= {"law": name, "law_r2": r2} | support
            if best >= CLEAR:
                return numbers
    return numbers


def _median(values: Array) -> float:
    return float(np.median(values)) if len(values) else nan


def _sums(c: Conjunctions, shown: Codes, values: Array, z: Codes) -> Array:
    """Predict by the sum over conjunctions of least norm that fits the training targets best."""
    phi = c.matrix(shown)
    gram = (phi.T @ phi).toarray()
    weights = np.linalg.lstsq(gram, phi.T @ values, rcond=1e-10)[0]
    return np.asarray(c.matrix(z) @ weights)


def _product(shape: tuple[int, ...], shown: Codes, values: Array, z: Codes) -> Array:
    """Predict each output by a product of one number per factor, fitted by alternation."""
    if values.shape[1] * len(values) > 1 << 25:  # images of many combinations: too slow
        return np.full((len(z), values.shape[1]), values.mean(axis=0))
    size = np.abs(values).mean(axis=0)
    parts = []
    for f, m in enumerate(shape):
        u = np.zeros((m, values.shape[1]))
        np.add.at(u, shown[:, f], values)
        u /= np.maximum(np.bincount(shown[:, f], minlength=m), 1)[:, None]
        parts.append(u / np.where(size > 0, size, 1) + 1e-3)
    parts[0] *= size
    for _ in range(ROUNDS):
        for f, m in enumerate(shape):
            others = np.ones(values.shape)
            for g in range(len(shape)):
                if g != f:
                    others *= parts[g][shown[:, g]]
            top, below = np.zeros((2, m, values.shape[1]))
            np.add.at(top, shown[:, f], others * values)
            np.add.at(below, shown[:, f], others**2)
            parts[f] = top / np.where(below > 1e-12, below, np.inf)
    guess = np.ones((len(z), values.shape[1]))
    for f in range(len(shape)):
        guess *= parts[f][z[:, f]]
    return np.where(np.isfinite(guess), guess, 0.0)


def shares(values: Array, z: Codes, shape: tuple[int, ...]) -> tuple[Array, float]:
    """Share of each factor in the variance over combinations (ω²), and adjusted additive share.

    The share of a factor is what it adds to a sum over the other factors, less what chance adds.
    """
    n, nothing = len(z), np.full(len(shape), nan)
    center = values - values.mean(axis=0)
    total = float(np.square(center).sum())
    columns = [np.eye(m)[z[:, f]] for f, m in enumerate(shape)]
    full, width = _residual(columns, center)
    if n - width < LEFT or total <= 1e-12 * float(np.square(values).sum()):
        return nothing, nan
    noise = full / (n - width)
    share = nothing.copy()
    for f in range(len(shape)):
        without, fewer = _residual(columns[:f] + columns[f + 1 :], center)
        share[f] = (without - full - (width - fewer) * noise) / (total + noise)
    return share, 1 - noise / (total / (n - 1))


def _residual(columns: list[Array], values: Array) -> tuple[float, int]:
    rest, rank = _beyond(columns, values)
    return float(np.square(rest).sum()), rank


def _beyond(columns: list[Array], values: Array) -> tuple[Array, int]:
    """What no sum over some factors explains, and the rank of these sums."""
    x = np.concatenate([np.ones((len(values), 1)), *columns], axis=1)
    gram = x.T @ x
    rank = int(np.linalg.matrix_rank(gram, hermitian=True))
    return values - x @ np.linalg.lstsq(gram, x.T @ values, rcond=1e-10)[0], rank


def _conjunction(means: Means, training: Table, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Find the two factors whose conjunctions carry most of the outputs beyond a sum.

    The share of a pair is that of the mean residual of each of its conjunctions in the variance
    over combinations, less what chance adds where more than two factors leave room to tell.
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
            effect, count = _mean(rest, group, shape[f] * shape[g], np.ones(len(z), dtype=bool))
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
    """Slope and squared correlation over all outputs together; variance ratio."""
    t, o = truth - truth.mean(axis=0), outputs - outputs.mean(axis=0)
    tt, oo, to = (float((a * b).sum()) for a, b in ((t, t), (o, o), (t, o)))
    if tt <= 0 or len(truth) < LEFT:
        return {}
    straight = (to / tt) * (to / oo) if oo > 1e-12 * tt else 0.0
    return {"slope": to / tt, "straight": straight, "variation": oo / tt}


def _kernel(means: Means, z: Codes, outputs: Array, truth: Array, seed: int) -> dict[str, float]:
    """Compare unseen outputs with the conjunction kernel model that answers most like them."""
    if outputs.shape[1] > 1 or len(means.shown) > KERNEL or len(z) < LEFT:
        return {}
    y, o = means.targets[:, 0], outputs[:, 0]
    guess = answer(measure_kernel(means.shown, y, z, o, seed), means.shown, y, z)
    total = float(np.square(o - o.mean()).sum())
    line = _line(truth, guess[:, None])
    if not total > 0 or not line:
        return {}
    return {"kernel_r2": 1 - float(np.square(o - guess).sum()) / total, "leak": line["slope"]}


def _copies(
    means: Means, z: Codes, outputs: Array, truth: Array, rng: np.random.Generator
) -> dict[str, float]:
    """Share of unseen outputs, and of true values, that equal a training target next to them."""
    rows = rng.permutation(len(z))[:NEAR]
    shown, values = means.shown, means.targets
    few = rng.permutation(len(shown))[:PART]
    shown, values = shown[few], values[few]
    near = SAME * np.sqrt(max(float(means.truth.var(axis=0).mean()), 1e-300))
    hits = np.zeros(2)
    for i in rows:
        neighbors = values[(shown == z[i]).any(axis=1)]
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
    shown, images = means.shown, means.targets
    few = np.sort(rng.permutation(len(shown))[:2_000])
    explained = superposed(outputs[rows], truth[rows], z[rows], shown[few], images[few], rng=rng)
    if not len(explained.images):
        return {}
    return {
        "superposition": explained.excess,
        "superposition_images": float(explained.images.mean()),
    }
