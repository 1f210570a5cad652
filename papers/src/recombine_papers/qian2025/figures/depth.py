"""Figure of Qian et al. 2025: errors of modules and of the network, by depth of the modules."""

from collections.abc import Sequence

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import LINES, MUTED
from recombine.plots.panel import Axes, Figure
from recombine.plots.plot import Arrays

names("qian2025.depth")(lambda c: f"{c['depth']} layer{'s' * (c['depth'] > 1)} per module")


@figure("qian2025.depth")
def depth_curves(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Error of the best affine map from a module's output to its sine (dashed: from its input), and
    the network's test error, by depth of the modules: one dot per seed, a line through geometric
    means.

    Where arrays are stored, a third panel has outputs of shallow and of deep modules, fitted to a
    sine (dashed).
    """
    scored = [r for r in records if "rmse" in r.scores]
    if not scored:
        return None
    depths = sorted({r.config["depth"] for r in scored})
    panels = (("rmse", "error of the modules"), ("mse_id", "test error"))
    outputs = any("said" in arrays_of(r) for r in scored)
    figure = Figure(850 if outputs else 510, 290)
    for i, (name, label) in enumerate(panels):
        axes = figure.place(62 + 252 * i, 34, 180, 196)
        at = np.array([r.config["depth"] for r in scored])
        values = np.array([r.scores[name] for r in scored])
        axes.plot(at, values, "o", color=LINES[i], size=5, alpha=0.5)
        center = [np.exp(np.log(values[at == d]).mean()) for d in depths]
        axes.plot(depths, center, color=LINES[i])
        if name == "rmse":
            flat = float(np.mean([r.scores["rmse_input"] for r in scored]))
            axes.mark("y", flat)
        axes.log("y")
        axes.set(xticks=depths, xlabel="layers per module", title=label)
    if outputs:
        _outputs(figure.place(566, 34, 220, 196), scored, arrays_of)
    return figure


def _outputs(axes: Axes, records: Sequence[Record], arrays_of: Arrays) -> None:
    """Plot the sine that shallow modules fit worst, and outputs of modules fitted to it."""
    ends = [min(r.config["depth"] for r in records), max(r.config["depth"] for r in records)]
    errors = {
        (r.seed, int(name.removeprefix("rmse_")) - 1): value
        for r in records
        if r.config["depth"] == ends[0]
        for name, value in r.scores.items()
        if name.removeprefix("rmse_").isdigit()
    }
    seed, k = max(errors, key=lambda key: errors[key])
    for i, depth in enumerate(dict.fromkeys(ends)):
        runs = [arrays_of(r) for r in records if (r.config["depth"], r.seed) == (depth, seed)]
        if not runs or "said" not in runs[0]:
            continue
        x, output, target = (runs[0][name][:, k] for name in ("x", "said", "wanted"))
        slope, level = np.polyfit(output, target, 1) if np.ptp(output) > 0 else (0.0, target.mean())
        layers = "1 layer" if depth == 1 else f"{depth} layers"
        axes.plot(x, slope * output + level, color=LINES[2 + i], label=layers)
        if i == 0:
            axes.plot(x, target, color=MUTED, dash="dashed", width=1.2, label="sine")
    axes.set(xlabel="input", title="a module's output, fitted")
    axes.label_ends()
