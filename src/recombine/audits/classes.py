"""Class labels of targets, and which class each output of a model stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.audits.sample import check_finite
from recombine.core.error import Refused
from recombine.tables.conjunctions import Array
from recombine.tables.lists import class_numbers
from recombine.tables.table import Table, name_of


def labelled(table: Table, labels: list[Any]) -> Table:
    """Put class labels into a table; `None` and nan are missing."""
    known = [v is not None and v == v for v in labels]
    present = {v for v, is_known in zip(labels, known, strict=True) if is_known}
    if len(present) < 2:
        raise Refused("All targets are the same class; there is nothing to tell apart.")
    names = sorted(present, key=lambda v: (isinstance(v, str), v))
    place = {v: i for i, v in enumerate(names)}
    y = np.full((len(labels), len(names)), np.nan)
    y[known] = np.eye(len(names))[[place[v] for v in labels if v in place]]
    return replace(table, y=y, targets=("target",), classes=tuple(map(name_of, names)))


def listed(classes: Any) -> list[Any] | None:
    """The labels that `classes=` lists; `None` if it lists none."""
    if classes is None or isinstance(classes, bool | np.bool_):
        return None
    if isinstance(classes, str) or not (isinstance(classes, Sequence) or hasattr(classes, "dtype")):
        raise Refused(
            "classes=… needs a list of labels in the order of the model's outputs, or True for "
            f"numeric labels; got {classes!r}."
        )
    return [*np.asarray(classes).ravel().tolist()] if hasattr(classes, "dtype") else [*classes]


def ordered(table: Table, classes: Any, model: Any = None) -> tuple[Table, bool]:
    """Put the classes of a table into the order of the model's outputs, and tell if it is known.

    The order is that of `classes=` or of a fitted estimator's `classes_`. Labels 0, 1, … and truth
    values stand for themselves. The order of other labels is not known.
    """
    labels = listed(classes)
    if not table.classes or table.y is None:
        if labels is not None:
            raise Refused("classes=… lists labels, but the targets are numbers, not classes.")
        return table, False
    alike = {_plain(name): name for name in table.classes}
    if labels is None:
        own = getattr(model, "classes_", None)
        own = [] if own is None or isinstance(own, list) else np.asarray(own).ravel().tolist()
        if {_plain(v) for v in own} >= set(alike):
            labels = own
    known = labels is not None
    if labels is None:
        labels = sorted(table.classes, key=_rank)
        known = [_plain(v) for v in labels] in ([str(i) for i in range(len(labels))], TRUTH)
    names = [n if (n := name_of(v)) in table.classes else alike.get(_plain(v), n) for v in labels]
    if missing := [name for name in table.classes if name not in names]:
        raise Refused(
            f"The targets have the class {missing[0]!r}, which classes=… does not list; list all "
            "classes in the order of the model's outputs."
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(f"classes=… lists {twice!r} twice; list each class once.")
    at = [table.classes.index(name) if name in table.classes else -1 for name in names]
    nothing = np.where(np.isfinite(table.y[:, :1]), 0.0, np.nan)  # of classes without a row
    y = np.concatenate([table.y, nothing], axis=1)[:, at]
    return replace(table, y=y, classes=tuple(names)), known


TRUTH = ["false", "true"]


def _plain(label: Any) -> str:
    """Label as text that is equal for True and true, and for 1, 1.0 and '1'."""
    name = name_of(label).strip()
    return name.casefold() if name.casefold() in TRUTH else name


def _rank(name: str) -> tuple[bool, float, str]:
    """Numbers by value, then text."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name


def numbers(out: NDArray[Any], table: Table, known: bool) -> Array:
    """Class numbers from names, numbers, or one column of scores per class.

    - known: whether the order of the classes is that of the model's outputs
    """
    flat, names = out.reshape(len(out), -1), table.classes
    if out.ndim == 2 and flat.shape[1] == len(names) and flat.dtype.kind in "iuf":
        check_finite(flat, "The model's outputs are")
        if not known:
            raise _unordered(f"returns {len(names)} scores per row", "score stands for", names)
        return np.asarray(flat.argmax(axis=1), dtype=np.float64)
    if flat.shape[1] != 1:
        raise Refused(
            f"The model returns {flat.shape[1]} numbers per row; {len(names)} classes need one "
            "label, or one score per class. List classes without a row, too, with classes=…."
        )
    labels = flat[:, 0].tolist()
    if not known and not {name_of(v) for v in labels} <= set(names):
        places = {str(i) for i in range(len(names))}
        if not any(n.isdigit() for n in names) and {name_of(v) for v in labels} <= places:
            more = " (--classes on the command line)"
            raise _unordered("predicts class numbers", "number stands for", names, more)
    return class_numbers(labels, names)


def _unordered(does: str, what: str, names: Sequence[str], more: str = "") -> Refused:
    some = ", ".join(map(repr, names[:4])) + ", …" * (len(names) > 4)
    return Refused(
        f"The model {does}, and nothing says which class each {what}; list the classes in the "
        f"order of the outputs, as in classes=[{some}]{more}."
    )
