"""Forecast unmeasured combinations: their values, which are known, and where a model fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recombine.core.error import Refused
from recombine.core.space import Mask
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.network import answer, measure, network_kernel
from recombine.tables.referee import Judgement, Referee, fit_referee
from recombine.tables.standard import Frame, Scale, frame_of, scale_of, unsorted
from recombine.tables.table import Cells, Table
from recombine.tables.targets import LARGEST

INTERVAL = 0.9  # share of truths that lie between low and high
SURE = 0.95  # share of truths within the tolerance of a known value
COMPONENTS = 8  # most principal components of vector targets
EXPLAINED = 0.95  # explained variance beyond which no component is added
PART = 0.1  # share of the measured range by which a value may exceed it
COMMON = 0.05  # share of the measured combinations that makes an order a measured one

KNOWN, UNCERTAIN, ORDER, RANGE, LEVEL = range(5)
REASONS = (
    "",
    "the error may exceed the tolerance",
    "more factors differ from the most frequent levels than in the measured combinations",
    "the value lies beyond the measured range",
    "a level was never measured",
)

VERDICTS = ("right", "fails", "cannot know")
Kind = Literal["number", "vector", "classes"]


@dataclass(frozen=True)
class Tolerance:
    """Largest acceptable error: in units of the target, or in its standard deviations."""

    amount: float
    relative: bool

    def absolute(self, scale: float) -> float:
        """The tolerance in units of the target."""
        return self.amount * scale if self.relative else self.amount


def tolerance(text: str | float) -> Tolerance:
    """Read `0.5sd` or a number in units of the target.

    >>> tolerance("0.5sd").absolute(4.0), tolerance("3").absolute(4.0)
    (2.0, 3.0)
    """
    parts = re.fullmatch(
        r"\s*((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(sd)?\s*", str(text), re.IGNORECASE
    )
    if parts is None or not 0 < float(parts[1]) < np.inf:
        raise Refused(f"--tolerance needs a positive number such as 0.5sd or 3; got {text!r}.")
    return Tolerance(float(parts[1]), parts[2] is not None)


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of vector targets."""

    mean: Array  # (outputs,)
    axes: Array  # (outputs, components)
    rest: float  # variance outside the components


@dataclass(frozen=True, eq=False)
class Forecast:
    """Values to expect at the queried combinations, and their uncertainty."""

    table: Table
    queries: Codes
    kind: Kind
    tolerance: float  # in units of the target; for classes, the chance of a wrong one
    value: Array  # (queries, outputs); class numbers for classes
    why: NDArray[np.int64]  # index of REASONS; 0 where the value is known
    frame: Frame  # the order that the referees were fitted in
    scales: tuple[Scale, ...]  # of the referees' outputs
    referees: tuple[Referee, ...]  # of standardized outputs
    judgements: tuple[Judgement, ...]  # in units of the outputs
    options: tuple[str, int]  # tolerance as the caller wrote it, and seed
    basis: Components | None = None  # of vectors
    wrong: Array | None = None  # (queries,): chance that the value of a class is wrong
    network: str = ""  # the kind of network whose answers were forecast
    answers: Array | None = None  # of that network
    predictions: Array | None = None  # of a trained model

    @property
    def known(self) -> Mask:
        """Combinations whose value is known to within the tolerance."""
        return np.asarray(self.why == KNOWN)

    @property
    def low(self) -> Array:
        """Lower end of the interval around each number; nan for vectors and classes."""
        return self._end(-1)

    @property
    def high(self) -> Array:
        """Upper end of the interval around each number; nan for vectors and classes."""
        return self._end(1)

    def _end(self, sign: int) -> Array:
        if self.kind != "number":
            return np.full(len(self.queries), np.nan)
        return self.value[:, 0] + sign * self.judgements[0].half_width(INTERVAL)

    @property
    def standard(self) -> Forecast:
        """Table, queries, values and judgements in standard order."""
        codes, order = self.frame.sort(self.queries)
        judgements = tuple(
            replace(j, value=j.value[order], scale=j.scale[order]) for j in self.judgements
        )
        table, value = self.frame.table(self.table), self.value[order]
        return replace(self, table=table, queries=codes, value=value, judgements=judgements)

    @property
    def judged(self) -> Array | None:
        """The answers that are judged: a model's predictions, else the network's answers."""
        return self.answers if self.predictions is None else self.predictions

    @property
    def expected_error(self) -> Array:
        """Expected error of the judged answers; of the referee's values if there are none."""
        return self.error_of(self.value if self.judged is None else self.judged)

    @property
    def fails(self) -> Mask:
        """Known combinations where the judged answer probably exceeds the tolerance."""
        if self.judged is None:
            return np.zeros(len(self.queries), dtype=bool)
        if self.kind == "classes":
            return np.asarray(self.known & (self.judged[:, 0] != self.value[:, 0]))
        if self.kind == "vector":
            return self.known & (self.error_of(self.judged) > self.tolerance)
        chance = self.judgements[0].chance_beyond(self.judged[:, 0], self.tolerance)
        return self.known & (chance > 0.5)

    @property
    def verdict(self) -> NDArray[Any]:
        """Verdict on each judged answer: `right`, `fails` or `cannot know`."""
        return np.array(VERDICTS)[np.where(self.known, self.fails.astype(np.int64), 2)]

    def error_of(self, answers: Array) -> Array:
        """Expected error of any answers: absolute, root mean square, or chance of a wrong class."""
        if self.wrong is not None:
            return np.where(answers[:, 0] == self.value[:, 0], self.wrong, 1 - self.wrong)
        if self.basis is None:
            return self.judgements[0].expected_error(answers[:, 0])
        away = answers - self.value
        inside = np.square(away @ self.basis.axes).sum(axis=1)
        outside = np.maximum(np.square(away).sum(axis=1) - inside, 0)
        spread = sum(np.square(j.scale) * np.square(j.ratios).mean() for j in self.judgements)
        return np.asarray(np.sqrt(inside + spread + outside + self.basis.rest))


