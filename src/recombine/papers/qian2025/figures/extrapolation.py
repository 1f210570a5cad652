"""Pictures of Qian et al. 2025: what networks draw where nothing was shown; what modules say."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from recombine.core.registry import figure
from recombine.report.grid import outline
from recombine.report.plot import LINES, MUTED, canvas, logarithmic, place, styled
from recombine.runs.record import Record

Arrays = Callable[[Record], dict[str, Any]]

NAMES = {"modular": "modular", "full": "fully connected", "bottleneck": "bottleneck"}
SIDE, GAP = 132, 22  # of one map, in pixels
LEAST, MOST = 1e-6, 1e-1  # squared errors at the ends of the colors


def surface(axes: Axes, table: Any, norm: Normalize, shown: Any, asked: Any) -> Any:
    """Draw a table [x, y] where it is asked, with lines around what is hidden."""
    image = axes.imshow(
        np.where(asked, table, np.nan).T, norm=norm, cmap="viridis", origin="lower",
        interpolation="none",
    )  # fmt: skip
    for width, color in ((2.6, "#14141c"), (1.1, "#ffffff")):  # cased, to be seen on any color
        lines = LineCollection(outline(shown | ~asked), colors=color, linewidths=width)
        axes.add_collection(lines, autolim=False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return image


def maps(records: Sequence[Record], arrays_of: Arrays, function: str) -> Figure | None:
    """Draw truth and networks above, their squared errors below, of the first seed."""
    found: dict[str, dict[str, Any]] = {}
    for r in sorted(records, key=lambda r: r.seed):
        name = r.config.get("network", "")
        if r.config.get("function") == function and name not in found:
            held = arrays_of(r)
            if "drawn" in held:
                found[name] = held
    kinds = [name for name in NAMES if name in found]
    if not kinds:
        return None
    first = found[kinds[0]]
    step = SIDE + GAP
    height = Normalize(float(first["truth"].min()), float(first["truth"].max()))
    error = LogNorm(LEAST, MOST)
    with styled():
        figure = canvas(76 + step * (len(kinds) + 1), 48 + 2 * (SIDE + 12))
        axes = place(figure, 4, 28, SIDE, SIDE)
        bar = surface(axes, first["truth"], height, first["shown"], first["asked"])
        axes.set_title("truth", loc="left", fontsize=12)
        top = place(figure, step * (len(kinds) + 1) + 4, 28, 10, SIDE)
        figure.colorbar(bar, cax=top).outline.set_visible(False)
        for i, name in enumerate(kinds):
            held, left = found[name], step * (i + 1) + 4
            axes = place(figure, left, 28, SIDE, SIDE)
            surface(axes, held["drawn"], height, held["shown"], held["asked"])
            axes.set_title(NAMES[name], loc="left", fontsize=12)
            away = np.clip((held["drawn"] - held["truth"]) ** 2, LEAST, MOST)
            axes = place(figure, left, 28 + SIDE + 16, SIDE, SIDE)
            bar = surface(axes, away, error, held["shown"], held["asked"])
        low = place(figure, step * (len(kinds) + 1) + 4, 28 + SIDE + 16, 10, SIDE)
        scale = figure.colorbar(bar, cax=low)
        scale.outline.set_visible(False)
        scale.set_ticks([LEAST, 1e-4, 1e-2, MOST], labels=["≤ 10⁻⁶", "10⁻⁴", "0.01", "≥ 0.1"])
        scale.ax.yaxis.set_minor_locator(NullLocator())
        across, down = (72 * side for side in figure.get_size_inches())
        figure.text(
            (step - 14) / across, 1 - (44 + SIDE * 1.5) / down, "squared error",
            color=MUTED, fontsize=12, ha="right", va="center",
        )  # fmt: skip
        return figure


@figure("qian2025.extrapolation")
def hill_maps(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """A hill, what three networks make of it, and their squared errors; lines surround the two
    quadrants that were hidden.
    """
    return maps(records, arrays_of, "hill")


@figure("qian2025.extrapolation")
def tile_maps(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """A sine of a sum of sines, what three networks make of it, and their squared errors; lines
    surround the tiles that were hidden.
    """
    return maps(records, arrays_of, "sines")


@figure("qian2025.extrapolation")
def errors_by_network(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Squared error where the function was shown and where it was hidden: a dot a seed, a bar at
    the geometric mean.
    """
    mine = [r for r in records if "mse_ood" in r.scores and "network" in r.config]
    if not mine:
        return None
    titles = {"hill": "hill, two quadrants hidden", "sines": "sine of sines, 13 tiles hidden"}
    with styled():
        figure = canvas(660, 246)
        for i, (function, title) in enumerate(titles.items()):
            axes = place(figure, 66 + 312 * i, 34, 250, 180)
            for j, network in enumerate(NAMES):
                for name, color, shift in (
                    ("mse_id", LINES[0], -0.16),
                    ("mse_ood", LINES[1], 0.16),
                ):
                    found = np.array(
                        [
                            r.scores[name]
                            for r in mine
                            if (r.config["function"], r.config["network"]) == (function, network)
                        ]
                    )
                    if not len(found):
                        continue
                    label = {"mse_id": "shown", "mse_ood": "hidden"}[name] if not j else None
                    axes.plot(
                        np.full(len(found), j + shift), found, "o", color=color, markersize=5,
                        alpha=0.5, markeredgewidth=0, label=label,
                    )  # fmt: skip
                    mean = float(np.exp(np.log(np.maximum(found, 1e-12)).mean()))
                    axes.plot([j + shift - 0.12, j + shift + 0.12], [mean] * 2, color=color)
            logarithmic(axes, "y")
            axes.set(xlim=(-0.5, len(NAMES) - 0.5))
            axes.xaxis.set_major_locator(FixedLocator(range(len(NAMES))))
            axes.set_xticklabels(["modular", "full", "bottleneck"])
            axes.set_title(title, loc="left", fontsize=12)
            if i == 0:
                axes.set_ylabel("squared error")
                axes.legend(frameon=False, fontsize=11, loc="upper left", handletextpad=0.2)
        return figure


