"""The report: records and verdicts become one HTML page that opens from disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from recombine.core.claim import Role
from recombine.core.error import Refused
from recombine.core.experiment import EXPERIMENTS, SIZES
from recombine.report.bibliography import papers
from recombine.report.cards import claim_card, paper_card
from recombine.report.numbers import measured
from recombine.report.outcomes import LOOKS, tally
from recombine.report.sections import Section, dates, processors, section
from recombine.runs.discover import left_out, load_figures
from recombine.runs.judge import Judged, one_per_claim
from recombine.runs.record import DONE, Record
from recombine.runs.store import Store

MEANING = {
    "smoke": "runs of a few seconds that test the code; they decide nothing",
    "quick": "reduced settings for two CPU cores",
    "paper": "the paper's own settings",
}


def runs_of(path: Path) -> int:
    """Return the number of runs in an existing report; 0 if there is none."""
    try:
        head = path.read_text(encoding="utf-8", errors="replace")[:2000]
    except OSError:
        return 0
    count = re.search(r'<meta name="runs" content="(\d+)">', head)
    return int(count[1]) if count else 0


def page(
    store: Store,
    records: Sequence[Record],
    judged: Sequence[Judged],
    where: Path | None = None,
    note: Callable[[str], None] | None = None,
) -> str:
    """Return one self-contained HTML page: papers first, then claims, then experiments.

    The same records give the same page. Links to records and source files need `where`, the path
    of the page. `note` receives a sentence about each part of a plugin that is left out.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    if not records:
        raise Refused(
            f"There are no records in {store.root}; run `recombine reproduce` first, or name "
            "another folder with --records."
        )
    load_figures(note)
    sections = _sections(store, records, judged)
    for problem in (text for s in sections.values() for text in s.problems if note):
        note(problem)
    cards = [claim_card(j, sections, store, where) for j in judged]
    keys = {name.partition(".")[0] for name, _ in sections} | {c.claim.family for c in cards}
    order = sorted(keys, key=lambda key: (_rank(list(papers()), key), key))
    environment = Environment(
        loader=PackageLoader("recombine.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["measured"] = lambda verdict: measured(*verdict.numbers)
    return environment.get_template("page.html").render(
        papers=[
            paper_card(
                key,
                [c for c in cards if c.claim.family == key],
                [s for (name, _), s in sections.items() if name.partition(".")[0] == key],
            )
            for key in order
        ],
        claims=len(cards),
        tally=tally([j.verdict.outcome for j in one_per_claim(judged)]),
        looks=list(LOOKS.values()),
        roles=get_args(Role),
        sizes=[(s, MEANING.get(s, "")) for s in _sizes(records)],
        runs=len(records),
        left_out=left_out(),
        unfinished=sum(r.status != DONE for r in records),
        dates=dates(records),
        devices=processors(records),
    )


def _sections(
    store: Store, records: Sequence[Record], judged: Sequence[Judged]
) -> dict[tuple[str, str], Section]:
    """Build a section for every experiment and size, in the order of the registry."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for r in records:
        groups.setdefault((r.experiment, r.size), []).append(r)
    known, claims = list(EXPERIMENTS), [j.claim for j in judged]
    order = sorted(groups, key=lambda g: (_rank(known, g[0]), g[0], _rank(SIZES, g[1]), g[1]))
    return {key: section(store, *key, groups[key], claims) for key in order}


def _sizes(records: Sequence[Record]) -> list[str]:
    return sorted({r.size for r in records}, key=lambda s: (_rank(SIZES, s), s))


def _rank(known: Sequence[str], name: str) -> int:
    return known.index(name) if name in known else len(known)
