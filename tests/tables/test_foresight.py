"""Forecasts, verdicts and plans on small tables whose truth is known."""

import inspect
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from recombine.base.error import Refused
from recombine.tables import foresight, process
from recombine.tables.forecast import ORDER, RANGE, Components, tolerance
from recombine.tables.lists import aligned, briefly, combinations_of, level_frame, rows_of
from recombine.tables.read import read
from recombine.tables.referee import Judgement
from recombine.tables.table import Table, space_of

SHAPE = (5, 6, 4)
NAMES = [[f"{name}{k}" for k in range(m)] for name, m in zip("abc", SHAPE, strict=True)]


def truth_of(seed=0):
    rng = np.random.default_rng(seed)
    effects = [rng.normal(size=m) for m in SHAPE]
    return effects[0][:, None, None] + effects[1][None, :, None] + effects[2]


def table_of(values, seen, library=pl.DataFrame, **options):
    z = np.argwhere(seen)
    data = {"abc"[c]: [NAMES[c][i] for i in z[:, c]] for c in range(3)}
    return read(library(data | {"y": values[seen]}), ["a", "b", "c"], "y", **options)


@pytest.fixture(scope="module")
def seen():
    return np.random.default_rng(1).random(SHAPE) < 0.6


@pytest.fixture(scope="module")
def additive(seen):
    """An additive law, forecast once for all tests."""
    return foresight.forecast(table_of(truth_of(), seen))


def test_an_additive_law_is_known_and_right(additive, seen):
    f = additive.forecast
    truth = truth_of()[~seen]
    error = np.abs(f.value[:, 0] - truth)
    assert f.known.mean() > 0.7
    assert error[f.known].max() < f.tolerance
    inside = (f.low <= truth) & (truth <= f.high)
    assert inside.mean() > 0.8
    assert additive.summary["known"] + additive.summary["cannot_know"] == len(truth)
    assert f.tolerance == pytest.approx(0.5 * truth_of()[seen].std())


def test_nothing_is_known_of_random_values(seen):
    values = np.random.default_rng(3).normal(size=SHAPE)
    f = foresight.forecast(table_of(values, seen), network="").forecast
    assert f.known.mean() < 0.05
    assert not f.fails.any()


def test_verdicts_on_a_model_that_is_wrong_in_known_places(additive, seen):
    queries = additive.queries
    predictions = truth_of()[~seen].copy()
    wrong = np.zeros(len(queries), dtype=bool)
    wrong[::3] = True
    predictions[wrong] += 2 * truth_of().std()
    rows = pl.DataFrame(
        {n: [row[c] for row in additive.source.decode(queries)] for c, n in enumerate("abc")}
    ).with_columns(prediction=pl.Series(predictions))
    shuffled = rows.sample(fraction=1.0, shuffle=True, seed=1)
    f = replace(additive.forecast, predictions=aligned(additive.source, queries, shuffled))
    np.testing.assert_array_equal(f.predictions[:, 0], predictions)
    assert (f.fails == (wrong & f.known)).all()
    assert (f.expected_error[wrong] > f.expected_error[~wrong].max()).all()


def test_every_kind_of_model_can_be_asked(additive):
    source, queries = additive.source, additive.queries
    from recombine.tables.query import one_hot, predictions_of

    level = predictions_of(lambda rows: [len(rows)] * len(rows), source, queries)
    assert (level == len(queries)).all()
    linear = torch.nn.Linear(sum(SHAPE), 1)
    with torch.no_grad():
        expected = linear(torch.from_numpy(one_hot(source, queries))).numpy()
    np.testing.assert_array_equal(predictions_of(linear, source, queries), expected)
    y = np.arange(len(source.codes), dtype=float)
    codes = LinearRegression().fit(source.codes, y)
    np.testing.assert_allclose(predictions_of(codes, source, queries), codes.predict(queries))
    hot = LinearRegression().fit(one_hot(source, source.codes), y)
    np.testing.assert_allclose(
        predictions_of(hot, source, queries), hot.predict(one_hot(source, queries))
    )
    with pytest.raises(Refused, match="fitted to 2 columns without names"):
        predictions_of(LinearRegression().fit(source.codes[:, :2], y), source, queries)
    with pytest.raises(Refused, match="got str"):
        predictions_of("model", source, queries)