def forecast(
    table: Table,
    queries: Codes | None = None,
    *,
    within: str | float = "0.5sd",
    network: str = "relu3",
    seed: int = 0,
) -> Forecast:
    """Forecast the queries (all unmeasured combinations by default).

    - within: the tolerance, in standard deviations of the target (`0.5sd`) or in its units
    - network: the kind of network whose answer is forecast (`relu3`), or "" for none
    """
    queries = table.unseen if queries is None else queries
    frame, limit = frame_of(table), tolerance(within)
    cells = frame.table(table).cells
    kind: Kind = "classes" if table.classes else "vector" if cells.y.shape[1] > 1 else "number"
    largest = limit.absolute(float(np.sqrt(np.square(table.scale).sum())))
    columns, basis, wrong = range(cells.y.shape[1]), None, None
    if kind == "classes":
        largest = 1 - SURE if limit.relative else limit.amount
        if largest >= 1:
            raise Refused(
                f"For classes, --tolerance is the chance of a wrong class, below 1; got {within}."
            )
        columns = range(1, 2) if len(table.classes) == 2 else columns
    elif kind == "vector":
        basis = _components(cells)
        scores = (cells.y - basis.mean) @ basis.axes
        cells, columns = replace(cells, y=scores, spread=0 * scores), range(scores.shape[1])
    scales = tuple(scale_of(cells.y[:, c]) for c in columns)
    standard = replace(
        cells,
        y=np.stack([s.standardize(cells.y[:, c]) for c, s in zip(columns, scales, strict=True)], 1),
        spread=cells.spread[:, columns] / np.square([s.size for s in scales]),
    )
    asked, order = frame.sort(queries)
    referees = tuple(
        fit_referee(frame.shape, standard, c, asked, seed=seed) for c in range(len(columns))
    )
    judgements = tuple(
        _restored(r.judge(asked), s, order) for r, s in zip(referees, scales, strict=True)
    )
    value = np.stack([j.value for j in judgements], axis=1)
    if kind == "classes":
        value, wrong = _top_class(referees, scales, judgements)
        known = wrong <= largest
    elif basis is not None:
        value = basis.mean + value @ basis.axes.T
        halves = sum(np.square(j.half_width(SURE)) for j in judgements)
        known = np.sqrt(halves + basis.rest) <= largest
    else:
        known = judgements[0].half_width(SURE) <= largest
    why = np.where(known, KNOWN, UNCERTAIN)
    if kind == "number":
        low, high = float(cells.y.min()), float(cells.y.max())
        room = PART * (high - low)
        why[(value[:, 0] > high + room) | (value[:, 0] < low - room)] = RANGE
    result = Forecast(
        table,
        queries,
        kind,
        largest,
        value,
        _mark_unknown(frame.shape, cells.z, frame.codes(queries), why),
        frame,
        scales,
        referees,
        judgements,
        (str(within), seed),
        basis,
        wrong,
    )
    return with_network(result, network) if network else result


def _restored(j: Judgement, scale: Scale, order: NDArray[np.int64]) -> Judgement:
    """Translate a judgement into units of the output and the order of the queries."""
    value, size = scale.restore(j.value), abs(scale.size) * j.scale
    return Judgement(unsorted(value, order), unsorted(size, order), j.ratios)


def check_options(within: str | float, network: str, *, answered: bool) -> None:
    """Refuse an invalid tolerance or network before anything is fitted."""
    tolerance(within)
    if network == "measured" and not answered:
        raise Refused("--network measured needs predictions to measure; add --predictions.")
    if network and network != "measured":
        network_kernel(network, 1)


