"""Certify a table: its coverage, and which combinations the measured ones determine, with proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import inf, lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

from recombine.core.error import Refused
from recombine.core.show import shown
from recombine.core.space import Mask
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.solve import System, solve
from recombine.tables.table import Table

WITNESS_ROWS = 4_000  # most measured combinations of the linear program for a witness
SECONDS = 2.0  # for that program; it takes minutes where thousands of combinations share few levels


class Late(Exception):
    """The search for a witness took too long."""


@dataclass(frozen=True)
class Coverage:
    """How many conjunctions of `strength` levels occur, as combinatorial testing counts them."""

    strength: int
    possible: int
    covered: int
    thin: int  # covered by only one measured combination

    @property
    def share(self) -> float:
        """Covered share."""
        return self.covered / self.possible


@dataclass(frozen=True)
class Witness:
    """A combination as a weighted sum of measured ones: Σ weight · value."""

    combination: tuple[str, ...]
    terms: tuple[tuple[Fraction, tuple[str, ...]], ...]

    def __str__(self) -> str:
        return self.text(str)

    def text(self, write: Callable[[str], str], width: float = inf) -> str:
        """Write the sum; beyond some width, one term per line.

        - write: a function that may shorten a level
        """
        first = f"({', '.join(map(write, self.combination))}) ="
        terms: list[str] = []
        for weight, cell in self.terms:
            sign = "- " if weight < 0 else "+ " if terms else ""
            size = "" if abs(weight) == 1 else f"{abs(weight)}·"
            terms.append(f"{sign}{size}({', '.join(map(write, cell))})")
        line = " ".join([first, *terms])
        return line if len(line) <= width else "\n    ".join([first, *terms])


@shown
@dataclass(frozen=True, eq=False)
class Certificate:
    """Which queries a table determines at one conjunction order, and with what margin."""

    table: Table
    order: int
    queries: Codes
    determined: Mask
    margin: Array  # noise amplification φᵀG⁺φ; nan where not determined
    system: System
    coverage: tuple[Coverage, ...]
    never: dict[str, tuple[str, ...]]  # levels that were never measured, by factor

    def __str__(self) -> str:
        count = f"{int(self.determined.sum()):,} of {len(self.queries):,} combinations"
        return f"Certificate(order {self.order}: {count} determined)"

    @property
    def proof(self) -> str:
        """How determination was decided."""
        return self.system.proof

    @cached_property
    def components(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Connected components of a two-factor table: levels linked by measured cells."""
        if len(self.table.shape) != 2:
            raise Refused("Connected components need a table with two factors.")
        (m, n), z = self.table.shape, self.table.cells.z
        edges = sparse.coo_array((np.ones(len(z)), (z[:, 0], m + z[:, 1])), shape=(m + n, m + n))
        count, label = connected_components(edges, directed=False)
        names = [f.labels for f in self.table.space.factors]
        return [
            (
                tuple(names[0][i] for i in np.flatnonzero(label[:m] == k)),
                tuple(names[1][i] for i in np.flatnonzero(label[m:] == k)),
            )
            for k in range(count)
        ]

    def witness(self, combination: Sequence[Any]) -> Witness | None:
        """Write a combination as a signed sum of few measured ones; `None` if none is found.

        The search ends after two seconds.
        """
        try:
            return self.search(combination)
        except Late:
            return None

    def search(self, combination: Sequence[Any]) -> Witness | None:
        """Find a witness as `witness` does; raise `Late` if the search takes too long."""
        (z,) = self.table.encode([combination], "The combination")
        terms = _corners(self.table, self.order, z) or _program(self, z)
        if terms is None:
            return None
        cells = self.table.decode(np.array([cell for _, cell in terms]))
        weights = [weight for weight, _ in terms]
        (name,) = self.table.decode(z[None])
        return Witness(name, tuple(zip(weights, cells, strict=True)))


