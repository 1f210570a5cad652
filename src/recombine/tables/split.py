"""Split a table into training and test combinations whose difficulty is known and certified."""

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
from recombine.tables.table import Table, generator

ROWS = 3_000  # combinations up to which they are removed one by one
STEPWISE = 2 * 10**9  # and operations that it may take
LACKING = "proven: each contains a conjunction of that many levels that training lacks"
ROUNDS = 20  # rounds of removing many and putting back those with too large a margin


@shown
@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows with the certificate of what training determines about test."""

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
        """What the training combinations determine about the test combinations."""
        return certify(self.train, self.order, self.test.cells.z)

    @cached_property
    def lacks(self) -> Mask:
        """Test combinations with a conjunction of `order` levels that training has nowhere."""
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
                "held out so."
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
    - undetermined: instead, hold out whole conjunctions of this many levels, so that no sum over
      conjunctions of that order is determined there, though every level is trained on
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
        raise Refused("A level that is held out altogether cannot be recombined; use order 2.")
    wanted = round(share * len(cells))
    if not 0 < wanted < len(cells):
        raise Refused(
            f"A share of {share} of {len(cells)} measured combinations leaves no test or no "
            "training combination; change the share."
        )
    rng = generator(seed)
    if undetermined is not None:
        gone = _conjunctions_out(table, undetermined, wanted, rng)
        kind = f"Undetermined at order {undetermined}"
    else:
        gone = _determined_out(table, order, wanted, margin, rng)
        kind = f"Determined at order {order}"
    if not gone.any() and undetermined is not None:
        raise Refused(
            f"No conjunction of {undetermined} levels can be held out such that every level is "
            f"trained on and no more than a share of {share:g} is tested. Raise the share."
        )
    if not gone.any():
        raise Refused(
            f"No combination can be held out so that it stays determined at order {order} with a "
            f"margin of {margin:g}. Use a lower order, a larger margin, or more data."
        )
    held_out = np.zeros(table.rows, dtype=bool)
    measured = np.flatnonzero(table.measured)
    held_out[measured] = gone[table.find(table.codes[measured])]
    return Split(table, held_out, int(order), kind, share)


def ladder(table: Table, share: float = 0.3, *, seed: int = 0) -> list[Split]:
    """Splits of growing difficulty: held-out conjunctions of all factors, down to pairs of levels.

    The first rung holds out single combinations; the last, every combination with certain pairs.
    """
    sizes = range(len(table.shape), 1, -1)
    return [split(table, share, undetermined=size, seed=seed) for size in sizes]


def _determined_out(table: Table, order: int, wanted: int, margin: float, rng: Generator) -> Mask:
    """Hold out combinations whose margins stay within the bound."""
    cells = table.cells
    c = conjunctions(table.shape, order, cells.z)
    if len(cells) <= ROWS and len(cells) * c.width**2 <= STEPWISE:
        return _one_by_one(c.matrix(cells.z).toarray(), cells.weight, wanted, margin, rng)
    return _many_at_once(table, order, wanted, margin, rng)


def _one_by_one(phi: Array, weight: Array, wanted: int, margin: float, rng: Generator) -> Mask:
    """Remove rows by rank-one downdates: a row of leverage h is left with the margin h / (1 - h).

    Each step removes, of a few random rows, the one that raises the margins least.
    """
    gram = (phi.T * weight) @ phi
    values, vectors = np.linalg.eigh(gram)
    good = values > values[-1] * len(gram) * np.finfo(np.float64).eps
    half = phi @ (vectors[:, good] / np.sqrt(values[good]))  # rows whose products are φᵀG⁺φ
    k = half @ half.T
    gone = np.zeros(len(phi), dtype=bool)
    order = rng.permutation(len(phi))
    for _ in range(3):  # a row that was too much at first may be so no longer
        for row in order:
            if gone.sum() >= wanted:
                return gone
            h = weight[row] * k[row, row]
            if gone[row] or h >= 1 - 1e-9:
                continue
            grown = np.diag(k) + weight[row] * np.square(k[row]) / (1 - h)
            gone[row] = True
            if grown[gone].max() > margin:
                gone[row] = False
                continue
            k += weight[row] * np.outer(k[row], k[row]) / (1 - h)
    return gone


def _many_at_once(table: Table, order: int, wanted: int, margin: float, rng: Generator) -> Mask:
    """Remove many random combinations, and put back those with too large a margin."""
    cells = table.cells
    gone = np.zeros(len(cells), dtype=bool)
    barred = np.zeros(len(cells), dtype=bool)
    measured = table.find(table.codes)
    for _ in range(ROUNDS):
        ready = np.flatnonzero(~gone & ~barred)
        gone[rng.permutation(ready)[: wanted - int(gone.sum())]] = True
        train = table.take(~gone[measured] & (measured >= 0))
        certificate = certify(train, order, cells.z[gone])
        bad = ~certificate.determined | (certificate.margin > margin)
        back = np.flatnonzero(gone)[bad]
        gone[back], barred[back] = False, True
        if not len(back) and gone.sum() >= wanted:
            break
        if not len(ready):
            break
    return gone


def _conjunctions_out(table: Table, size: int, wanted: int, rng: Generator) -> Mask:
    """Hold out all combinations that contain some conjunctions of `size` levels."""
    z, shape = table.cells.z, table.shape
    members, bounds = [], []
    for subset in combinations(range(len(shape)), size):
        at = np.ravel_multi_index(tuple(z[:, c] for c in subset), [shape[c] for c in subset])
        members.append(np.argsort(at, kind="stable"))
        bounds.append(np.cumsum([0, *np.unique(at, return_counts=True)[1]]))
    gone = np.zeros(len(z), dtype=bool)
    left = [np.bincount(z[:, c], minlength=m) for c, m in enumerate(shape)]  # rows of each level
    starts = np.cumsum([0, *(len(b) - 1 for b in bounds)])
    most, count = 1.05 * wanted + 1, 0
    for number in rng.permutation(starts[-1]):
        if count >= wanted:
            break
        which = int(np.searchsorted(starts, number, side="right")) - 1
        first, last = bounds[which][number - starts[which] :][:2]
        more = members[which][first:last]
        more = more[~gone[more]]
        fewer = [n - np.bincount(z[more, c], minlength=len(n)) for c, n in enumerate(left)]
        if count + len(more) <= most and all(
            ((f > 0) == (n > 0)).all() for f, n in zip(fewer, left, strict=True)
        ):
            gone[more], left, count = True, fewer, count + len(more)
    return gone
