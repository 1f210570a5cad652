"""Brady et al. 2024: why a penalty on attention bounds derivatives with respect to slots."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from recombine.core.claim import Evidence, claims, scores
from recombine.core.experiment import Result, closed_form
from recombine.core.score import POSITIVE, Score
from recombine.runs.record import Record

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Attention:
    """One cross-attention from pixels to slots, with a softmax over slots."""

    slots: int = 5
    """Slots."""
    dim: int = 4
    """Numbers per slot."""
    width: int = 8
    """Numbers per query and per value."""
    pixels: int = 48
    """Queries."""
    points: int = 4
    """Sets of slots at which derivatives are taken."""


@closed_form(
    smoke={"pixels": 4, "points": 1},
    scores=[
        Score(
            "error", "largest error of the derivative's closed form", summary=True, within=POSITIVE
        ),
        Score(
            "error_second",
            "largest error of the second derivative's closed form",
            summary=True,
            within=POSITIVE,
        ),
        Score("over", "largest ratio of the product of two derivatives to its closed form"),
        Score("correlation", "of log second derivatives with log products of weights"),
    ],
)
def attention(cfg: Attention) -> Result:
    """Derivatives of attention with respect to slots, next to closed forms and to its weights."""
    import torch

    from recombine.maps.derivatives import jacobian, second

    rng = np.random.default_rng(0)
    key, value = (torch.as_tensor(rng.normal(size=(cfg.width, cfg.dim))) for _ in range(2))
    query = torch.as_tensor(rng.normal(size=(cfg.pixels, cfg.width)))
    z = torch.as_tensor(rng.normal(size=(cfg.points, cfg.slots * cfg.dim)))
    scale = cfg.width**-0.5

    def weights(slots: Tensor) -> Tensor:
        return torch.softmax(torch.einsum("pw,wd,nkd->npk", query, key, slots) * scale, dim=2)

    def read(z: Tensor) -> Tensor:
        slots = z.view(len(z), cfg.slots, cfg.dim)
        return weights(slots) @ (slots @ value.T)

    slots = z.unflatten(1, (cfg.slots, cfg.dim))
    a, output = weights(slots), read(z)  # (n, pixels, slots), (n, pixels, width)
    centered = (slots @ value.T)[:, None] - output[:, :, None]  # (n, pixels, slots, width)
    slope = value + centered[..., None] * (query @ key)[:, None, None] * scale
    jacobian_formula = a[..., None, None] * slope  # (n, pixels, slots, width, dim)
    shape = (cfg.points, cfg.pixels, cfg.width, cfg.slots, cfg.dim)
    jacobians = jacobian(read, z).reshape(shape).transpose(2, 3)
    hessian = second(read, z).reshape(*shape, cfg.slots, cfg.dim).permute(0, 1, 3, 5, 2, 4, 6)
    # by slots j and k: -a_j a_k (κ ⊗ slope_k + slope_j ⊗ κ), where κ is the scaled query @ key
    outer = torch.einsum("npkvd,pe->npkved", slope, (query @ key) * scale)
    symmetric = outer[:, :, None] + outer.mT[:, :, :, None]
    hessian_formula = -(a[..., :, None] * a[..., None, :])[..., None, None, None] * symmetric
    i, j = torch.triu_indices(cfg.slots, cfg.slots, 1)
    hessian_norms = hessian.square().sum(dim=(4, 5, 6)).sqrt()
    product = (a[..., i] * a[..., j]).flatten().log()
    norms = jacobians.square().sum(dim=(3, 4)).sqrt()
    bound = torch.linalg.matrix_norm(slope)
    over = norms[..., i] * norms[..., j] / (a[..., i] * a[..., j] * bound[..., i] * bound[..., j])
    logs = torch.stack([product, hessian_norms[..., i, j].flatten().log()])
    return Result(
        {
            "error": float((jacobians - jacobian_formula).abs().max()),
            "error_second": float((hessian - hessian_formula)[:, :, i, j].abs().max()),
            "over": float(over.max()),
            "correlation": float(torch.corrcoef(logs)[0, 1]),
        }
    )


add = claims("brady2024.attention", runs={"attention": {}})
closed = partial(add, below=1e-12, what="largest error of the closed form")

closed(
    name="attention_has_the_derivative_derived",
    sentence="The derivative of attention with respect to a slot is the slot's weight times a "
    "known matrix.",
    score="error",
    source="ours: a pilot gave 5e-15",
)
closed(
    name="attention_has_the_second_derivative_derived",
    sentence="The second derivative with respect to two slots is the product of their weights "
    "times a known matrix.",
    score="error_second",
    source="ours",
    oracle="the claim: added after the correlation had failed",
)


@add(below=1e-12, what="|product of derivatives / product of weights and norms - 1|", source="ours")
def products_of_weights_bound_order_0(records: Evidence[Record]) -> float:
    """The norms of two slots' derivatives multiply to their weights, times known factors."""
    return abs(float(scores(records, "over")[0]) - 1)


add(
    name="products_of_weights_follow_order_1",
    sentence="Second derivatives with respect to two slots follow the product of their weights.",
    score="correlation",
    above=0.95,
    what="correlation of the logarithms",
    source="ours: a pilot gave 0.996",
    reason=(
        "the matrix between the weights, known to 2e-15, varies over pixels and slots; "
        "no other size could be tried"
    ),
)
