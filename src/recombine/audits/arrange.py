"""Put a sample into an order that names and places do not decide, and results back into its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.audits.cells import Errors
from recombine.audits.sample import Sample, finite_rows
from recombine.audits.standard import Numbers, Order, order_of, ranks
from recombine.core.space import Space
from recombine.tables.conjunctions import Array


@dataclass(frozen=True, eq=False)
class Arranged:
    """A sample whose rows, factors, levels and classes are in standard order."""

    source: Sample
    sample: Sample
    order: Order

    @property
    def cells(self) -> Numbers:
        """The number, in the arranged sample, of each combination of the source."""
        at = np.empty(len(self.source.cells), dtype=np.int64)
        at[self.source.cell[self.order.rows]] = self.sample.cell
        return at

    @property
    def codes(self) -> Numbers:
        """The number, among arranged one-hot codes, of each one-hot code of the source."""
        sizes = [len(levels) for levels in self.order.levels]
        starts = np.cumsum([0, *sizes])
        at = [start + np.argsort(k) for start, k in zip(starts, self.order.levels, strict=False)]
        return np.concatenate([at[f] for f in np.argsort(self.order.factors)])

    def back(self, errors: Errors) -> Errors:
        """Errors of the combinations of the source."""
        at = self.cells
        return Errors(errors.rows[at], errors.mean[at], errors.low[at], errors.high[at])

    def named(self, combination: Sequence[str]) -> tuple[str, ...]:
        """Level names in the factor order of the source."""
        return tuple(combination[int(f)] for f in np.argsort(self.order.factors))


def arranged(sample: Sample) -> Arranged:
    """Put rows, factors, levels and classes into standard order."""
    table, factors = sample.table, len(sample.table.shape)
    values, marks = _contents(sample)
    z, shape = table.codes, table.shape
    if table.classes:  # targets and predictions are two more columns of names
        named = [np.where(finite_rows(v), v[:, 0] + 1, 0) for v in (sample.truth, sample.outputs)]
        z = np.column_stack([z, *(v.astype(np.int64) for v in named)])
        shape = (*shape, *(len(table.classes) + 1,) * 2)
    full = order_of(values, z, shape, marks, roles=(*(0,) * factors, 1, 2)[: len(shape)])
    place = [j for j, f in enumerate(full.factors) if f < factors]
    order = Order(full.rows, full.factors[place], tuple(full.levels[j] for j in place))
    outputs, y, classes = sample.outputs[order.rows], table.y, table.classes
    y = None if y is None else y[order.rows]
    if classes and y is not None:
        numbers = full.levels[int(np.flatnonzero(full.factors == factors)[0])]
        numbers = numbers[numbers > 0] - 1
        y, classes = y[:, numbers], tuple(classes[k] for k in numbers)
        known = np.where(finite_rows(outputs), outputs[:, 0], 0).astype(np.int64)
        outputs = np.where(np.isnan(outputs), outputs, np.argsort(numbers)[known][:, None])
    space = [
        replace(f, labels=tuple(f.labels[k] for k in levels))
        for f, levels in zip(
            (table.space.factors[f] for f in order.factors), order.levels, strict=True
        )
    ]
    rearranged = replace(
        table,
        space=Space(tuple(space)),
        codes=order.codes(table.codes[order.rows]),
        y=y,
        weights=None if table.weights is None else table.weights[order.rows],
        columns=tuple(table.columns[f] for f in order.factors),
        classes=classes,
    )
    train = None if sample.train is None else sample.train[order.rows]
    return Arranged(sample, Sample(rearranged, outputs, train, sample.shape), order)


def _contents(sample: Sample) -> tuple[Array, list[NDArray[Any]]]:
    """What distinguishes rows besides their levels: numbers with a sign, and marks without one."""
    known, predicted = finite_rows(sample.truth), finite_rows(sample.outputs)
    marks: list[NDArray[Any]] = [known, predicted]
    if sample.train is not None:
        marks.append(sample.train)
    if sample.table.weights is not None:
        marks.append(ranks(sample.table.weights))
    if sample.kind == "classes":
        return np.empty((len(known), 0)), marks
    center, scale = sample.truth[known].mean(axis=0), sample.scale
    truth = np.where(known[:, None], (sample.truth - center) / scale, 0.0)
    outputs = np.where(predicted[:, None], (sample.outputs - center) / scale, 0.0)
    values = [truth, outputs, np.where((known & predicted)[:, None], outputs - truth, 0.0)]
    if sample.kind == "number":
        return np.concatenate(values, axis=1), marks
    return np.empty((len(known), 0)), [*marks, *(ranks(np.square(v).sum(axis=1)) for v in values)]
