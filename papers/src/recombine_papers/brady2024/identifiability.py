"""Whether slots are the true blocks of latents, up to their order and a function of each."""

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from recombine.base.error import Refused

ALPHA = 1e-2  # ridge, with kernel values up to 1


def slot_table(
    codes: Float[np.ndarray, "n slots d"], truth: Float[np.ndarray, "n blocks l"]
) -> Float[np.ndarray, "blocks slots"]:
    """R² of a Gaussian kernel ridge regression of each true block on each slot.

    Codes and latents are standardized; the regression is fitted on the first half of the points
    and scored on the second. R² is averaged over the latents of a block, with negative values
    counted as 0.
    """
    from sklearn.kernel_ridge import KernelRidge  # slow to import

    if len(codes) < 4 or len(codes) != len(truth):
        raise Refused(
            "slot_table() needs as many codes as true latents, 4 or more; got "
            f"{len(codes)} codes and {len(truth)} rows of latents."
        )
    if not (np.isfinite(codes).all() and np.isfinite(truth).all()):
        raise Refused("Some codes or latents are not finite; check the encoder at these points.")
    half = len(codes) // 2
    code, latents = _standardized(codes), _standardized(truth)
    spread = np.square(latents[half:] - latents[half:].mean(axis=0)).sum(axis=0)
    if constant := np.argwhere(spread <= 1e-12).tolist():
        block, latent = constant[0]
        raise Refused(
            f"Latent {latent} of block {block} is constant on the second half of the points, so it "
            "has no R²; vary it, shuffle the points, or leave it out."
        )
    table = np.empty((truth.shape[1], codes.shape[1]))
    for k in range(codes.shape[1]):
        ridge = KernelRidge(alpha=ALPHA, kernel="rbf", gamma=1 / codes.shape[2])
        ridge.fit(code[:half, k], latents[:half].reshape(half, -1))
        predicted = ridge.predict(code[half:, k]).reshape(latents[half:].shape)
        residual = np.square(predicted - latents[half:]).sum(axis=0)
        table[:, k] = np.maximum(1 - residual / spread, 0).mean(axis=1)
    return table


def slot_identifiability(table: Float[np.ndarray, "blocks slots"]) -> tuple[float, tuple[int, ...]]:
    """Score slots by a table of R², and assign a slot to each block.

    The score is the mean R² of blocks from their assigned slots less that from the other slots: 1
    if each slot contains all of one block and nothing of the others, 0 if slots do not differ.

    >>> slot_identifiability(np.array([[0.0, 0.75], [0.75, 0.25]]))
    (0.625, (1, 0))
    """
    blocks, slots = table.shape
    if not 2 <= blocks == slots:
        raise Refused(
            "slot_identifiability() needs as many slots as blocks, 2 or more; got "
            f"{blocks} blocks and {slots} slots."
        )
    if not np.isfinite(table).all():
        raise Refused("The table of R² is not finite; build it with slot_table().")
    rows, order = linear_sum_assignment(-table)
    assigned = np.zeros_like(table, dtype=bool)
    assigned[rows, order] = True
    return float(table[assigned].mean() - table[~assigned].mean()), tuple(map(int, order))


def _standardized(v: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
    scale = v.std(axis=0)
    return np.asarray((v - v.mean(axis=0)) / np.where(scale > 0, scale, 1))
