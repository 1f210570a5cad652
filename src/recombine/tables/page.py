"""A page about a table in the design of the report, and its short form for notebooks."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from recombine.tables.lists import briefly, text_of
from recombine.tables.maps import WIDE, PairMap, pair_maps

if TYPE_CHECKING:
    from recombine.tables.answers import Answers

ROWS = 200  # combinations that the page lists
PITCH = 18  # pixels from one cell to the next
COLUMNS = 24  # most columns of the list: targets may be images
NAME = 18  # characters of a level in a table
LABEL = 16  # characters of a level beside a map
LETTER = 8  # pixels per character


def page(f: Answers) -> str:
    """Write one self-contained page."""
    page = template("recombine.tables", "foresight.html")
    return str(page.render(**_content(f, ROWS), design=design()))


def fragment(f: Answers) -> str:
    """Write the sentences and the first rows, for a notebook."""
    return str(template("recombine.tables", "fragment.html").render(**_content(f, 8)))


def design() -> Markup:
    """The style sheet of the report."""
    return Markup(files("recombine.report").joinpath("templates/design.css").read_text("utf-8"))


def template(package: str, name: str) -> Template:
    """Load a template of a package."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _content(f: Answers, rows: int) -> dict[str, Any]:
    shown = f.order[:rows]
    heads = [k for k, v in f.columns.items() if v is not None][:COLUMNS]
    names = dict(zip(f.source.columns, f.brief(NAME), strict=True))
    body = [
        [
            (names[k][value] if k in names else text_of(value, 4), str(value))
            for k, value in ((k, f.columns[k][i]) for k in heads)
        ]
        for i in shown
    ]
    picks = [] if f.plan is None else f.plan.picks
    coverage, strengths = f.coverage
    return {
        "title": str(f.source),
        "sentences": f.sentences,
        "heads": heads,
        "body": body,
        "left": len(f.queries) - len(shown),
        "picks": [
            {
                "levels": [(names[c][x], x) for c, x in zip(names, k.combination, strict=True)],
                "reason": k.reason,
                "gain": f"{k.gain:.3g}",
            }
            for k in picks
        ],
        "factors": f.source.columns,
        "coverage": coverage,
        "strengths": strengths,
        "unknown": "determined" if f.forecast is None else "known",
        "witnesses": f.witness_texts(NAME),
        "maps": [heat_map(m, "measured") for m in pair_maps(f) if not m.is_empty],
    }


def heat_map(
    m: PairMap, verb: str, low: float | None = None, high: float | None = None
) -> dict[str, Any]:
    """Lay out a heat map: positions in pixels, and colors in percent of the strongest.

    - verb: what was done with the share of combinations that `m` calls seen
    - low, high: the range of the colors; by default that of the values
    """
    value = m.value[:WIDE, :WIDE]
    low = float(np.nanmin(value)) if low is None else low
    high = float(np.nanmax(value)) if high is None else high
    share = (value - low) / (high - low) if high > low else np.ones_like(value)
    cells = [
        {
            "x": PITCH * j,
            "y": PITCH * i,
            "share": min(100, round(100 * float(share[i, j]))),
            "seen": bool(m.seen[i, j] > 0),
            "unknown": bool(m.unknown[i, j] > 0.5),
            "text": f"{m.row_levels[i]}, {m.column_levels[j]}: {value[i, j]:.3g}, "
            f"{100 * m.seen[i, j]:.0f} % {verb}",
        }
        for i, j in np.ndindex(*value.shape)
        if np.isfinite(value[i, j])
    ]
    left = [*briefly(m.row_levels, LABEL).values()][: len(value)]
    below = [*briefly(m.column_levels, LABEL).values()][: value.shape[1]]
    margin = 10 + LETTER * max(map(len, left))
    return {
        "rows": m.rows,
        "columns": m.columns,
        "what": m.what,
        "low": f"{low:.3g}",
        "high": f"{high:.3g}",
        "cells": cells,
        "cell": PITCH - 2,
        "pitch": PITCH,
        "margin": margin,
        "bottom": PITCH * len(value),
        "width": margin + PITCH * value.shape[1] + 4,
        "height": PITCH * len(value) + 14 + LETTER * max(map(len, below)),
        "left": left,
        "below": below,
    }
