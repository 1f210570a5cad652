"""The papers: their authors, venues and main claims."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from recombine.base import plugins


@dataclass(frozen=True)
class Paper:
    """One entry of a `papers.toml`; a family of our own has neither authors nor preprint."""

    key: str
    title: str
    authors: tuple[str, ...]  # "Family, Given"
    venue: str
    year: int
    arxiv: str
    idea: str  # its claim, in one sentence
    finding: str  # our result, with placeholders for numbers
    summary: str
    figures: tuple[str, ...]
    explains: tuple[str, ...] = ()  # measurements of an audit that follow it
    advice: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # topic -> its claims

    @property
    def ours(self) -> bool:
        """Whether it is a family of our own claims instead of a paper."""
        return not self.authors

    @property
    def label(self) -> str:
        """Authors and year, in short.

        >>> papers()["liang2025"].label, papers()["lippl2025"].label, papers()["foresight"].label
        ('Liang et al. 2025', 'Lippl & Stachenfeld 2025', 'Foresight (ours)')
        """
        if self.ours:
            return f"{self.key.capitalize()} (ours)"
        names = [author.partition(",")[0] for author in self.authors]
        who = " & ".join(names) if len(names) < 3 else f"{names[0]} et al."
        return f"{who} {re.sub(r'[^0-9]', '', self.key)}"

    @property
    def link(self) -> str:
        """The address of the preprint, or the page in the docs."""
        if self.ours:
            return f"docs/{self.key}.md"
        return f"https://arxiv.org/abs/{self.arxiv}"

    @property
    def names(self) -> str:
        """The authors' full names.

        >>> papers()["lippl2025"].names
        'Samuel Lippl, Kim Stachenfeld'
        """
        return ", ".join(" ".join(reversed(author.split(", "))) for author in self.authors)

    @property
    def bibtex(self) -> str:
        """The BibTeX entry; empty for a family of our own."""
        if self.ours:
            return ""
        kind = "inproceedings" if self.venue else "misc"
        fields = {
            "title": f"{{{self.title}}}",
            "author": " and ".join(self.authors),
            **({"booktitle": self.venue} if self.venue else {}),
            "year": str(self.year),
            "eprint": self.arxiv,
            "archiveprefix": "arXiv",
            "url": self.link,
        }
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
        return "\n".join([f"@{kind}{{{self.key},", *lines, "}"])


@cache
def papers() -> dict[str, Paper]:
    """Read all papers; the keys are the names of their packages."""
    entries = {
        key: entry
        for path in plugins.files("papers.toml")
        for key, entry in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }
    return {key: _paper(key, entry) for key, entry in entries.items()}


def source_of(measurement: str) -> str:
    """Name the paper that a measurement of an audit follows; empty without one."""
    return next((key for key, paper in papers().items() if measurement in paper.explains), "")


def claims_on(topic: str) -> tuple[str, ...]:
    """List the claims that tested an advice."""
    return tuple(name for paper in papers().values() for name in paper.advice.get(topic, ()))


def _paper(key: str, entry: dict[str, Any]) -> Paper:
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
    }
    plain["advice"] = {topic: tuple(names) for topic, names in plain.get("advice", {}).items()}
    for name in ("idea", "finding", "summary"):
        plain[name] = " ".join(plain[name].split())
    return Paper(key=key, **plain)
