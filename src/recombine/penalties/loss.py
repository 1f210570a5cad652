"""Losses: functions `(prediction, target) -> Tensor` that return one number, for `fit`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import softplus

from recombine.base.error import Refused

Loss = Callable[[Tensor, Tensor], Tensor]


def mse(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean squared error."""
    return (prediction - target).square().mean()


def sum_of_squares(
    prediction: Tensor, target: Tensor, *, weight: float = 1.0, outputs: int | None = None
) -> Tensor:
    """Squared error summed over outputs and averaged over examples, times `weight`.

    - outputs: how many outputs an example has, if `prediction` holds a random part of them; the
      mean over the part, times `outputs`, is an unbiased estimate of the sum

    >>> import torch
    >>> sum_of_squares(torch.zeros(2, 3, 4, 4), torch.ones(2, 3, 4, 4), weight=2.0)
    tensor(96.)
    >>> sum_of_squares(torch.zeros(2, 3, 4), torch.ones(2, 3, 4), weight=2.0, outputs=48)
    tensor(96.)
    """
    squares = (prediction - target).square().flatten(1)
    share = 1.0 if outputs is None else squares.shape[1] / outputs
    return weight / share * squares.sum(dim=1).mean()


def margin_cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of one output against targets of -1 and +1: mean log(1 + exp(-y f)).

    Its gradient never vanishes, so long training approaches the maximum margin.
    """
    return softplus(-target * prediction).mean()


ELEMENTWISE = (
    *(mse, sum_of_squares, margin_cross_entropy),
    *(functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss),
)
ELEMENTWISE_MODULES = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)


def check_shapes(loss: Loss, prediction: Tensor, target: Tensor) -> None:
    """Refuse shapes that an elementwise loss would broadcast, such as (n,) against (n, 1)."""
    function = loss.func if isinstance(loss, partial) else loss
    elementwise = function in ELEMENTWISE or isinstance(function, ELEMENTWISE_MODULES)
    if elementwise and prediction.ndim and len(prediction) != len(target):
        raise Refused(
            f"The model returned {len(prediction)} rows of outputs for {len(target)} inputs; it "
            "must return one row per input."
        )
    if elementwise and prediction.shape != target.shape:
        raise Refused(
            f"The model's outputs have shape {tuple(prediction.shape[1:])} per example, but the "
            f"targets have shape {tuple(target.shape[1:])}; build the model for this data."
        )
