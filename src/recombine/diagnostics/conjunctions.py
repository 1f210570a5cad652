"""Outputs as sums over conjunctions: additivity, and the value of each conjunction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused
from recombine.core.score import POSITIVE, Score
from recombine.theory.conjunction import conjunctions, indicators
from recombine.theory.kernel import Subset

AnyArray = NDArray[Any]
Values = dict[Subset, dict[tuple[float, ...], float]]  # factors -> their values -> coefficient


class Line(NamedTuple):
    """A straight line through some points."""

    slope: float
    offset: float
    residual: float  # root mean square distance from the line


def additivity_r2(
    outputs: AnyArray, z: AnyArray, shown: AnyArray, query: NDArray[np.bool_]
) -> float:
    """Share of the variance over held-out combinations that seen conjunctions explain.

    Lippl & Stachenfeld (2025, Thm 4.2) predict 1 for every kernel model. The regression uses the
    indicators of all conjunctions of fewer than C factors that occur in `shown`. It is 1 for any
    outputs if there are as many free terms as combinations, as with two held-out combinations.

    - outputs: one number per point; rows of the same combination are averaged
    - shown: the training combinations
    - query: marks the points to fit and score, which are held out

    >>> z = np.array([(a, b) for a in range(4) for b in range(4)])
    >>> cross, (a, b) = (z == 0).any(axis=1), z.T.astype(float)
    >>> [round(additivity_r2(y, z, z[cross], ~cross), 3) for y in (a + b**2, (a - 2) * (b - 2))]
    [1.0, 0.0]
    """
    if not query.any():
        raise Refused("additivity_r2() needs at least one query point; got none.")
    cells, means = average(outputs[query], z[query])
    terms = indicators(cells, shown.astype(np.float64)).toarray()
    return _r2(means, terms @ np.linalg.lstsq(terms, means, rcond=None)[0])


def conjunction_values(outputs: AnyArray, z: AnyArray, shown: AnyArray) -> Values:
    """Fit the outputs by an intercept and one coefficient per conjunction of factors in `shown`.

    The minimum-norm least-squares fit, which is the limit of the authors' ridge of 1e-10. The
    result maps factors, and then their values, to a coefficient; () has the intercept.
    """
    cells, means = average(outputs, z)
    shown = shown.astype(np.float64)
    keys = [(j, tuple(row)) for j, rows in conjunctions(shown).items() for row in rows.tolist()]
    used = np.array([len(j) > 0 for j, _ in keys])
    terms = indicators(cells, shown, full=True).toarray()[:, used]
    centers = terms.mean(axis=0)
    coefficients = np.linalg.lstsq(terms - centers, means - means.mean(), rcond=None)[0]
    values: Values = {(): {(): float(means.mean() - centers @ coefficients)}}
    for at, value in zip(np.flatnonzero(used), coefficients, strict=True):
        values.setdefault(keys[at][0], {})[keys[at][1]] = float(value)
    return values


def line(x: AnyArray, y: AnyArray) -> Line:
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
    """Mean absolute coefficient of each type of conjunction; type `None` is left out."""
    sizes: dict[str, list[float]] = {}
    for subset, coefficients in values.items():
        for levels, value in coefficients.items():
            name = types(subset, levels)
            if name is not None:
                sizes.setdefault(name, []).append(abs(value))
    return {name: float(np.mean(of_type)) for name, of_type in sizes.items()}


def context_type(subset: Subset, at: tuple[float, ...]) -> str | None:
    """Classify a conjunction of (context, feature 1, feature 2); context i selects feature i.

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


def average(outputs: AnyArray, z: AnyArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Average the outputs over the rows of each combination."""
    cells, at, counts = np.unique(
        z.astype(np.float64), axis=0, return_inverse=True, return_counts=True
    )
    return cells, np.bincount(at.ravel(), outputs.astype(np.float64)) / counts


def _r2(y: AnyArray, fitted: AnyArray) -> float:
    """Share of variance explained; 1 if `y` is constant."""
    total = ((y - y.mean()) ** 2).sum()
    return float(1 - ((y - fitted) ** 2).sum() / total) if total > 1e-24 * (y @ y) else 1.0


def _numbers(observed: Observed) -> tuple[AnyArray, AnyArray] | None:
    """Outputs and targets of a task with one number as target, else None."""
    y = observed.split.query.y
    if y[0].numel() != 1:
        return None
    return observed.outputs.reshape(-1).double().cpu().numpy(), y.reshape(-1).double().cpu().numpy()


@diagnostic(
    Score(
        "slope_ood",
        "slope of held-out outputs against targets; 1 is perfect",
        unit="of the targets'",
        summary=True,
    ),
    Score("offset_ood", "offset of held-out outputs against targets; 0 is perfect"),
    Score(
        "bend_ood",
        "root mean square distance of held-out outputs from that line",
        better="lower",
        within=POSITIVE,
    ),
)
def slope(observed: Observed) -> Measured:
    """Slope and offset of outputs against targets over held-out combinations.

    For targets of one number with three values or more. A perfect model has slope 1 and offset 0;
    a smaller slope on a sum of two items is Lippl & Stachenfeld's memorization leak. `bend_ood` is
    the root mean square distance from the line.
    """
    numbers, held_out = _numbers(observed), ~observed.split.inside
    if numbers is None:
        return {}
    outputs, targets = (v[held_out] for v in numbers)
    if len(np.unique(targets)) < 3:
        return {}
    fit = line(targets, outputs)
    return {"slope_ood": fit.slope, "offset_ood": fit.offset, "bend_ood": fit.residual}


_share = partial(Score, unit="share of points", better="higher", share=True)


@diagnostic(
    _share("accuracy_*", "share of correct signs; an output of 0 counts half", summary=True),
    _share("balanced_*", "accuracy, averaged over the two classes"),
    Score("margin_*", "mean of target times output", better="higher"),
)
def accuracy(observed: Observed) -> Measured:
    """Share of correct signs for targets -1 and +1, and the mean margin y·f, on held-out points.

    An output of exactly zero counts half. `balanced_ood` averages over the classes that occur.
    """
    numbers = _numbers(observed)
    if numbers is None or not np.isin(numbers[1], (-1, 1)).all():
        return {}
    margin, targets = numbers[0] * numbers[1], numbers[1]
    correct = (1 + np.sign(margin)) / 2
    measured: Measured = {}
    for name, rows in (("id", observed.split.inside), ("ood", ~observed.split.inside)):
        if rows.any():
            measured[f"accuracy_{name}"] = correct[rows].mean()
            measured[f"margin_{name}"] = margin[rows].mean()
            each = [correct[rows & (targets == side)] for side in (-1, 1)]
            measured[f"balanced_{name}"] = np.mean([part.mean() for part in each if len(part)])
    return measured
