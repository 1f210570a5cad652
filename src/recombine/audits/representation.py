"""Score a representation: are its factors linearly decodable, disentangled and additive?"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from html import escape
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from recombine.audits import disentanglement as d
from recombine.audits import geometry, probes
from recombine.audits.factors import Factors, read
from recombine.audits.sample import array_of, check_finite
from recombine.audits.standard import order_of, oriented, standardized
from recombine.core.error import Refused
from recombine.core.show import shown
from recombine.tables.conjunctions import Array
from recombine.tables.lists import finite, text_table
from recombine.tables.table import generator

GROUPS = 8  # groups of combinations for the jackknife
LEVEL = 0.95
PUBLISHED = ("mig", "sap", "completeness", "explicitness")  # also reported as means over factors

MEANING = {
    "decodability_held_out": "linear probe of the factor, tested on held-out combinations",
    "decodability_seen": "the same, tested on new rows of training combinations",
    "explicitness": "mean ROC area of one-versus-rest logistic regression; 0.5 is chance",
    "mig": "mutual information gap: best minus second code",
    "sap": "separated attribute predictability: best minus second code",
    "completeness": "DCI: importance lies on one code",
    "orthogonality": "1 minus the mean overlap with the directions of the other factors",
    "additivity": "share of the variance between combinations that is a sum over factors",
    "additivity_held_out": "R² of sums over factors for the mean codes of held-out combinations",
    "within": "share of the codes' variance within combinations",
    "disentanglement": "DCI: each code serves one factor, weighted by importance",
    "modularity": "each code is informative about one factor only",
}


@dataclass(frozen=True)
class Estimate:
    """A score with its jackknife interval over groups of combinations."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if not isfinite(self.value):
            return "–"
        ends = f" [{self.low:.2f}, {self.high:.2f}]" if isfinite(self.low) else ""
        return f"{self.value:.2f}{ends}"


