"""What exact kernel models cost: group sums against Gram matrices, and how both grow."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from math import log
from statistics import median

import numpy as np
from sklearn.kernel_ridge import KernelRidge

from benchmarks.measure import Result, benchmark, interleave, ratio
from recombine.spaces.space import Array, Points
from recombine.theory.kernel import Kernel, random_network
from recombine.theory.solve import regress

DEPTH = 3  # ReLU layers of the kernel


def half(factors: int, levels: int, n: int | None = None) -> tuple[Points, Array]:
    """Draw half of a grid, or `n` points of it, and random targets."""
    rng = np.random.default_rng(0)
    size = levels**factors
    cells = rng.choice(size, n or size // 2, replace=False)
    z = np.stack(np.unravel_index(cells, (levels,) * factors), axis=1).astype(np.float64)
    return z, rng.normal(size=len(z))


def peak(piece: Callable[[], object]) -> float:
    """Gigabytes that a piece allocates at most, measured in a run of its own."""
    tracemalloc.start()
    piece()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found / 1e9


def growth(sizes: list[int], costs: list[float]) -> float:
    """Exponent of the power law through the first and the last cost."""
    return log(costs[-1] / costs[0]) / log(sizes[-1] / sizes[0])


def ridge(kernel: Kernel, z: Points, y: Array) -> None:
    """Fit as scikit-learn does."""
    KernelRidge(alpha=1e-12, kernel="precomputed").fit(kernel.gram(z, z), y)


@benchmark
def kernel_solve(rounds: int) -> Result:
    """Half of an m³ grid, ReLU-3 kernel: group sums against Cholesky factors and KernelRidge."""
    kernel = random_network("relu", DEPTH, 3)
    sizes = [2000, 4000, 6000]
    times: dict[str, list[float]] = {"groups": [], "dense": [], "sklearn": []}
    for n in sizes:
        z, y = half(3, round((2 * n) ** (1 / 3)), n)
        pieces: dict[str, Callable[[], object]] = {
            "groups": partial(regress, kernel, z, y, method="groups"),
            "dense": partial(regress, kernel, z, y, method="dense"),
            "sklearn": partial(ridge, kernel, z, y),
        }
        seconds = interleave(pieces, min(rounds, 2))
        for name, found in seconds.items():
            times[name].append(median(found))
    faster = [ratio(seconds, name, "groups") for name in ("dense", "sklearn")]
    memory = [peak(piece) for piece in pieces.values()]
    grown = [growth(sizes, found) for found in times.values()]
    return Result(
        "≥ 50 × at n = 6000",
        f"{faster[0]:.0f} × and {faster[1]:.0f} ×; {times['groups'][-1] * 1e3:.0f} ms, "
        f"{times['dense'][-1]:.1f} s, {times['sklearn'][-1]:.1f} s; "
        f"{memory[0] * 1e3:.0f} MB, {memory[1] * 1e3:.0f} MB, {memory[2] * 1e3:.0f} MB; "
        f"time ∝ n^{grown[0]:.1f}, n^{grown[1]:.1f}, n^{grown[2]:.1f}",
        min(faster) >= 50,
    )


@benchmark
def kernel_large(rounds: int) -> Result:
    """Group sums on half of an m⁴ grid (m = 16, 24, 38), ReLU-3 kernel: CPU time and memory."""
    kernel = random_network("relu", DEPTH, 4)
    said, sizes, times, memory, worst = [], [], [], 0.0, 0.0
    for levels in (16, 24, 38):
        z, y = half(4, levels)

        def solve(z: Points = z, y: Array = y) -> float:
            return regress(kernel, z, y, method="groups").residual

        sizes.append(len(z))
        times.append(median(interleave({"solve": solve}, min(rounds, 2))["solve"]))
        memory = peak(solve)
        worst = max(worst, solve())
        said.append(f"n = {len(z):,} {times[-1]:.1f} s")
    return Result(
        "< 60 s and < 4 GB at n = 10⁶",
        f"{', '.join(said)}; {memory:.2f} GB; time ∝ n^{growth(sizes, times):.2f}; "
        f"residual {worst:.0e}",
        times[-1] < 60 and memory < 4 and worst < 1e-8,
    )
