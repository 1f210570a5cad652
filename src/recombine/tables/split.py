"""Split a table into training and test combinations of certified difficulty."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.random import Generator

from recombine.core.error import Refused
from recombine.core.show import shown
from recombine.core.space import Mask
from recombine.tables.certify import Certificate, certify
from recombine.tables.conjunctions import Array, conjunctions
from recombine.tables.standard import frame_of
from recombine.tables.table import Table, generator

ROWS = 3_000  # most combinations to remove one by one,
STEPWISE = 2 * 10**9  # and most operations for it
LACKING = "proven: each contains a conjunction of that many levels that training lacks"
ROUNDS = 20  # of removing many at once and putting back those with too large a margin


@shown
@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows, and a certificate of which test combinations are determined."""

    table: Table
    held_out: Mask  # rows of the table that are tested
    order: int
    kind: str
    wanted: float = 0.0  # the requested share

    @property
    def train(self) -> Table:
        """Training rows."""
        return self.table.take(~self.held_out)

    @property
    def test(self) -> Table:
        """Test rows."""
        return self.table.take(self.held_out)

    @property
    def share(self) -> float:
        """Share of the measured combinations that is tested."""
        return len(self.test.cells) / len(self.table.cells)

    @cached_property
    def certificate(self) -> Certificate:
        """Certificate of the test combinations, from the training combinations."""
        return certify(self.train, self.order, self.test.cells.z)

    @cached_property
    def lacks(self) -> Mask:
        """Test combinations with a conjunction of `order` levels that never occurs in training."""
        train, test = self.train.cells.z, self.test.cells.z
        lacks, shape = np.zeros(len(test), dtype=bool), self.table.shape
        for subset in combinations(range(len(shape)), self.order):
            sizes = [shape[c] for c in subset]
            at, known = (
                np.ravel_multi_index(tuple(z[:, c] for c in subset), sizes) for z in (test, train)
            )
            lacks |= ~np.isin(at, known)
        return lacks

    @property
    def proof(self) -> str:
        """How determination was decided."""
        return LACKING if self.lacks.all() else self.certificate.proof

    @property
    def determined(self) -> float:
        """Share of the test combinations that training determines at the split's order."""
        return 0.0 if self.lacks.all() else float(self.certificate.determined.mean())

    @property
    def margin(self) -> float:
        """Largest noise amplification among the determined test combinations."""
        if self.lacks.all():
            return 0.0
        margins = self.certificate.margin[self.certificate.determined]
        return float(margins.max(initial=0.0))

    def __str__(self) -> str:
        margins = f", with margins up to {self.margin:.3g}" if self.determined else ""
        text = (
            f"{self.kind}: {len(self.test.cells):,} of {len(self.table.cells):,} combinations are "
            f"held out; {100 * self.determined:.0f} % of them are determined at order {self.order} "
            f"by the others{margins} ({self.proof})."
        )
        if self.share < self.wanted - 1 / len(self.table.cells):
            text += (
                f" That is {100 * self.share:.2g} %, not {100 * self.wanted:.2g} %: no more can be "
                "held out under this condition."
            )
        return text


def split(
    table: Table,
    share: float = 0.3,
    *,
    keep_determined: int | None = 1,
    undetermined: int | None = None,
    margin: float = 6.0,
    seed: int = 0,
) -> Split:
    """Hold out a share of the measured combinations.

    - keep_determined: every held-out combination stays determined at this conjunction order, with
      a noise amplification of at most `margin`
    - undetermined: instead, hold out whole conjunctions of this many levels: held-out combinations
      are not determined at that order, although every level occurs in training
    """
    if not isinstance(table, Table):
        raise Refused(f"split() takes a table that read() made; got {type(table).__name__}.")
    if not 0 < share < 1:
        raise Refused(f"split() needs a share between 0 and 1; got share={share}.")
    if not margin > 0:
        raise Refused(f"split() needs margin > 0; got margin={margin}.")
    factors, cells = len(table.shape), table.cells
    order = undetermined if undetermined is not None else keep_determined
    if not isinstance(order, int | np.integer) or not 1 <= order <= factors:
        raise Refused(f"split() needs an order from 1 to {factors}; got {order}.")
    if undetermined is not None and undetermined < 2:
        raise Refused("A level that is held out completely cannot be recombined; use order 2.")
    goal = round(share * len(cells))
    if not 0 < goal < len(cells):
        raise Refused(
            f"A share of {share} of {len(cells)} measured combinations leaves no test or no "
            "training combination; change the share."
        )
    rng, standard = generator(seed), frame_of(table).table(table)
    if undetermined is not None:
        kind = f"Undetermined at order {order}"
        removed = _conjunctions_out(standard, order, goal, rng)
        impossible = (
            f"No conjunction of {order} levels can be held out such that every level occurs in "
            f"training and at most a share of {share:g} is tested. Raise the share."
        )
    else:
        kind = f"Determined at order {order}"
        removed = _determined_out(standard, order, goal, margin, rng)
        impossible = (
            f"No combination can be held out such that it stays determined at order {order} with "
            f"a margin of {margin:g}. Use a lower order, a larger margin, or more data."
        )
    if not removed.any():
        raise Refused(impossible)
    held_out = np.zeros(table.rows, dtype=bool)
    measured = np.flatnonzero(table.measured)
    held_out[measured] = removed[standard.find(standard.codes[measured])]
    return Split(table, held_out, int(order), kind, share)


