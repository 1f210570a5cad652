"""What a person's table costs: certificates, forecasts, and reading a file."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.measure import Result, benchmark
from recombine.tables.certify import certify
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.datasets import dataset
from recombine.tables.forecast import forecast
from recombine.tables.referee import fit_referee
from recombine.tables.table import Table, space_of

ROWS, FACTORS, LEVELS = 10**6, 6, 10


def random_table(rows: int, factors: int, levels: int, seed: int = 0) -> Table:
    """Rows of random levels with an additive target and noise."""
    return random_law(rows, factors, levels, seed)[0]


def random_law(
    rows: int, factors: int, levels: int, seed: int = 0, triple: float = 0.0
) -> tuple[Table, Callable[[Codes], Array]]:
    """A table and its law: a sum of levels, and a random term of three factors of some size."""
    rng = np.random.default_rng(seed)
    z: Codes = rng.integers(levels, size=(rows, factors))
    effects = [rng.normal(size=levels) for _ in range(factors)]
    term = triple * rng.normal(size=(levels,) * 3)

    def law(z: Codes) -> Array:
        return sum((e[z[:, c]] for c, e in enumerate(effects)), term[tuple(z[:, :3].T)])

    y = law(z) + 0.3 * rng.normal(size=rows)
    columns = tuple(f"f{c}" for c in range(factors))
    labels = [[f"level{k}" for k in range(levels)]] * factors
    return Table(space_of(columns, labels), z, y[:, None], None, columns, ("y",)), law


def seconds(piece: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    piece()
    return time.process_time() - start


def certify_seconds(rows: int, factors: int, levels: int, order: int = 2) -> float:
    """CPU seconds to certify a random table."""
    table = random_table(rows, factors, levels)
    return seconds(lambda: certify(table, order))


def exponent(sizes: list[float], times: list[float]) -> float:
    """Slope of time over size in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


@benchmark
def table_certify(rounds: int) -> Result:
    """Certify 10⁶ rows × 6 factors × 10 levels at order 2, codes in memory: CPU time and memory."""
    table = random_table(ROWS, FACTORS, LEVELS)
    took = seconds(lambda: certify(table, 2))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    by_rows = [certify_seconds(n, 6, 10) for n in (62_500, 250_000)]
    by_levels = [certify_seconds(100_000, 4, m) for m in (8, 16, 32)]
    by_factors = [certify_seconds(100_000, k, 5) for k in (4, 6, 8)]
    by_order = [certify_seconds(100_000, 6, 5, o) for o in (1, 2, 3)]
    text = (
        f"{took:.1f} s, {peak:.2f} GB with everything loaded; time ∝ rows^"
        f"{exponent([62_500, 250_000, ROWS], [*by_rows, took]):.1f}, levels^"
        f"{exponent([8, 16, 32], by_levels):.1f}, factors^{exponent([4, 6, 8], by_factors):.1f}, "
        f"order^{exponent([1, 2, 3], by_order):.1f} ({', '.join(f'{t:.2f}' for t in by_order)} s)"
    )
    return Result("< 5 s and < 1 GB", text, took < 5 and peak < 1)


@benchmark
def table_referee(rounds: int) -> Result:
    """The referee on 10⁶ rows × 6 factors × 10 levels, and on all other cells: CPU time and R²,
    beside a law with a random term of three factors.
    """
    took, r2 = [], []
    for triple in (0.0, 1.5):
        table, law = random_law(ROWS, FACTORS, LEVELS, triple=triple)
        start = time.process_time()
        referee = fit_referee(table.shape, table.cells, 0, table.unseen)
        value = referee.judge(table.unseen).value
        took.append(time.process_time() - start)
        truth = law(table.unseen)
        r2.append(1 - float(np.square(value - truth).mean() / truth.var()))
    terms = ("", "with a term of three factors ")
    parts = [f"{t}{s:.1f} s, R² {r:.3f}" for t, s, r in zip(terms, took, r2, strict=True)]
    return Result("< 20 s", "; ".join(parts), max(took) < 20)


@benchmark
def table_from_csv(rounds: int) -> Result:
    """The command certify on a CSV file of 10⁶ rows with level names, order 2: CPU time."""
    import polars

    from recombine.tables.read import read

    table = random_table(ROWS, FACTORS, LEVELS)
    names = np.array([f"level{k}" for k in range(LEVELS)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        columns = {n: names[table.codes[:, c]] for c, n in enumerate(table.columns)}
        y = table.y
        polars.DataFrame(columns | ({} if y is None else {"y": y[:, 0]})).write_csv(path)
        took = seconds(lambda: certify(read(path, target="y"), 2))
    return Result("< 15 s", f"{took:.1f} s", took < 15)


@benchmark
def table_gb1(rounds: int) -> Result:
    """Forecast all other variants from 20 % of GB1's, certified at order 2: CPU time and R²."""
    table = dataset("gb1").log(0.01)
    shown = np.random.default_rng(0).random(table.rows) < 0.2
    part, rest = table.take(shown), table.take(~shown).cells
    made = []

    def run() -> None:
        certify(part, 2, rest.z)
        made.append(forecast(part, rest.z, network=""))

    took = seconds(run)
    value, truth = made[0].value[:, 0], rest.y[:, 0]
    r2 = 1 - float(np.square(value - truth).mean() / truth.var())
    return Result("< 60 s", f"{took:.0f} s; R² {r2:.3f}", took < 60)
