"""What an invariance law is: a small case, its changes, and how each answer follows them.

A case is built twice, as it is and changed, and a public function answers about both. Answers are
named by the levels, columns and classes of the original case, so that a permuted answer has the
same keys; numbers are brought back to the original unit before they are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import isnan
from typing import Any

import numpy as np

# Moves exactly representable targets of standard deviation 1 by more than 1e8 of them, exactly.
FAR = 2.0**27
SMALL = 1e-8  # of a number without unit: what rounding beside FAR leaves of zero
CLOSE = 1e-6  # of the largest value of a quantity: sums in another order, and rounding beside FAR

# How a number follows a target that became a·y + b; each brings the changed number back.
KINDS: dict[str, Callable[[float, float, float], float]] = {
    "same": lambda v, a, b: v,
    "value": lambda v, a, b: (v - b) / a,
    "slope": lambda v, a, b: v / a,
    "size": lambda v, a, b: v / abs(a),
    "square": lambda v, a, b: v / a**2,
    "inverse square": lambda v, a, b: v * a**2,
}


@dataclass(frozen=True)
class Quantity:
    """Numbers of one kind, by names that no change touches; also truth values and texts."""

    kind: str
    values: Mapping[Any, Any]


@dataclass(frozen=True)
class Ends:
    """Both ends of intervals around values; a negated target swaps them."""

    values: Mapping[Any, tuple[float, float]]


Answer = dict[str, Quantity | Ends]


@dataclass(frozen=True, eq=False)
class Law:
    """A public function on a small case, and the changes that its answer follows.

    - name: a public name of `recombine`, with what is measured after a colon
    - ask: answers about a case; cases are whatever `build` returns
    - build: builds the case under a named change; "" is the case as it is
    - changes: names of changes
    - free: quantities that a change leaves free, by its name, with the reason
    """

    name: str
    build: Callable[[str], Any]
    ask: Callable[[Any], Answer]
    changes: tuple[str, ...]
    free: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def differences(self, change: str) -> list[str]:
        """Name every quantity that does not follow a change, with one example."""
        case = self.build(change)
        before, after = unchanged(self), self.ask(case)
        loose = self.free.get(change, ())
        found = [f"only one answer has {n}" for n in sorted(before.keys() ^ after.keys())]
        for name in sorted(before.keys() & after.keys()):
            if name not in loose:
                found += compare(name, before[name], after[name], case.a, case.b)
        return found


@cache
def unchanged(law: Law) -> Answer:
    """The answer about the case as it is."""
    return law.ask(law.build(""))


def compare(name: str, one: Any, other: Any, a: float, b: float) -> list[str]:
    """Compare a quantity before and after a change; return at most one sentence."""
    if isinstance(one, Ends):
        kinds = ["value", "value"]
        pairs = {
            (key, end): value for key, ends in one.values.items() for end, value in enumerate(ends)
        }
        back = {
            (key, end): KINDS["value"](value, a, b)
            for key, ends in other.values.items()
            for end, value in enumerate(ends if a > 0 else ends[::-1])
        }
    else:
        kinds = [one.kind, other.kind]
        pairs, back = dict(one.values), dict(other.values)
        back = {
            k: KINDS[one.kind](v, a, b) if number(v) and one.kind != "same" else v
            for k, v in back.items()
        }
    if kinds[0] != kinds[1]:
        return [f"{name}: is {kinds[0]}, then {kinds[1]}"]
    if pairs.keys() != back.keys():
        key = next(iter(pairs.keys() ^ back.keys()))
        return [f"{name}: {key} is in one answer only"]
    numbers = [abs(v) for v in pairs.values() if number(v) and np.isfinite(v)]
    room = CLOSE * max(numbers, default=0.0) + SMALL * (kinds[0] == "same")
    wrong = {k: (v, back[k]) for k, v in pairs.items() if not equal(v, back[k], room)}
    if not wrong:
        return []
    key, (v, w) = next(iter(wrong.items()))
    more = f" (and {len(wrong) - 1} of {len(pairs)})" if len(wrong) > 1 else ""
    return [f"{name}{f' at {key}' if key != () else ''}: {v!r} became {w!r}{more}"]


def number(value: Any) -> bool:
    """Whether a value is compared as a number."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def equal(one: Any, other: Any, room: float) -> bool:
    """Whether two values are equal, numbers up to some room."""
    if not (number(one) and number(other)):
        return bool(one == other)
    if isnan(one) or isnan(other):
        return isnan(one) and isnan(other)
    return one == other or abs(one - other) <= room


def single(kind: str, value: Any) -> Quantity:
    """One number."""
    return Quantity(kind, {(): plain(value)})


def listed(kind: str, keys: Iterable[Any], values: Iterable[Any]) -> Quantity:
    """One number per key."""
    return Quantity(kind, dict(zip(keys, map(plain, values), strict=True)))


def plain(value: Any) -> Any:
    """Turn NumPy's scalars into Python's."""
    return value.item() if isinstance(value, np.generic) else value


def axes(kind: str, array: Any, names: Iterable[Iterable[Any]]) -> Quantity:
    """Name every entry of an array by the names of its axes' entries."""
    values, labels = np.asarray(array), [list(n) for n in names]
    assert values.shape == tuple(map(len, labels))
    return Quantity(
        kind,
        {
            tuple(axis[i] for axis, i in zip(labels, at, strict=True)): plain(values[at])
            for at in np.ndindex(values.shape)
        },
    )
