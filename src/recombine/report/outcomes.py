"""Outcomes: the symbol, style and wording of each verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from recombine.claims.outcome import FAILS, HOLDS, MISSING, OPEN


@dataclass(frozen=True)
class Look:
    """How an outcome is displayed, and its wording for one claim and for many."""

    symbol: str
    kind: str
    one: str
    many: str
    color: str  # on a terminal


LOOKS = {
    HOLDS: Look("✓", "holds", "holds", "hold", "green"),
    FAILS: Look("✕", "fails", "does not hold", "do not hold", "red"),
    OPEN: Look("≈", "open", "inconclusive", "inconclusive", "yellow"),
    MISSING: Look("–", "missing", "without enough data", "without enough data", "bright_black"),
}


@dataclass(frozen=True)
class Count:
    """The number of claims with one outcome."""

    look: Look
    n: int

    def __str__(self) -> str:
        return f"{self.n} {self.words}"

    @property
    def words(self) -> str:
        """The outcome in words, singular or plural."""
        return self.look.one if self.n == 1 else self.look.many


def tally(outcomes: Sequence[str]) -> list[Count]:
    """Count outcomes, in the order of `LOOKS`.

    >>> ", ".join(map(str, tally(["does not hold", "holds", "inconclusive", "holds"])))
    '2 hold, 1 does not hold, 1 inconclusive'
    """
    return [Count(look, n) for name, look in LOOKS.items() if (n := outcomes.count(name))]