def test_a_module_is_evaluated_and_its_mode_restored(additive):
    from recombine.tables.query import predictions_of

    class Dropped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen = torch.nn.BatchNorm1d(sum(SHAPE)).eval()
            self.drop = torch.nn.Dropout(0.5)
            self.broken = False

        def forward(self, x):
            if self.broken:
                raise RuntimeError("broken")
            return self.drop(self.frozen(x)).sum(dim=1)

    model = Dropped()
    source, queries = additive.source, additive.queries
    first, again = (predictions_of(model, source, queries) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    model.broken = True
    with pytest.raises(Refused, match="broken"):
        predictions_of(model, source, queries)
    assert (model.training, model.drop.training, model.frozen.training) == (True, True, False)


def test_estimators_get_the_columns_that_they_were_fitted_to():
    """Names in another order, some of them, names without a header, and numbers as numbers."""
    from recombine.tables.query import predictions_of

    rows = pd.DataFrame(
        [(a, b, 10.0 * b + (a == "x")) for a in "xyz" for b in (5, 10, 20)], columns=list("aby")
    )
    t = read(rows, ["a", "b"], "y")
    ask = t.encode([("x", 10), ("z", 20)])

    def answers(model):
        return predictions_of(model, t, ask).tolist()

    def pipe(columns):
        return make_pipeline(OneHotEncoder(handle_unknown="ignore"), LinearRegression()).fit(
            columns, rows["y"]
        )

    for columns in (rows[["a", "b"]], rows[["b", "a"]], rows[["a", "b"]].to_numpy()):
        assert answers(pipe(columns)) == pytest.approx([101, 200])
    assert answers(pipe(rows[["b"]])) == pytest.approx([100 + 1 / 3, 200 + 1 / 3])
    assert answers(lambda rows: 2 * rows["b"]) == [20, 40]
    raw = read(rows.assign(a=[1, 1, 1, 2, 2, 2, 3, 3, 3]), ["a", "b"], "y")
    unnamed = LinearRegression().fit(raw.codes, rows["y"])
    with pytest.raises(Refused, match="fitted to 2 columns without names"):  # or to 1, 2, 3?
        predictions_of(unnamed, raw, ask)
    with pytest.raises(Refused, match=r"fitted to 2 columns \(a, c\)"):
        answers(pipe(rows[["a", "b"]].rename(columns={"b": "c"})))
    with pytest.raises(Refused, match="cannot answer for the factor columns: This Linear"):
        answers(LinearRegression())
    with pytest.raises(Refused, match="cannot answer for one-hot codes"):
        answers(torch.nn.Linear(4, 1))
    assert len(answers(torch.nn.Linear(6, 1).double())) == 2
    assert answers(lambda rows: torch.zeros(len(rows), 1, requires_grad=True)) == [[0.0], [0.0]]
    for bad in (0.5, None):
        with pytest.raises(Refused, match="one prediction per combination"):
            answers(lambda rows, bad=bad: bad)
    with pytest.raises(Refused, match="A prediction is 'u', not a number"):
        answers(lambda rows: ["u"] * len(rows))


def test_kernels_from_tables_of_half_the_factors_are_the_same(rng, monkeypatch):
    shape = (4, 3, 5, 2)
    z = np.indices(shape).reshape(4, -1).T
    part = z[rng.permutation(len(z))[:80]]
    y = part[:, 0] - part[:, 1] * part[:, 2] + rng.normal(size=80)
    fitted = process.fit(shape, part, y, np.ones(80), similar=True, rng=rng)
    queries = z[rng.integers(len(z), size=64 * 12)]
    expected = fitted.judge(queries)
    monkeypatch.setattr(process, "MOST", 10)
    monkeypatch.setattr(process, "mix", None)  # no longer called
    for value, same in zip(fitted.judge(queries), expected, strict=True):
        np.testing.assert_allclose(value, same, rtol=1e-8)


def test_what_is_beyond_order_and_range_is_refused():
    grid = np.indices(SHAPE)
    seen = (grid == 0).any(axis=0)  # at most two factors differ from a0, b0, c0
    f = foresight.forecast(table_of(truth_of(), seen), network="").forecast
    assert (f.why == ORDER).all()
    steep = np.exp(2 * (grid.sum(axis=0)))
    seen = grid.sum(axis=0) < 8
    seen[0, 0, :] = seen[0, :, 0] = seen[:, 0, 0] = True
    f = foresight.forecast(table_of(np.log(steep), seen), network="").forecast
    above = f.value[:, 0] > np.log(steep)[seen].max() * 1.2
    assert (f.why[above] == RANGE).all()


def test_repeats_separate_noise_from_error(seen):
    rng = np.random.default_rng(5)
    rows = [
        pl.DataFrame(rows_of(table_of(truth_of() + 0.45 * rng.normal(size=SHAPE), seen)))
        for _ in range(4)
    ]
    t = read(pl.concat(rows), ["a", "b", "c"], "y")
    f = foresight.forecast(t, network="").forecast
    assert f.referees[0].noise * f.scales[0].size ** 2 == pytest.approx(0.45**2, rel=0.3)
    once = foresight.forecast(read(rows[0], ["a", "b", "c"], "y"), network="").forecast
    assert once.referees[0].noise is None
    assert f.known.mean() > once.known.mean()
    assert (np.abs(f.value[:, 0] - truth_of()[~seen])[f.known] < f.tolerance).mean() > 0.95


def test_classes_are_known_where_they_follow_a_law(seen):
    truth = truth_of(4)
    names = np.where(truth > 0.3, "high", np.where(truth < -1, "low", "middle"))
    f = foresight.forecast(table_of(names, seen), network="relu3", tolerance=0.2)
    made = f.forecast
    assert f.source.classes == ("high", "low", "middle")
    right = np.array(f.columns["value"]) == names[~seen]
    assert right.mean() > 0.7
    assert made.known.any()
    assert right[made.known].mean() > 0.8
    assert set(f.columns["verdict"]) <= {"right", "fails", "cannot know"}
    flipped = foresight.forecast(f, lambda rows: ["low"] * len(rows), tolerance=0.2)
    assert flipped.forecast.referees is made.referees
    low = np.array(f.columns["value"]) == "low"
    assert (flipped.forecast.fails == (made.known & ~low)).all()
    assert "an error probability of" in str(f)


def test_the_expected_error_of_vectors_has_a_known_value(additive):
    """Two components of three outputs: |Δ|² inside and outside their plane, plus their variance."""
    axes = np.array([[1.0, 0.0], [0.0, 0.6], [0.0, 0.8]])
    ratios = np.array([1.0, 2.0])  # mean square 2.5
    f = replace(
        additive.forecast,
        kind="vector",
        value=np.zeros((1, 3)),
        basis=Components(np.zeros(3), axes, rest=0.7),
        judgements=tuple(Judgement(np.zeros(1), np.array([s]), ratios) for s in (2.0, 3.0)),
    )
    wrong = 3 * axes[:, 0] + 4 * axes[:, 1] + 12 * np.array([0.0, 0.8, -0.6])
    variance = (2.0**2 + 3.0**2) * 2.5 + 0.7
    assert f.error_of(np.zeros((1, 3)))[0] == pytest.approx(np.sqrt(variance))
    assert f.error_of(wrong[None])[0] == pytest.approx(np.sqrt(3**2 + 4**2 + 12**2 + variance))


def test_vectors_go_through_their_leading_components(seen):
    rng = np.random.default_rng(2)
    axes = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    first, second = truth_of(0), truth_of(1)
    images = first[..., None] * axes[:, 0] + second[..., None] * axes[:, 1]
    z = np.argwhere(seen)
    data = {"abc"[c]: [NAMES[c][i] for i in z[:, c]] for c in range(3)}
    data |= {f"p{k}": images[seen][:, k] for k in range(6)}
    t = read(data, ["a", "b", "c"], [f"p{k}" for k in range(6)])
    f = foresight.forecast(t, network="")
    made = f.forecast
    assert made.basis.axes.shape == (6, 2)
    away = np.sqrt(np.square(made.value - images[~seen]).sum(axis=1))
    assert made.known.mean() > 0.5
    assert (away[made.known] < made.tolerance).mean() > 0.95
    wrong = replace(made, predictions=made.value + 3 * made.tolerance)
    assert (wrong.fails == made.known).all()
    first = ["a", "b", "c", "value", "low", "high", "known", "expected_error", "determined"]
    assert f.table.columns[:10] == [*first, "margin"]
    judged = replace(f, forecast=wrong).table
    assert (judged["prediction_p5"] - judged["value_p5"] > 0).all()
    assert (judged["verdict"] == "fails").sum() == made.known.sum()


def test_measured_networks_answer_like_the_predictions(additive):
    from recombine.tables.forecast import with_network, with_predictions

    made = additive.forecast
    deep = with_network(made, "relu8").answers
    shallow = with_network(made, "relu1").answers
    measured = with_network(with_predictions(made, deep[:, 0]), "measured").answers
    assert np.abs(measured - deep).mean() < 0.5 * np.abs(shallow - deep).mean()
    with pytest.raises(Refused, match="needs predictions"):
        with_network(made, "measured")
    with pytest.raises(Refused, match="no network 'cnn'"):
        with_network(made, "cnn")


def test_error_scales_of_small_tables_have_twice_the_trees_of_the_forest(additive):
    (referee,) = additive.forecast.referees
    assert len(referee.scales.estimators_) == 2 * len(referee.members.forest.estimators_)


def test_a_plan_by_error_forecasts_a_table_that_has_a_target(additive):
    f = foresight.plan(additive.source, 1, objective="error")
    np.testing.assert_array_equal(f.forecast.value, additive.forecast.value)
    assert foresight.plan(additive, 1, objective="error").forecast is additive.forecast


def test_forecasts_measure_the_network_whose_predictions_they_have(additive):
    truth = additive.forecast.value[:, 0].tolist()
    f = foresight.forecast(additive, predictions=truth, network="measured")
    assert f.forecast.network == "measured"
    with pytest.raises(Refused, match="needs predictions"):
        foresight.forecast(additive, network="measured")


@pytest.mark.parametrize("levels", [2, 20])
def test_figures_have_room_for_levels_and_outline_them(levels):
    """A cell of 0.92 within its place of 1; a margin of 1.9 inches beside 0.19 per level."""
    labels = [["x", "y"], [f"b{k}" for k in range(levels)]]
    z = np.array([[0, 0], [1, 1]])
    f = foresight.certify(Table(space_of("ab", labels), z, None, None, ("a", "b")))
    figure = f.plot("a", "b")
    widths = {2: 2.4, 20: 20 * 0.19 + 1.9}
    np.testing.assert_allclose(figure.get_size_inches(), (widths[levels], 2 * 0.19 + 1.9))
    outlines = [p for p in figure.axes[0].patches if not p.get_hatch()]
    bounds = [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in outlines]
    np.testing.assert_allclose(bounds, [(-0.46, -0.46, 0.92, 0.92), (0.54, 0.54, 0.92, 0.92)])


def test_results_come_as_tables_sentences_json_pages_and_figures(additive, seen):
    f = additive
    columns = ["a", "b", "c", "value", "low", "high", "known", "expected_error", "determined"]
    assert f.table.columns[:10] == [*columns, "margin"]
    assert isinstance(f.table, pl.DataFrame)
    assert len(f.table) == (~seen).sum()
    said = str(f)
    assert said.startswith(f"Of {(~seen).sum()} unseen combinations, {f.forecast.known.sum()} are")
    keys = {"rows", "cells", "seen", "unseen", "order", "determined", "proof", "coverage"}
    keys |= {"known", "cannot_know", "fails", "tolerance"}
    assert keys <= set(json.loads(f.to_json()))
    page = f.to_html()
    assert page.count("<svg") >= 3
    assert "--paper" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "<table>" in f._repr_html_()
    figure = f.plot()
    assert len([a for a in figure.axes if a.get_xlabel() in ("a", "b", "c")]) == 3
    assert f.plot("a", "c").axes[0].get_ylabel() == "a"
    with pytest.raises(Refused, match="no factor 'd'"):
        f.plot("d")
    bare = foresight.certify(f.source, order=2)
    assert bare.table["value"].null_count() == len(bare.table)
    assert bare._repr_html_()
    assert "Witnesses" in str(bare)


def test_pandas_in_pandas_out(seen):
    f = foresight.certify(table_of(truth_of(), seen, pd.DataFrame))
    assert isinstance(f.table, pd.DataFrame)
    assert isinstance(level_frame(f.source, f.queries), pd.DataFrame)


def test_parts_are_computed_once(additive):
    again = foresight.plan(additive, 2, objective="error")
    assert again.forecast is additive.forecast
    assert again.certificate is additive.certificate
    assert [len(k.combination) for k in again.plan.picks] == [3, 3]
    assert again.plan.after < again.plan.random < again.plan.before
    best = foresight.plan(additive, 3, objective="best")
    assert best.certificate is additive.certificate
    top = np.sort(additive.forecast.value[:, 0])[::-1]
    chosen = additive.forecast.value[:, 0][combinations_of_index(additive, best.plan.z)]
    assert chosen.max() >= top[2]


def combinations_of_index(f, z):
    return [int(np.flatnonzero((f.queries == row).all(axis=1))[0]) for row in z]


def test_wanted_combinations_only(additive):
    source = additive.source
    some = source.decode(additive.queries[:3])
    f = foresight.certify(source, 1, pl.DataFrame(some, schema=list("abc"), orient="row"))
    assert f.summary["asked"] == 3
    assert combinations_of(source, some).shape == (3, 3)
    with pytest.raises(Refused, match="lacks the factor 'c'"):
        combinations_of(source, {"a": ["a0"], "b": ["b0"]})
    with pytest.raises(Refused, match="no level of 'a' in the table called 'zebra'"):
        combinations_of(source, [("zebra", "b0", "c0")])
    for codes in ([[5, 0, 0]], [[-1, 0, 0]], [[0, 0]], np.zeros((0, 3))):
        with pytest.raises(Refused, match="one column of level numbers for each of a, b, c"):
            combinations_of(source, np.array(codes, dtype=int))
    with pytest.raises(Refused, match="is empty"):
        combinations_of(source, [])


def test_measured_combinations_are_not_counted_as_unseen(additive):
    both = np.concatenate([additive.queries[:6], additive.source.cells.z[:4]])
    made = foresight.certify(additive.source, 1, both)
    cut = replace(
        additive.forecast,
        queries=both,
        **{
            name: np.resize(getattr(additive.forecast, name), (10, *shape))
            for name, shape in {"value": (1,), "answers": (1,)}.items()
        },
        why=np.resize(additive.forecast.why, 10),
        judgements=(
            replace(
                additive.forecast.judgements[0],
                value=additive.forecast.value[:10, 0],
                scale=additive.forecast.judgements[0].scale[:10],
            ),
        ),
    )
    f = replace(made, forecast=cut)
    assert (f.summary["asked"], f.summary["asked_seen"], f.summary["unseen"]) == (10, 4, 6)
    assert f.summary["known"] + f.summary["cannot_know"] == 6
    assert str(f).startswith("Of 6 unseen combinations")
    assert "4 of the queried combinations were measured" in str(f)
    with pytest.raises(Refused, match="Every wanted combination was measured"):
        foresight.forecast(additive.source, wanted=additive.source.cells.z)


def test_an_answer_can_be_asked_again_at_another_order(additive):
    again = foresight.plan(additive, 1, order=2, objective="determined")
    assert again.summary["order"] == 2
    assert again.forecast is additive.forecast
    assert foresight.forecast(additive, network="").certificate is additive.certificate
    assert additive.summary["order"] == 1


def test_what_is_not_a_table_and_names_of_answers_are_refused(additive):
    certify = inspect.unwrap(foresight.certify)  # without the checks of types that tests have
    for odd in ("data.csv", pl.DataFrame({"a": [1]}), None):
        with pytest.raises(Refused, match="take a table that read"):
            certify(odd)
    clash = read({"low": ["x", "x", "z"], "b": ["u", "v", "u"], "y": [1.0, 2.0, 3.0]}, target="y")
    with pytest.raises(Refused, match="factor 'low' is called like a column of the answers"):
        foresight.plan(clash, 1)
    for order in (0, 4):
        with pytest.raises(Refused, match="order must be 1 to 3"):
            foresight.certify(additive.source, order)
    with pytest.raises(Refused, match="whole number of 0 or more; got seed=-1"):
        foresight.certify(additive.source, seed=-1)
    names = np.where(truth_of() > 0.3, "high", "low")
    classes = table_of(names, np.random.default_rng(1).random(SHAPE) < 0.6)
    with pytest.raises(Refused, match="chance of a wrong class, below 1"):
        foresight.forecast(classes, tolerance=2)


def test_small_units_are_no_constant():
    y = 1e-15 * np.arange(30.0).reshape(5, 6, 1) * np.ones(SHAPE)
    f = foresight.forecast(table_of(y, np.random.default_rng(1).random(SHAPE) < 0.6), network="")
    assert f.forecast.known.any()


def test_long_names_stay_different_when_they_are_shortened():
    levels = [f"CC(C)C1=CC={k}=CC(=C1)C(C)C(C)CO" for k in range(12)]
    assert len(set(briefly(levels, 16).values())) == 12
    assert max(map(len, briefly(levels, 16).values())) <= 16
    ends = ["a" * 30 + str(k) + "b" * 30 + str(k % 2) for k in range(4)]
    assert len(set(briefly(ends, 12).values())) == 4


def test_predictions_of_other_combinations_are_refused(additive):
    source, queries = additive.source, additive.queries[:4]
    rows = pl.DataFrame(source.decode(queries), schema=list("abc"), orient="row")
    good = rows.with_columns(guess=1.0)
    assert aligned(source, queries, good).tolist() == [[1.0]] * 4
    with pytest.raises(Refused, match="lack 1 of 4 queried"):
        aligned(source, queries, good[:3])
    with pytest.raises(Refused, match="which was not queried"):
        aligned(source, queries[:3], good)
    with pytest.raises(Refused, match="one column beside the factors"):
        aligned(source, queries, good.with_columns(other=2.0))
    with pytest.raises(Refused, match="not numbers"):
        aligned(source, queries, rows.with_columns(guess=pl.lit("x")))
    twice = pl.concat([good, good.with_columns(guess=2.0)])
    with pytest.raises(Refused, match="twice with two values"):
        aligned(source, queries, twice)
    assert aligned(source, queries, pl.concat([good, good])).tolist() == [[1.0]] * 4
    assert aligned(source, queries, [1, 2, 3, 4]).tolist() == [
        1,
        2,
        3,
        4,
    ]  # in the order of the queries
    with pytest.raises(Refused, match="has no value of 'b' in row 2"):
        aligned(source, queries, good.with_columns(b=pl.Series([rows["b"][0], None, "b1", "b1"])))
    with pytest.raises(Refused, match="a model or predictions"):
        foresight.forecast(source, len, predictions=good)


def test_tables_that_cannot_be_forecast():
    constant = table_of(np.ones(SHAPE), np.random.default_rng(1).random(SHAPE) < 0.6)
    with pytest.raises(Refused, match="target is 1 in every measured combination"):
        foresight.forecast(constant)
    few = {"a": ["x", "y", "x"], "b": ["u", "v", "v"], "y": [1.0, 2.0, 3.0]}
    with pytest.raises(Refused, match="16 measured combinations or more; the table has 3"):
        foresight.forecast(read(few, target="y"))
    with pytest.raises(Refused, match="needs a target"):
        foresight.forecast(read(few, ["a", "b"]))
    full = {"a": ["x", "x", "y", "y"], "b": ["u", "v", "u", "v"], "y": [1.0, 2.0, 3.0, 4.0]}
    with pytest.raises(Refused, match="Every combination was measured"):
        foresight.forecast(read(full, target="y"))
    assert tolerance("1E+1 SD").absolute(2.0) == 20
    for text in ("-1", "0", "half", "1 mm", "1e999", "inf", "nan"):
        with pytest.raises(Refused, match="positive number such as"):
            tolerance(text)


def test_very_many_combinations_are_fitted_to_in_part(monkeypatch):
    """The forest gets more rows than the other members, and each row is left out by some tree."""
    from recombine.tables import referee

    for name, value in {"VERY_MANY": 200, "MOST": 180, "SHARED": 190}.items():
        monkeypatch.setattr(referee, name, value)
    rng = np.random.default_rng(0)
    triples = rng.normal(size=(7, 7, 7))
    z = np.argwhere(rng.random((7, 7, 7, 2)) < 0.5)
    data = {name: z[:, c] for c, name in enumerate("abcd")} | {"y": triples[tuple(z[:, :3].T)]}
    t = read(data, target="y")
    fitted = referee.fit_referee(t.shape, t.cells, 0, t.unseen)
    assert len(fitted.members.forest.estimators_) == referee.SHARED_TREES
    assert fitted.members.forest.estimators_[0].tree_.n_node_samples[0] == 190
    assert fitted.scales.oob_prediction_.min() > 0
    assert np.isfinite(fitted.judge(t.unseen).scale).all()


def test_rounding_does_not_spoil_a_process_without_noise(rng):
    """Conditioning on exact values gives a system that is indefinite by rounding alone."""
    low = rng.normal(size=(256, 80))
    system = 1e-6 * np.eye(256) + 1e12 * low @ low.T
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(system)
    root = process._root(system)
    np.testing.assert_allclose(root @ root.T, system, atol=1e-9 * system.max())
    with pytest.raises(np.linalg.LinAlgError):
        process._root(-np.eye(3))


def test_a_map_without_values_is_no_figure():
    """The first forty levels of each factor were measured with other levels only."""
    z = np.array([[k, 50 + k % 9] for k in range(45)] + [[50 + k % 9, k] for k in range(45)])
    names = [f"n{k:02}" for k in range(60)]
    data = {"a": [names[k] for k in z[:, 0]], "b": [names[k] for k in z[:, 1]], "y": z.sum(axis=1)}
    t = read(data, ["a", "b"], "y", levels={"a": names, "b": names})
    f = foresight.certify(t, 1, wanted=[("n00", "n51")])
    with pytest.raises(Refused, match="nothing to draw"):
        f.plot()
    assert "<figure" not in f.to_html()
