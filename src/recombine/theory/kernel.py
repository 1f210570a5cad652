"""Kernels that depend only on which components two points share, as weights of conjunctions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, pi

import numpy as np

from recombine.base.error import Refused, nearest
from recombine.spaces.space import Array, Numbers, Points

Subset = tuple[int, ...]

DUST = 1e-14  # a weight below this share of the largest kernel value is rounding, hence zero
SLACK = 1e-12  # an eigenvalue above minus this share of the largest counts as not negative
COLLAPSED = 1e-12  # inputs closer than this cannot be told apart without losing digits
MOST = 16  # components: there are 2^C weights


def subsets(factors: int) -> list[Subset]:
    """List all sets of components, the small ones first.

    >>> subsets(2)
    [(), (0,), (1,), (0, 1)]
    """
    return [j for size in range(factors + 1) for j in combinations(range(factors), size)]


@dataclass(frozen=True)
class Kernel:
    """The kernel K(z, z') = Σ_J s_J [z_J = z'_J]: one weight, the salience, for each conjunction J.

    A conjunction is a set of components, counted from zero; `()` is the constant. Missing weights
    are zero. Weights are not normalized; `salience` is.
    """

    weights: Mapping[Subset, float]
    factors: int

    def __post_init__(self) -> None:
        if not 1 <= self.factors <= MOST:
            raise Refused(f"A kernel needs 1 to {MOST} components; got {self.factors}.")
        if unknown := set(self.weights) - set(subsets(self.factors)):
            raise Refused(
                f"Weights name {min(unknown)}, but conjunctions of {self.factors} components are "
                f"increasing tuples such as {subsets(self.factors)[-1]}. Count from zero."
            )
        if bad := [j for j, s in self.weights.items() if not np.isfinite(s)]:
            raise Refused(
                f"A kernel needs finite weights; conjunction {bad[0]} has {self.weights[bad[0]]}."
            )

    def weight(self, subset: Subset) -> float:
        """Salience of one conjunction; zero if it is not listed."""
        return float(self.weights.get(subset, 0.0))

    @property
    def memory(self) -> float:
        """Salience of the full conjunction, which only training points have."""
        return self.weight(tuple(range(self.factors)))

    def gram(self, a: Points, b: Points) -> Array:
        """Return the matrix of kernel values between two lists of points."""
        a, b = self.check(a), self.check(b)
        table = self._by_mask()
        k = np.empty((len(a), len(b)))
        rows = max(1, (1 << 22) // max(1, len(b)))  # blocks keep the temporaries in the cache
        for at in range(0, len(a), rows):
            part = a[at : at + rows]
            mask = np.zeros((len(part), len(b)), dtype=np.int32)
            for c in range(self.factors):
                mask |= np.equal.outer(part[:, c], b[:, c]).astype(np.int32) << c
            np.take(table, mask, out=k[at : at + rows])
        return k

    def overlap(self) -> Array:
        """Kernel value κ(k) of two points that share k components, for k = 0 … C."""
        s = self._by_size("A value for each number of shared components")
        return np.array([sum(comb(k, j) * s[j] for j in range(k + 1)) for k in range(len(s))])

    def salience(self) -> Array:
        """Normalized saliences S(1;C) … S(C;C); summed over all conjunctions they give one.

        >>> random_network("relu", 1, 2).salience().round(4)
        array([0.4264, 0.1472])
        """
        s = self._by_size("A salience for each size of conjunction")[1:]
        total = sum(comb(self.factors, k + 1) * v for k, v in enumerate(s))
        if total <= 0:
            raise Refused(
                "The kernel does not distinguish points: its saliences sum to "
                f"{total:g} and cannot be normalized. Give some conjunction a positive weight."
            )
        return np.asarray(s / total)

    def spectrum(self, levels: Sequence[int]) -> dict[Subset, float]:
        """Eigenvalues by subset of a complete grid; contrasts of a constant component are absent.

        λ_A = Σ_{J⊇A} s_J Π_{c∉J} m_c.
        """
        table = self._table()
        for c, m in enumerate(levels):
            table *= np.array([m, 1.0]).reshape([2 if a == c else 1 for a in range(self.factors)])
        for c in range(self.factors):
            table = np.flip(np.cumsum(np.flip(table, c), c), c)
        return {
            a: float(table[tuple(int(c in a) for c in range(self.factors))])
            for a in subsets(self.factors)
            if all(levels[c] > 1 for c in a)
        }

    def psd(self, levels: Sequence[int]) -> bool:
        """Return whether the Gram matrix of the complete grid has no negative eigenvalue."""
        eigenvalues = list(self.spectrum(levels).values())
        return min(eigenvalues) >= -SLACK * max(map(abs, eigenvalues))

    def check(self, z: Points, who: str = "The points") -> Points:
        """Return the points, or refuse them because they are not points of this kernel."""
        z = np.asarray(z, dtype=np.float64)
        if z.ndim != 2 or z.shape[1] != self.factors:
            raise Refused(
                f"{who} have shape {z.shape}, but the kernel compares {self.factors} components: "
                f"give an array of shape (n, {self.factors})."
            )
        if not np.isfinite(z).all():
            raise Refused(f"{who} need finite values; got nan or inf.")
        return z

    def _by_size(self, what: str) -> Array:
        """Weights by size of conjunction, or refuse because one size has several."""
        by_size = np.zeros(self.factors + 1)
        for j in subsets(self.factors):
            first = self.weight(tuple(range(len(j))))
            if abs(self.weight(j) - first) > SLACK * max(map(abs, self.weights.values())):
                raise Refused(
                    f"{what} needs weights that depend on the size of a conjunction only, but "
                    f"{j} weighs {self.weight(j):g} and {tuple(range(len(j)))} {first:g}."
                )
            by_size[len(j)] = first
        return by_size

    def _table(self) -> Array:
        """Weights as a table with one axis per component: 1 if it belongs to the conjunction."""
        table = np.zeros((2,) * self.factors)
        for j, s in self.weights.items():
            table[tuple(int(c in j) for c in range(self.factors))] = s
        return table

    def _by_mask(self) -> Array:
        """Kernel values by shared set, component c being bit c of the set's number."""
        table = self._table()
        for axis in range(self.factors):
            table = np.cumsum(table, axis=axis)
        return table.ravel(order="F")


