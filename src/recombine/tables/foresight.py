"""One object for what is determined, what is to be expected and what to measure next."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.core.error import Refused
from recombine.core.show import shown
from recombine.tables import certify as certificates
from recombine.tables import forecast as forecasts
from recombine.tables import plan as plans
from recombine.tables.certify import Certificate
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.forecast import REASONS, Forecast, predictions_of, with_network
from recombine.tables.lists import aligned, combinations_of, costs_of, frame, match, names_of, short
from recombine.tables.plan import Plan
from recombine.tables.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 8  # rows of a printed table
WITNESSES = 3


@shown
@dataclass(frozen=True, eq=False)
class Foresight:
    """Answers about the asked combinations of a table; parts that were not asked for are `None`.

    Print it for sentences; `.table` is a dataframe with one row per asked combination.
    """

    source: Table
    certificate: Certificate
    forecast: Forecast | None = None
    plan: Plan | None = None

    @property
    def asked(self) -> Codes:
        """The asked combinations."""
        return self.certificate.asked

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Columns of `.table`: factor levels, then what is known about each combination."""
        names = list(zip(*self.source.decode(self.asked), strict=True)) or [()] * len(
            self.source.columns
        )
        answer: dict[str, Any] = dict(zip(self.source.columns, map(list, names), strict=True))
        answer |= dict.fromkeys(("value", "low", "high", "known", "expected_error"))
        answer |= {"determined": self.certificate.determined, "margin": self.certificate.margin}
        f = self.forecast
        if f is None:
            return answer
        if f.kind == "vector":
            del answer["value"]
            answer |= {f"value_{t}": f.value[:, c] for c, t in enumerate(self.source.targets)}
        else:
            answer["value"] = self._written(f.value)
        if f.kind == "number":
            answer |= {"low": f.low, "high": f.high}
        answer |= {"known": f.known, "expected_error": f.expected_error}
        if f.answers is not None and f.kind != "vector":
            answer["network"] = self._written(f.answers)
        if f.predictions is not None and f.kind != "vector":
            answer["prediction"] = self._written(f.predictions)
        if f.judged is not None:
            answer["verdict"] = f.verdict.tolist()
        answer["why"] = [REASONS[k] for k in f.why.tolist()]
        return answer

    @cached_property
    def table(self) -> Any:
        """One row per asked combination, as a dataframe of the library that the table came from."""
        return frame(self.columns, self.source.library, len(self.asked))

    @property
    def summary(self) -> dict[str, Any]:
        """What `to_json` writes."""
        t, c = self.source, self.certificate
        seen = int(t.seen(c.asked).sum())
        answer: dict[str, Any] = {
            "rows": t.rows,
            "cells": t.size,
            "seen": len(t.cells),
            "unseen": t.size - len(t.cells),
            "asked": len(c.asked),
            "asked_seen": seen,
            "order": c.order,
            "determined": int(c.determined.sum()),
            "rank": c.system.rank,
            "columns": c.system.conjunctions.width,
            "proof": c.proof,
            "margin": _finite(np.nanmax(c.margin)) if c.determined.any() else None,
            "coverage": [
                {
                    "strength": k.strength,
                    "possible": k.possible,
                    "covered": k.covered,
                    "thin": k.thin,
                }
                for k in c.coverage
            ],
            "never": {name: list(levels) for name, levels in c.never.items()},
            "witnesses": [str(w) for w in self.witnesses],
        }
        if len(t.shape) == 2:
            answer["components"] = [[list(a), list(b)] for a, b in c.components]
        if self.forecast is not None:
            f = self.forecast
            answer |= {
                "unseen": len(f.asked),
                "known": int(f.known.sum()),
                "cannot_know": int((~f.known).sum()),
                "fails": int(f.fails.sum()),
                "tolerance": f.tolerance,
                "judged": "predictions" if f.predictions is not None else f.network or None,
                "expected_error": _finite(f.expected_error.mean()),
                "members": dict(
                    zip(
                        ("conjunctions", "similarity", "boosting", "forest"),
                        f.referees[0].weights.round(3).tolist(),
                        strict=True,
                    )
                ),
                "reasons": {
                    text or "known": int((f.why == k).sum()) for k, text in enumerate(REASONS)
                },
            }
        if self.plan is not None:
            p = self.plan
            answer |= {
                "objective": p.objective,
                "before": p.before,
                "after": p.after,
                "random": p.random,
                "picks": [
                    {
                        "levels": dict(zip(t.columns, k.combination, strict=True)),
                        "reason": k.reason,
                        "gain": k.gain,
                    }
                    for k in p.picks
                ],
            }
        return answer

    def to_json(self) -> str:
        """Write the summary as JSON."""
        return json.dumps(self.summary, indent=1, ensure_ascii=False)

    @cached_property
    def witnesses(self) -> list[certificates.Witness]:
        """Witnesses of the first few determined combinations that were not measured."""
        c = self.certificate
        rows = np.flatnonzero(c.determined & ~self.source.seen(c.asked))[:WITNESSES]
        names = self.source.decode(c.asked[rows])
        return [w for w in map(c.witness, names) if w is not None]

    @cached_property
    def sentences(self) -> list[str]:
        """The answers in words, the most important first."""
        return self._said_of_plan() + self._said_of_forecast() + self._said_of_certificate()

    def _said_of_plan(self) -> list[str]:
        return [] if self.plan is None else [self.plan.sentence]

    def _said_of_forecast(self) -> list[str]:
        f = self.forecast
        if f is None:
            return []
        known, size = int(f.known.sum()), len(f.asked)
        within = f"to ±{f.tolerance:.3g}"
        if f.kind == "classes":
            within = f"with a chance of {100 * f.tolerance:.2g} % to be wrong at most"
        said = [f"Of {size:,} unseen combinations, {known:,} are known {within}"]
        if f.predictions is not None:
            said[0] += f"; your model fails on {int(f.fails.sum()):,} of them."
        elif f.answers is not None:
            said[0] += (
                f"; a network such as {f.network} will fail on {int(f.fails.sum()):,} of them."
            )
        else:
            said[0] += "."
        if known < size:
            counts = {text: int((f.why == k).sum()) for k, text in enumerate(REASONS) if text}
            reasons = [(text, n) for text, n in counts.items() if n]
            why = "; ".join(f"for {n:,}, {text}" for text, n in reasons)
            why = reasons[0][0] if len(reasons) == 1 else why
            said.append(f"{size - known:,} cannot be known from this table: {why}.")
        if f.kind == "number" and f.referees[0].noise is None:
            said.append(
                "Too few combinations were measured more than once; repeats, for instance three "
                "per combination, would separate noise from error."
            )
        said.append(
            "This holds if unmeasured combinations follow the law of the measured ones: nobody can "
            "detect an interaction that lives only where nothing was measured."
        )
        return said

    def _said_of_certificate(self) -> list[str]:
        c, t = self.certificate, self.source
        good = int(c.determined.sum())
        first = (
            f"Of {len(c.asked):,} asked combinations, {good:,} are determined at order {c.order}: "
            "every sum over conjunctions of that order that fits the table agrees there"
        )
        said = [f"{first} ({c.proof})."]
        if good:
            margin = np.nanquantile(c.margin, [0.5, 1.0])
            said.append(
                f"Their margins (variance of the value, in units of one measurement's) are "
                f"{margin[0]:.3g} at the median and {margin[1]:.3g} at most."
            )
        for k in c.coverage:
            said.append(
                f"{k.strength}-way coverage {100 * k.share:.1f} %: {k.covered:,} of {k.possible:,} "
                f"conjunctions of {k.strength} level{'s' * (k.strength > 1)} are measured, "
                f"{k.thin:,} of them in one combination only."
            )
        for name, levels in c.never.items():
            said.append(f"Never measured of {name}: {', '.join(map(short, levels[:SHOWN]))}.")
        if len(t.shape) == 2 and len(c.components) > 1:
            said.append(
                f"The table has {len(c.components)} connected components; a combination across two "
                "of them is not determined."
            )
        return said

    def __str__(self) -> str:
        lines = [*self.sentences]
        if self.plan is not None:
            lines += ["", "Measure next:"]
            for at, k in enumerate(self.plan.picks[: 3 * SHOWN], start=1):
                lines.append(f"{at:>3}. {', '.join(map(short, k.combination))}: {k.reason}")
        elif self.forecast is not None:
            lines += ["", *self._listed()]
        elif self.witnesses:
            lines += ["", "Witnesses:"]
            lines += [f"  {w.brief(short)}" for w in self.witnesses if len(w.terms) <= 2 * SHOWN]
        return "\n".join(lines)

    def _listed(self) -> list[str]:
        """The combinations with the largest expected error among the known ones, or the others."""
        f = self.forecast
        if f is None:
            return []
        order = np.lexsort((-f.expected_error, ~f.fails, ~f.known))[:SHOWN]
        names = self.source.decode(f.asked[order])
        lines = []
        for name, at in zip(names, order, strict=True):
            value = self._written(f.value[at : at + 1])[0] if f.kind != "vector" else "a vector"
            text = value if isinstance(value, str) else f"{value:.3g}"
            if f.kind == "number":
                text += f" (from {f.low[at]:.3g} to {f.high[at]:.3g})"
            state = REASONS[f.why[at]] or ("fails" if f.fails[at] else "known")
            lines.append(f"  {', '.join(map(short, name))}: {text}; {state}")
        return lines

    def _written(self, values: Array) -> list[Any]:
        if self.source.classes:
            return [self.source.classes[int(k)] for k in values[:, 0]]
        return [float(v) for v in values[:, 0]]

    def _repr_html_(self) -> str:
        from recombine.tables.page import fragment

        return fragment(self)

    def to_html(self) -> str:
        """Write a self-contained page in the design of the report."""
        from recombine.tables.page import page

        return page(self)

    def plot(self, rows: str | None = None, columns: str | None = None) -> Figure:
        """Heat maps over pairs of factors: measured cells outlined, unknown ones hatched."""
        from recombine.tables.plot import heat_maps

        return heat_maps(self, rows, columns)


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def certify(
    table: Table | Foresight, order: int = 1, wanted: Any = None, *, seed: int = 0
) -> Foresight:
    """Tell which combinations a table determines: `print(certify(table, order=2))`.

    - order: how many factors may meet in one term of the law
    - wanted: combinations to ask about (a file, a dataframe or rows of level names); all
      unmeasured ones by default
    """
    source = table.source if isinstance(table, Foresight) else table
    asked = None if wanted is None else combinations_of(source, wanted)
    return Foresight(source, certificates.certify(source, order, asked, seed=seed))


