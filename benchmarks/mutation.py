"""Mutation testing: `python -m benchmarks.mutation --mutants 300 --seed 0`.

Each mutant is one changed operator, constant or condition (`mutants.py`). pytest collects the tests
once, with everything imported; every mutant is a fork of that process, in which the code of the
changed functions is exchanged, and which runs the tests that reach the change: those of the file
itself first, and no further than the first failure. Code that runs at import is changed before the
fork imports it. All of it happens in a copy of the repository, in which subprocesses see the
changed file, too.

What is known is kept in build/mutation, so that a run that was ended continues. The figures go to
mutation.json and docs/reliability.md; survivors whose behavior is the same are listed, with the
reason, in equivalent.json.
"""

from __future__ import annotations

import argparse
import builtins
import gc
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from benchmarks.mutants import SOURCES, Mutant, drawn, instrumented, mutants, pairs
from benchmarks.page import fill

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE, FIGURES = ROOT / "docs" / "reliability.md", HERE / "mutation.json"
EQUIVALENT = HERE / "equivalent.json"
WORK = ROOT / "build" / "mutation"

# Tests that can reach the sources without a browser, a cluster or minutes of training.
TESTS = (
    *("tests/base", "tests/spaces", "tests/theory", "tests/claims", "tests/tables"),
    *("tests/audits", "tests/measures", "tests/maps", "tests/tasks"),
    *("tests/cli/test_tables.py", "tests/test_docs.py"),
    *SOURCES,
)
LEFT_OUT = ("--ignore-glob=*test_browser.py", "--ignore=tests/tasks/banks")
HEAVY: tuple[str, ...] = (
    "numpy",
    "scipy.linalg",
    "scipy.stats",
    "scipy.optimize",
    "scipy.sparse.csgraph",
)
HEAVY += ("sklearn.ensemble", "sklearn.linear_model", "sklearn.gaussian_process", "torch")
HEAVY += ("torch.func", "pandas", "polars", "tyro", "PIL")

BUDGET = 2.5  # CPU seconds of tests per mutant: most tests are users of some core functions
MEMORY = 4 << 30  # bytes that a mutant may take beyond what it was forked with
Exchange = list[tuple[FunctionType, CodeType]]
KILLED, TIME, LIVES = "killed", "ran out of time", "survived"


def forked(work: Callable[[], None], seconds: float, log: Path) -> str:
    """Do something in a fork that may fail, and say how it ended: `LIVES` if it returned."""
    sys.stdout.flush()
    if not (child := os.fork()):
        try:
            os.setsid()
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            cpu = int(seconds) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
            work()
        except BaseException as problem:
            os.write(2, f"{problem!r}\n".encode())
            os._exit(1)
        os._exit(0)
    ends = time.monotonic() + 30 + 8 * seconds  # the machine may be shared
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > ends:
            os.killpg(child, signal.SIGKILL)
            done = os.waitpid(child, 0)
            break
        time.sleep(0.005)
    if os.WIFSIGNALED(done[1]):
        ended = os.WTERMSIG(done[1])
        return TIME if ended in (signal.SIGXCPU, signal.SIGKILL) else KILLED
    return KILLED if os.WEXITSTATUS(done[1]) else LIVES


class Tree:
    """A copy of the repository whose files are changed one at a time."""

    def __init__(self, home: Path) -> None:
        self.home, self.changes = home, 0
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
        shutil.rmtree(home, ignore_errors=True)
        for name in names.stdout.splitlines():
            if (ROOT / name).exists():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, home / name)
        self.sources = {
            path.relative_to(home).as_posix(): path.read_bytes()
            for folder in SOURCES
            for path in sorted((home / folder).rglob("*.py"))
        }
        self.times = {name: (home / name).stat().st_mtime for name in self.sources}

    def write(self, name: str, text: bytes) -> None:
        """Change a file, under a time at which Python has compiled no other text of it."""
        self.changes += 1
        (self.home / name).write_bytes(text)
        at = self.times[name] + (self.changes if text != self.sources[name] else 0)
        os.utime(self.home / name, (at, at))

    def digest(self, *paths: Path) -> str:
        """Identify the text of files."""
        return hashlib.sha1(b"\0".join(p.read_bytes() for p in paths)).hexdigest()


