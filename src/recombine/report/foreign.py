"""Figures of matplotlib, which plugins may return, as SVG."""

from __future__ import annotations

import io
import re
import warnings
from html import escape
from typing import Any


def svg(figure: Any, name: str = "figure", alt: str = "") -> str:
    """Convert a matplotlib figure to SVG on white, without a style sheet; `name` salts its ids.

    The same figure gives the same text. Figures on one page need different names.
    """
    import matplotlib as mpl

    stream = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "text.parse_math": False}
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has more fonts
        figure.savefig(stream, format="svg", metadata=no_metadata)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    # Ids of groups and images: nothing refers to them, and equal images would share one.
    text = re.sub(r"<g id=\"[^\"]*\"", "<g", text)
    text = re.sub(r"(<image [^>]*?) ?id=\"image[0-9a-f]*\"", r"\1", text)
    text = re.sub(r"\s*<style.*?</style>", "", text, flags=re.DOTALL)  # it would style the page
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    text = re.sub(r"\b(?:d|x|y)=\"[^\"]*\"", _hundredths, text)
    width, height = size(figure)
    label = f'role="img" aria-label="{escape(alt)}"' if alt else 'aria-hidden="true"'
    return re.sub(
        r"<svg [^>]*>",
        lambda _: (
            f'<svg id="{name}" xmlns="http://www.w3.org/2000/svg" '
            'xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" '
            f'style="stroke-linejoin: round; background: #fff; color: #000" {label}>'
        ),
        text,
        count=1,
    ).strip()


def size(figure: Any) -> tuple[float, float]:
    """Return the width and height of a matplotlib figure in points, which are the page's pixels."""
    width, height = figure.get_size_inches()
    return float(72 * width), float(72 * height)


def _hundredths(attribute: re.Match[str]) -> str:
    """Round coordinates down to hundredths of a pixel and join lines."""
    return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0]).replace("\n", " ")
