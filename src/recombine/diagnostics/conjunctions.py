"""Outputs as sums over conjunctions: how additive they are, and what each conjunction is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused
from recombine.core.score import Score
from recombine.theory.conjunction import indicators, seen
from recombine.theory.kernel import Subset

Array = NDArray[Any]
Values = dict[Subset, dict[tuple[float, ...], float]]  # factors that meet, their values


class Line(NamedTuple):
    """A straight line through some points."""

    slope: float
    offset: float
    residual: float  # root mean square distance from the line


def additivity_r2(
    outputs: Array, z: Array, shown: Array, asked: Array | Sequence[int] | None = None
) -> float:
    """Share of the variance over held-out combinations that seen conjunctions explain.

    Lippl & Stachenfeld (2025, Thm 4.2) predict 1 for every kernel model. `asked` marks the rows
    that count (default: all that were not shown); the regression on the indicators of all
    conjunctions of fewer than C factors that occur in `shown` is fitted and scored on those rows
    alone. Several rows of one combination are averaged. As many free terms as combinations give 1
    whatever the outputs are, as for two held-out combinations.

    >>> z = np.array([(a, b) for a in range(4) for b in range(4)])
    >>> cross = z[(z == 0).any(axis=1)]
    >>> a, b = z.T.astype(float)
    >>> additivity_r2(a + b**2, z, cross), round(additivity_r2((a - 2) * (b - 2), z, cross), 3)
    (1.0, 0.0)
    """
    rows = _asked(z, shown, asked)
    cells, means = average(outputs[rows], z[rows])
    terms = indicators(cells, shown.astype(np.float64)).toarray()
    return _r2(means, terms @ np.linalg.lstsq(terms, means, rcond=None)[0])


def conjunction_values(
    outputs: Array, z: Array, shown: Array, *, order: int | None = None
) -> Values:
    """Fit the outputs by an intercept and one number for each conjunction of factors in `shown`.

    Of all best fits the one of least norm, which is where the authors' ridge of 1e-10 leads. The
    answer maps the factors that meet (up to `order` of them, by default all), and then their
    values, to a number; () holds the intercept.
    """
    cells, means = average(outputs, z)
    shown = shown.astype(np.float64)
    most = z.shape[1] if order is None else order
    keys = [(j, tuple(row)) for j, rows in seen(shown).items() for row in rows.tolist()]
    kept = np.array([0 < len(j) <= most for j, _ in keys])
    terms = indicators(cells, shown, full=True).toarray()[:, kept]
    middle = terms.mean(axis=0)
    solved = np.linalg.lstsq(terms - middle, means - means.mean(), rcond=None)[0]
    found: Values = {(): {(): float(means.mean() - middle @ solved)}}
    for at, value in zip(np.flatnonzero(kept), solved, strict=True):
        found.setdefault(keys[at][0], {})[keys[at][1]] = float(value)
    return found


def line(x: Array, y: Array) -> Line:
    """Fit a straight line by least squares.

    >>> line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]))
    Line(slope=2.0, offset=1.0, residual=0.0)
    """
    away = x - x.mean()
    slope = float(away @ (y - y.mean()) / (away @ away))
    offset = float(y.mean() - slope * x.mean())
    return Line(slope, offset, float(np.sqrt(np.mean((y - slope * x - offset) ** 2))))


def magnitudes(
    values: Values, types: Callable[[Subset, tuple[float, ...]], str | None]
) -> dict[str, float]:
    """Mean absolute value of the conjunctions of each type; `None` leaves one out."""
    sizes: dict[str, list[float]] = {}
    for subset, known in values.items():
        for at, value in known.items():
            name = types(subset, at)
            if name is not None:
                sizes.setdefault(name, []).append(abs(value))
    return {name: float(np.mean(found)) for name, found in sizes.items()}


def context_type(subset: Subset, at: tuple[float, ...]) -> str | None:
    """Name a conjunction of (context, feature 1, feature 2), where context i asks for feature i.

    >>> context_type((0, 1), (0.0, 4.0)), context_type((0, 2), (0.0, 4.0)), context_type((1, 2), ())
    ('right', 'wrong', 'sensory')
    """
    if not subset:
        return None
    if 0 not in subset:
        return "sensory"
    if len(subset) == 1:
        return "context"
    if len(subset) == 3:
        return "memorization"
    return "right" if subset[1] == 1 + at[0] else "wrong"


def average(outputs: Array, z: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Average the outputs over the rows of each combination."""
    if outputs.shape != (len(z),):
        raise Refused(
            f"{len(z)} points came with outputs of shape {outputs.shape}; give one number a point."
        )
    cells, at, counts = np.unique(
        z.astype(np.float64), axis=0, return_inverse=True, return_counts=True
    )
    return cells, np.bincount(at.ravel(), outputs.astype(np.float64)) / counts


