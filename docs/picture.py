"""Draw the README's picture from the committed records: `make picture`."""

import re
import sys
from pathlib import Path

import numpy as np

from recombine.claims.store import Store
from recombine.plots.plot import heat_maps

NAMES = {
    ("mlp", 0.0): "MLP",
    ("cnn", 0.0): "CNN",
    ("cnn", 0.5): "CNN that also saw stripes",
    ("outer", 0.0): "each factor by itself",
}
WIDTH = 540  # pixels on a wide page
# An image cannot use the colors of the page around it, so it defines them for both schemes.
STYLE = """
svg { background: #fff; color: #222; --muted: #5d616b; font-family: sans-serif; }
svg { image-rendering: pixelated; }
@media (prefers-color-scheme: dark) { svg { background: #16181d; color: #eee; --muted: #a2a6b0; } }
"""


def main() -> None:
    """Average each decoder's error map over seeds and draw them side by side."""
    store = Store(Path(sys.argv[1] if sys.argv[1:] else "papers/results"))
    maps = {}
    runs = [r for r in store.records() if r.experiment == "liang2025.hidden_square"]
    for kind, name in NAMES.items():
        errors = []
        for record in runs:
            if (record.config["decoder"], record.config["stripes"]) == kind:
                arrays = store.arrays(record)
                if "error_map" in arrays:
                    errors.append(arrays["error_map"] / record.scores["blank_ood"])
                    support = arrays["support"]
        maps[name] = (np.mean(errors, axis=0), support)
    # Two rows of small maps: on a phone, 358 pixels wide, letters still have 9 pixels.
    drawing = heat_maps(maps, names=("x", "y"), columns=2, side=128)
    wide = f'width="{WIDTH}" height="{round(WIDTH / drawing.width * drawing.height)}" viewBox'
    picture = re.sub(r'width="\d+" height="\d+" viewBox', wide, drawing.svg(), count=1)
    picture = picture.replace(">", f"><style>{STYLE}</style>", 1)
    Path(__file__).with_name("picture.svg").write_text(picture + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
