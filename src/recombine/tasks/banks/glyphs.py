"""Letters and digits in the fonts that come with matplotlib: a real grid of four factors."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits

import numpy as np
from numpy.typing import NDArray

from recombine.base.error import Refused
from recombine.spaces.space import grid
from recombine.tasks.banks.files import Images

GLYPHS = digits + ascii_uppercase + ascii_lowercase
FAMILIES = ("sans", "mono", "serif")
WEIGHTS = ("regular", "bold")
SLANTS = ("upright", "oblique")
STEMS = {"sans": "DejaVuSans", "mono": "DejaVuSansMono", "serif": "DejaVuSerif"}
LEAST = 8  # pixels per side
HEIGHT = 0.66  # font size, as a share of the image
BASELINE = 0.72  # from the top


def glyph_grid(side: int) -> Images:
    """Render every glyph in every family, weight and slant: ink is 1, the background 0.

    Glyphs stand on one baseline and are centered horizontally.
    """
    if side < LEAST:
        raise Refused(f"glyph_grid() needs side >= {LEAST}; got side={side}.")
    space = grid(glyph=list(GLYPHS), family=FAMILIES, weight=WEIGHTS, slant=SLANTS)
    pixels = np.zeros((*space.shape, side, side), dtype=np.uint8)
    for f, family in enumerate(FAMILIES):
        for w, weight in enumerate(WEIGHTS):
            for s, slant in enumerate(SLANTS):
                path = _font(family, weight, slant)
                for g, image in enumerate(_rendered(path, side)):
                    pixels[g, f, w, s] = image
    labels = space.points()[:, 0].astype(np.int64)
    return Images(pixels.reshape(-1, 1, side, side), labels, space)


def _font(family: str, weight: str, slant: str) -> Path:
    """Find the file of a font."""
    import matplotlib as mpl

    italic = "Italic" if family == "serif" else "Oblique"
    style = ("Bold" if weight == "bold" else "") + (italic if slant == "oblique" else "")
    name = STEMS[family] + (f"-{style}" if style else "")
    return Path(mpl.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf"


def _rendered(path: Path, side: int) -> list[NDArray[np.uint8]]:
    """Render every glyph of one font on a square canvas."""
    from PIL import Image, ImageDraw, ImageFont

    size, layout = round(HEIGHT * side), ImageFont.Layout.BASIC
    font = ImageFont.truetype(str(path), size, layout_engine=layout)
    images = []
    for glyph in GLYPHS:
        canvas = Image.new("L", (side, side))
        left, _, right, _ = font.getbbox(glyph, anchor="ls")
        at = ((side - left - right) / 2, round(BASELINE * side))
        ImageDraw.Draw(canvas).text(at, glyph, fill=255, font=font, anchor="ls")
        images.append(np.asarray(canvas))
    return images
