"""An audit as one self-contained page in the report's design, and its short form for notebooks."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from recombine.audits.findings import Findings
from recombine.audits.sample import Sample, array_of
from recombine.report.numbers import number
from recombine.tables.lists import text_of
from recombine.tables.maps import PairMap, pair_sums
from recombine.tables.page import design, heat_map, template

ROWS = 100  # combinations that the page lists
MAPS = 6
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
    sample, table, z = audit.sample, audit.sample.table, audit.sample.cells
    measured = np.isfinite(audit.errors.mean)
    error = np.where(measured, audit.errors.mean, audit.training.mean)
    weight = np.where(measured, audit.errors.rows, audit.training.rows)
    weight = np.where(np.isfinite(error), weight, 0).astype(np.float64)
    seen = np.ones(len(z)) if sample.seen is None else sample.seen.astype(np.float64)
    top = (float(np.nanquantile(error, 0.98)) if weight.any() else 0.0) or 1.0
    maps = []
    for a, b in list(combinations(range(len(table.shape)), 2))[:MAPS]:
        total = partial(pair_sums, table.shape, (a, b), z)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total(weight * np.nan_to_num(error)) / total(weight)
            share = total(seen) / total()
        rows, columns = (table.space.factors[f].labels for f in (a, b))
        nothing = np.zeros_like(mean)
        name, other = table.columns[a], table.columns[b]
        m = PairMap(name, other, rows, columns, "mean error", mean, share, nothing)
        if not m.is_empty:
            maps.append(heat_map(m, "trained on", 0.0, top))
    return maps


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
