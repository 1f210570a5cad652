"""Judge unseen combinations without a target by the referee of `recombine forecast`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recombine.audits.cells import group_means
from recombine.audits.sample import Sample, Score
from recombine.base.error import Refused
from recombine.tables.conjunctions import Array
from recombine.tables.forecast import forecast, with_predictions


class Refereed(NamedTuple):
    """Verdicts on some combinations, and the referee's values where they are known."""

    cells: NDArray[np.int64]
    verdict: NDArray[Any]  # right, fails or cannot know
    values: Array  # (all cells, outputs), nan where unknown; classes as indicators


def referee(
    sample: Sample, cells: NDArray[np.int64], limit: float, score: Score | None, seed: int
) -> Refereed | None:
    """Judge predictions at combinations without a target by a forecast from the training rows.

    - cells: numbers of the combinations; those without a prediction are left out
    - limit: the tolerance in units of the score. The referee knows only the target's units, so
      scores of other units are judged by half a standard deviation

    Returns `None` without predictions, or if too few combinations were measured for a forecast.
    """
    cells, outputs = _answers(sample, cells)
    if not len(cells):
        return None
    tolerance: str | float = limit * float(np.sqrt(outputs.shape[1]))  # vectors by their norm
    if score == "squared":
        tolerance = float(np.sqrt(limit * outputs.shape[1]))
    if sample.kind == "classes" or score == "zero_one" or callable(score):
        tolerance = "0.5sd"
    try:
        forecasted = forecast(
            sample.training, sample.cells[cells], within=tolerance, network="", seed=seed
        )
    except Refused:
        return None
    judged = with_predictions(forecasted, outputs)
    value = forecasted.value
    if sample.kind == "classes":
        value = np.eye(len(sample.table.classes))[value[:, 0].astype(np.int64)]
        value = value[:, 1:] if value.shape[1] == 2 else value
    values = np.full((len(sample.cells), value.shape[1]), np.nan)
    values[cells[judged.known]] = value[judged.known]
    return Refereed(cells, judged.verdict, values)


def _answers(sample: Sample, cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
    """Mean output, or most frequent class, of those combinations that have a prediction."""
    rows = np.flatnonzero(sample.predicted & np.isin(sample.cell, cells))
    cells, at = np.unique(sample.cell[rows], return_inverse=True)
    outputs = sample.outputs[rows]
    if sample.kind == "classes":
        votes = np.zeros((len(cells), len(sample.table.classes)))
        np.add.at(votes, (at, outputs[:, 0].astype(np.int64)), 1)
        return cells, votes.argmax(axis=1)[:, None].astype(np.float64)
    return cells, group_means(outputs, at, len(cells))[0]