def forecast(
    table: Table | Foresight,
    model: Any = None,
    *,
    predictions: Any = None,
    tolerance: str | float = "0.5sd",
    network: str = "relu3",
    order: int = 1,
    wanted: Any = None,
    seed: int = 0,
) -> Foresight:
    """Tell what to expect at unmeasured combinations, and where a model will fail.

    - model: a function of a dataframe of levels, a scikit-learn estimator or a torch module, whose
      answers are judged
    - predictions: the same as a file or dataframe with the factor columns and a last column
    - tolerance: how far off an answer may be: `0.5sd`, or a number in units of the target
    - network: the kind of untrained network whose answers are forecast, or `measured`
    """
    if model is not None and predictions is not None:
        raise Refused("forecast() takes a model or predictions; give one of them.")
    answered = model is not None or predictions is not None
    forecasts.check_options(tolerance, network, answered=answered)
    base = table if isinstance(table, Foresight) else certify(table, order, wanted, seed=seed)
    source, asked = base.source, base.asked
    answers = None if predictions is None else aligned(source, asked, predictions)
    if model is not None:
        answers = predictions_of(model, source, asked, names_of(source))
    made = base.forecast
    if made is None or made.asked_for != (str(tolerance), seed):
        made = forecasts.forecast(source, asked, within=tolerance, network="", seed=seed)
    if answers is not None:
        made = forecasts.with_predictions(made, answers)
    if network:
        made = with_network(made, network)
    return replace(base, forecast=made)


