"""Figures of Wiedemer et al. 2023: components recovered from a cross."""

from collections.abc import Mapping, Sequence
from typing import Any

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import HELD, SEEN
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, seed_figure

FLOOR = 1e-16
NAMES = {"add": "sum", "product": "product", "sigmoid": "soft occlusion", "gated": "gated sum"}


@names("wiedemer2023.reconstruction")
def name_of(config: Mapping[str, Any]) -> str:
    """Name a run by its composition."""
    return NAMES[config["combine"]] + (", one rank missing" if config["lost"] else "")


@figure("wiedemer2023.reconstruction")
def errors_by_composition(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Largest error of the components that are recovered from a cross, by composition function.
    Where one rank is missing, a single output of the first component is not recovered.
    """
    rows: dict[str, dict[str, list[float]]] = {}
    for r in sorted(
        records, key=lambda r: (r.config["lost"], list(NAMES).index(r.config["combine"]))
    ):
        name, s = NAMES[r.config["combine"]], r.scores
        if "error_1" not in s:
            continue
        if r.config["lost"]:
            rows[f"{name}, lost output"] = {"component 1": [s["error_first_output"]]}
            rows[f"{name}, other outputs"] = {"component 1": [s["error_other_outputs"]]}
        else:
            rows[name] = {f"component {k}": [max(s[f"error_{k}"], FLOOR)] for k in (1, 2)}
    colors = {"component 1": SEEN, "component 2": HELD}
    figure = seed_figure(rows, colors, "largest error (log scale)", left=160, row=26)
    if figure is not None:
        figure.axes[0].log("x", least=FLOOR)
        figure.axes[0].set(xlim=(FLOOR, 10))
    return figure
