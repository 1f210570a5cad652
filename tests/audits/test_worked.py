"""The studies on real data at a small size, and the page against the stored numbers."""

import json
from functools import partial

import numpy as np
import pytest
from benchmarks.worked import people, tables, write
from benchmarks.worked.follow import follow

from recombine.audits.diagnosis import RULES
from recombine.tables.datasets import dataset
from recombine.tables.read import read
from recombine.tasks.banks.bank import glyphs, load
from recombine.tasks.banks.packages import cached

KEYS = ("before", "advised", "random")
NAMES = {rule.diagnosis for rule in RULES}


def check(rows, added):
    for row in rows:
        assert added is None or row["added"] == added
        assert all(np.isfinite(row[k]) and row[k] >= 0 for k in KEYS)
        assert {row["before_diagnosis"], row["advised_diagnosis"]} <= NAMES


def corner(name, levels):
    """The combinations of a few levels of each factor, as a table of its own."""
    table = dataset(name)
    use = (table.codes < levels).all(axis=1)
    names = zip(*table.decode(table.codes[use]), strict=True)
    columns = dict(zip(table.columns, map(list, names), strict=True))
    return read(columns | {"y": table.y[use, 0]}, list(columns), "y")


def test_boosting_on_reactions_is_audited_advised_and_audited_again():
    rng = np.random.default_rng(0)
    case = tables.case("reactions", corner("buchwald_hartwig", 4), 40, 4, rng)
    rows = follow(case, {"boosting": tables.boosting}, rng, 0)
    check(rows, 4)
    assert rows[0]["trained"] == 40
    assert rows[0]["before"] > 0.3


def test_a_network_on_a_protein_is_audited_advised_and_audited_again():
    rng = np.random.default_rng(0)
    case = tables.case("protein", corner("gb1", 4).log(0.01), 50, 8, rng, most=40)
    assert not case.judged[case.pool].any()  # random additions come from rows that are not judged
    rows = follow(case, {"MLP": tables.network}, rng, 0)
    assert 0 < rows[0]["added"] <= 8  # an advised combination may be missing from the measurements
    check(rows, rows[0]["added"])


@pytest.fixture(scope="module")
def letters():
    rng = np.random.default_rng(0)
    return people.case(glyphs(8), "glyph", "family", 80, 8, rng), rng


def test_a_network_on_images_of_glyphs_is_audited_advised_and_audited_again(letters):
    case, rng = letters
    fit = partial(people.network, classes=3, steps=30)
    check(follow(case, {"CNN": fit}, rng, 0), 8)


def test_images_of_one_combination_are_held_out_together_and_no_level_is(letters):
    case, _ = letters
    z, train = case.table.codes, case.train
    trained = {tuple(c) for c in z[train]}
    assert len(trained) == 80
    assert not trained & {tuple(c) for c in z[~train]}
    for c, levels in enumerate(case.table.shape):
        assert len(set(z[train][:, c])) == levels
    assert len(case.pool) == 62 * 3 - 80


def test_advised_rows_are_all_images_of_the_combinations(letters):
    case, rng = letters
    some = case.table.decode(case.table.codes[case.pool[:3]])
    assert case.rows(some).sum() == 3 * 4  # weight × slant
    assert case.random(5, rng).sum() == 5 * 4
    assert not (case.random(5, rng) & case.train).any()


@pytest.mark.skipif(
    not cached("emoji").exists(), reason="the emoji are not here: recombine data get emoji"
)
def test_a_network_on_people_is_audited_advised_and_audited_again():
    rng = np.random.default_rng(0)
    case = people.case(load("emoji"), "role", "tone", 150, 50, rng)
    assert case.inputs.shape == (1332, 3, 32, 32)
    assert case.train.sum() == 3 * 150  # the genders of 150 combinations
    rows = follow(case, {"CNN": partial(people.network, classes=6, steps=100)}, rng, 0)
    check(rows, 50)
    assert rows[0]["before"] < 0.7  # guessing one of six tones errs in 0.83


def test_the_page_shows_the_stored_numbers():
    rows, page = json.loads(write.NUMBERS.read_text()), write.PAGE.read_text()
    assert write.filled(page, rows) == page
    assert {r["data"] for r in rows} == set(write.DATA)
    for data, model in {(r["data"], r["model"]) for r in rows}:
        part = [r for r in rows if (r["data"], r["model"]) == (data, model)]
        assert [r["seed"] for r in part] == [0, 1, 2, 3, 4]
        check(part, part[0]["added"] if data != "gb1" else None)  # some variants are not measured
