"""Whether slots are the true blocks of latents, up to their order and a function of each."""

from itertools import permutations

import numpy as np
from jaxtyping import Float
from sklearn.kernel_ridge import KernelRidge

from recombine.core.error import Refused

ALPHA = 1e-2  # ridge, with kernel values up to 1


def slot_table(
    found: Float[np.ndarray, "n slots d"], truth: Float[np.ndarray, "n blocks l"]
) -> Float[np.ndarray, "blocks slots"]:
    """How well each true block is read from each slot: R² of a Gaussian kernel ridge regression.

    It is fitted on the first half of the points and asked on the second, on standardized numbers;
    R² is a mean over the latents of a block, and counts as 0 where it is negative.
    """
    half = len(found) // 2
    if half < 2:
        raise Refused(f"{len(found)} points were given; give as many codes and points, 4 or more.")
    code, wanted = (_standard(v) for v in (found, truth))
    table = np.empty((truth.shape[1], found.shape[1]))
    for k in range(found.shape[1]):
        ridge = KernelRidge(alpha=ALPHA, kernel="rbf", gamma=1 / found.shape[2])
        ridge.fit(code[:half, k], wanted[:half].reshape(half, -1))
        told = ridge.predict(code[half:, k]).reshape(wanted[half:].shape)
        left = np.square(told - wanted[half:]).sum(axis=0)
        spread = np.square(wanted[half:] - wanted[half:].mean(axis=0)).sum(axis=0)
        table[:, k] = np.maximum(1 - left / spread, 0).mean(axis=1)
    return table


def slot_identifiability(
    table: Float[np.ndarray, "blocks slots"],
) -> tuple[float, tuple[int, ...]]:
    """Score slots by a table of R², and find the slot of each block.

    The score is the mean R² of blocks read from their own slots, less that from other slots: 1 if
    each slot tells all of one block and nothing of others, 0 if it tells as much of all.

    >>> slot_identifiability(np.array([[0.0, 0.75], [0.75, 0.25]]))
    (0.625, (1, 0))
    """
    blocks, slots = table.shape
    if not 2 <= blocks == slots:
        raise Refused(f"{blocks} blocks and {slots} slots were given; give as many, 2 or more.")
    rows = np.arange(blocks)
    best = max(permutations(range(blocks)), key=lambda order: table[rows, list(order)].sum())
    own = np.zeros_like(table, dtype=bool)
    own[rows, list(best)] = True
    return float(table[own].mean() - table[~own].mean()), best


def _standard(v: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
    scale = v.std(axis=0)
    return np.asarray((v - v.mean(axis=0)) / np.where(scale > 0, scale, 1))
