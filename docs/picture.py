"""Draw the README's picture from the records of `make demo`: `make picture`."""

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
    store = Store(Path(sys.argv[1] if sys.argv[1:] else "runs/demo"))
    maps = {}
    for kind, name in NAMES.items():
        errors = []
        for record in store.records():
            if (record.config["decoder"], record.config["stripes"]) == kind:
                arrays = store.arrays(record)
                errors.append(arrays["error_map"] / record.scores["blank_ood"])
        maps[name] = (np.mean(errors, axis=0), arrays["support"])
    figure = heat_maps(maps, names=("x", "y"))
    figure.savefig(Path(__file__).with_name("picture.png"), dpi=220, facecolor="white")


if __name__ == "__main__":
    main()