def _among(z: Array, shown: Array) -> NDArray[np.bool_]:
    """Tell which points were shown."""
    known = {tuple(row) for row in shown.tolist()}
    return np.array([tuple(row) in known for row in z.tolist()], dtype=bool)


def _asked(z: Array, shown: Array, asked: Array | Sequence[int] | None) -> NDArray[np.bool_]:
    """Turn rows, a mask or nothing into a mask of the points that count."""
    if asked is None:
        rows = ~_among(z, shown)
    else:
        rows = np.zeros(len(z), dtype=bool)
        rows[np.asarray(asked)] = True
    if not rows.any():
        raise Refused("No held-out combination was asked for; pass points that were not shown.")
    return rows


def _r2(y: Array, fitted: Array) -> float:
    """Share of variance explained; what does not vary is explained."""
    total = ((y - y.mean()) ** 2).sum()
    return float(1 - ((y - fitted) ** 2).sum() / total) if total > 1e-24 * (y @ y) else 1.0


def _numbers(observed: Observed) -> tuple[Array, Array] | None:
    """Give outputs and targets of tasks whose answer is one number."""
    y = observed.split.query.y
    if y[0].numel() != 1:
        return None
    return observed.outputs.reshape(-1).double().cpu().numpy(), y.reshape(-1).double().cpu().numpy()


@diagnostic(
    Score(
        "slope_ood",
        "slope of held-out outputs against targets; 1 is right",
        unit="of the targets'",
        summary=True,
    ),
    Score("offset_ood", "offset of held-out outputs against targets; 0 is right"),
    Score(
        "bend_ood", "root mean square distance of held-out outputs from that line", better="lower"
    ),
)
def slope(observed: Observed) -> Measured:
    """Slope and offset of the outputs against the truth over held-out combinations.

    For an answer of one number that takes three values or more; 1 and 0 are right, and a smaller
    slope on a sum of two items is Lippl & Stachenfeld's memorization leak. `bend_ood` is the root
    mean square distance from the line.
    """
    numbers, hidden = _numbers(observed), ~observed.split.inside
    if numbers is None:
        return {}
    outputs, truth = (v[hidden] for v in numbers)
    if len(np.unique(truth)) < 3:
        return {}
    found = line(truth, outputs)
    return {"slope_ood": found.slope, "offset_ood": found.offset, "bend_ood": found.residual}


@diagnostic(
    Score(
        "accuracy_*",
        "share of correct signs; an output of 0 counts half",
        unit="share of points",
        better="higher",
        share=True,
        summary=True,
    ),
    Score(
        "balanced_*",
        "accuracy, averaged over the two classes",
        unit="share of points",
        better="higher",
        share=True,
    ),
    Score("margin_*", "mean of target times output", better="higher"),
)
def accuracy(observed: Observed) -> Measured:
    """Share of right signs for targets of -1 and +1, and the mean margin y·f, on held-out points.

    An output of exactly zero counts half. `balanced_ood` is the mean over the targets that occur.
    """
    numbers = _numbers(observed)
    if numbers is None or not np.isin(numbers[1], (-1, 1)).all():
        return {}
    margin, truth = numbers[0] * numbers[1], numbers[1]
    right = (1 + np.sign(margin)) / 2
    found: Measured = {}
    for name, rows in (("id", observed.split.inside), ("ood", ~observed.split.inside)):
        if rows.any():
            found[f"accuracy_{name}"] = right[rows].mean()
            found[f"margin_{name}"] = margin[rows].mean()
            each = [right[rows & (truth == side)] for side in (-1, 1)]
            found[f"balanced_{name}"] = np.mean([part.mean() for part in each if len(part)])
    return found
