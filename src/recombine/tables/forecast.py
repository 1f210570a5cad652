"""Forecast unmeasured combinations: values, what is known, and where a model will fail."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recombine.core.error import Refused
from recombine.core.space import Mask
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.network import answer, measure, network_kernel
from recombine.tables.referee import Judgement, Referee, fit_referee
from recombine.tables.table import Table

INTERVAL = 0.9  # share of truths that lie between low and high
SURE = 0.95  # share of truths that must lie within the tolerance of a known value
COMPONENTS = 8  # leading components of outputs that are vectors
EXPLAINED = 0.95  # share of their variance beyond which no component is added
PART = 0.1  # values further beyond the measured range than this share of it are refused
COMMON = 0.05  # share of the measured combinations that makes an order seen

KNOWN, UNCERTAIN, ORDER, RANGE, LEVEL = range(5)
REASONS = (
    "",
    "the error may exceed the tolerance",
    "more factors differ from the most frequent levels than in the measured combinations",
    "the value lies beyond the measured range",
    "a level was never measured",
)

VERDICTS = ("right", "fails", "cannot know")


@dataclass(frozen=True)
class Tolerance:
    """How far from the truth an answer may lie: in units of the target, or in its deviations."""

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
    parts = re.fullmatch(r"\s*(\d*\.?\d+(?:e[+-]?\d+)?)\s*(sd)?\s*", str(text), re.IGNORECASE)
    if parts is None or not 0 < float(parts[1]) < np.inf:
        raise Refused(f"--tolerance needs a positive number such as 0.5sd or 3; got {text!r}.")
    return Tolerance(float(parts[1]), parts[2] is not None)


@dataclass(frozen=True, eq=False)
class Forecast:
    """What is to be expected at the asked combinations."""

    table: Table
    asked: Codes
    kind: Literal["number", "vector", "classes"]
    tolerance: float  # in units of the target; chance of a wrong class for classes
    value: Array  # (asked, outputs); class numbers for classes
    low: Array  # (asked,): end of the interval; nan for vectors and classes
    high: Array
    own_error: Array  # expected error of the referee's own value
    why: NDArray[np.int64]  # index of REASONS; 0 where the value is known
    referees: tuple[Referee, ...]
    judgements: tuple[Judgement, ...]
    asked_for: tuple[str, int]  # tolerance as it was written, and seed
    axes: Array = field(default_factory=lambda: np.ones((1, 1)))  # (outputs, components) of vectors
    rest: float = 0.0  # variance of vectors outside the components
    network: str = ""  # the kind of network whose answer was forecast
    answers: Array | None = None  # what it will answer
    predictions: Array | None = None  # what a trained model answered

    @property
    def known(self) -> Mask:
        """Combinations whose value is known to within the tolerance."""
        return np.asarray(self.why == KNOWN)

    @property
    def judged(self) -> Array | None:
        """The answers that are judged: predictions where there are any, else the network's."""
        return self.answers if self.predictions is None else self.predictions

    @property
    def expected_error(self) -> Array:
        """Expected error of the judged answers, or of the referee's own values."""
        return self.own_error if self.judged is None else self.error_of(self.judged)

    @property
    def fails(self) -> Mask:
        """Known combinations where the judged answer is expected to miss by more than tolerance."""
        if self.judged is None:
            return np.zeros(len(self.asked), dtype=bool)
        if self.kind == "classes":
            return np.asarray(self.known & (self.judged[:, 0] != self.value[:, 0]))
        if self.kind == "vector":
            return self.known & (self.error_of(self.judged) > self.tolerance)
        chance = self.judgements[0].chance_beyond(self.judged[:, 0], self.tolerance)
        return self.known & (chance > 0.5)

    @property
    def verdict(self) -> NDArray[Any]:
        """Of each combination `right`, `fails` or `cannot know`, for the judged answers."""
        return np.array(VERDICTS)[np.where(self.known, self.fails.astype(np.int64), 2)]

    def error_of(self, answers: Array) -> Array:
        """Expected error of any answers: |y - truth|, root mean square, or chance to be wrong."""
        if self.kind == "classes":
            right = 1 - self.own_error
            return np.where(answers[:, 0] == self.value[:, 0], 1 - right, right)
        if self.kind == "number":
            return self.judgements[0].expected_error(answers[:, 0])
        away = answers - self.value
        inside = away @ self.axes
        outside = np.maximum(np.square(away).sum(axis=1) - np.square(inside).sum(axis=1), 0)
        spread = sum(np.square(j.scale) * np.square(j.ratios).mean() for j in self.judgements)
        return np.asarray(np.sqrt(np.square(inside).sum(axis=1) + spread + outside + self.rest))