def plan(
    table: Table | Foresight,
    budget: int,
    *,
    objective: str = "auto",
    cost: Any = None,
    forbid: Any = None,
    order: int = 1,
    wanted: Any = None,
    tolerance: str | float = "0.5sd",
    seed: int = 0,
) -> Foresight:
    """Tell what to measure next.

    - objective: `determined` (the most combinations), `error` (the lowest expected error) or
      `best` (a high target); `auto` is `error` where all are determined, else `determined`
    - cost: a file or dataframe with the factor columns and a cost; combinations without cost 1
    - forbid: combinations that cannot be measured
    """
    plans.check_budget(budget)
    base = table if isinstance(table, Foresight) else certify(table, order, wanted, seed=seed)
    source = base.source
    if objective == "auto":
        objective = "error" if base.certificate.determined.all() else "determined"
    if objective in ("error", "best") and source.y is not None and base.forecast is None:
        base = forecast(base, tolerance=tolerance, network="", seed=seed)
    price = None if cost is None else costs_of(source, base.asked, cost)
    barred = None
    if forbid is not None:
        barred = match(source, base.asked, combinations_of(source, forbid)) >= 0
    made = plans.plan(
        base.certificate,
        base.forecast,
        budget,
        objective=objective,
        cost=price,
        forbidden=barred,
        seed=seed,
    )
    return replace(base, plan=made)
