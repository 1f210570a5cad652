"""Read the target and the weights of a table: numbers, classes or vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from recombine.core.error import Refused
from recombine.tables.conjunctions import Array

if TYPE_CHECKING:
    import polars

CLASSES = 50  # most classes of a text target; one with more is taken for an identifier
LARGEST = 1e30  # the squares of larger targets, summed over a table, leave too little room
SMALLEST = 1e-100  # the squares of smaller targets vanish
LARGEST_WEIGHT = 1e12  # up to it, and down to its inverse, margins have eight correct digits


def read_targets(
    frame: polars.DataFrame, names: Sequence[str]
) -> tuple[Array | None, tuple[str, ...], list[str]]:
    """Read targets; one column of text or truth values becomes one indicator column per class.

    Returns the values, the classes, and a name for each output.
    """
    import polars as pl

    if not names:
        return None, (), []
    if len(set(names)) < len(names):
        raise Refused(f"A target is named twice in {', '.join(names)}; name each column once.")
    series = [frame[name] for name in names]
    if len(series) == 1 and series[0].dtype in (pl.List, pl.Array):
        y = _vectors(series[0])
        return _measured(y, names), (), [f"{names[0]}[{c}]" for c in range(y.shape[1])]
    for s in series:
        text = s.dtype in (pl.String, pl.Categorical, pl.Enum) and len(series) == 1
        if not (text or s.dtype.is_numeric() or s.dtype == pl.Boolean):
            raise Refused(
                f"Target {s.name!r} holds {s.dtype}; a target must be numbers, one column of "
                "classes, or one of vectors."
            )
    if len(series) > 1 or series[0].dtype.is_numeric():
        y = np.stack([s.cast(pl.Float64).to_numpy() for s in series], axis=1)
        return _measured(y, names), (), [*names]
    s = series[0].cast(pl.String).str.strip_chars()
    s = s.set(s == "", None)
    classes = _classes(s.drop_nulls().unique().sort())
    y = np.stack([(s == c).cast(pl.Float64).to_numpy() for c in classes], axis=1)
    return _measured(y, names), tuple(classes), [*names]


def _classes(values: polars.Series) -> list[str]:
    """Check that the values of a text target are class names, not misformatted numbers."""
    import polars as pl

    odd = values.filter(values.cast(pl.Float64, strict=False).is_null())
    numbers = odd.filter(odd.str.contains(r"^[+-]?[0-9][0-9.,\s]*%?$"))
    if len(numbers) > len(odd) / 2:
        raise Refused(
            f"Target {values.name!r} holds {numbers[0]!r}, which cannot be read as a number; write "
            "decimals with a point, without thousands separators or percent signs."
        )
    if 0 < len(odd) < len(values):
        raise Refused(
            f"Target {values.name!r} mixes numbers with the text {odd[0]!r}; leave the field empty "
            "where nothing was measured, or write all classes as text (c1, c2, …)."
        )
    if not 2 <= len(values) <= CLASSES:
        raise Refused(
            f"Target {values.name!r} is text with {len(values)} values; classes need 2 to "
            f"{CLASSES}, and a measured target needs numbers."
        )
    return values.to_list()


def _vectors(s: polars.Series) -> Array:
    """Stack a column of vectors of equal length; nan where a row has none."""
    rows = [None if v is None else np.asarray(v, dtype=object).ravel() for v in s.to_list()]
    try:
        flat = [None if v is None else v.astype(np.float64) for v in rows]
    except (TypeError, ValueError):
        raise Refused(f"Target {s.name!r} holds {s.dtype}; vectors need numbers.") from None
    sizes = {len(v) for v in flat if v is not None}
    if len(sizes) != 1 or 0 in sizes:
        raise Refused(
            f"Target {s.name!r} holds vectors of {', '.join(map(str, sorted(sizes))) or 'no'} "
            "numbers; all need the same length."
        )
    empty = np.full(sizes.pop(), np.nan)
    return np.stack([empty if v is None else v for v in flat])


def _measured(y: Array, names: Sequence[str]) -> Array:
    if np.isinf(y).any():
        raise Refused(
            f"The target {', '.join(names)} is infinite in some row; give finite numbers."
        )
    if (measured := int(np.isfinite(y).all(axis=1).sum())) < 2:
        raise Refused(
            f"{measured} row{'s have' if measured != 1 else ' has'} a target in "
            f"{', '.join(names)}; give at least two."
        )
    if (largest := float(np.nanmax(np.abs(y)))) > LARGEST:
        raise Refused(f"The target reaches {largest:.3g}; give numbers below {LARGEST:g}.")
    if 0 < largest < SMALLEST:
        raise Refused(f"The target only reaches {largest:.3g}; give it in a smaller unit.")
    return y


def read_weights(s: polars.Series, name: str) -> Array:
    """Read a column of positive weights."""
    if not s.dtype.is_numeric():
        raise Refused(f"Weights {name!r} hold {s.dtype}; they must be positive numbers.")
    w = s.to_numpy().astype(np.float64)
    if not (np.isfinite(w).all() and (w > 0).all()):
        raise Refused(f"Weights {name!r} must be positive numbers in every row.")
    if len(extreme := w[(w < 1 / LARGEST_WEIGHT) | (w > LARGEST_WEIGHT)]):
        raise Refused(
            f"Weights {name!r} count measurements and must lie between {1 / LARGEST_WEIGHT:g} and "
            f"{LARGEST_WEIGHT:g}; got {extreme[0]:g}."
        )
    return w
