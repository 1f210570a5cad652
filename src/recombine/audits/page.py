"""An audit as one self-contained page in the report's design, and its short form for notebooks."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from recombine.audits.findings import Findings
from recombine.report.numbers import number

ROWS = 100  # combinations that the page lists
WIDE = 40  # levels of a factor that a heat map shows
MAPS = 6
CELL = 16  # pixels of a cell
IMAGES = 6  # combinations whose images are shown
TONES = {"right": "holds", "fails": "fails", "cannot know": "missing"}


def page(audit: Findings) -> str:
    """Write one self-contained page."""
    design = files("recombine.report").joinpath("templates/design.css").read_text("utf-8")
    content = _content(audit, ROWS) | {"maps": _maps(audit), "pictures": _pictures(audit)}
    return str(_template("audit.html").render(**content, design=Markup(design)))


def fragment(audit: Findings) -> str:
    """Write the sentences, reasons and first rows, to stand inside a notebook."""
    return str(_template("fragment.html").render(**_content(audit, 8)))


def _template(name: str) -> Any:
    environment = Environment(
        loader=PackageLoader("recombine.audits"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment.get_template(name)


def _content(audit: Findings, rows: int) -> dict[str, Any]:
    shown = audit.worst[:rows]
    columns = audit.columns(shown)
    heads = [h for h in columns if h not in ("thin", "basis", "train_rows")]
    return {
        "title": str(audit.sample.table),
        "diagnosis": audit.diagnosis,
        "sentences": audit.sentences,
        "rule": audit.rule.when,
        "reasons": audit.reasons,
        "advice": audit.advice,
        "factors": audit.sample.table.columns,
        "groups": [g for g in audit.groups if g.worse][:20],
        "heads": heads,
        "body": [[_cell(columns[h][i]) for h in heads] for i in range(len(shown))],
        "tones": [TONES[v] for v in columns["verdict"]],
        "left": len(audit.worst) - len(shown),
    }


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, float) else str(value)[:80]


def _maps(audit: Findings) -> list[dict[str, Any]]:
    """Mean errors over pairs of factors; combinations that were all unseen are outlined."""
    sample, table = audit.sample, audit.sample.table
    z, error = sample.cells, audit.errors.mean
    error = np.where(np.isfinite(error), error, audit.training.mean)
    weight = np.maximum(audit.errors.rows, audit.training.rows * np.isnan(audit.errors.mean))
    top = float(np.nanquantile(error, 0.98)) if np.isfinite(error).any() else 1.0
    answer = []
    pairs = [(a, b) for a in range(len(table.shape)) for b in range(a + 1, len(table.shape))]
    for a, b in pairs[:MAPS]:
        m, n = table.shape[a], table.shape[b]
        at, good = z[:, a] * n + z[:, b], np.isfinite(error)
        mass = np.bincount(at[good], weight[good], minlength=m * n).reshape(m, n)
        total = np.bincount(at[good], (weight * np.nan_to_num(error))[good], minlength=m * n)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total.reshape(m, n) / mass
        seen = np.ones((m, n), dtype=bool)
        if sample.seen is not None:
            seen = np.bincount(at[sample.seen], minlength=m * n).reshape(m, n) > 0
        rows, columns = table.space.factors[a].labels[:WIDE], table.space.factors[b].labels[:WIDE]
        cells = [
            {
                "x": CELL * j,
                "y": CELL * i,
                "share": _share(float(mean[i, j]), top),
                "unseen": not seen[i, j],
                "text": f"{rows[i]}, {columns[j]}: {number(float(mean[i, j]))}",
            }
            for i in range(len(rows))
            for j in range(len(columns))
        ]
        answer.append(
            {
                "rows": table.columns[a],
                "columns": table.columns[b],
                "cells": cells,
                "width": CELL * len(columns),
                "height": CELL * len(rows),
                "left": [r[:18] for r in rows],
                "below": [c[:18] for c in columns],
                "top": number(top),
            }
        )
    return answer


def _share(error: float, top: float) -> int | None:
    return min(100, round(100 * error / top)) if error == error and top > 0 else None


def _pictures(audit: Findings) -> list[dict[str, str]]:
    """True image and output of the worst combinations, where outputs are images."""
    shape = audit.sample.shape
    if len(shape) not in (2, 3) or min(shape[-2:]) < 4:
        return []
    sample, answer = audit.sample, []
    for c in audit.worst[:IMAGES]:
        rows = np.flatnonzero((sample.cell == c) & sample.predicted)
        if not len(rows) or not np.isfinite(sample.truth[rows[0]]).all():
            continue
        (name,) = sample.table.decode(sample.cells[c][None])
        pair = [v[rows[0]].reshape(shape) for v in (sample.truth, sample.outputs)]
        low, high = float(pair[0].min()), float(pair[0].max())
        answer.append(
            {
                "name": ", ".join(name),
                "truth": _png(pair[0], low, high),
                "output": _png(pair[1], low, high),
            }
        )
    return answer


def _png(image: Any, low: float, high: float) -> str:
    """Write an image (height, width) or (channels, height, width) as a data address."""
    import base64
    import io

    from PIL import Image

    scaled = np.clip((image - low) / (high - low if high > low else 1.0), 0, 1)
    pixels = (255 * scaled).astype(np.uint8)
    if pixels.ndim == 3:
        pixels = np.moveaxis(pixels[:3] if len(pixels) >= 3 else pixels[:1], 0, -1)
        pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
