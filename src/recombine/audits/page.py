"""An audit as one self-contained page in the report's design, and its short form for notebooks."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from recombine.audits.findings import Findings
from recombine.audits.sample import Sample, array_of
from recombine.report.numbers import number
from recombine.tables.lists import short, text_of
from recombine.tables.page import design, template

ROWS = 100  # combinations that the page lists
WIDE = 40  # levels of a factor that a heat map shows
MAPS = 6
CELL = 16  # pixels of a cell
LABEL, LETTER = 18, 7  # characters of a label, and pixels per character
IMAGES = 6  # combinations whose images are shown
TONES = {"right": "holds", "fails": "fails", "cannot know": "missing"}


def page(audit: Findings) -> str:
    """Write one self-contained page."""
    content = _content(audit, ROWS) | {"maps": _maps(audit), "pictures": _pictures(audit)}
    page = template("recombine.audits", "audit.html")
    return str(page.render(**content, number=number, design=design()))


def fragment(audit: Findings) -> str:
    """Write the sentences, reasons and first rows, for a notebook."""
    return str(template("recombine.audits", "fragment.html").render(**_content(audit, 8)))


def _content(audit: Findings, rows: int) -> dict[str, Any]:
    shown = audit.worst[:rows]
    columns = audit.columns(shown)
    names = list(audit.sample.table.columns)
    rest = ("seen", "rows", "error", "low", "high", "worse", "train_error", "determined", "margin")
    heads = [*names, "verdict", *rest]
    if audit.sample.kind != "vector":
        columns["worst row"] = [_pair(audit.sample, _example(audit, int(c))) for c in shown]
        heads.append("worst row")
    return {
        "title": audit.title,
        "diagnosis": audit.diagnosis,
        "sentences": audit.sentences,
        "rule": audit.rule.when,
        "reasons": audit.reasons,
        "advice": audit.advice,
        "claims": any(a.claims for a in audit.advice),
        "factors": audit.sample.table.columns,
        "groups": [g for g in audit.groups if g.worse][:20],
        "heads": heads,
        "body": [[_cell(columns[h][i]) for h in heads] for i in range(len(shown))],
        "tones": [TONES[v] for v in columns["verdict"]],
        "left": len(audit.worst) - len(shown),
    }


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, float) else text_of(value, missing="–")[:80]


def _maps(audit: Findings) -> list[dict[str, Any]]:
    """Mean errors over pairs of factors; pairs of levels that were never seen are outlined."""
    sample, table = audit.sample, audit.sample.table
    z, error = sample.cells, audit.errors.mean
    error = np.where(np.isfinite(error), error, audit.training.mean)
    weight = np.maximum(audit.errors.rows, audit.training.rows * np.isnan(audit.errors.mean))
    top = float(np.nanquantile(error, 0.98)) if np.isfinite(error).any() else 1.0
    answer = []
    for a, b in list(combinations(range(len(table.shape)), 2))[:MAPS]:
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
        left, below = ([short(name, LABEL) for name in names] for names in (rows, columns))
        answer.append(
            {
                "rows": table.columns[a],
                "columns": table.columns[b],
                "cells": cells,
                "width": CELL * len(columns),
                "height": CELL * len(rows),
                "left": left,
                "below": below,
                "start": 12 + LETTER * max(map(len, left)),
                "under": 12 + LETTER * max(map(len, below)),
                "top": number(top),
            }
        )
    return answer


def _share(error: float, top: float) -> int | None:
    return min(100, round(100 * error / top)) if error == error and top > 0 else None


def _example(audit: Findings, c: int) -> int | None:
    """The row of a combination with the largest error, among those that were not trained on."""
    sample = audit.sample
    rows = np.flatnonzero((sample.cell == c) & sample.judged)
    away = np.square(sample.outputs[rows] - sample.truth[rows]).sum(axis=1)
    good = np.isfinite(away)
    return int(rows[good][away[good].argmax()]) if good.any() else None


def _pair(sample: Sample, row: int | None) -> str:
    """Target → output of a row, for numbers and classes."""
    if row is None or sample.kind == "vector":
        return "–"
    values = (float(sample.truth[row, 0]), float(sample.outputs[row, 0]))
    if sample.kind == "classes":
        return " → ".join(sample.table.classes[int(v)] for v in values)
    return " → ".join(map(number, values))


def _pictures(audit: Findings) -> list[dict[str, Any]]:
    """An example of each of the worst combinations: target and output, or input, as images."""
    sample, answer = audit.sample, []
    for c in audit.worst[:IMAGES]:
        row = _example(audit, int(c))
        if row is None:
            continue
        images: dict[str, Any] = {}
        if _drawn(sample.shape):
            images = {
                "target": sample.truth[row].reshape(sample.shape),
                "output": sample.outputs[row].reshape(sample.shape),
            }
        elif sample.inputs is not None and _drawn(np.shape(sample.inputs)[1:]):
            images = {"input": array_of(sample.inputs[row])}
        if not images:
            return []
        first = next(iter(images.values()))
        low, high = float(first.min()), float(first.max())
        (name,) = sample.table.decode(sample.cells[c][None])
        pair = _pair(sample, row)
        answer.append(
            {
                "name": ", ".join(name),
                "text": ", ".join(images) if pair == "–" else pair,
                "images": {k: _png(v, low, high) for k, v in images.items()},
            }
        )
    return answer


def _drawn(shape: tuple[int, ...]) -> bool:
    """Whether an array is an image: (height, width), or (1, 3 or 4 channels, height, width)."""
    plane = len(shape) == 2 or (len(shape) == 3 and shape[0] in (1, 3, 4))
    return plane and min(shape[-2:]) >= 4


def _png(image: Any, low: float, high: float) -> str:
    """Write an image, (height, width) or (channels, height, width), as a data URI."""
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
