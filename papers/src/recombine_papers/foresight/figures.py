"""Figures of foresight; the report imports them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import LINES
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, seed_figure
from recombine_papers.foresight.real import JUDGED, SUPPORTS
from recombine_papers.foresight.rivals import RIVALS
from recombine_papers.foresight.synthetic import TRAINED
from recombine_papers.foresight.worlds import TARGETS

NAMES = {
    "buchwald_hartwig": "Buchwald–Hartwig",
    "gb1": "GB1",
    "direct_arylation": "direct arylation",
    "french_fries": "french fries",
}
MODELS = {
    "mlp": "MLP", "ridge": "ridge", "forest": "forest", "boosting": "boosting",
    "knn": "nearest neighbors",
}  # fmt: skip
KINDS = {
    "pair": "sum and one pair", "product": "one product", "cp2": "two products", "xor": "parity",
    "noisy": "noisy sum", "additive": "sum", "random": "no structure",
}  # fmt: skip
Rows = dict[str, dict[str, list[float]]]

names("foresight.repeats")(lambda config: f"{config['repeats']} per combination")


@names("foresight.real")
def name_of_real(config: Mapping[str, Any]) -> str:
    """Name a run by its table and the supports of its training."""
    return f"{NAMES.get(config['table'], config['table'])}, {config['supports'].replace(',', ', ')}"


dots = partial(seed_figure, colors={"all": LINES[0]}, row=24)


def collect(rows: Rows, row: str, series: str, value: float | None) -> None:
    """Add one value to a row, unless the record lacks it."""
    if value is not None:
        rows.setdefault(row, {}).setdefault(series, []).append(value)


@figure("foresight.synthetic")
def failures_found(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """AUROC for a model's failures among known combinations of synthetic tables: forecast before
    training, by the errors of a second network (twin), and after training. One dot per seed, a bar
    at the mean; dashed: the bound for trained models.
    """
    titles = {"before": "MLP, before training", "twin": "MLP, by a twin"}
    titles |= {f"after_{name}": f"{MODELS[name]}, after training" for name in TRAINED}
    rows: Rows = {}
    for score, title in titles.items():
        for r in records:
            collect(rows, title, "all", r.scores.get(score))
    return dots(rows, xlabel="AUROC for failures", mark=0.98)


@figure("foresight.synthetic")
def known_by_target(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Share of unseen combinations that is called known, by kind of target: one dot per seed, a bar
    at the mean.
    """
    rows: Rows = {}
    for target in TARGETS:
        for r in records:
            collect(rows, KINDS.get(target, target), "all", r.scores.get(f"known_{target}"))
    return dots(rows, xlabel="share known to ±0.5 standard deviations")


@figure("foresight.real")
def values_by_support(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """R² on unseen combinations of real tables, by table and training support: the referee, and the
    best of ridge, forest, boosting, nearest neighbors and MLP, chosen on the unseen values. One dot
    per seed, a bar at the mean.
    """
    colors = {"referee": LINES[0], "best of five models": LINES[1]}
    rows: Rows = {}
    for table, name in NAMES.items():
        for support in SUPPORTS:
            for r in records:
                if r.config["table"] == table and f"r2_{support}" in r.scores:
                    best = max(r.scores[f"rival_{model}_{support}"] for model in RIVALS)
                    row = f"{name}, {support}"
                    collect(rows, row, "referee", r.scores[f"r2_{support}"])
                    collect(rows, row, "best of five models", best)
    return seed_figure(rows, colors, "R² on unseen combinations")


@figure("foresight.real")
def verdicts_by_table(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """AUROC for failures of trained models on real tables: the referee's verdict, and the variance
    of a forest. One dot per seed, a bar at the mean; dashed: the bound of the claims.
    """
    colors = {"verdict": LINES[0], "variance of a forest": LINES[1]}
    rows: Rows = {}
    for table, name in NAMES.items():
        for model in JUDGED:
            for r in records:
                if r.config["table"] == table:
                    row = f"{name}, {MODELS[model]}"
                    collect(rows, row, "verdict", r.scores.get(f"verdict_{model}"))
                    collect(rows, row, "variance of a forest", r.scores.get(f"variance_{model}"))
    return seed_figure(rows, colors, "AUROC for failures", mark=0.75)


@figure("foresight.repeats")
def known_by_repeats(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Share of unseen combinations that is called known, by measurements per combination, with a
    noise of 0.3 standard deviations: one dot per seed, a bar at the mean.
    """
    rows: Rows = {}
    for r in sorted(records, key=lambda r: int(r.config["repeats"])):
        collect(rows, f"{r.config['repeats']} per combination", "all", r.scores.get("known"))
    return dots(rows, xlabel="share known to ±0.5 standard deviations")


@names("foresight.collecting")
def name_of_collecting(config: Mapping[str, Any]) -> str:
    """Name a run by its table and the way of collecting that a plan is compared with."""
    return f"{NAMES.get(config['table'], config['table'])}, {config['rival']}"


@figure("foresight.collecting")
def measurements_saved(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Measurements that another way of collecting needs to reach the error of a plan, divided by
    the plan's: one dot per seed, a bar at the mean. Ratios end at 8; dashed: as many as the plan.
    """
    rows: Rows = {}
    for r in sorted(records, key=lambda r: str(r.config["rival"])):
        collect(rows, name_of_collecting(r.config), "all", r.scores.get("times"))
    return dots(rows, xlabel="measurements / those of the plan", mark=1.0)


@figure("foresight.search")
def best_of_search(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Largest target among the measured combinations, divided by the largest in the table: one dot
    per seed, a bar at the mean; dashed: the bound of the claim.
    """
    rows: Rows = {}
    for score, method in (("best", "search"), ("best_random", "random")):
        for r in records:
            row = f"{NAMES[str(r.config['table'])]}, {method}"
            collect(rows, row, "all", r.scores.get(score))
    return dots(rows, xlabel="largest measured / largest of all", mark=0.8)