@shown
@dataclass(frozen=True, eq=False)
class Representation:
    """Scores of a representation; print it, or take `scores` and `factors`."""

    rows: int
    codes: int
    shape: dict[str, int]
    combinations: int
    left_out: int
    """Combinations in no test fold, because a level would be missing from training."""
    dependence: float
    """Largest mutual information between two factors over the rows, as a share of the smaller
    entropy; 0 on complete balanced grids."""
    scores: dict[str, Estimate]
    factors: dict[str, dict[str, Estimate]]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON; what is not a number is `None`."""
        return {
            "rows": self.rows,
            "codes": self.codes,
            "levels": self.shape,
            "combinations": self.combinations,
            "left_out": self.left_out,
            "dependence": self.dependence,
            "scores": {k: _plain(v) for k, v in self.scores.items()},
            "factors": {
                n: {k: _plain(v) for k, v in scores.items()} for n, scores in self.factors.items()
            },
        }

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def __str__(self) -> str:
        grid = " × ".join(f"{n} ({m})" for n, m in self.shape.items())
        lines = [
            f"Representation of {self.rows:,} rows in {self.codes} codes: {grid}, "
            f"{self.combinations:,} combinations",
            "",
        ]
        names = [*next(iter(self.factors.values()))]
        heads = ["factor", *(n.replace("_", " ") for n in names)]
        rows = [[f, *(str(s[n]) for n in names)] for f, s in self.factors.items()]
        lines += [*text_table(heads, rows, len(heads), indent=""), ""]
        lines += [f"{n.replace('_', ' ')}: {v}  ({MEANING[n]})" for n, v in self.scores.items()]
        if self.dependence > 0.01:
            lines.append(
                f"Factors are dependent over the rows (up to {self.dependence:.0%} of an entropy); "
                "MIG, SAP and modularity use conditional information given a code's main factor."
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names = [*next(iter(self.factors.values()))]
        head = "".join(f'<th title="{MEANING[n]}">{n.replace("_", " ")}</th>' for n in names)
        body = "".join(
            f"<tr><th>{escape(f)}</th>{''.join(f'<td>{s[n]}</td>' for n in names)}</tr>"
            for f, s in self.factors.items()
        )
        rest = "".join(
            f"<li>{n.replace('_', ' ')}: {v} <small>{MEANING[n]}</small></li>"
            for n, v in self.scores.items()
        )
        return f"<table><tr><th>factor</th>{head}</tr>{body}</table><ul>{rest}</ul>"


def representation(codes: Any, factors: Any, *, bins: int = 10, seed: int = 0) -> Representation:
    """Score any array of features against factor columns; the grid may be incomplete.

    - codes: (rows, features) of an array or tensor; further axes are flattened
    - factors: one column per factor: a mapping, dataframe, array or `Table`. Columns of many
      unevenly spaced numbers, or of numbers that hardly repeat, are continuous
    - bins: number of bins of a continuous factor, for scores that need levels
    - seed: of folds, halves and forests

    No score depends on the units of codes or factors, on the names of levels, or on the order of
    rows, codes, factors and levels.

    >>> rng = np.random.default_rng(0)
    >>> z = np.array([(a, b) for a in range(4) for b in range(4)] * 8)
    >>> r = representation(z + 0.01 * rng.standard_normal(z.shape), {"a": z[:, 0], "b": z[:, 1]})
    >>> round(r.scores["additivity_held_out"].value, 2), round(r.factors["a"]["mig"].value, 2)
    (1.0, 1.0)
    """
    x = _matrix(codes)
    if not isinstance(bins, int) or bins < 2:
        raise Refused(f"representation() needs a whole number of bins >= 2; got bins={bins}.")
    source = z = read(factors, len(x), bins)
    if len(z.cells) < 4:
        raise Refused(
            f"The factors have {len(z.cells)} combinations; at least 4 are needed to hold some out."
        )
    rng = generator(seed)
    order = order_of(np.column_stack([x, *z.values.values()]), z.levels, z.shape)
    x, z = oriented(x[order.rows]), z.reordered(order)
    fold = z.folds(probes.FOLDS, rng)
    across = probes.out_of_fold(x, z, fold[z.cell])
    repeated = np.bincount(z.cell).max() > 1
    rows = rng.permutation(len(x)) % probes.FOLDS if repeated else np.full(len(x), -1)
    along = probes.out_of_fold(x, z, rows)
    odds = probes.level_scores(x, z, rng)
    group = rng.permutation(len(z.cells)) % GROUPS

    def measured(cells: NDArray[np.bool_]) -> dict[str, Any]:
        use = cells[z.cell]
        part, zs = x[use], z.take(use)
        mutual = d.information(part, zs)
        importance = d.importances(part, zs, np.random.default_rng(seed))
        of_codes, of_factors = d.dci(importance)
        modular, used = d.modularity(mutual), mutual.max(axis=1)
        informative = np.isfinite(modular) & (used > 0.01 * used.max(initial=0))
        overlap = geometry.overlaps(part, zs)
        others = ~np.eye(len(overlap), dtype=bool)
        additive, within = geometry.shares(part, zs)
        return {
            "decodability_held_out": probes.decodability(across[0][use], across[1][use], zs),
            "decodability_seen": probes.decodability(along[0][use], along[1][use], zs),
            "explicitness": probes.explicitness([s[use] for s in odds], zs),
            "mig": d.mig(mutual, zs),
            "sap": d.sap(part, zs, mutual, np.random.default_rng(seed)),
            "completeness": of_factors,
            "orthogonality": 1 - (overlap * others).sum(axis=1) / (len(overlap) - 1),
            "additivity": additive,
            "additivity_held_out": geometry.held_out_additivity(part, zs, fold[cells]),
            "within": within,
            "disentanglement": np.average(
                of_codes, weights=np.maximum(importance.sum(axis=1), 1e-300)
            ),
            "modularity": modular[informative].mean() if informative.any() else np.nan,
        }

    whole = measured(group >= 0)
    enough = len(z.cells) >= GROUPS
    parts = [measured(group != g) for g in range(GROUPS)] if enough else []
    estimates = {
        name: _jackknife(value, [part[name] for part in parts]) for name, value in whole.items()
    }
    single = {name: e[0] for name, e in estimates.items() if np.ndim(whole[name]) == 0}
    each = {name: e for name, e in estimates.items() if np.ndim(whole[name])}
    for name in PUBLISHED:
        single[name] = _jackknife(whole[name].mean(), [p[name].mean() for p in parts])[0]
    return Representation(
        len(x),
        x.shape[1],
        dict(zip(source.names, source.shape, strict=True)),
        len(z.cells),
        int((fold < 0).sum()),
        _dependence(z),
        single,
        {n: {k: v[z.names.index(n)] for k, v in each.items()} for n in source.names},
    )


def _jackknife(value: Array | float, parts: list[Any]) -> list[Estimate]:
    """Jackknife interval of each score, from its values without one group each."""
    values = np.atleast_1d(value)
    if not parts:
        return [Estimate(float(v), np.nan, np.nan) for v in values]
    left = np.stack([np.atleast_1d(p) for p in parts])
    g = len(left)
    sd = np.sqrt((g - 1) / g * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    half = student.ppf(0.5 + LEVEL / 2, g - 1) * sd
    return [
        Estimate(float(v), float(v - h), float(min(v + h, 1.0)))  # no score exceeds 1
        for v, h in zip(values, half, strict=True)
    ]


def _dependence(z: Factors) -> float:
    sizes = [float(d.entropy(np.bincount(z.levels[:, f]))) for f in range(len(z.shape))]
    pairs = [(a, b) for a in range(len(sizes)) for b in range(a)]
    return max(
        (max(d.dependence(z, a, b), 0.0) / max(min(sizes[a], sizes[b]), 1e-12) for a, b in pairs),
        default=0.0,
    )


def _matrix(codes: Any) -> Array:
    try:
        x = np.asarray(array_of(codes))
        precision = np.finfo(x.dtype if x.dtype.kind == "f" else np.float64).eps
        x = x if np.iscomplexobj(x) else x.astype(np.float64)
    except (TypeError, ValueError) as problem:
        raise Refused(f"The codes are not an array of numbers: {problem}") from problem
    if np.iscomplexobj(x):
        raise Refused("The codes are complex numbers; give real and imaginary parts as features.")
    if x.ndim < 1 or len(x) < 2:
        raise Refused(f"The codes have shape {x.shape}; give one row of features per example.")
    x = x.reshape(len(x), -1)
    check_finite(x, "The codes are", "; leave these out")
    if not np.ptp(x, axis=0).any():
        raise Refused("All rows of the codes are equal, so they cannot represent any factor.")
    return standardized(x, float(precision))


def _plain(e: Estimate) -> dict[str, float | None]:
    return {name: finite(value) for name, value in asdict(e).items()}
