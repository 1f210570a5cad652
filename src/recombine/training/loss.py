"""Losses: functions `(prediction, target) -> Tensor` of one number, for `fit`."""

from torch import Tensor
from torch.nn.functional import softplus


def margin_cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of one output against targets of -1 and +1: mean log(1 + exp(-y f)).

    Its gradient never vanishes, so that a long training nears the largest margin.
    """
    return softplus(-target * prediction).mean()
