"""Cards: the content of the page for one claim and for one paper."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from recombine.core.claim import MISSING, Claim
from recombine.core.paper import Paper
from recombine.report.bibliography import papers
from recombine.report.chart import verdict_axis
from recombine.report.conditions import configured
from recombine.report.outcomes import LOOKS, Count, Look, tally
from recombine.report.published import duration, published
from recombine.report.sections import Picture, Section, anchor
from recombine.report.source import source_of
from recombine.runs.judge import Judged, one_per_claim
from recombine.runs.store import Store

FINDINGS = 6  # at most, on a paper's card
HYPHEN = "\N{NON-BREAKING HYPHEN}"


@dataclass(frozen=True)
class Run:
    """One named run of a claim: the fields it changes, its row in the results, and its records."""

    name: str
    changes: str
    row_id: str
    records: list[tuple[int, str, str]]  # seed, record id, link


@dataclass(frozen=True)
class ClaimCard:
    """One claim with its verdict and the evidence for it."""

    judged: Judged
    id: str
    axis: Markup | None
    runs: list[Run]
    figures: list[tuple[str, str]]  # title, id
    section_id: str
    agreement: str  # with the published verdict
    source: str  # file:line
    source_link: str

    @property
    def claim(self) -> Claim:
        """The claim."""
        return self.judged.claim

    @property
    def look(self) -> Look:
        """How the page displays its outcome."""
        return LOOKS[self.judged.verdict.outcome]

    @property
    def bound(self) -> str:
        """The measured quantity and its bound, from the reason of its verdict."""
        stated = re.match(r".*, needed [^;(]*", self.judged.verdict.why)
        return re.sub(r"(?<=\de)-", HYPHEN, stated[0].strip()) if stated else ""

    @property
    def command(self) -> str:
        """The command that reruns it."""
        size = "" if self.judged.size == "quick" else f" --size {self.judged.size}"
        return f"recombine reproduce {self.claim.name}{size}"


@dataclass(frozen=True)
class PaperCard:
    """One paper: its summary, the outcomes of its claims, and one figure."""

    key: str
    paper: Paper | None
    tally: list[Count]
    findings: list[ClaimCard]
    hero: Picture | None
    claims: list[ClaimCard]
    sections: list[Section]
    minutes: str

    @property
    def claim_count(self) -> int:
        """The number of claims; one that was judged at two sizes counts once."""
        return len({c.claim.name for c in self.claims})

    @property
    def experiment_count(self) -> int:
        """The number of experiments, regardless of size."""
        return len({s.name for s in self.sections})

    @property
    def label(self) -> str:
        """Its short name."""
        return self.paper.label if self.paper else self.key

    @property
    def title(self) -> str:
        """Its title, or the name of its package without one."""
        return self.paper.title if self.paper else self.key


def claim_card(
    judged: Judged,
    sections: Mapping[tuple[str, str], Section],
    store: Store,
    page: Path | None,
) -> ClaimCard:
    """Collect the content of a claim's card."""
    claim, verdict = judged.claim, judged.verdict
    section = sections.get((claim.experiment, judged.size))
    kind, source = LOOKS[verdict.outcome].kind, source_of(claim)
    return ClaimCard(
        judged=judged,
        id=anchor("claim", claim.name, *[judged.size] * (judged.size != "quick")),
        axis=verdict_axis(verdict, published_number(claim.paper), kind),
        runs=_runs(judged, section, store, page),
        figures=[(_title(p.caption), p.id) for p in section.pictures] if section else [],
        section_id=section.id if section else "",
        agreement=published().agreement(judged),
        source=f"{source[0].name}:{source[1]}" if source else "",
        source_link=_source_link(source[0], page) if source else "",
    )


def paper_card(key: str, claims: Sequence[ClaimCard], sections: Sequence[Section]) -> PaperCard:
    """Collect the content of a paper's card; its findings are headlines, if it has any."""
    paper = papers().get(key)
    judged = one_per_claim(c.judged for c in claims)
    distinct = [c for c in claims if c.judged in judged]
    headlines = [c for c in distinct if c.claim.role == "headline"]
    records = [r for s in sections for c in s.conditions for r in c.records]
    return PaperCard(
        key=key,
        paper=paper,
        tally=tally([j.verdict.outcome for j in judged]),
        findings=(headlines or distinct)[:FINDINGS],
        hero=_hero(paper, sections),
        claims=list(claims),
        sections=list(sections),
        minutes=duration(sum(r.cpu_seconds for r in records)),
    )


def published_number(text: str) -> float | None:
    """Read a published number if it is a single one, or the result of a written sum.

    A remark in parentheses may follow it.

    >>> published_number("0.951"), published_number("0.951 - 0.895 = 0.056")
    (0.951, 0.056)
    >>> published_number("0.2 (Table 1)"), published_number("1e-4 (MSE, as in Fig. 2)")
    (0.2, 0.0001)
    >>> published_number("0.864 and 0.917"), published_number("rises"), published_number("about 3")
    (None, None, None)
    """
    last = re.sub(r" \([^()]*\)$", "", text.strip()).rpartition("=")[2].strip()
    number = re.fullmatch(r"[-−]?\d+(\.\d+)?(e-?\d+)?", last)
    return float(last.replace("−", "-")) if number else None


def _title(caption: str) -> str:
    """Shorten a caption to its first clause.

    >>> _title("Slope of sums, by seed: one dot per seed. Dashed: correct sums.")
    'Slope of sums, by seed'
    """
    return re.split(r"[:;.](?: |$)", caption)[0]


def _hero(paper: Paper | None, sections: Sequence[Section]) -> Picture | None:
    """Choose the figure of a paper's card: the first of its list that could be drawn, or any."""
    drawn = [(s.name, picture) for s in sections for picture in s.pictures]
    for choice in paper.figures if paper else ():
        experiment, _, title = choice.partition(": ")
        for name, picture in drawn:
            if name == experiment and picture.id.endswith(anchor(title)):
                return picture
    return drawn[0][1] if drawn else None


def _runs(judged: Judged, section: Section | None, store: Store, page: Path | None) -> list[Run]:
    """List a claim's runs with the records that decided it."""
    rows = {c.key: (i, c) for i, c in enumerate(section.conditions)} if section else {}
    folder, runs = _link(store.root / judged.claim.experiment, page), []
    for name, run, key in configured(judged.claim, judged.size):
        i, condition = rows.get(key, (0, None))
        records = [*condition.records] if condition else []
        if (verdict := judged.verdict).outcome != MISSING:
            records = [r for r in records if r.seed >= verdict.start][: verdict.seeds]
        changes = ", ".join(f"{field}={value}" for field, value in run.items())
        runs.append(
            Run(
                name=condition.label if condition else name.replace("_", " "),
                changes="" if changes == name else changes,
                row_id=f"{section.id}-{i}" if section and condition else "",
                records=[
                    (r.seed, r.id, folder and f"{folder}/{quote(r.id)}.json") for r in records
                ],
            )
        )
    return runs


def _source_link(file: Path, page: Path | None) -> str:
    """Link to a source file below the working directory; other files are only named."""
    return _link(file, page) if file.is_relative_to(Path.cwd()) else ""


def _link(path: Path, page: Path | None) -> str:
    """Return the relative address of a file, as seen from the page."""
    if page is None:
        return ""
    return quote(os.path.relpath(path, page.parent).replace(os.sep, "/"))