def with_network(f: Forecast, network: str) -> Forecast:
    """Add the answers of a network: a kind such as `relu3`, or `measured` from predictions."""
    cells, predictions = f.frame.table(f.table).cells, f.predictions
    check_options(f.options[0], network, answered=predictions is not None)
    if f.kind == "classes" and predictions is not None:
        predictions = np.eye(len(f.table.classes))[predictions[:, 0].astype(np.int64)]
    answers = []
    asked, order = f.frame.sort(f.queries)
    for c, y in enumerate(cells.y.T):
        if network == "measured" and predictions is not None:
            kernel = measure(cells.z, y, asked, predictions[order, c])
        else:
            kernel = network_kernel(network, len(f.table.shape))
        answers.append(unsorted(answer(kernel, cells.z, y, asked), order))
    columns = np.stack(answers, axis=1)
    if f.kind == "classes":
        columns = columns.argmax(axis=1)[:, None].astype(np.float64)
    return replace(f, network=network, answers=columns)


def with_predictions(f: Forecast, predictions: Array) -> Forecast:
    """Add a trained model's predictions at the queries, in their order."""
    p = np.asarray(predictions, dtype=np.float64).reshape(len(predictions), -1)
    if p.shape != f.value.shape:
        (rows, width), (queries, outputs) = p.shape, f.value.shape
        raise Refused(
            f"There are {rows:,} predictions of {width} number{'s' * (width > 1)}; give one of "
            f"{outputs} number{'s' * (outputs > 1)} for each of the {queries:,} combinations."
        )
    if not np.isfinite(p).all():
        raise Refused("Some prediction is not a finite number; give one for every combination.")
    if (largest := float(np.abs(p).max(initial=0))) > LARGEST:
        raise Refused(f"A prediction is {largest:.3g}; give numbers below {LARGEST:g}.")
    return replace(f, predictions=p)


def _components(cells: Cells) -> Components:
    """Principal components that explain most of the variance of vectors or images."""
    y = cells.y
    mean = y[0] + np.average(y - y[0], axis=0, weights=cells.weight)
    _, s, vt = np.linalg.svd(y - mean, full_matrices=False)
    share = np.cumsum(s**2) / np.sum(s**2)
    count = min(COMPONENTS, 1 + int(np.searchsorted(share, EXPLAINED)))
    return Components(mean, vt[:count].T, float(np.sum(s[count:] ** 2) / len(y)))


def _top_class(
    referees: Sequence[Referee], scales: Sequence[Scale], judgements: Sequence[Judgement]
) -> tuple[Array, Array]:
    """Top class of each query, (queries, 1), and the chance that it is wrong.

    The chance that the top class is right depends on its lead over the second. It is calibrated on
    rehearsals by isotonic regression, with one wrong answer added at the largest lead, so that a
    class is known only where many rehearsed ones were right.
    """
    from sklearn.isotonic import IsotonicRegression

    def per_class(scores: Sequence[Array]) -> Array:
        return np.stack([1 - scores[0], scores[0]] if len(scores) == 1 else scores, axis=1)

    def ranked(scores: Sequence[Array]) -> tuple[NDArray[np.int64], Array]:
        by_class = per_class(scores)
        ordered = np.sort(by_class, axis=1)
        return by_class.argmax(axis=1), ordered[:, -1] - ordered[:, -2]

    pairs = [*zip(referees, scales, strict=True)]
    first, lead = ranked([s.restore(r.rehearsal.answers @ r.weights) for r, s in pairs])
    truth = per_class([s.restore(r.rehearsal.y) for r, s in pairs])
    right = truth[np.arange(len(first)), first]
    curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    curve.fit(np.append(lead, lead.max()), np.append(right, 0.0))
    top, lead = ranked([j.value for j in judgements])
    return top[:, None].astype(np.float64), 1 - np.asarray(curve.predict(lead), dtype=np.float64)


def _mark_unknown(
    shape: Sequence[int], z: Codes, queries: Codes, why: NDArray[Any]
) -> NDArray[np.int64]:
    """Mark combinations as unknown beyond the measured order, or with an unmeasured level.

    Of several most frequent levels the first in standard order counts.
    """
    counts = [np.bincount(z[:, c], minlength=m) for c, m in enumerate(shape)]
    frequent = np.array([count.argmax() for count in counts])
    differing = np.bincount((z != frequent).sum(axis=1), minlength=len(shape) + 1)
    common = np.flatnonzero(differing >= max(1.0, COMMON * len(z)))
    why = why.astype(np.int64)
    why[(queries != frequent).sum(axis=1) > common.max()] = ORDER
    never = np.any([count[queries[:, c]] == 0 for c, count in enumerate(counts)], axis=0)
    why[never] = LEVEL
    return why