def certify(
    table: Table, order: int = 1, wanted: Codes | None = None, *, seed: int = 0
) -> Certificate:
    """Decide which unmeasured (or wanted) combinations are determined.

    A combination is determined at order n if all sums over conjunctions of at most n factors that
    fit the measured combinations take the same value there.
    """
    factors = len(table.shape)
    if not isinstance(order, int | np.integer) or not 1 <= order <= factors:
        raise Refused(f"order must be 1 to {factors}, the number of factors; got order={order!r}.")
    cells = table.cells
    queries = table.unseen if wanted is None else np.asarray(wanted)
    system = solve(table.shape, order, cells.z, cells.weight, seed=seed)
    if table.listable and len(queries) > table.size // 16:
        at = tuple(queries.T)
        determined, margin = system.determined()[at], system.margins()[at]
    else:
        determined, margin = system.determined(queries), system.margins(queries)
    margin = np.where(determined, margin, np.nan)
    never = {
        name: tuple(f.labels[i] for i in np.setdiff1d(np.arange(f.levels or 0), cells.z[:, c]))
        for c, (name, f) in enumerate(zip(table.columns, table.space.factors, strict=True))
    }
    return Certificate(
        table,
        order,
        queries,
        determined,
        margin,
        system,
        tuple(covered(table, t) for t in range(1, min(factors, order + 1) + 1)),
        {name: levels for name, levels in never.items() if levels},
    )


def covered(table: Table, strength: int) -> Coverage:
    """Count the conjunctions of `strength` levels that occur."""
    shape, z = table.shape, table.cells.z
    possible = seen = thin = 0
    for subset in combinations(range(len(shape)), strength):
        sizes = [shape[c] for c in subset]
        at = np.ravel_multi_index(tuple(z[:, c] for c in subset), sizes)
        if prod(sizes) <= 1 << 24:
            counts = np.bincount(at, minlength=prod(sizes))
            counts = counts[counts > 0]
        else:
            counts = np.unique(at, return_counts=True)[1]
        possible += prod(sizes)
        seen += len(counts)
        thin += int((counts == 1).sum())
    return Coverage(strength, possible, seen, thin)


Term = tuple[Fraction, NDArray[Any]]


def _corners(table: Table, order: int, z: NDArray[Any]) -> list[Term] | None:
    """Find a cube over order + 1 factors whose other corners were all measured.

    Inclusion and exclusion over its corners is a witness: at order 1,
    y(a, b) = y(a', b) + y(a, b') - y(a', b').
    """
    if not table.listable:
        return None
    seen = np.zeros(table.size, dtype=bool)
    seen[table.index(table.cells.z)] = True
    seen = seen.reshape(table.shape)
    corners = list(product((False, True), repeat=order + 1))[1:]  # factors that differ from z
    for subset in combinations(range(len(table.shape)), order + 1):
        good = np.ones([table.shape[c] for c in subset], dtype=bool)
        for moved in corners:
            index: list[Any] = list(z)
            for c, free in zip(subset, moved, strict=True):
                index[c] = slice(None) if free else z[c]
            shape = [table.shape[c] if free else 1 for c, free in zip(subset, moved, strict=True)]
            good &= seen[tuple(index)].reshape(shape)
        for at, c in enumerate(subset):  # a corner differs from z in every factor of the subset
            good[(*[slice(None)] * at, z[c])] = False
        if good.any():
            other = np.unravel_index(int(good.argmax()), good.shape)
            terms = []
            for moved in corners:
                corner = z.copy()
                for c, free, level in zip(subset, moved, other, strict=True):
                    corner[c] = level if free else z[c]
                terms.append((Fraction((-1) ** (sum(moved) + 1)), corner))
            return terms
    return None


def _program(certificate: Certificate, z: NDArray[Any]) -> list[Term] | None:
    """Find the witness of least absolute weight by a linear program, and check it exactly."""
    cells, c = certificate.table.cells.z, certificate.system.conjunctions
    if len(cells) > WITNESS_ROWS or not certificate.system.determined(z[None])[0]:
        return None
    phi = c.matrix(cells).T
    goal = c.matrix(z[None]).toarray()[0]
    answer = linprog(
        np.ones(2 * len(cells)),
        A_eq=sparse.hstack([phi, -phi]),
        b_eq=goal,
        method="highs",
        options={"time_limit": SECONDS},
    )
    if answer.status == 1:
        raise Late
    if answer.x is None:
        return None
    weights = answer.x[: len(cells)] - answer.x[len(cells) :]
    used = np.flatnonzero(np.abs(weights) > 1e-9)
    exact = [Fraction(float(weights[i])).limit_denominator(1000) for i in used]
    common = lcm(*(w.denominator for w in exact))
    if common > 1 << 32:  # too large for exact sums of 64 bits, and for a reader
        return None
    whole = np.array([int(w * common) for w in exact], dtype=np.int64)
    if (phi[:, used].astype(np.int64) @ whole != common * goal.astype(np.int64)).any():
        return None
    order = sorted(range(len(used)), key=lambda i: -exact[i])
    return [(exact[i], cells[used[i]]) for i in order]
