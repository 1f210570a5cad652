"""Audit models of real tables, follow the advice, audit again: `python docs/worked.py`."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from recombine.audits.advice import planned
from recombine.audits.audit import judge
from recombine.audits.models import from_model
from recombine.tables.datasets import dataset
from recombine.tables.forecast import one_hot
from recombine.tables.table import Table

PAGE = Path(__file__).with_name("audit.md")
SEEDS = 5
START = {"buchwald_hartwig": 200, "gb1": 400}  # training combinations before the advice
BUDGET = {"buchwald_hartwig": 50, "gb1": 100}
JUDGED = 6_000  # combinations that errors are taken over


def boosting(x: Any, y: Any, seed: int) -> Any:
    """Gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(min_samples_leaf=5, max_iter=150, random_state=seed)
    return model.fit(x, y)


def network(x: Any, y: Any, seed: int) -> Any:
    """A multilayer perceptron, targets standardized."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    inner = MLPRegressor(hidden_layer_sizes=(64, 64), alpha=1e-2, max_iter=150, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TransformedTargetRegressor(inner, transformer=StandardScaler()).fit(x, y)


MODELS = {"boosting": boosting, "MLP": network}


def skewed(table: Table, n: int, rng: np.random.Generator) -> Any:
    """Draw rows as people collect them: some levels far more often than others (Zipf)."""
    weight = np.ones(table.rows)
    for c, m in enumerate(table.shape):
        popularity = 1 / (1 + rng.permutation(m))
        weight *= popularity[table.codes[:, c]]
    rows = rng.choice(table.rows, n, replace=False, p=weight / weight.sum())
    mask = np.zeros(table.rows, dtype=bool)
    mask[rows] = True
    return mask


def study(name: str, seed: int) -> list[dict[str, Any]]:
    """Audit, collect what is advised or as many random combinations, train and audit again."""
    rng = np.random.default_rng(100 + seed)
    table = dataset(name)
    table = table.log(0.01) if name == "gb1" else table
    train = skewed(table, START[name], rng)
    rest = rng.permutation(np.flatnonzero(~train))
    judged, pool = (
        np.zeros(table.rows, dtype=bool),
        rest[JUDGED:] if len(rest) > 2 * JUDGED else rest,
    )
    judged[rest[:JUDGED]] = True
    x = one_hot(table, table.codes)
    rows = []
    plan = None
    for kind, fit in MODELS.items():
        model = fit(x[train], table.y[train, 0], seed)

        def error(model: Any, extra: Any) -> float:
            use = judged & ~extra & ~train
            away = model.predict(x[use]) - table.y[use, 0]
            return float(np.sqrt(np.mean(away**2)) / table.y[:, 0].std())

        keep = judged | train
        sample = from_model(model, table.take(keep), inputs=x[keep], train=train[keep])
        diagnosis = judge(sample, budget=0, seed=seed).diagnosis
        if plan is None:  # the advice reads the table, not the model: once for both
            (plan,) = planned(sample, diagnosis, BUDGET[name], seed)
        wanted = {c: i for i, c in enumerate(table.decode(table.codes))}
        advised = np.zeros(table.rows, dtype=bool)
        advised[[wanted[c] for c in plan.combinations if c in wanted]] = True
        random = np.zeros(table.rows, dtype=bool)
        random[rng.choice(pool, int(advised.sum()), replace=False)] = True
        both = advised | random
        again = {}
        for how, extra in (("advised", advised), ("random", random)):
            use = train | extra
            again[how] = error(fit(x[use], table.y[use, 0], seed), both)
        rows.append(
            {"table": name, "model": kind, "seed": seed, "diagnosis": diagnosis}
            | {"before": error(model, both), "added": int(advised.sum())}
            | again
        )
    return rows


def interval(values: Any) -> str:
    """Mean with its 95 % interval over seeds."""
    v = np.asarray(values)
    half = student.ppf(0.975, len(v) - 1) * v.std(ddof=1) / np.sqrt(len(v))
    return f"{v.mean():.3f} [{v.mean() - half:.3f}, {v.mean() + half:.3f}]"


def written(rows: list[dict[str, Any]]) -> str:
    """Write the table of the page."""
    lines = [
        "| table | model | training + added | diagnosis | error before | advised | random "
        "| advised − random |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in START:
        for kind in MODELS:
            part = [r for r in rows if r["table"] == name and r["model"] == kind]
            said = [r["diagnosis"] for r in part]
            counted = ", ".join(f"{d} ({said.count(d)})" for d in dict.fromkeys(said))
            columns = [interval([r[k] for r in part]) for k in ("before", "advised", "random")]
            away = interval([r["advised"] - r["random"] for r in part])
            lines.append(
                f"| {name} | {kind} | {START[name]} + {part[0]['added']} | {counted} | "
                f"{' | '.join(columns)} | {away} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Run the study and fill the page."""
    from diagnoses import fill

    rows = [row for name in START for seed in range(SEEDS) for row in study(name, seed)]
    PAGE.with_name("worked.json").write_text(json.dumps(rows, indent=1) + "\n")
    text = fill(PAGE.read_text(encoding="utf-8"), "worked", written(rows))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
