"""Plan what to measure next: to determine more, to lower the error, or to find a high target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtr

from recombine.core.error import Refused, nearest
from recombine.core.show import shown
from recombine.core.space import Mask
from recombine.tables.certify import Certificate
from recombine.tables.conjunctions import Array, Codes, conjunctions
from recombine.tables.exact import echelon, inverse_residues, random_prime, residue
from recombine.tables.forecast import Forecast
from recombine.tables.kernel import kernel, unpack
from recombine.tables.process import EXACT
from recombine.tables.referee import Judgement
from recombine.tables.solve import solve
from recombine.tables.standard import Frame, frame_of
from recombine.tables.table import Table

CANDIDATES = 1_500  # most combinations that are compared with each other
AHEAD = 1 << 24  # operations spent on looking one measurement ahead among tied picks
DRAWS = 8  # random plans for comparison
CHANCES = 500  # posterior draws for the expected best value
BARELY = 1.05  # least ratio to the gain of random plans that counts as a gain
# Shares of the variance in orders 0, 1 and 2, and noise, if there is no target to learn from.
DEFAULT = (0.1, 0.6, 0.3)
NOISE = 0.1

Objective = Literal["determined", "error", "best"]


@dataclass(frozen=True)
class Pick:
    """One combination to measure, the reason, and its expected gain."""

    combination: tuple[str, ...]
    reason: str
    gain: float


@shown
@dataclass(frozen=True, eq=False)
class Plan:
    """Combinations to measure next, in order, and their joint expected effect."""

    table: Table
    objective: Objective
    z: Codes
    at: tuple[int, ...]  # rows of `z` among the queries
    picks: tuple[Pick, ...]
    before: float
    after: float
    random: float  # `after` for as many random combinations
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def plan(
    certificate: Certificate,
    forecast: Forecast | None,
    budget: float,
    *,
    objective: str = "determined",
    cost: Array | None = None,
    forbidden: Mask | None = None,
    seed: int = 0,
) -> Plan:
    """Choose combinations among the queries.

    - objective: `determined` makes the most combinations determined at the certificate's order,
      `error` lowers the expected error, `best` searches for a high target
    - cost: of each query; 1 by default
    - forbidden: queries that cannot be measured
    """
    table, queries = certificate.table, certificate.queries
    price = np.ones(len(queries)) if cost is None else cost
    free = np.ones(len(queries), dtype=bool) if forbidden is None else ~forbidden
    free &= price <= budget
    if not free.any():
        raise Refused(
            "No combination can be measured: all are measured, forbidden or cost more than the "
            "budget. Raise the budget, or forbid less."
        )
    rng = np.random.default_rng(seed)
    frame = frame_of(certificate.table) if forecast is None else forecast.frame
    order = frame.sort(queries)[1]
    certificate, forecast = _standard(certificate, forecast, frame)
    if objective == "determined":
        result = _determine(certificate, budget, price[order], free[order], rng)
    elif objective == "error":
        result = _explore(certificate, forecast, budget, price[order], free[order], rng)
    elif forecast is None or forecast.kind != "number":
        raise Refused("The objective 'best' needs a numeric target; name its column with --target.")
    else:
        result = _exploit(forecast, budget, price[order], free[order], rng)
    at = order[list(result.at)]
    names = zip(result.picks, table.decode(queries[at]), strict=True)
    return replace(
        result,
        table=table,
        z=queries[at],
        at=tuple(at.tolist()),
        picks=tuple(replace(k, combination=name) for k, name in names),
    )


def _standard(
    certificate: Certificate, forecast: Forecast | None, frame: Frame
) -> tuple[Certificate, Forecast | None]:
    """Put a certificate and a forecast into standard order."""
    table, (codes, order) = frame.table(certificate.table), frame.sort(certificate.queries)
    certificate = replace(
        certificate, table=table, queries=codes, determined=certificate.determined[order]
    )
    return certificate, None if forecast is None else forecast.standard


def check(budget: float, objective: str) -> None:
    """Refuse an invalid budget or objective."""
    number = isinstance(budget, int | float | np.number) and not isinstance(budget, bool)
    if not number or not 1 <= budget < np.inf:
        raise Refused(f"plan() needs budget >= 1; got budget={budget!r}.")
    if objective not in (*get_args(Objective), "auto"):
        raise nearest("objective", objective, (*get_args(Objective), "auto"))


def _determine(
    certificate: Certificate, budget: float, price: Array, free: Mask, rng: Generator
) -> Plan:
    """Greedily measure the combination that makes the most others determined.

    With N the null space of the measured combinations, a combination z has the vector Nᵀφ(z).
    Measuring it determines all combinations whose vectors are multiples of its vector. Ties are
    broken by the best next pick.
    """
    table, queries = certificate.table, certificate.queries
    undetermined = np.flatnonzero(~certificate.determined)
    if not len(undetermined):
        raise Refused(
            f"Every queried combination is determined at order {certificate.order} already; use a "
            "higher order, or the objective 'error'."
        )
    z, prime = table.cells.z, random_prime(rng)
    c = conjunctions(table.shape, certificate.order, z)
    few = len(z) <= c.width
    rows = c.matrix(z).toarray() if few else c.gram(z, rng.integers(1, prime, size=len(z)))
    form = echelon(rows, prime)
    width = min(len(form.free), int(budget) + 4)
    null = form.null(rng.integers(prime, size=(len(form.free), width)))
    z, cost = queries[undetermined], price[undetermined]
    a = np.stack([c.sums_at(z, v, prime) for v in null.T], axis=1).astype(np.float64)
    keys = rng.integers(1, prime, size=(2, a.shape[1])).astype(np.float64)
    remaining, chosen, counts = np.ones(len(undetermined), dtype=bool), [], []
    left = float(budget)
    before = int(certificate.determined.sum())
    while left > 0:
        useful = remaining & free[undetermined] & (cost <= left)
        if not useful.any():
            break
        key = _direction(a, prime, keys)
        rows = np.where(remaining, key, -1)
        _, at, sizes = np.unique(rows, return_inverse=True, return_counts=True)
        worth = np.where(useful, sizes[at.ravel()] / cost, -1.0)
        ties = rng.permutation(np.flatnonzero(worth == worth.max())).tolist()
        tried = ties[: max(1, AHEAD // a.size)] if left > cost[ties[0]] else ties[:1]
        ahead = [
            _largest(_eliminate(a, t, prime), remaining & (key != key[t]), prime, keys)
            for t in tried
        ]
        pick = tried[int(np.argmax(ahead))]
        decided = remaining & (key == key[pick])
        chosen.append(undetermined[pick])
        counts.append(int(decided.sum()))
        left -= cost[pick]
        remaining &= ~decided
        a = _eliminate(a, pick, prime)
    if not chosen:
        raise Refused(
            "No combination that is not determined can be measured within the budget; raise the "
            "budget, or forbid less."
        )
    reasons = [
        f"with it {count} combinations become determined at order {certificate.order}"
        if count > 1
        else "it determines only itself, but later picks build on it"
        for count in counts
    ]
    after = before + sum(counts)
    random = _random_determined(certificate, len(chosen), free, rng)
    sentence = (
        f"{_measuring(len(chosen))} determines {after:,} of {len(queries):,} at order "
        f"{certificate.order}, up from {before:,}; as many random ones determine {random:,.0f} on "
        "average."
    )
    at = np.array(chosen)
    return _planned(certificate, "determined", at, reasons, counts, before, after, random, sentence)


def _measuring(count: int) -> str:
    return f"Measuring {count} combination{'s' * (count != 1)}"


def _planned(
    source: Certificate | Forecast,
    objective: Objective,
    at: NDArray[np.int64],
    reasons: Sequence[str],
    gains: Sequence[float] | Array,
    before: float,
    after: float,
    random: float,
    sentence: str,
) -> Plan:
    """Build a plan of some queries; it says if random measurements gain about as much."""
    table, z = source.table, source.queries[at]
    rows = zip(table.decode(z), reasons, map(float, gains), strict=True)
    sign = -1 if objective == "error" else 1  # an error is to fall
    if sign * (after - before) <= BARELY * sign * (random - before):
        sentence += " No gain over random measurement is to be expected."
    picks = tuple(Pick(*row) for row in rows)
    return Plan(table, objective, z, tuple(at.tolist()), picks, before, after, random, sentence)


def _direction(a: Array, prime: int, keys: Array) -> NDArray[np.int64]:
    """Hash each row up to scale: rows with the same key are multiples of each other."""
    first = (a != 0).argmax(axis=1)
    lead = a[np.arange(len(a)), first]
    unit = residue(a * inverse_residues(lead, prime)[:, None], prime)
    sums = [np.zeros(len(a)), np.zeros(len(a))]
    for column in range(a.shape[1]):
        for k in range(2):
            sums[k] = residue(sums[k] + unit[:, column] * keys[k, column], prime)
    return np.asarray(sums[0] * prime + sums[1], dtype=np.int64)


def _largest(a: Array, remaining: Mask, prime: int, keys: Array) -> int:
    """Most combinations that one more measurement would determine."""
    key = _direction(a, prime, keys)[remaining]
    return int(np.unique(key, return_counts=True)[1].max(initial=0))


def _eliminate(a: Array, pick: int, prime: int) -> Array:
    """Reduce every row by the row that was picked."""
    row = a[pick]
    column = int((row != 0).argmax())
    scale = residue(a[:, column] * pow(int(row[column]), -1, prime), prime)
    return residue(a - scale[:, None] * row, prime)


def _random_determined(certificate: Certificate, count: int, free: Mask, rng: Generator) -> float:
    """Mean number of combinations that random measurements determine."""
    table, queries = certificate.table, certificate.queries
    totals = []
    for _ in range(DRAWS // 2):
        new = queries[rng.permutation(np.flatnonzero(free))[:count]]
        z = np.concatenate([table.cells.z, new])
        system = solve(table.shape, certificate.order, z, np.ones(len(z)), margins=False)
        totals.append(int(system.determined(queries).sum()))
    return float(np.mean(totals))


def _covariance(table: Table, forecast: Forecast | None, z: Codes) -> tuple[Array, float]:
    """Standardized posterior covariance of combinations, and the variance of one measurement."""
    cells = table.cells
    if forecast is not None:
        p = forecast.referees[0].members.similarity
        kappas, variances, noise = unpack(p.shape, p.theta, p.places)
        scale = p.scale
    else:
        kappas = [np.eye(m) for m in table.shape]
        variances, noise, scale = np.array(DEFAULT[: len(table.shape) + 1]), NOISE, 1.0
    some = np.random.default_rng(0).permutation(len(cells))[:EXACT]
    k = kernel(cells.z[some], cells.z[some], kappas, variances)
    k[np.diag_indices(len(k))] += noise / cells.weight[some]
    across = kernel(cells.z[some], z, kappas, variances)
    inner = kernel(z, z, kappas, variances) - across.T @ np.linalg.solve(k, across)
    return scale**2 * inner, scale**2 * noise


def _explore(
    certificate: Certificate,
    forecast: Forecast | None,
    budget: float,
    price: Array,
    free: Mask,
    rng: Generator,
) -> Plan:
    """Greedily measure the combination that lowers the mean posterior variance most."""
    table, queries = certificate.table, certificate.queries
    few = np.sort(rng.permutation(len(queries))[:CANDIDATES])
    covariance, noise = _covariance(table, forecast, queries[few])
    size = 1.0 if forecast is None else abs(forecast.scales[0].size)
    before = float(np.sqrt(np.diag(covariance).mean()))

    def spend(score: Callable[[Array], Array]) -> tuple[list[int], list[float], float]:
        c, left, chosen, gains = covariance.copy(), float(budget), [], []
        ready = free[few].copy()
        while left > 0 and (possible := ready & (price[few] <= left)).any():
            worth = np.where(possible, score(c) / price[few], -np.inf)
            pick = int(worth.argmax())
            old = float(np.diag(c).mean())
            column = c[:, pick].copy()
            c -= np.outer(column, column) / (column[pick] + noise)
            chosen.append(pick)
            gains.append(old - float(np.diag(c).mean()))
            left -= price[few[pick]]
            ready[pick] = False
        return chosen, gains, float(np.sqrt(max(np.diag(c).mean(), 0.0)))

    chosen, gains, after = spend(lambda c: np.square(c).sum(axis=0) / (np.diag(c) + noise))
    random = float(np.mean([spend(lambda c: rng.random(len(c)))[2] for _ in range(DRAWS)]))
    reasons = [
        f"it lowers the expected squared error over all queried combinations by "
        f"{100 * gain / before**2:.2g} %"
        for gain in gains
    ]
    unit = "" if forecast is not None else " of the target's standard deviation"
    before, after, random = size * before, size * after, size * random
    gains = [size**2 * gain for gain in gains]
    sentence = (
        f"{_measuring(len(chosen))} lowers the expected error from {before:.4g} to "
        f"{after:.4g}{unit}; as many random ones lower it to {random:.4g}."
    )
    at = few[chosen]
    return _planned(certificate, "error", at, reasons, gains, before, after, random, sentence)


def _exploit(forecast: Forecast, budget: float, price: Array, free: Mask, rng: Generator) -> Plan:
    """Search for a high target by Thompson sampling: the highest combination of each draw.

    A draw is the referee's values plus errors of its scale, with the correlations of the
    similarity process.
    """
    table, queries = forecast.table, forecast.queries
    judgement = forecast.judgements[0]
    best = float(table.cells.y[:, 0].max())
    sd = judgement.scale * np.sqrt(np.square(judgement.ratios).mean())
    improvement = expected_improvement(judgement.value, sd, best)
    hopeful = np.where(free, judgement.value + sd, -np.inf)
    few = np.argsort(-hopeful, kind="stable")[: min(CANDIDATES, int(free.sum()))]
    covariance, _ = _covariance(table, forecast, queries[few])
    size = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    values, vectors = np.linalg.eigh(covariance / np.outer(size, size))
    root = vectors * np.sqrt(np.maximum(values, 0))
    left, chosen = float(budget), []
    ready = np.ones(len(few), dtype=bool)
    while left > 0 and (possible := ready & (price[few] <= left)).any():
        draw = judgement.value[few] + sd[few] * (root @ rng.normal(size=len(few)))
        worth = (draw - draw.min()) / price[few]
        pick = int(np.where(possible, worth, -np.inf).argmax())
        chosen.append(pick)
        left -= price[few[pick]]
        ready[pick] = False
    at = few[chosen]
    reasons = [
        f"expected value {v:.3g} (from {low:.3g} to {high:.3g}); the best so far is {best:.3g}"
        for v, low, high in zip(
            judgement.value[at], forecast.low[at], forecast.high[at], strict=True
        )
    ]
    drawn = _errors(judgement, at, rng.normal(size=(CHANCES, len(few))) @ root[chosen].T)
    after = float(np.maximum(judgement.value[at] + drawn, best).max(axis=1).mean())
    luck = np.stack([rng.choice(np.flatnonzero(free), len(at), False) for _ in range(CHANCES)])
    drawn = _errors(judgement, luck, rng.normal(size=luck.shape))
    random = float(np.maximum(judgement.value[luck] + drawn, best).max(axis=1).mean())
    sentence = (
        f"The best of {len(at)} new measurements is expected to reach {after:.3g}; the best so "
        f"far is {best:.3g}, and as many random measurements are expected to reach {random:.3g}."
    )
    gains = improvement[at]
    return _planned(forecast, "best", at, reasons, gains, best, after, random, sentence)


def _errors(judgement: Judgement, at: NDArray[np.int64], normal: Array) -> Array:
    """Turn standard normal draws into draws from the rehearsed error distribution."""
    ratio = np.quantile(judgement.ratios, np.abs(2 * ndtr(normal) - 1))
    return np.asarray(np.sign(normal) * judgement.scale[at] * ratio)


def expected_improvement(value: Array, sd: Array, best: float) -> Array:
    """Expected excess of a normal variable over `best`.

    >>> float(expected_improvement(np.array([1.0]), np.array([0.0]), 0.5)[0])
    0.5
    """
    away = value - best
    u = np.divide(away, sd, out=np.where(away > 0, 40.0, -40.0), where=sd > 0)
    density = np.exp(-np.square(np.clip(u, -40, 40)) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(away * ndtr(u) + sd * density)
