"""Conditions are named by their paper, by the claims that run them, or by what sets them apart."""

from dataclasses import replace

import pytest

from recombine.base.registry import NAMES
from recombine.claims.claim import CLAIMS, Claim, Verdict
from recombine.claims.record import Record, jsonable
from recombine.report.conditions import group_runs, varying
from recombine.runs.discover import find

NAME = "liang2025.hidden_square"


@pytest.fixture
def unnamed(monkeypatch):
    """Take away the paper's own names."""
    monkeypatch.delitem(NAMES, NAME, raising=False)


def labels(*configs):
    records = [Record(str(i), "mine.own", "quick", c, 0) for i, c in enumerate(configs)]
    return [c.label for c in group_runs(records)]


def test_conditions_are_named_by_what_sets_them_apart():
    a, b = {"model": "a", "code": "x", "steps": 10}, {"model": "b", "code": "x", "steps": 5}
    assert labels(a, b) == ["a", "b"]  # steps differ, too, but one field is enough
    assert labels(a, {**a, "steps": 9}) == ["steps 9", "steps 10"]
    assert labels(a) == ["own"]
    assert labels({**a, "deep": True}, {**a, "deep": False}) == ["no deep", "deep"]


def test_a_label_leaves_out_what_is_usual():
    a = {"model": "a", "code": "x", "depth": 3}
    configs = [a, {**a, "depth": 4}, {**a, "code": "y"}, {**a, "model": "b"}]
    assert sorted(labels(*configs)) == ["x", "x, b", "x, depth 4", "y"]


def records_of(*changes):
    experiment = find("experiment", NAME)
    configs = [jsonable(experiment.configure(**change)) for change in changes]
    return [Record(str(i), NAME, "quick", c, 0) for i, c in enumerate(configs)]


def claim(runs):
    return Claim("liang2025.x", "X.", NAME, lambda e: Verdict("holds"), lambda size: runs)


def test_the_papers_name_comes_before_that_of_a_claim(monkeypatch):
    monkeypatch.setitem(NAMES, NAME, lambda config: {"mlp": "MLP", "cnn": ""}[config["decoder"]])
    records = records_of({"decoder": "mlp"}, {"decoder": "cnn"}, {"decoder": "outer"})
    split = group_runs(records, [claim({"mine": {"decoder": "mlp"}, "ours": {"decoder": "cnn"}})])
    assert [c.label for c in split] == ["MLP", "ours", "outer"]


def test_conditions_that_claims_run_come_first():
    records = records_of({"decoder": "mlp"}, {"decoder": "cnn"})
    assert group_runs(records, [claim({"x": {"decoder": "cnn"}})])[0].records == (records[1],)


@pytest.mark.usefixtures("unnamed")
def test_a_claim_names_its_runs():
    records = records_of({"decoder": "mlp"}, {"decoder": "cnn"}, {"decoder": "outer"})
    runs = {"the MLP": {"decoder": "mlp"}, "decoder=cnn": {"decoder": "cnn"}}
    split = group_runs(records, [claim(runs)])
    assert [c.label for c in split] == ["the MLP", "cnn", "outer"]
    both = [claim({"one": {"decoder": "mlp"}}), claim(runs), claim(runs)]
    assert group_runs(records, both)[0].label == "the MLP"  # the more common name


@pytest.mark.usefixtures("unnamed")
def test_a_number_is_no_name_and_underscores_are_spaces():
    records = records_of({"decoder": "mlp"}, {"decoder": "cnn"})
    runs = {"1e-05": {"decoder": "mlp"}, "the_cnn": {"decoder": "cnn"}}
    assert [c.label for c in group_runs(records, [claim(runs)])] == ["mlp", "the cnn"]


@pytest.mark.usefixtures("unnamed")
def test_runs_are_told_apart_by_what_they_are_rather_than_by_their_training():
    records = records_of({"depth": 2, "lr": 0.1}, {"depth": 3, "lr": 0.2})
    assert [c.label for c in group_runs(records)] == ["depth 2", "depth 3"]


@pytest.mark.usefixtures("unnamed")
def test_two_runs_of_one_name_stay_apart():
    records = records_of({"decoder": "mlp"}, {"decoder": "cnn"})
    claims = [claim({"plain": {"decoder": "mlp"}}), claim({"plain": {"decoder": "cnn"}})]
    assert [c.label for c in group_runs(records, claims)] == ["plain, mlp", "plain, cnn"]


@pytest.mark.usefixtures("unnamed")
def test_runs_of_one_name_are_set_apart_by_what_differs_among_them():
    changes = [{"decoder": d, "depth": n} for d in ("mlp", "cnn") for n in (2, 3)]
    records = records_of(*changes)
    claims = [claim({f"depth {c['depth']}": c}) for c in changes[::2]]
    names = [c.label for c in group_runs(records, claims)]
    assert names == ["depth 2, mlp", "depth 2, cnn", "mlp, depth 3", "cnn, depth 3"]


@pytest.mark.usefixtures("unnamed")
def test_records_from_before_a_field_was_added_are_of_the_same_condition():
    (record,) = records_of({"decoder": "mlp"})
    older = replace(record, id="b", seed=1, config=dict(list(record.config.items())[:-1]))
    (condition,) = group_runs([record, older], [claim({"the MLP": {"decoder": "mlp"}})])
    assert condition.label == "the MLP"
    assert len(condition.records) == 2


def test_fields_that_do_not_vary_are_not_listed():
    configs = [{"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 1, "b": 3, "c": None}]
    assert varying(configs, "mine.own") == ["b"]


@pytest.mark.parametrize("name", sorted({c.experiment for c in CLAIMS.values()}))
def test_the_runs_of_every_experiment_have_different_names(name):
    experiment = find("experiment", name)
    claims = [c for c in CLAIMS.values() if c.experiment == name]
    runs = [run for c in claims for run in c.runs("quick").values()]
    configs = {repr(cfg): cfg for cfg in (experiment.configure(**run) for run in runs)}
    records = [
        Record(str(i), name, "quick", jsonable(cfg), 0) for i, cfg in enumerate(configs.values())
    ]
    split = [c.label for c in group_runs(records, claims)]
    assert len(set(split)) == len(split) == len(configs)