def forecast(
    table: Table,
    asked: Codes | None = None,
    *,
    within: str | float = "0.5sd",
    network: str = "relu3",
    seed: int = 0,
) -> Forecast:
    """Forecast the asked combinations (all unmeasured ones by default).

    - within: the tolerance, in standard deviations of the target (`0.5sd`) or in its units
    - network: the kind of network whose answer is forecast (`relu3`), or "" for none
    """
    if table.y is None:
        raise Refused("A forecast needs a target; name its column with --target.")
    asked = table.unseen if asked is None else asked
    if not len(asked):
        raise Refused("Every combination was measured; there is nothing to forecast.")
    if table.classes:
        made = _classes(table, asked, within, seed)
    elif table.cells.y.shape[1] > 1:
        made = _vector(table, asked, within, seed)
    else:
        made = _number(table, asked, within, seed)
    return with_network(made, network) if network and network != "measured" else made


def check_options(within: str | float, network: str, *, answered: bool) -> None:
    """Refuse a wrong tolerance or network before anything is fitted."""
    tolerance(within)
    if network == "measured" and not answered:
        raise Refused("--network measured needs predictions to measure; give --predictions.")
    if network and network != "measured":
        network_kernel(network, 1)


def with_network(made: Forecast, network: str) -> Forecast:
    """Add what a network will answer: a kind such as `relu3`, or `measured` from predictions."""
    cells, factors = made.table.cells, len(made.table.shape)
    measured = network == "measured"
    check_options(made.asked_for[0], network, answered=made.predictions is not None)
    y, predictions = cells.y, made.predictions
    if made.kind == "classes" and predictions is not None:
        predictions = np.eye(len(made.table.classes))[predictions[:, 0].astype(np.int64)]
    answers = []
    for c in range(y.shape[1]):
        if measured and predictions is not None:
            kernel = measure(cells.z, y[:, c], made.asked, predictions[:, c])
        else:
            kernel = network_kernel(network, factors)
        answers.append(answer(kernel, cells.z, y[:, c], made.asked))
    columns = np.stack(answers, axis=1)
    if made.kind == "classes":
        columns = columns.argmax(axis=1)[:, None].astype(np.float64)
    return replace(made, network=network, answers=columns)


def with_predictions(made: Forecast, predictions: Array) -> Forecast:
    """Add a trained model's answers at the asked combinations, in their order."""
    p = np.asarray(predictions, dtype=np.float64).reshape(len(predictions), -1)
    if len(p) != len(made.asked) or p.shape[1] != made.value.shape[1]:
        wide, outputs = p.shape[1], made.value.shape[1]
        raise Refused(
            f"There are {len(p):,} predictions of {wide} number{'s' * (wide > 1)}; "
            f"{len(made.asked):,} combinations with {outputs} number{'s' * (outputs > 1)} each are "
            "asked."
        )
    if not np.isfinite(p).all():
        raise Refused("Some prediction is not a finite number; give one for every combination.")
    return replace(made, predictions=p)


def _number(table: Table, asked: Codes, within: str | float, seed: int) -> Forecast:
    referee = fit_referee(table.shape, table.cells, 0, asked, seed=seed)
    judgement = referee.judge(asked)
    limit = tolerance(within).absolute(float(table.scale[0]))
    half = judgement.half_width(INTERVAL)
    why = np.where(judgement.half_width(SURE) <= limit, KNOWN, UNCERTAIN)
    room = PART * (referee.high - referee.low)
    beyond = (judgement.value > referee.high + room) | (judgement.value < referee.low - room)
    why[beyond] = RANGE
    return Forecast(
        table,
        asked,
        "number",
        limit,
        judgement.value[:, None],
        judgement.value - half,
        judgement.value + half,
        judgement.expected_error(judgement.value),
        _refuse(table, asked, why),
        (referee,),
        (judgement,),
        (str(within), seed),
    )


