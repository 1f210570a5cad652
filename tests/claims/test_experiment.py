"""Experiments: registration, sizes, types of config fields, and closed forms."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from recombine.base.error import Refused
from recombine.claims.experiment import EXPERIMENTS, Result, closed_form, experiment


@dataclass(frozen=True)
class Plain:
    """A config."""

    level: int = 1


def double(cfg: Plain) -> Result:
    """Twice the level."""
    return Result({"double": 2.0 * cfg.level})


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    before = dict(EXPERIMENTS)
    yield
    EXPERIMENTS.clear()
    EXPERIMENTS.update(before)


def test_a_closed_form_has_one_result_for_every_seed():
    assert closed_form(smoke={"level": 3}, family="toy")(double) is double
    entry = EXPERIMENTS["toy.double"]
    assert (entry.stochastic, entry.selection, entry.sentence) == (
        False,
        "no training",
        "Twice the level.",
    )
    assert entry.run(entry.configure("smoke"), [0, 7]) == [Result({"double": 6.0})] * 2
    assert pickle.loads(pickle.dumps(entry.run))(Plain(), [1]) == [Result({"double": 2.0})]


def test_a_config_is_the_type_of_the_first_argument():
    def bare(cfg, seeds):
        """No type."""

    def reserved(cfg: "Reserved", seeds: Sequence[int]) -> list[Result]:
        """A field that is an option."""

    with pytest.raises(Refused, match="'bare' needs a frozen dataclass"):
        experiment(smoke={})(bare)
    with pytest.raises(Refused, match="has the field 'seed', which is an option"):
        experiment(smoke={})(reserved)


@dataclass(frozen=True)
class Reserved:
    """A config with a reserved field."""

    seed: int = 0


def test_sizes_and_fields_are_checked():
    closed_form(smoke={"level": 3}, family="toy")(double)
    entry = EXPERIMENTS["toy.double"]
    with pytest.raises(Refused, match="no size 'smok'"):
        entry.configure("smok")
    with pytest.raises(Refused, match=r"field of toy\.double called 'levl'"):
        entry.configure(levl=2)
    with pytest.raises(Refused, match="'level' needs the type int; got 2"):
        entry.configure(level=2.5)
    with pytest.raises(Refused, match=r"field of toy\.double called 'levels'"):
        closed_form(smoke={"levels": 3}, family="toy")(double)
