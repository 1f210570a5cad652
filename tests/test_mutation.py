"""Mutants change code alone, tests are chosen by what they reach, the page shows the record."""

import ast
import json

from benchmarks import mutation
from benchmarks.mutants import SOURCES, drawn, instrumented, mutants, pairs

SOURCE = b'''"""Adds 1 + 1."""
from typing import Literal

LIMIT = 3


def f(x: Literal[7], y: int = 2) -> int:
    """Return 1 + 1."""
    if x < y and not y:
        raise ValueError(f"{x + 1} is less than {y - 1}" + "!")
    return max(x - y, 0)


class A:
    share: float = 0.5

    def g(self, z):
        def inner():
            return z is None

        for a in z:
            if a:
                break
        return inner
'''


def changes(source):
    return {(m.function, m.was, m.now) for m in mutants("a/b.py", source)}


def test_every_change_is_one_of_code():
    found = mutants("a/b.py", SOURCE)
    trees = {ast.dump(ast.parse(m.apply(SOURCE))) for m in found} | {ast.dump(ast.parse(SOURCE))}
    assert len(trees) == len(found) + 1
    assert {(m.function, m.was) for m in found} == {
        ("", "3"), ("", "2"), ("", "0.5"), ("f", "x < y and (not y)"), ("f", "x < y"),
        ("f", "not y"), ("f", "max(x - y, 0)"), ("f", "x - y"), ("f", "0"),
        ("A.g", "z is None"), ("A.g", "a"), ("A.g", "break"),
    }  # fmt: skip
    assert {("f", "x - y", "(x + y)"), ("", "0.5", "1.5"), ("A.g", "a", "(not a)")} < changes(
        SOURCE
    )


def test_messages_types_and_checks_stay():
    for text in (
        "raise ValueError(1 + n)",
        "warn('a' + str(n + 1))",
        "x = 'a' + b",
        "x: Literal[1]",
        "zip(a, b, strict=True)",
        "assert n > 0",
    ):
        assert not changes(text.encode()), text


def test_a_mutant_keeps_its_name_when_its_file_moves_and_other_functions_change():
    before = {m.ident for m in mutants("a/b.py", SOURCE)}
    moved = SOURCE.replace(b"Return 1 + 1.", b"Say it.").replace(b"LIMIT = 3", b"LIMIT = 4")
    after = {m.ident for m in mutants("c/d/b.py", moved)}
    assert len(before) == 12
    assert len(before - after) == 1
    assert drawn(mutants("a/b.py", SOURCE), 5, 0) == drawn(mutants("a/b.py", SOURCE), 12, 0)[:5]
    assert drawn(mutants("a/b.py", SOURCE), 5, 0) != drawn(mutants("a/b.py", SOURCE), 5, 1)


def test_blocks_note_that_they_ran():
    text, numbers = instrumented("a/b.py", SOURCE, 0)
    ran = set()
    names = {"__ran__": ran}
    exec(compile(text, "b.py", "exec"), names)
    assert ran == set()
    names["f"](1, 0)
    assert {numbers[n] for n in ran} == {mutants("a/b.py", SOURCE)[2].block}
    names["A"]().g([0])
    where = {m.was: m.block for m in mutants("a/b.py", SOURCE)}
    assert where["a"] in {numbers[n] for n in ran}
    assert where["z is None"] not in {numbers[n] for n in ran}
    assert where["break"] not in {numbers[n] for n in ran}


def test_functions_take_the_code_of_the_changed_text():
    names = {}
    old = compile(SOURCE, "b.py", "exec")
    exec(old, names)
    change = next(m for m in mutants("a/b.py", SOURCE) if m.was == "x - y")
    codes = dict(pairs(old, compile(change.apply(SOURCE), "b.py", "exec")))
    assert names["f"](5, 3) == 2
    names["f"].__code__ = codes[names["f"].__code__]
    assert names["f"](5, 3) == 8


def test_tests_of_the_file_itself_come_first_and_the_others_keep_to_the_budget():
    (mutant,) = [m for m in mutants("src/recombine/spaces/b.py", SOURCE) if m.was == "x - y"]
    place, number = mutant.block
    reached = {"blocks": {f"{mutant.file} {place} {number}"}, "seconds": 1.0}
    known = {
        "tests/tables/test_c.py::quick": reached | {"seconds": 0.1},
        "tests/spaces/test_b.py::slow": reached | {"seconds": mutation.BUDGET},
        "tests/spaces/test_b.py::quick": reached,
        "tests/spaces/test_b.py::other": {"blocks": {f"{mutant.file} A.g@00 0"}, "seconds": 1.0},
    }
    assert mutation.choose(mutant, known) == [
        "tests/spaces/test_b.py::quick",
        "tests/spaces/test_b.py::slow",
    ]
    del known["tests/spaces/test_b.py::slow"]
    assert mutation.choose(mutant, known)[1:] == ["tests/tables/test_c.py::quick"]
    (late,) = [m for m in mutants(mutant.file, SOURCE + b"\n\ndef h(x):\n    return x + 5\n")
               if m.was == "x + 5"]  # fmt: skip
    assert len(mutation.choose(late, known)) == 3  # whatever reaches the file


def test_a_fork_says_how_it_ended(tmp_path):
    def fail():
        raise ValueError

    def hang():
        while True:
            pass

    log = tmp_path / "log"
    assert mutation.forked(lambda: None, 5, log) == mutation.LIVES
    assert mutation.forked(fail, 5, log) == mutation.KILLED
    assert "ValueError" in log.read_text()
    assert mutation.forked(hang, 0.1, log) == mutation.TIME


def test_survivors_are_tried_again_when_tests_have_changed(tmp_path):
    one, two, three = mutants("a/b.py", SOURCE)[:3]
    results = mutation.Results(tmp_path / "results.jsonl")
    results.add(one, mutation.LIVES, "as they were", 1, 0.1)
    results.add(two, mutation.KILLED, "as they were", 1, 0.1)
    again = mutation.Results(tmp_path / "results.jsonl")
    same, changed = ({m.ident: t for m in (one, two)} for t in ("as they were", "changed"))
    assert again.pending([one, two, three], same) == [three]
    assert again.pending([one, two, three], changed) == [one, three]


def test_the_page_shows_the_figures_of_the_record():
    found = json.loads(mutation.FIGURES.read_text())
    page = mutation.PAGE.read_text()
    assert mutation.fill(page, "mutation", mutation.section(found)) == page
    assert set(found["packages"]) == {folder.rpartition("/")[2] for folder in SOURCES}
    drawn_ones = sum(row["mutants"] for row in found["packages"].values())
    assert f"--mutants {drawn_ones} --seed" in found["command"]
    assert sum(row.get(mutation.LIVES, 0) for row in found["packages"].values()) == len(
        found["survivors"]
    )


def test_what_is_called_equivalent_has_its_reason():
    entries = json.loads(mutation.EQUIVALENT.read_text())
    assert len({entry["ident"] for entry in entries}) == len(entries)
    assert all(len(entry["reason"].split()) > 4 for entry in entries)
