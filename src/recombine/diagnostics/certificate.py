"""Certificates: how much of a composition's components a support determines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recombine.core.error import nearest
from recombine.core.sets import values
from recombine.core.show import shown
from recombine.core.space import Mask
from recombine.core.support import Support


@shown
@dataclass(frozen=True)
class Rank:
    """How much of one component at one value is determined by its partners."""

    component: str
    value: tuple[float, ...]
    partners: int
    width: int
    """Number of outputs of the component."""
    stack: int
    """Rank of the stacked Jacobians, which the proof needs."""
    sum: int
    """Rank of their sum, as in the paper; it can be lower, since Jacobians may cancel."""
    practical: int
    """Singular values of the stack that are above a hundredth of the median."""
    smallest: float
    """Smallest singular value of the stack."""
    lost: Mask
    """Mask of undetermined outputs, in the shape of the component's output."""

    @property
    def sufficient(self) -> bool:
        """Whether the component is determined."""
        return self.stack == self.width

    def __str__(self) -> str:
        return (
            f"{self.component} at {show(self.value)}: rank {self.stack} of {self.width} "
            f"(sum form {self.sum}, in practice {self.practical}) over {self.partners} "
            f"partner{'s' * (self.partners != 1)}, smallest singular value {self.smallest:.2g}"
        )


@dataclass(frozen=True)
class Repair:
    """The plane to add to the support that raises a component's rank most."""

    component: str
    anchor: tuple[tuple[str, tuple[float, ...]], ...]
    """Values of the other components on it."""
    before: int
    after: int
    """Worst rank without and with the plane."""
    width: int

    @property
    def support(self) -> Support:
        """The plane, to be added to a support with `|`."""
        return values(**{name: [row] for name, row in self.anchor})

    def __str__(self) -> str:
        where = ", ".join(f"{name} at {show(row)}" for name, row in self.anchor)
        full = "" if self.after == self.width else f", still {self.width - self.after} short"
        return (
            f"show {self.component} with {where}: worst rank {self.before} becomes "
            f"{self.after} of {self.width}{full}"
        )


@shown
@dataclass(frozen=True)
class Certificate:
    """Whether a support determines every component of a composition, and what it leaves open."""

    combine: str
    support: str
    ranks: dict[str, tuple[Rank, ...]]
    """For each component, the rank at each tested value."""
    repairs: dict[str, Repair | None]
    """For each undetermined component, the best plane to add; `None` if no candidate helps."""
    differentiable: bool | None = True
    """Whether the composition function is differentiable; `None` if unknown."""
    instead: str = ""

    @property
    def sufficient(self) -> bool:
        """Whether every component is determined at every tested value."""
        return all(r.sufficient for ranks in self.ranks.values() for r in ranks)

    @property
    def practical(self) -> bool:
        """Whether every direction is also strong enough to be learned from data."""
        return all(r.practical == r.width for ranks in self.ranks.values() for r in ranks)

    @property
    def weakness(self) -> str:
        """Where directions are weakest, in words; empty if all are strong enough to be learned."""
        ranks = [r for of_values in self.ranks.values() for r in of_values]
        weakest = min(ranks, key=lambda r: r.practical / r.width)
        if weakest.practical == weakest.width:
            return ""
        return (
            f"{weakest.component} at {show(weakest.value)} has rank {weakest.practical} of "
            f"{weakest.width} in practice: expect slow or failed learning there"
        )

    def worst(self, component: str) -> Rank:
        """Return the least determined value of a component."""
        if component not in self.ranks:
            raise nearest("component", component, self.ranks)
        return min(self.ranks[component], key=lambda r: (r.stack, r.practical, r.sum, r.smallest))

    def paper(self, component: str) -> int:
        """Return the worst rank of a component in the paper's form, the sum of Jacobians."""
        return min(r.sum for r in self.ranks[component])

    def lost(self, component: str) -> Mask:
        """Mark the outputs of a component that are undetermined at some value."""
        return np.asarray(np.logical_or.reduce([r.lost for r in self.ranks[component]]))

    def __str__(self) -> str:
        verdict = "sufficient" if self.sufficient else "not sufficient"
        lines = [f"{self.support} is {verdict} for {self.combine}."]
        if self.differentiable is False:
            other = f" Use {self.instead}." if self.instead else ""
            lines.append(
                f"{self.combine} is not differentiable; ranks are of its derivative where that "
                f"exists.{other}"
            )
        for name in self.ranks:
            worst = self.worst(name)
            lines.append(f"  {worst}")
            if not worst.sufficient:
                lines.append(f"    lost: {_where(worst.lost)}")
                repair = self.repairs.get(name)
                lines.append(f"    repair: {repair or 'no candidate plane raises the rank'}")
        if self.sufficient and not self.practical:
            lines.append(f"  Some directions are weak: {self.weakness}.")
        return "\n".join(lines)


def show(row: Sequence[float]) -> str:
    """Write a value as a number, or as numbers in parentheses."""
    text = ", ".join(f"{v:.4g}" for v in row)
    return text if len(row) == 1 else f"({text})"


def _where(lost: Mask) -> str:
    """Describe in words which outputs are undetermined."""
    count = f"{int(lost.sum())} of {lost.size} outputs"
    if lost.ndim == 1:
        return f"{count}, at {_some(np.flatnonzero(lost).tolist())}"
    at = np.argwhere(lost.any(axis=0))
    channels = np.flatnonzero(lost.reshape(len(lost), -1).any(axis=1)).tolist()
    if len(at) == lost[0].size:
        where = "all positions"
    elif at.shape[1] == 1:
        where = f"positions {_some(at[:, 0].tolist())}"
    else:
        where = f"{len(at)} of {lost[0].size} positions, rows {at[:, 0].min()} to {at[:, 0].max()}"
        where += f", columns {at[:, 1].min()} to {at[:, 1].max()}"
    return f"{count}, {where}, channels {_some(channels)}"


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