def by_set(values: Mapping[Subset, float]) -> Kernel:
    """Build a kernel from its value for each *set* of shared components.

    >>> by_set({(): 0, (0,): 0.5, (1,): 0.25, (0, 1): 1}).weight((0, 1))
    0.25
    """
    factors = max((len(j) for j in values), default=0)
    sets = subsets(factors)
    if set(values) != set(sets):
        bad = min(set(values) ^ set(sets))
        raise Refused(
            f"A kernel of {factors} components needs one value for each of the {len(sets)} sets "
            f"of components; {bad} is {'not an increasing tuple' if bad in values else 'missing'}."
        )
    dust = DUST * max(abs(v) for v in values.values())
    weights: dict[Subset, float] = {}
    for j in sets:
        s = values[j] - sum(weights[i] for k in range(len(j)) for i in combinations(j, k))
        weights[j] = 0.0 if abs(s) <= dust * 2 ** len(j) else float(s)
    return Kernel(weights, factors)


def by_overlap(kappa: Numbers) -> Kernel:
    """Build a kernel from its value κ(k) for each *number* k = 0 … C of shared components.

    >>> by_overlap([0, 0.25, 1]).salience()
    array([0.25, 0.5 ])
    """
    if len(kappa) < 2:
        raise Refused(
            f"by_overlap() needs C + 1 values for C components, for 0 … C shared; got {len(kappa)}."
        )
    return by_set({j: float(kappa[len(j)]) for j in subsets(len(kappa) - 1)})


def by_salience(S: Numbers, constant: float = 0.0) -> Kernel:
    """Build a kernel from S(1;C) … S(C;C); the last may be left out, as the sum rule gives it.

    The rule is Σ_k C-over-k · S(k;C) = 1: two points that agree everywhere have κ(C) - κ(0) = 1.

    >>> by_salience([0.25]).weights
    {(): 0.0, (0,): 0.25, (1,): 0.25, (0, 1): 0.5}
    """
    s = [float(v) for v in S]
    if not s:
        raise Refused("by_salience() needs one salience or more; got none.")
    total = sum(comb(len(s), k + 1) * v for k, v in enumerate(s))
    if abs(total - 1) > 1e-9:
        last = 1 - sum(comb(len(s) + 1, k + 1) * v for k, v in enumerate(s))
        if last < -1e-9:
            raise Refused(
                f"Saliences {s} sum to {total:g} over the conjunctions of {len(s)} components, and "
                f"{1 - last:g} over those of {len(s) + 1} without the last; the sum must be 1, or "
                "at most 1 when the last one is left out."
            )
        s.append(0.0 if abs(last) < SLACK else last)
    weights = {j: s[len(j) - 1] if j else constant for j in subsets(len(s))}
    return Kernel(weights, len(s))


def _relu(x: Array) -> Array:
    """Arc-cosine kernel of degree one, one on the diagonal."""
    return np.asarray((np.sqrt(1 - x**2) + (pi - np.arccos(x)) * x) / pi)


def _quadratic(x: Array) -> Array:
    sine = np.sqrt(1 - x**2)
    return np.asarray(3 * sine * x + (pi - np.arccos(x)) * (1 + 2 * x**2))


def random_network(
    activation: str, depth: int, factors: int, *, leak: float = 0.1, a: float = 1.0
) -> Kernel:
    """Kernel of an infinitely wide random network on one-hot inputs, one on the diagonal.

    >>> random_network("relu", 1, 2).overlap().round(3)
    array([0.318, 0.609, 1.   ])

    - activation: step, relu, leaky, quadratic (rectified) or gaussian (exp(-a h²))
    - depth: hidden layers
    - factors: components of the input
    - leak: slope of leaky below zero
    - a: of gaussian

    Each layer maps the cosine of two inputs to that of two outputs (Lippl & Stachenfeld 2025,
    Prop. 4.1).
    """
    layer: dict[str, Callable[[Array], Array]] = {
        "step": lambda x: np.asarray(pi - np.arccos(x)),
        "relu": _relu,
        "leaky": lambda x: np.asarray((1 - leak) ** 2 * _relu(x) / 2 + leak * x),
        "quadratic": _quadratic,
        "gaussian": lambda x: np.asarray(((2 * a + 1) ** 2 - (2 * a * x) ** 2) ** -0.5),
    }
    if activation not in layer:
        raise nearest("activation", activation, layer)
    if depth < 0 or factors < 1:
        raise Refused(
            f"random_network() needs depth >= 0 and factors >= 1; got depth={depth} and "
            f"factors={factors}."
        )
    kappa = np.arange(factors + 1) / factors  # cosine of two concatenated one-hot codes
    for _ in range(depth):
        kappa = layer[activation](kappa)
        kappa = np.minimum(kappa / kappa[-1], 1.0)
    if 1 - kappa[0] < COLLAPSED:
        raise Refused(
            f"After {depth} {activation} layers the cosine of any two inputs is within "
            f"{1 - kappa[0]:.1g} of 1, too close for exact saliences. Use fewer layers."
        )
    return by_overlap(kappa)