class Session:
    """pytest with all tests collected: what is asked of it is done in forks."""

    def __init__(self, work: Callable[[Session], None]) -> None:
        self.work, self.failed = work, False
        self.items: dict[str, pytest.Item] = {}
        self.functions: dict[tuple[str, str, int], list[FunctionType]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Work instead of running the tests."""
        self.items = {item.nodeid: item for item in session.items}
        gc.collect()
        for thing in gc.get_objects():
            if type(thing) is FunctionType:  # isinstance asks objects that warn when asked
                self.functions.setdefault(_place(thing.__code__), []).append(thing)
        gc.freeze()
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self.failed |= report.failed

    def run(self, names: Iterable[str], each: Callable[[str], None] | None = None) -> None:
        """Run tests; without `each`, stop at the first failure."""
        items = [self.items[name] for name in names if name in self.items]
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if each is not None:
                each(item.nodeid)
                self.failed = False
            elif self.failed:
                os.write(2, f"\n{item.nodeid}\n".encode())
                os._exit(1)

    def exchanged(self, file: str, text: bytes) -> Exchange:
        """List the functions of a module, with the code that they have in another text of it."""
        module = sys.modules[_module(file)]
        loader: Any = module.__loader__
        path = str(module.__file__)
        old: CodeType = loader.source_to_code(Path(path).read_bytes(), path)
        new: CodeType = loader.source_to_code(text, path)
        found = []
        for before, after in pairs(old, new):
            if before.co_freevars != after.co_freevars:
                raise LookupError("the two share other variables")
            for function in self.functions.get(_place(before), ()):
                found.append((function, after))
        return found


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _module(file: str) -> str:
    return file.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def cover(tree: Tree, session: Session, blocks: dict[str, dict[str, Any]]) -> None:
    """Learn which blocks every test runs, and how long it takes: in a fork per file of tests."""
    files: dict[str, list[str]] = {}
    for name in session.items:
        files.setdefault(name.partition("::")[0], []).append(name)
    store = WORK / "coverage"
    store.mkdir(parents=True, exist_ok=True)
    watching: tuple[Exchange, list[str]] | None = None
    for file, names in files.items():
        key = tree.digest(tree.home / file, tree.home / "tests/conftest.py")
        target = store / f"{file.replace('/', '.')}.json"
        if not target.exists() or json.loads(target.read_text())["key"] != key:
            print(f"coverage of {file} …", flush=True)
            exchange, listed = watching = watching or _watching(tree, session)
            work = partial(_cover, session, names, exchange, listed, target, key)
            ended = forked(work, 1200, WORK / "coverage.log")
            if ended != LIVES:
                raise RuntimeError(f"It {ended}:\n{(WORK / 'coverage.log').read_text()[-2000:]}")
        found = json.loads(target.read_text())["tests"]
        blocks.update({t: {**facts, "blocks": set(facts["blocks"])} for t, facts in found.items()})


def _watching(tree: Tree, session: Session) -> tuple[Exchange, list[str]]:
    """List all functions with code that notes which blocks ran, and the names of the blocks."""
    exchange: Exchange = []
    names: list[str] = []
    for file, text in tree.sources.items():
        if _module(file) in sys.modules:
            new, found = instrumented(file, text, len(names))
            names += [f"{file} {place} {n}" for place, n in found.values()]
            exchange += session.exchanged(file, new)
    return exchange, names


def _cover(
    session: Session,
    names: list[str],
    watching: Exchange,
    blocks: list[str],
    target: Path,
    key: str,
) -> None:
    ran: set[int] = set()
    builtins.__ran__ = ran  # type: ignore[attr-defined]
    for function, code in watching:
        function.__code__ = code
    found_tests: dict[str, dict[str, Any]] = {}
    shared: set[int] = set()
    start = time.process_time()

    def note(name: str) -> None:
        nonlocal start
        seconds = time.process_time() - start
        hits = set(ran)
        ran.clear()
        fixtures = session.items[name]._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
        # What a fixture of the module runs is run for the tests after the first one, too.
        if any(d.scope != "function" for ds in fixtures.values() for d in ds):
            shared.update(hits)
            hits |= shared
        if not session.failed:
            listed = sorted(blocks[n] for n in hits)
            found_tests[name] = {"seconds": round(seconds, 3), "blocks": listed}
        start = time.process_time()

    session.run(names, note)
    target.write_text(json.dumps({"key": key, "tests": found_tests}))


def choose(mutant: Mutant, known: dict[str, dict[str, Any]]) -> list[str]:
    """Order the tests that reach a mutant: its file's own and quick ones first, to the budget."""
    function, number = mutant.block
    folder, name = mutant.file.split("/")[-2:]
    own = (f"tests/{folder}/test_{name}", mutant.file)
    blocks: dict[str, set[str]] = {test: facts["blocks"] for test, facts in known.items()}
    if not any(f"{mutant.file} {function} 0" in ran for ran in blocks.values()):
        # Code that runs at import, or that has changed since the tests were watched.
        reached = [t for t, ran in blocks.items() if any(b.startswith(mutant.file) for b in ran)]
    else:
        reached = [t for t, ran in blocks.items() if f"{mutant.file} {function} {number}" in ran]

    def rank(test: str) -> tuple[bool, bool, float]:
        near = test.startswith(f"tests/{folder}/")
        return not test.startswith(own), not near, float(known[test]["seconds"])

    chosen, total = [], 0.0
    for test in sorted(reached, key=rank):
        seconds = known[test]["seconds"]
        if total + seconds <= BUDGET or test.startswith(own):
            chosen.append(test)
            total += seconds
    files = list(dict.fromkeys(t.partition("::")[0] for t in chosen))
    return sorted(chosen, key=lambda t: files.index(t.partition("::")[0]))  # share fixtures


class Results:
    """How mutants ended, kept line by line; survivors are tried again when tests have changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        entries = [*map(json.loads, lines)]
        self.known = {entry["ident"]: entry for entry in entries}
        self.first = {entry["ident"]: entry["end"] for entry in reversed(entries)}

    def pending(self, wanted: list[Mutant], tests: dict[str, str]) -> list[Mutant]:
        """List the mutants whose end is not known for these tests."""
        return [
            m
            for m in wanted
            if not (entry := self.known.get(m.ident))
            or (entry["end"] == LIVES and entry["tests"] != tests.get(m.ident, entry["tests"]))
        ]

    def add(self, mutant: Mutant, end: str, tests: str, n: int, seconds: float) -> None:
        """Keep how one ended."""
        facts = {"ident": mutant.ident, "end": end, "tests": tests, "n": n, "seconds": seconds}
        log = self.path.with_name("last.log")
        if end == KILLED and log.exists() and (lines := log.read_text().splitlines()):
            facts["by"] = lines[-1]
        self.known[mutant.ident] = facts
        with self.path.open("a") as file:
            file.write(json.dumps(facts) + "\n")
        place = f"{mutant.file}:{mutant.line}"
        print(
            f"{end}: {place} `{mutant.was}` → `{mutant.now}` ({n} tests, {seconds} s)", flush=True
        )


def try_all(wanted: list[Mutant], tree: Tree, results: Results, arguments: list[str]) -> None:
    """Run the tests against every mutant."""
    known: dict[str, dict[str, Any]] = {}
    later: list[tuple[Mutant, list[str], str]] = []
    (WORK / "later.json").unlink(missing_ok=True)

    def digests(tests: list[str]) -> str:
        files = sorted({t.partition("::")[0] for t in tests})
        return tree.digest(*(tree.home / f for f in files))

    def one(mutant: Mutant, tests: list[str], key: str, work: Callable[[], None]) -> None:
        text = mutant.apply(tree.sources[mutant.file])
        seconds = sum(known[t]["seconds"] for t in tests)
        tree.write(mutant.file, text)
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        end = forked(work, 20 + 3 * seconds, WORK / "last.log") if tests else LIVES
        stop = resource.getrusage(resource.RUSAGE_CHILDREN)
        tree.write(mutant.file, tree.sources[mutant.file])
        spent = round(stop.ru_utime + stop.ru_stime - start.ru_utime - start.ru_stime, 1)
        results.add(mutant, end, key, len(tests), spent)

    def warm(session: Session) -> None:
        cover(tree, session, known)
        chosen = {m.ident: choose(m, known) for m in wanted}
        keys = {ident: digests(tests) for ident, tests in chosen.items()}
        for mutant in results.pending(wanted, keys):
            tests = chosen[mutant.ident]
            try:
                if not mutant.function:
                    raise LookupError("it runs at import")
                new = session.exchanged(mutant.file, mutant.apply(tree.sources[mutant.file]))
            except LookupError:
                later.append((mutant, tests, keys[mutant.ident]))
                continue

            def work(new: Exchange = new, tests: list[str] = tests) -> None:
                for function, code in new:
                    function.__code__ = code
                session.run(tests)

            one(mutant, tests, keys[mutant.ident], work)
        (WORK / "later.json").write_text(json.dumps([(m.ident, t, k) for m, t, k in later]))
        (WORK / "known.json").write_text(json.dumps({t: known[t]["seconds"] for t in known}))

    if not (child := os.fork()):
        try:
            pytest.main([*arguments, *LEFT_OUT, *TESTS], plugins=[Session(warm)])
            sys.stdout.flush()
        finally:
            os._exit(0 if (WORK / "later.json").exists() else 1)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("The session of pytest ended early; say the command again.")
    known |= {t: {"seconds": s} for t, s in json.loads((WORK / "known.json").read_text()).items()}
    by_ident = {m.ident: m for m in wanted}
    for ident, tests, key in json.loads((WORK / "later.json").read_text()):

        def work(tests: list[str] = tests) -> None:
            if pytest.main([*arguments, "-x", *tests]):
                os._exit(1)

        one(by_ident[ident], tests, key, work)


def figures(wanted: list[Mutant], ends: dict[str, str], same: dict[str, Any]) -> dict[str, Any]:
    """Count how mutants ended, per package; name the survivors."""
    rows: dict[str, Counter[str]] = {f.rpartition("/")[2]: Counter() for f in SOURCES}
    lives = []
    for m in wanted:
        end = "equivalent" if m.ident in same else ends[m.ident]
        rows[m.file.split("/")[2]].update(["mutants", end])
        if end == LIVES:
            lives.append(
                {"ident": m.ident, "file": m.file, "line": m.line, "was": m.was, "now": m.now}
            )
    return {"packages": {name: dict(sorted(row.items())) for name, row in rows.items()},
            "survivors": sorted(lives, key=lambda s: (s["file"], s["line"]))}  # fmt: skip


def section(found: dict[str, Any]) -> str:
    """Write the part of the page."""
    names = ["mutants", "equivalent", KILLED, TIME, LIVES]
    total: Counter[str] = Counter()
    lines = []
    for package, row in found["packages"].items():
        total.update(row)
        lines.append(f"| `{package}` | " + " | ".join(str(row.get(n, 0)) for n in names) + " |")
    lines.append("| all | " + " | ".join(str(total[n]) for n in names) + " |")
    changed = total["mutants"] - total["equivalent"]
    score = (total[KILLED] + total[TIME]) / max(changed, 1)
    head = [
        "## Do the tests notice a changed line?",
        "",
        f"`{found['command']}` changes one operator, constant or condition at a time and runs the",
        f"tests that reach it: those of its own file, then others up to {BUDGET:g} CPU seconds.",
        "*Equivalent*: the behavior stays the same; each has its reason in",
        "`benchmarks/equivalent.json`. *Ran out of time*: noticed, because a test does not end.",
        "Every survivor is named in `benchmarks/mutation.json`.",
        "",
        f"| package | {' | '.join(names)} |",
        "| --- |" + " ---: |" * len(names),
    ]
    lines += ["", f"Of {changed} mutants that change behavior, the tests notice "
              f"**{100 * score:.1f} %**; when each was tried for the first time, before tests were "
              f"added for survivors, {100 * found['first']:.0f} %. {found['sites']:,} places can "
              f"be changed; {total['mutants']} were drawn."]  # fmt: skip
    return "\n".join([*head, *lines])


def main() -> int:
    """Try the mutants, and write figures and page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation", description=__doc__)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="packages to try; writes no page")
    options = parser.parse_args()
    os.nice(max(0, 10 - os.nice(0)))
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", CI="1")  # CI: the same examples
    tree = Tree(WORK / "tree")
    every = [m for name, text in tree.sources.items() for m in mutants(name, text)]
    wanted = drawn(every, options.mutants, options.seed)
    tried = [m for m in wanted if not options.only or m.file.split("/")[2] in options.only]
    os.chdir(tree.home)
    sys.path.insert(0, str(tree.home / "src"))
    os.environ["PYTHONPATH"] = str(tree.home / "src")
    for name in HEAVY:
        importlib.import_module(name)
    results = Results(WORK / "results.jsonl")
    same = {entry["ident"]: entry for entry in json.loads(EQUIVALENT.read_text())}
    temporary = f"--basetemp={WORK / 'temporary'}"
    others = [m for m in tried if m.ident not in same]
    try_all(others, tree, results, ["-p", "no:cacheprovider", "-s", "-q", temporary])
    for ident in same.keys() - {m.ident for m in every}:
        print(f"no longer there: {same[ident]}", flush=True)
    # Read again: most were tried in the process of the session.
    results = Results(results.path)
    ends = {i: entry["end"] for i, entry in results.known.items()}
    noticed = [results.first[m.ident] != LIVES for m in others]
    found = figures(tried, ends, same)
    command = f"python -m benchmarks.mutation --mutants {options.mutants} --seed {options.seed}"
    first = sum(noticed) / max(len(noticed), 1)
    found = {"command": command, "sites": len(every), "first": round(first, 3), **found}
    print(section(found))
    if not options.only:
        FIGURES.write_text(json.dumps(found, indent=1) + "\n")
        PAGE.write_text(fill(PAGE.read_text("utf-8"), "mutation", section(found)), "utf-8")
    return len(found["survivors"])


if __name__ == "__main__":
    sys.exit(main() > 0)
