"""Whatever a diagnostic declares is shown; the report knows no name of a score."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recombine import report
from recombine.core.diagnostic import DIAGNOSTICS, Diagnostic
from recombine.core.score import Score
from recombine.report.arrays import draw_arrays
from recombine.report.columns import short_list
from recombine.report.conditions import group_runs
from recombine.report.page import page
from recombine.runs.record import Record
from recombine.runs.store import Store

SCORES = (
    Score("zest_*", "share of zest", unit="share of cells", better="higher", summary=True),
    Score("zest_map", "zest of each cell", draw="map", beside=("zest_seen", "zest_axes")),
    Score("zest_seen", draw="none"),
    Score("zest_axes", draw="none"),
    Score("zest_curve", "zest by layer", draw="curve", beside=("zest_layers",)),
    Score("zest_layers", draw="none"),
    Score("zest_matrix", "zest by pair", draw="matrix"),
    Score("zest_pictures", "what zest looks like", draw="images", beside=("zest_targets",)),
    Score("zest_targets", draw="images"),
)


@pytest.fixture
def zest(monkeypatch, tmp_path):
    """Records of two conditions with the output of a diagnostic that the report never heard of."""
    entry = Diagnostic("zest", lambda observed: {}, SCORES)
    monkeypatch.setitem(DIAGNOSTICS, "zest", entry)
    store, rng = Store(tmp_path), np.random.default_rng(0)
    records = []
    for i, model in enumerate(("plain", "spicy")):
        for seed in range(2):
            arrays = {
                "zest_map": rng.random((4, 5)),
                "zest_seen": np.arange(20).reshape(4, 5) < 12,
                "zest_axes": np.array(["heat", "salt"]),
                "zest_curve": rng.random(3),
                "zest_layers": np.array(["skin", "pith", "pulp"]),
                "zest_matrix": rng.random((3, 3)),
                "zest_pictures": rng.random((2, 6, 6)),
                "zest_targets": rng.random((2, 6, 6)),
            }
            record = Record(
                f"{2 * i + seed:016x}", "mine.zest", "quick", {"model": model}, seed,
                scores={"zest_id": 0.5 + 0.1 * i, "zest_ood": 0.25, "other": 1.0},
                arrays=sorted(arrays),
            )  # fmt: skip
            store.write(record, arrays)
            records.append(record)
    return store, records


def test_a_new_diagnostic_appears_in_the_report_by_its_declaration(zest):
    text = page(*zest, [])
    head = re.search(r"<thead>.*?</thead>", text, re.DOTALL)[0]
    assert "share of zest" in head
    assert "higher is better" in head
    assert "other" not in head  # not a summary
    cards = re.findall(r'<section class="card">(.*?)</section>', text, re.DOTALL)
    assert len(cards) == 2
    for card in cards:
        assert card.count("<svg") == 2  # map, images
        assert "heat →" in card
        assert "← salt" in card
        assert 'stroke="#fff"' in card
        assert ">truth</text>" in card
    assert "zest of each cell" in text
    more = text[text.index("More measurements") :]
    assert "zest by pair" in more
    assert "zest by layer" in more
    assert all(layer in text for layer in ("skin", "pith", "pulp"))


def test_a_new_score_reaches_the_tables_of_the_terminal(zest):
    _, records = zest
    assert short_list(records[0].scores, "mine.zest") == ["zest_id", "zest_ood"]
    assert short_list(["a", "b"], "mine.zest") == ["a", "b"]


def test_the_report_names_no_score():
    """No score's or array's name stands in the code of the report: the schema has them all."""
    declared = {score.name for entry in DIAGNOSTICS.values() for score in entry.scores}
    words = {re.sub(r"[*?]", "", name).strip("_") for name in declared if len(name) > 4}
    for file in sorted(Path(report.__file__).parent.rglob("*.py")):
        code = re.sub(r'""".*?"""', "", file.read_text(), flags=re.DOTALL)
        strings = set(re.findall(r'"([a-z_0-9]+)"', code))
        assert not strings & (words | declared) - {"support"}, file.name


def test_maps_are_divided_by_the_score_that_is_declared():
    support = np.array([[True, True], [True, False]])
    arrays = {"error_map": np.full((2, 2), 2.0), "support": support}
    scores = {"blank_id": 2.0, "blank_ood": 4.0}
    record = Record("a", "mine.own", "quick", {}, 0, scores=scores, arrays=["error_map"])
    cards = draw_arrays("mine.own", group_runs([record]), lambda r: arrays, {})
    assert "divided by that of a constant answer" in cards.keys[0].about
    assert "1: a constant answer" in cards.keys[0].bar
    bare = group_runs([replace(record, scores={})])
    assert "constant" not in draw_arrays("mine.own", bare, lambda r: arrays, {}).keys[0].about


@pytest.mark.parametrize("draw", ["map", "curve", "matrix", "images"])
@pytest.mark.parametrize(
    ("array", "wrong"),
    [
        (np.array(["a", "b"]), ("map", "curve", "matrix")),
        (np.zeros((0, 3)), ("map", "matrix")),
        (np.array([1.0, np.inf]), ("map", "matrix")),
        (np.full((3, 3), np.nan), ()),
        (np.zeros((2, 2, 2, 2, 2)), ()),
        (np.zeros((2, 3, 4, 4)), ()),
    ],
    ids=["text", "empty", "infinite", "undefined", "five axes", "images"],
)
@pytest.mark.filterwarnings("ignore:.*NaN:RuntimeWarning")
def test_an_array_that_is_not_as_declared_costs_one_sentence(monkeypatch, draw, array, wrong):
    monkeypatch.setattr("recombine.report.arrays.schema", lambda name, of: Score("x", draw=draw))
    record, said = Record("a", "mine.own", "quick", {}, 0, arrays=["x"]), []
    draw_arrays("mine.own", group_runs([record]), lambda r: {"x": array}, {}, said.append)
    assert len(said) == (draw in wrong)
    assert all(f"Array 'x' of mine.own could not be drawn as a {draw}: " in text for text in said)


def test_arrays_of_another_shape_are_left_out_of_the_mean():
    record = Record("a", "mine.own", "quick", {}, 0, arrays=["error_map"])
    tables = {"a": np.zeros((2, 2)), "b": np.ones((3, 3))}
    split = group_runs([record, replace(record, id="b", seed=1)])
    cards = draw_arrays("mine.own", split, lambda r: {"error_map": tables[r.id]}, {})
    assert len(cards.cards) == 1


def test_arrays_of_a_rerun_are_named_as_such():
    record = Record("a", "mine.own", "quick", {}, 3)
    cards = draw_arrays("mine.own", group_runs([record]), lambda r: {"error_map": np.eye(2)}, {})
    assert "a later rerun of 1 of 1 runs (seed 3)" in cards.missing[0]
    kept = group_runs([replace(record, arrays=["error_map"])])
    assert not draw_arrays("mine.own", kept, lambda r: {"error_map": np.eye(2)}, {}).missing