def ladder(table: Table, share: float = 0.3, *, seed: int = 0) -> list[Split]:
    """Splits of increasing difficulty: held-out conjunctions of all factors, down to pairs.

    The first split holds out single combinations; the last, all combinations with certain pairs.
    """
    sizes = range(len(table.shape), 1, -1)
    return [split(table, share, undetermined=size, seed=seed) for size in sizes]


def _determined_out(table: Table, order: int, goal: int, margin: float, rng: Generator) -> Mask:
    """Hold out combinations whose margins stay within the bound."""
    cells = table.cells
    c = conjunctions(table.shape, order, cells.z)
    if len(cells) <= ROWS and len(cells) * c.width**2 <= STEPWISE:
        return _one_by_one(c.matrix(cells.z).toarray(), cells.weight, goal, margin, rng)
    return _many_at_once(table, order, goal, margin, rng)


def _one_by_one(phi: Array, weight: Array, goal: int, margin: float, rng: Generator) -> Mask:
    """Remove rows in random order by rank-one downdates, if all margins stay within the bound.

    A removed row of leverage h has the margin h / (1 - h).
    """
    gram = (phi.T * weight) @ phi
    values, vectors = np.linalg.eigh(gram)
    good = values > values[-1] * len(gram) * np.finfo(np.float64).eps
    half = phi @ (vectors[:, good] / np.sqrt(values[good]))  # rows whose products are φᵀG⁺φ
    k = half @ half.T
    removed = np.zeros(len(phi), dtype=bool)
    order = rng.permutation(len(phi))
    for _ in range(3):  # a row that was refused may be possible in a later pass
        for row in order:
            if removed.sum() >= goal:
                return removed
            h = weight[row] * k[row, row]
            if removed[row] or h >= 1 - 1e-9:
                continue
            grown = np.diag(k) + weight[row] * np.square(k[row]) / (1 - h)
            removed[row] = True
            if grown[removed].max() > margin:
                removed[row] = False
                continue
            k += weight[row] * np.outer(k[row], k[row]) / (1 - h)
    return removed


def _many_at_once(table: Table, order: int, goal: int, margin: float, rng: Generator) -> Mask:
    """Remove many random combinations, and put back those with too large a margin."""
    cells = table.cells
    removed = np.zeros(len(cells), dtype=bool)
    excluded = np.zeros(len(cells), dtype=bool)
    measured = table.find(table.codes)
    for _ in range(ROUNDS):
        ready = np.flatnonzero(~removed & ~excluded)
        removed[rng.permutation(ready)[: goal - int(removed.sum())]] = True
        train = table.take(~removed[measured] & (measured >= 0))
        certificate = certify(train, order, cells.z[removed])
        bad = ~certificate.determined | (certificate.margin > margin)
        back = np.flatnonzero(removed)[bad]
        removed[back], excluded[back] = False, True
        if not len(back) and removed.sum() >= goal:
            break
        if not len(ready):
            break
    return removed


def _conjunctions_out(table: Table, size: int, goal: int, rng: Generator) -> Mask:
    """Hold out all combinations that contain some conjunctions of `size` levels."""
    z, shape = table.cells.z, table.shape
    members, bounds = [], []
    for subset in combinations(range(len(shape)), size):
        at = np.ravel_multi_index(tuple(z[:, c] for c in subset), [shape[c] for c in subset])
        members.append(np.argsort(at, kind="stable"))
        bounds.append(np.cumsum([0, *np.unique(at, return_counts=True)[1]]))
    removed = np.zeros(len(z), dtype=bool)
    left = [np.bincount(z[:, c], minlength=m) for c, m in enumerate(shape)]  # rows of each level
    starts = np.cumsum([0, *(len(b) - 1 for b in bounds)])
    most, count = 1.05 * goal + 1, 0
    for number in rng.permutation(starts[-1]):
        if count >= goal:
            break
        which = int(np.searchsorted(starts, number, side="right")) - 1
        first, last = bounds[which][number - starts[which] :][:2]
        more = members[which][first:last]
        more = more[~removed[more]]
        fewer = [n - np.bincount(z[more, c], minlength=len(n)) for c, n in enumerate(left)]
        if count + len(more) <= most and all(
            ((f > 0) == (n > 0)).all() for f, n in zip(fewer, left, strict=True)
        ):
            removed[more], left, count = True, fewer, count + len(more)
    return removed
