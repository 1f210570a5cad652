"""Draw the README's picture from the committed records: `make picture`."""

import sys
from pathlib import Path

import numpy as np

from recombine.report.plot import heat_maps
from recombine.runs.store import Store

NAMES = {
    ("mlp", 0.0): "MLP",
    ("cnn", 0.0): "CNN",
    ("cnn", 0.5): "CNN that also saw stripes",
    ("outer", 0.0): "each factor by itself",
}


def main() -> None:
    """Average each decoder's error map over seeds and put them side by side."""
    store = Store(Path(sys.argv[1] if sys.argv[1:] else "results"))
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
    picture = heat_maps(maps, names=("x", "y"))._repr_svg_()
    Path(__file__).with_name("picture.svg").write_text(picture + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