@figure("qian2025.depth")
def depth_curves(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Left: what the best affine map of a module's output leaves of its sine, and the network's
    error, by depth of the modules: a dot a seed. Right: what modules of one and of five layers
    say of a sine, fitted to it; a dashed line is the sine.
    """
    mine = [r for r in records if "rmse" in r.scores]
    if not mine:
        return None
    depths = sorted({r.config["depth"] for r in mine})
    with styled():
        figure = canvas(800, 290)
        for i, (name, label) in enumerate((("rmse", "left of the sine"), ("mse_id", "test error"))):
            axes = place(figure, 62 + 252 * i, 34, 180, 196)
            at = np.array([r.config["depth"] for r in mine])
            values = np.array([r.scores[name] for r in mine])
            axes.plot(at, values, "o", color=LINES[i], markersize=5, alpha=0.5, markeredgewidth=0)
            middle = [np.exp(np.log(values[at == d]).mean()) for d in depths]
            axes.plot(depths, middle, color=LINES[i])
            if name == "rmse":
                flat = float(np.mean([r.scores["rmse_input"] for r in mine]))
                axes.axhline(flat, color=MUTED, linewidth=1, dashes=(3, 3))
            logarithmic(axes, "y")
            axes.xaxis.set_major_locator(FixedLocator(depths))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
            axes.set_xlabel("layers of a module")
            axes.set_title(label, loc="left", fontsize=12)
        axes = place(figure, 566, 34, 220, 196)
        fitted(axes, mine, arrays_of)
        return figure


def fitted(axes: Axes, records: Sequence[Record], arrays_of: Arrays) -> None:
    """Draw a sine that shallow modules leave most of, and modules' outputs, fitted to it."""
    ends = [min(r.config["depth"] for r in records), max(r.config["depth"] for r in records)]
    shallow = [r for r in records if r.config["depth"] == ends[0]]
    left = {
        (r.seed, k): v
        for r in shallow
        for k in range(99)
        if (v := r.scores.get(f"rmse_{k + 1}")) is not None
    }
    seed, k = max(left, key=lambda key: left[key])
    for i, depth in enumerate(dict.fromkeys(ends)):
        held = [arrays_of(r) for r in records if (r.config["depth"], r.seed) == (depth, seed)]
        if not held or "said" not in held[0]:
            continue
        x, said, wanted = (held[0][name][:, k] for name in ("x", "said", "wanted"))
        slope, level = np.polyfit(said, wanted, 1) if np.ptp(said) > 0 else (0.0, wanted.mean())
        layers = "1 layer" if depth == 1 else f"{depth} layers"
        axes.plot(x, slope * said + level, color=LINES[2 + i], label=layers)
        if i == 0:
            axes.plot(x, wanted, color=MUTED, dashes=(3, 3), linewidth=1.2)
    axes.set_xlabel("input")
    axes.set_title("a module's output, fitted", loc="left", fontsize=12)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=11)
