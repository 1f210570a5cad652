"""Columns of the results table: a few scores, chosen by the schema, with one dot per seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from recombine.core.claim import Claim, Rule, terms
from recombine.core.score import Score, schema, spelled
from recombine.report.chart import strip, strip_axis
from recombine.report.conditions import Condition
from recombine.report.numbers import averaged
from recombine.report.scale import scale_of
from recombine.runs.record import score_names

COLUMNS = 4  # at most; a folded table has all scores
SIDES = {"id": "seen", "ood": "held"}


@dataclass(frozen=True)
class Column:
    """One score, or a pair of scores on seen and held-out combinations."""

    title: str
    about: str
    better: str
    axis: Markup
    cells: list[
        tuple[list[tuple[str, str, str]], Markup]
    ]  # per condition: (side, mean, interval) and dots


def columns(
    experiment: str, conditions: Sequence[Condition], claims: Sequence[Claim]
) -> list[Column]:
    """Draw the scores of the results table, one row per condition."""
    names = score_names(r for c in conditions for r in c.done)
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in short_list(names, experiment, claims):
        base, _, side = name.rpartition("_")
        kind = SIDES.get(side, "")
        groups.setdefault(base if kind else name, []).append((kind, name))
    drawn = []
    for title, sides in sorted(groups.items(), key=lambda group: -len(group[1]))[:COLUMNS]:
        sides.sort(key=lambda side: side[0] != "seen")
        values = [c.values(name) for c in conditions for _, name in sides]
        score = schema(sides[0][1], experiment) or Score(sides[0][1])
        mark = 1.0 if score.unit.startswith("of a constant") else None
        every = [v for seeds in values for v in seeds]
        log = False if score.unit.startswith("share") else None
        scale = scale_of([*every, *([1.0] if mark else [])], 8, 128, log=log)
        cells = [
            (
                [
                    (kind, *averaged(c.values(name), len(c.done), share=score.share))
                    for kind, name in sides
                    if c.done
                ],
                strip([(kind or "plain", c.values(name)) for kind, name in sides], scale, mark),
            )
            for c in conditions
        ]
        about = score.about or score.unit
        drawn.append(
            Column(score.title or spelled(title), about, score.better, strip_axis(scale), cells)
        )
    return drawn


def short_list(names: Iterable[str], experiment: str, claims: Sequence[Claim] = ()) -> list[str]:
    """Choose a few scores: those declared as summary, or that decide claims, or the first ones."""
    names = list(names)
    summary = [n for n in names if (score := schema(n, experiment)) is not None and score.summary]
    rules = [c.check for c in claims if isinstance(c.check, Rule)]
    decisive = {word for rule in rules for word in terms(rule.score)}
    return summary or [n for n in names if n in decisive] or names[:COLUMNS]
