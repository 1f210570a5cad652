"""Colors: variables of the page's style sheet, and color maps for values."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Colors of the page, with fallbacks for drawings outside it.
INK, MUTED, PAPER = "currentColor", "var(--muted, #777)", "var(--paper, #fff)"
SEEN, HELD = "var(--seen, #2767a8)", "var(--held, #c04f27)"
LINES = tuple(f"var(--line-{i}, currentColor)" for i in range(8))

# Equidistant knots. In "error", lightness increases and neither end is black or white.
KNOTS = {
    "error": "2f059648039f6001a67501a88a09a59e199db02991c03a83cd4a76da5a6ae56b5def7c51f79044fca338"
    "feb82cfcd025f6e826",
    "viridis": "44015448186a472d7b4240863b528b33638d2c728e26828e21918c1fa08828ae803fbc735ec96284d4"
    "4baddc30d8e219fde725",
    "diverging": "0530612065ab4393c392c5ded1e5f0f7f6f6fddbc7f4a582d6604db2172b67001f",
    "gray": "000000ffffff",
}
GAP = (128, 128, 128, 64)  # an error that was not measured: gray, unlike low and high errors


@cache
def _table(name: str) -> NDArray[np.uint8]:
    """Interpolate a color map at 256 values."""
    knots = np.frombuffer(bytes.fromhex(KNOTS[name]), np.uint8).reshape(-1, 3)
    at, places = np.linspace(0, 1, 256), np.linspace(0, 1, len(knots))
    channels = [np.interp(at, places, knots[:, c]) for c in range(3)]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def paint(values: Any, name: str, low: float, high: float) -> Any:
    """Map values to RGBA bytes; those outside `low` and `high` have the color of the nearer end.

    Missing values are transparent; in "error" they are a translucent gray.

    >>> paint([0.0, 9.0, np.nan], "gray", 0, 1).tolist()
    [[0, 0, 0, 255], [255, 255, 255, 255], [0, 0, 0, 0]]
    """
    table = np.asarray(np.ma.filled(np.ma.asarray(values, np.float64), np.nan))
    share = (table - low) / (high - low if high > low else 1.0)
    index = (np.clip(np.nan_to_num(share), 0, 1) * 255).round().astype(int)
    pixels = np.concatenate([_table(name)[index], np.full((*index.shape, 1), 255, np.uint8)], -1)
    pixels[np.isnan(table)] = GAP if name == "error" else 0
    return pixels
