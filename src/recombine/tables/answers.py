"""Answers about a table: what it determines, what to expect, and what to measure next."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.core.space import Mask
from recombine.tables import certify as certificates
from recombine.tables.certify import Certificate
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.forecast import REASONS, Forecast
from recombine.tables.lists import briefly, finite, frame, short, text_of, text_table
from recombine.tables.plan import Plan
from recombine.tables.referee import MEMBERS
from recombine.tables.table import Table

ANSWERS = {"value", "low", "high", "known", "expected_error", "determined", "margin", "network"}
ANSWERS |= {"prediction", "verdict", "why"}  # columns beside the factors
SHOWN = 8  # rows of a printed table
WITNESSES = 3
LINE = 100  # characters per line


@dataclass(frozen=True, eq=False)
class Answers:
    """The parts of a `Foresight`, as columns, sentences and plain values."""

    source: Table
    certificate: Certificate
    forecast: Forecast | None = None
    plan: Plan | None = None

    @property
    def queries(self) -> Codes:
        """The queried combinations, as codes."""
        return self.certificate.queries

    @cached_property
    def already_measured(self) -> Mask:
        """Which queries were measured."""
        return self.source.seen(self.queries)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Columns of `.table`: factor levels, then what is known about each combination."""
        answer: dict[str, Any] = self.source.level_names(self.queries)
        answer |= dict.fromkeys(("value", "low", "high", "known", "expected_error"))
        answer |= {"determined": self.certificate.determined, "margin": self.certificate.margin}
        if self.plan is not None:
            numbers: list[int | None] = [None] * len(self.queries)
            for number, at in enumerate(self.plan.at, start=1):
                numbers[at] = number
            answer["pick"] = numbers
        f = self.forecast
        if f is None:
            return answer
        if f.kind == "number":
            answer |= {"low": f.low, "high": f.high}
        answer |= {"known": f.known, "expected_error": f.expected_error}
        outputs = {"value": f.value, "network": f.answers, "prediction": f.predictions}
        for name, values in outputs.items():
            if f.kind == "vector" and values is not None:
                answer |= {f"{name}_{t}": values[:, c] for c, t in enumerate(self.source.targets)}
            elif values is not None:
                answer[name] = self._plain(values)
        if f.judged is not None:
            answer["verdict"] = f.verdict.tolist()
        answer["why"] = [REASONS[k] for k in f.why.tolist()]
        return answer

    @property
    def order(self) -> NDArray[np.int64]:
        """Queries in order of interest: failures, then known ones, then others."""
        f = self.forecast
        if f is None:
            return np.arange(len(self.queries))
        return np.lexsort((-f.expected_error, ~f.fails, ~f.known))

    @cached_property
    def table(self) -> Any:
        """One row per queried combination, as a dataframe of the library of the source."""
        return frame(self.columns, self.source.library, len(self.queries))

    @property
    def summary(self) -> dict[str, Any]:
        """What `to_json` writes."""
        t, c = self.source, self.certificate
        answer: dict[str, Any] = {
            "rows": t.rows,
            "cells": t.size,
            "seen": len(t.cells),
            "unseen": t.size - len(t.cells),
            "asked": len(c.queries),
            "asked_seen": int(self.already_measured.sum()),
            "order": c.order,
            "determined": int(c.determined.sum()),
            "rank": c.system.rank,
            "columns": c.system.conjunctions.width,
            "proof": c.proof,
            "margin": finite(np.nanmax(c.margin)) if c.determined.any() else None,
            "coverage": [asdict(k) for k in c.coverage],
            "never": {name: list(levels) for name, levels in c.never.items()},
            "witnesses": [str(w) for w in self.witnesses],
        }
        if len(t.shape) == 2:
            answer["components"] = [[list(a), list(b)] for a, b in c.components]
        if self.forecast is not None:
            f, new = self.forecast, ~self.already_measured
            answer |= {
                "unseen": int(new.sum()),
                "known": int(f.known[new].sum()),
                "cannot_know": int((~f.known)[new].sum()),
                "fails": int(f.fails[new].sum()),
                "tolerance": f.tolerance,
                "judged": "predictions" if f.predictions is not None else f.network or None,
                "expected_error": finite(f.expected_error.mean()),
                "members": dict(zip(MEMBERS, f.referees[0].weights.round(3).tolist(), strict=True)),
                "reasons": {
                    text or "known": int((f.why[new] == k).sum()) for k, text in enumerate(REASONS)
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
        return self._search[0]

    @cached_property
    def _search(self) -> tuple[list[certificates.Witness], bool]:
        """Witnesses, and whether the search was given up because it took too long."""
        c, found = self.certificate, list[certificates.Witness]()
        rows = np.flatnonzero(c.determined & ~self.already_measured)[:WITNESSES]
        for name in self.source.decode(c.queries[rows]):
            try:
                witness = c.search(name)
            except certificates.Late:
                return found, True
            found += [] if witness is None else [witness]
        return found, False

    @cached_property
    def sentences(self) -> list[str]:
        """The answers in words, the most important first."""
        if self.plan is None and self.forecast is None:
            return self._certificate_sentences()
        plan = [] if self.plan is None else [self.plan.sentence]
        forecast = [] if self.forecast is None else self._forecast_sentences(self.forecast)
        c = self.certificate
        count, margins = int(c.determined.sum()), ""
        if count:
            margin = np.nanquantile(c.margin, [0.5, 1.0])
            margins = f", with margins of {margin[0]:.3g} at the median and {margin[1]:.3g} at most"
        certificate = (
            f"{count:,} of {len(c.queries):,} queried combinations {_are(count)} determined at "
            f"order {c.order}{margins}."
        )
        return [*plan, *forecast, certificate]

    def _forecast_sentences(self, f: Forecast) -> list[str]:
        new = ~self.already_measured
        known, size = int(f.known[new].sum()), int(new.sum())
        within = f"to ±{f.tolerance:.3g}"
        if f.kind == "classes":
            within = f"with an error probability of at most {100 * f.tolerance:.2g} %"
        fails = f"{int(f.fails[new].sum()):,} of them."
        end = "."
        if f.predictions is not None:
            end = f"; your model fails on {fails}"
        elif f.answers is not None:
            end = f"; a network such as {f.network} will fail on {fails}"
        lines = [f"Of {size:,} unseen combinations, {known:,} {_are(known)} known {within}{end}"]
        if known < size:
            counts = {text: int((f.why[new] == k).sum()) for k, text in enumerate(REASONS) if text}
            reasons = [(text, n) for text, n in counts.items() if n]
            why = "; ".join(f"for {n:,}, {text}" for text, n in reasons)
            why = reasons[0][0] if len(reasons) == 1 else why
            lines.append(f"{size - known:,} cannot be known from this table: {why}.")
        if size < len(new):
            count = len(new) - size
            lines.append(
                f"{count:,} of the queried combinations {_were(count)} measured; see .table."
            )
        if f.kind == "number" and f.referees[0].noise is None:
            lines.append(
                "Too few combinations were measured more than once; repeats, for instance three "
                "per combination, would separate noise from error."
            )
        lines.append(
            "This holds if unmeasured combinations follow the same law as the measured ones: no "
            "method can detect an interaction that occurs only where nothing was measured."
        )
        return lines

    def _certificate_sentences(self) -> list[str]:
        c, t = self.certificate, self.source
        count = int(c.determined.sum())
        if not len(c.queries):
            return ["Every combination was measured; there is nothing to determine."]
        law = f"conjunctions of at most {c.order} factors" if c.order > 1 else "single factors"
        lines = [
            f"Of {len(c.queries):,} queried combinations, {count:,} {_are(count)} determined at "
            f"order {c.order}: all sums over {law} that fit the table agree there ({c.proof})."
        ]
        if count:
            margin = np.nanquantile(c.margin, [0.5, 1.0])
            lines.append(
                f"The variance of a determined value (its margin) is {margin[0]:.3g} times that of "
                f"one measurement at the median, and at most {margin[1]:.3g} times."
            )
        if seen := int(self.already_measured.sum()):
            lines.append(f"{seen:,} of the queried combinations {_were(seen)} measured.")
        shares = [f"{k.strength}-way {100 * k.share:.3g} %" for k in c.coverage]
        lines.append(f"Coverage: {', '.join(shares)}.")
        for name, levels in c.never.items():
            more = f" and {len(levels) - SHOWN:,} more" if len(levels) > SHOWN else ""
            some = ", ".join(map(short, levels[:SHOWN]))
            lines.append(f"Levels of {name} that were never measured: {some}{more}.")
        if len(t.shape) == 2 and len(c.components) > 1:
            lines.append(
                f"The table has {len(c.components)} connected components; a combination of levels "
                "from two of them is not determined."
            )
        return lines

    def brief(self, length: int = 28) -> list[dict[str, str]]:
        """Short names of the levels of each factor, all different."""
        return [briefly(f.labels, length) for f in self.source.space.factors]

    def __str__(self) -> str:
        lines = [*self.sentences, ""]
        if self.plan is not None:
            names = self.brief()
            lines.append("Measure next:")
            for at, k in enumerate(self.plan.picks[: 3 * SHOWN], start=1):
                levels = ", ".join(n[x] for n, x in zip(names, k.combination, strict=True))
                lines += [f"{at:>3}. {levels}", f"     {k.reason}"]
            if (left := len(self.plan.picks) - 3 * SHOWN) > 0:
                lines.append(f"     and {left:,} more: .table, or --cells FILE")
        elif self.forecast is not None:
            lines += self._listed()
        else:
            lines += text_table(*self.coverage, left=1)
            if texts := self.witness_texts(20):
                lines += ["", "Witnesses:", *(f"  {text}" for text in texts)]
            elif self._search[1]:
                lines += ["", f"No short witness was found in {certificates.SECONDS:g} s."]
        return "\n".join(lines).rstrip()

    @property
    def coverage(self) -> tuple[list[str], list[list[str]]]:
        """The table of coverage: heads and rows."""
        heads = ["coverage", "possible", "measured", "share", "in one combination only"]
        return heads, [
            [
                f"{k.strength}-way",
                f"{k.possible:,}",
                f"{k.covered:,}",
                f"{100 * k.share:.1f} %",
                f"{k.thin:,}",
            ]
            for k in self.certificate.coverage
        ]

    def witness_texts(self, length: int) -> list[str]:
        """Witnesses of few terms, each on one line or, if long, on one line per term."""
        names = {x: text for labels in self.brief(length) for x, text in labels.items()}
        few = [w for w in self.witnesses if len(w.terms) <= 2 * SHOWN]
        return [w.text(names.__getitem__, LINE) for w in few]

    def _listed(self) -> list[str]:
        """The most interesting combinations as lines of a table."""
        columns, order = self.columns, self.order[:SHOWN]
        names = self.brief(max(10, 72 // len(self.source.shape)))
        outputs = ("value", "low", "high", "network", "prediction")
        heads = [k for k in outputs if columns.get(k) is not None]
        state = "verdict" if "verdict" in columns else "known"
        rows = [
            [n[x] for n, x in zip(names, levels, strict=True)]
            + [text_of(columns[k][at]) for k in heads]
            + [text_of(columns["expected_error"][at], 2), text_of(columns[state][at])]
            for levels, at in zip(self.source.decode(self.queries[order]), order, strict=True)
        ]
        heads = [*self.source.columns, *heads, "error", state]
        lines = text_table(heads, rows, len(self.source.shape))
        if (left := len(self.queries) - len(order)) > 0:
            lines.append(f"  and {left:,} more: .table, or --cells FILE")
        return lines

    def _plain(self, values: Array) -> list[Any]:
        """Class names, or the numbers of the only output."""
        if self.source.classes:
            return [self.source.classes[int(k)] for k in values[:, 0]]
        return [float(v) for v in values[:, 0]]


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
