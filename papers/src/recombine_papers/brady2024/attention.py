"""Brady et al. 2024: why a penalty on attention bounds derivatives with respect to slots."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from recombine.claims.claim import Evidence, claims, scores
from recombine.claims.experiment import Result, closed_form
from recombine.claims.record import Record
from recombine.claims.score import POSITIVE, Score


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
    from recombine_papers.brady2024.attention_training import attention as run

    return run(cfg)


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
