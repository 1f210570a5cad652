"""Records: configs as plain JSON values."""

from dataclasses import dataclass, field

import pytest

from recombine.base.error import Refused
from recombine.claims.record import Record, jsonable


@dataclass(frozen=True)
class Inner:
    n: int = 2


@dataclass(frozen=True)
class Outer:
    name: str = "é"
    inner: Inner = Inner()
    sizes: tuple[float, ...] = (1.0, 2.0)
    labels: dict[str, int] = field(default_factory=dict)


def test_nested_configs_become_nested_values():
    expected = {"name": "é", "inner": {"n": 2}, "sizes": [1.0, 2.0], "labels": {}}
    assert jsonable(Outer()) == expected
    assert jsonable(Inner(3)) == {"n": 3}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sizes": (1.0, float("nan"))}, "Field 'sizes' needs finite numbers"),
        ({"name": chr(0xD800)}, "Field 'name' needs valid Unicode"),
    ],
)
def test_what_json_cannot_express_is_refused(changes, why):
    with pytest.raises(Refused, match=why):
        jsonable(Outer(**changes))


@pytest.mark.parametrize(("count", "rest"), [(4, ""), (5, ", … (5 in all)")])
def test_a_record_prints_four_scores(count, rest):
    scores = {f"s{i}": i / 8 for i in range(count)}
    shown = "s0 0, s1 0.125, s2 0.25, s3 0.375"
    text = str(Record("1f", "toy.obey", "quick", {}, 3, scores=scores))
    assert text == f"Record(toy.obey, quick, seed 3, done: {shown}{rest}; id 1f)"
