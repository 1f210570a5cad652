"""Figures of Wiedemer et al. 2023: components recovered from a cross."""

from collections.abc import Mapping, Sequence
from typing import Any

from recombine.core.registry import figure, names
from recombine.report.colors import HELD, SEEN
from recombine.report.panel import Figure
from recombine.report.plot import Arrays
from recombine.runs.record import Record

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
    rows: dict[str, dict[str, float]] = {}
    for r in sorted(
        records, key=lambda r: (r.config["lost"], list(NAMES).index(r.config["combine"]))
    ):
        name, s = NAMES[r.config["combine"]], r.scores
        if "error_1" not in s:
            continue
        if r.config["lost"]:
            rows[f"{name}, lost output"] = {"component 1": s["error_first_output"]}
            rows[f"{name}, other outputs"] = {"component 1": s["error_other_outputs"]}
        else:
            rows[name] = {f"component {k}": s[f"error_{k}"] for k in (1, 2)}
    if not rows:
        return None
    colors, height = {"component 1": SEEN, "component 2": HELD}, 26 * len(rows)
    figure = Figure(500, height + 80)
    axes = figure.place(160, 30, 320, height)
    for i, errors in enumerate(rows.values()):
        for name, error in errors.items():
            shift = {"component 1": -0.12, "component 2": 0.12}[name] * (len(errors) > 1)
            axes.plot([max(error, FLOOR)], [i + shift], "o", color=colors[name], size=7)
    axes.set(ynames=list(rows), ylim=(len(rows) - 0.5, -0.5))
    axes.set(xlim=(FLOOR, 10), xlabel="largest error (log scale)")
    axes.log("x", least=FLOOR)
    figure.legend(160, 14, colors)
    return figure