def _vector(table: Table, asked: Codes, within: str | float, seed: int) -> Forecast:
    """Forecast the leading components of outputs that are vectors or images."""
    y = table.cells.y
    mean = np.average(y, axis=0, weights=table.cells.weight)
    _, s, vt = np.linalg.svd(y - mean, full_matrices=False)
    share = np.cumsum(s**2) / np.sum(s**2)
    count = min(COMPONENTS, 1 + int(np.searchsorted(share, EXPLAINED)))
    axes = vt[:count].T
    inner = replace(table.cells, y=(y - mean) @ axes, spread=np.zeros((len(y), count)))
    rest = float(np.sum(s[count:] ** 2) / len(y))
    referees = tuple(fit_referee(table.shape, inner, c, asked, seed=seed) for c in range(count))
    judgements = tuple(r.judge(asked) for r in referees)
    value = mean + np.stack([j.value for j in judgements], axis=1) @ axes.T
    limit = tolerance(within).absolute(float(np.sqrt(np.square(table.scale).sum())))
    spread = sum(np.square(j.scale) * np.square(j.ratios).mean() for j in judgements)
    half = np.sqrt(sum(np.square(j.half_width(SURE)) for j in judgements) + rest)
    nothing = np.full(len(asked), np.nan)
    why = np.where(half <= limit, KNOWN, UNCERTAIN)
    return Forecast(
        table,
        asked,
        "vector",
        limit,
        value,
        nothing,
        nothing,
        np.sqrt(spread + rest),
        _refuse(table, asked, why),
        referees,
        judgements,
        (str(within), seed),
        axes,
        rest,
    )


def _classes(table: Table, asked: Codes, within: str | float, seed: int) -> Forecast:
    """Forecast classes one against the rest; the margin of the first tells the chance to be right.

    The chance is calibrated on rehearsals by isotonic regression, with one wrong answer added at
    the largest margin, so that a class is known only where many rehearsed ones were right.
    """
    from sklearn.isotonic import IsotonicRegression

    limit = tolerance(within)
    chance = 1 - SURE if limit.relative else limit.amount
    if chance >= 1:
        raise Refused(
            f"For classes, --tolerance is the chance of a wrong class, below 1; got {within}."
        )
    single = len(table.classes) == 2
    columns = [1] if single else range(len(table.classes))
    referees = tuple(fit_referee(table.shape, table.cells, c, asked, seed=seed) for c in columns)
    judgements = tuple(r.judge(asked) for r in referees)

    def ranked(scores: Sequence[Array]) -> tuple[NDArray[np.int64], Array]:
        table_of = np.stack([1 - scores[0], scores[0]] if single else list(scores), axis=1)
        ordered = np.sort(table_of, axis=1)
        return table_of.argmax(axis=1), ordered[:, -1] - ordered[:, -2]

    rehearsed = [r.rehearsal.answers @ r.weights for r in referees]
    truths = [r.rehearsal.y for r in referees]
    truth = np.stack([1 - truths[0], truths[0]] if single else truths, axis=1)
    first, margin = ranked(rehearsed)
    right = truth[np.arange(len(first)), first]
    curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    curve.fit(np.append(margin, margin.max()), np.append(right, 0.0))
    chosen, certainty = ranked([j.value for j in judgements])
    wrong = 1 - np.asarray(curve.predict(certainty), dtype=np.float64)
    nothing = np.full(len(asked), np.nan)
    return Forecast(
        table,
        asked,
        "classes",
        chance,
        chosen[:, None].astype(np.float64),
        nothing,
        nothing,
        wrong,
        _refuse(table, asked, np.where(wrong <= chance, KNOWN, UNCERTAIN)),
        referees,
        judgements,
        (str(within), seed),
    )


def _refuse(table: Table, asked: Codes, why: NDArray[Any]) -> NDArray[np.int64]:
    """Refuse combinations beyond the measured order or with a level that was never measured."""
    z = table.cells.z
    counts = [np.bincount(z[:, c], minlength=m) for c, m in enumerate(table.shape)]
    frequent = np.array([count.argmax() for count in counts])
    differing = np.bincount((z != frequent).sum(axis=1), minlength=len(table.shape) + 1)
    common = np.flatnonzero(differing >= max(1.0, COMMON * len(z)))
    why = why.astype(np.int64)
    why[(asked != frequent).sum(axis=1) > common.max()] = ORDER
    never = np.any([count[asked[:, c]] == 0 for c, count in enumerate(counts)], axis=0)
    why[never] = LEVEL
    return why


Model = Callable[[Any], Any] | Any


