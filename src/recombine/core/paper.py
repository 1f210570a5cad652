"""A paper: what identifies it, for the report, `recombine list papers` and citations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from recombine.core.error import Refused
from recombine.core.registry import registry


@dataclass(frozen=True)
class Paper:
    """What identifies a paper; a family of our own has neither authors nor an address."""

    key: str
    title: str
    authors: tuple[str, ...]  # "Family, Given"
    year: int
    venue: str = ""
    arxiv: str = ""
    url: str = ""
    idea: str = ""  # its claim, in one sentence
    finding: str = ""  # our result, with placeholders for numbers
    summary: str = ""
    figures: tuple[str, ...] = ()  # of its card: the first that can be drawn

    @property
    def ours(self) -> bool:
        """Whether it is a family of our own claims instead of a paper."""
        return not self.authors

    @property
    def label(self) -> str:
        """Authors and year, in short; the year of the key, if it has one.

        >>> Paper("rings2024", "Rings", ("Smith, Ann", "Li, Bo", "Roe, Cy"), 2025).label
        'Smith et al. 2024'
        >>> Paper("rings", "Rings", ("Smith, Ann", "Li, Bo"), 2025).label
        'Smith & Li 2025'
        """
        if self.ours:
            return f"{self.key.capitalize()} (ours)"
        names = [author.partition(",")[0] for author in self.authors]
        who = " & ".join(names) if len(names) < 3 else f"{names[0]} et al."
        return f"{who} {re.sub(r'[^0-9]', '', self.key) or self.year}"

    @property
    def link(self) -> str:
        """The address of the preprint or of the paper, or the page in the docs; may be empty."""
        if self.ours:
            return f"docs/{self.key}.md"
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else self.url

    @property
    def names(self) -> str:
        """The authors' full names.

        >>> Paper("rings", "Rings", ("Smith, Ann", "Li, Bo"), 2025).names
        'Ann Smith, Bo Li'
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
            "booktitle": self.venue,
            "year": str(self.year),
            "eprint": self.arxiv,
            "archiveprefix": "arXiv" if self.arxiv else "",
            "url": self.link,
        }
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
        return "\n".join([f"@{kind}{{{self.key},", *lines, "}"])


PAPERS: dict[str, Paper] = registry("paper")  # of plugins


def paper(
    key: str,
    *,
    title: str,
    authors: Sequence[str],
    year: int,
    venue: str = "",
    arxiv: str = "",
    url: str = "",
    summary: str = "",
    figures: Sequence[str] = (),
) -> Paper:
    """Say which paper a plugin's experiments and claims are about.

    ```python
    rc.paper(
        "smith2026", title="Rings compose", authors=["Smith, Ann", "Li, Bo"], year=2026,
        arxiv="2601.00001", summary="Networks with modules count rings that they never saw.",
    )
    ```

    - key: the family of its experiments: `smith2026` of `smith2026.rings`
    - authors: each as "Family, Given"
    - venue: journal or conference; a preprint has none
    - arxiv, url: number of the preprint, or another address
    - summary: a few sentences for its card in the report
    - figures: the card shows the first that can be drawn, such as "smith2026.rings: counts"
    """
    if isinstance(authors, str) or not authors or not all(", " in name for name in authors):
        raise Refused(
            f'paper({key!r}) needs authors as a list of "Family, Given", such as ["Smith, Ann"]; '
            f"got {authors!r}."
        )
    if not key or not title:
        raise Refused(f"paper() needs a key and a title; got {key!r} and {title!r}.")
    entry = Paper(
        key, title, tuple(authors), year, venue, arxiv, url, summary=summary, figures=tuple(figures)
    )
    if PAPERS.setdefault(key, entry) != entry:
        raise Refused(f"Two papers are called {key!r}: {PAPERS[key].title!r} and {title!r}.")
    return entry