def predictions_of(
    model: Model, table: Table, asked: Codes, frame: Callable[[Codes], Any]
) -> Array:
    """Ask a model, and turn its answers into numbers; names of classes become their numbers."""
    return plain(answers_of(model, table, asked, frame), table)


def answers_of(model: Model, table: Table, asked: Codes, frame: Callable[[Codes], Any]) -> Any:
    """Ask a model: a torch module gets one-hot codes, a fitted estimator the columns it was fitted
    to (one-hot codes or level numbers where they had no names), a function a dataframe of names.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        model.eval()
        like = next(model.parameters(), torch.zeros(0))
        codes = torch.from_numpy(one_hot(table, asked)).to(like.device, like.dtype)
        with torch.no_grad():
            return _asked(model, codes, "one-hot codes of all levels").detach().cpu().numpy()
    ask = model.predict if hasattr(model, "predict") else model
    if not callable(ask):
        raise Refused(
            f"A model is a function, an estimator with predict, or a torch module; got "
            f"{type(model).__name__}."
        )
    width = getattr(model, "n_features_in_", None)
    names = [str(n) for n in getattr(model, "feature_names_in_", ())]
    if width is None and ask is model:
        return ask(frame(asked))
    if width is None or (names and set(names) <= set(table.columns)):
        rows = frame(asked)
        return _asked(ask, rows[names] if names else rows, "the factor columns")
    if not names and width == sum(table.shape):
        return _asked(ask, one_hot(table, asked), "one-hot codes of all levels")
    if not names and width == len(table.shape):
        if _named(model):
            return _asked(ask, np.asarray(frame(asked), dtype=object), "level names")
        pairs = zip(table.columns, table.space.factors, strict=True)
        if all(
            f.labels == tuple(map(str, range(f.levels or 0))) for n, f in pairs if n in table.kinds
        ):
            return _asked(ask, asked, "level numbers")
    listed = f" ({', '.join(names[:4])}{', …' * (len(names) > 4)})" if names else " without names"
    raise Refused(
        f"The model was fitted to {width} columns{listed}; the table has {len(table.shape)} "
        f"factors ({', '.join(table.columns)}) with {sum(table.shape)} levels. Fit it to a "
        "dataframe of the factor columns, or wrap it in a function of one."
    )


def _asked(ask: Callable[[Any], Any], rows: Any, what: str) -> Any:
    """Ask an estimator or a module; what it raises becomes one sentence."""
    try:
        return ask(rows)
    except Exception as problem:
        said = (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".")
        raise Refused(
            f"The model cannot answer for {what}: {said}. Wrap it in a function of a dataframe of "
            "factor columns."
        ) from problem


def _named(model: Any) -> bool:
    """Whether an estimator, or the first step of a pipeline, was fitted to names of levels."""
    steps = getattr(model, "steps", None) or getattr(model, "transformers_", None)
    if steps:
        return _named(steps[0][1])
    categories = getattr(model, "categories_", ())
    return any(np.asarray(c).dtype.kind in "OUS" for c in categories)


def plain(answers: Any, table: Table) -> Array:
    """Turn answers into numbers; names of classes become their numbers."""
    a = np.asarray(answers.detach().cpu() if hasattr(answers, "detach") else answers)
    if a.ndim == 0:
        raise Refused(
            f"A model must return one prediction per combination; it returned {answers!r}."
        )
    if not table.classes:
        try:
            return a.astype(np.float64)
        except (TypeError, ValueError):
            raise Refused(f"A prediction is {str(a.flat[0])!r}, not a number.") from None
    if a.ndim == 2 and a.shape[1] == len(table.classes):
        return np.asarray(a.argmax(axis=1), dtype=np.float64)
    return class_numbers(a.ravel().tolist(), table)


def class_numbers(names: Sequence[Any], table: Table) -> Array:
    """Number the classes that predictions name."""
    known = {name: float(i) for i, name in enumerate(table.classes)}
    if bad := [n for n in names if str(n) not in known]:
        raise Refused(
            f"A prediction is {str(bad[0])!r}; the classes are {', '.join(table.classes)}."
        )
    return np.array([known[str(n)] for n in names])


def one_hot(table: Table, z: Codes) -> NDArray[np.float32]:
    """One-hot codes of all factors, one after another."""
    return np.concatenate(
        [np.eye(m, dtype=np.float32)[z[:, c]] for c, m in enumerate(table.shape)], axis=1
    )
