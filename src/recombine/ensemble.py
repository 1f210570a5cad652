"""Many models of one architecture as one: stacked weights, a vectorized map, or a single model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from recombine.error import Refused, nearest
from recombine.penalty import Batch, Penalty

Loss = Callable[[Tensor, Tensor], Tensor]  # prediction, target -> one number

POINTWISE = (
    nn.ReLU,
    nn.LeakyReLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.GELU,
    nn.ELU,
    nn.SiLU,
    nn.Softplus,
    nn.Identity,
)
CONVOLUTIONS = nn.modules.conv._ConvNd
DROPOUTS = nn.modules.dropout._DropoutNd


def mse(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean squared error."""
    return (prediction - target).square().mean()


class Ensemble(ABC):
    """What the training loop needs of one model or of many: parameters, losses and a way out."""

    parameters: list[Tensor]

    @abstractmethod
    def losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Give each model's total loss and its data part, both of shape (models,)."""

    @abstractmethod
    def write(self, rows: Sequence[int]) -> None:
        """Copy the weights of some models back into their modules."""


class Objective(nn.Module):
    """A model with its loss and penalties: inputs and targets in, two numbers out."""

    def __init__(self, model: nn.Module, loss: Loss, penalties: Sequence[Penalty]) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.penalties = list(penalties)
        self.factors = [1.0] * len(self.penalties)  # set by the loop, step by step

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Add the penalties to the loss."""
        data = self.loss(self.model(x), y)
        total = data
        for factor, penalty in zip(self.factors, self.penalties, strict=True):
            total = total + factor * penalty(self.model, Batch(x, y))
        return total, data


@final
class Single(Ensemble):
    """One model; convolutions in channels-last order, which is faster on every CPU we measured."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        if any(isinstance(m, CONVOLUTIONS) for m in objective.modules()):
            objective.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.parameters = list(objective.model.parameters())

    def losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Call the model; `x` and `y` have a leading axis of one."""
        total, data = self.objective(x[0], y[0])
        return total[None], data[None]

    def write(self, rows: Sequence[int]) -> None:
        """Do nothing: the module trains in place."""


@final
class Stacked(Ensemble):
    """Chains of linear layers and pointwise functions, with one batched product a layer."""

    def __init__(self, models: Sequence[nn.Module], loss: Loss) -> None:
        self.chains = [chain(m) for m in models]
        self.loss = loss
        self.parameters = []
        for layers in zip(*self.chains, strict=True):
            if isinstance(layers[0], nn.Linear):
                weight = torch.stack([layer.weight.detach().T for layer in layers])
                self.parameters.append(weight.contiguous().requires_grad_())
                if layers[0].bias is not None:
                    bias = torch.stack([layer.bias.detach()[None] for layer in layers])
                    self.parameters.append(bias.requires_grad_())

    def losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Run (models, batch, …) through the chain."""
        given = iter(self.parameters)
        h = x
        for layer in self.chains[0]:
            if isinstance(layer, nn.Linear):
                weight = next(given)
                h = (
                    torch.bmm(h, weight)
                    if layer.bias is None
                    else torch.baddbmm(next(given), h, weight)
                )
            elif isinstance(layer, nn.Flatten):
                h = h.flatten(2)
            elif isinstance(layer, nn.Unflatten):
                h = h.unflatten(2, layer.unflattened_size)
            else:
                h = layer(h)
        if self.loss is mse:
            data = (h - y).square().flatten(1).mean(dim=1)
        else:
            data = vmap(self.loss)(h, y)
        return data, data

    def write(self, rows: Sequence[int]) -> None:
        """Copy rows of the stacks back."""
        with torch.no_grad():
            for row in rows:
                given = iter(self.parameters)
                for layer in self.chains[row]:
                    if isinstance(layer, nn.Linear):
                        layer.weight.copy_(next(given)[row].T)
                        if layer.bias is not None:
                            layer.bias.copy_(next(given)[row, 0])


@final
class Mapped(Ensemble):
    """Any module that `torch.func` can map, with stacked state."""

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self.objectives = objectives
        self.state, self.buffers = stack_module_state(list(objectives))
        self.parameters = list(self.state.values())
        self._call = vmap(self._one)

    def _one(self, state: dict[str, Any], buffers: dict[str, Any], x: Tensor, y: Tensor) -> Any:
        return functional_call(self.objectives[0], (state, buffers), (x, y))

    def losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Map the first objective over the stacked state."""
        total, data = self._call(self.state, self.buffers, x, y)
        return total, data

    def write(self, rows: Sequence[int]) -> None:
        """Copy rows of the stacks back."""
        with torch.no_grad():
            for row in rows:
                for name, parameter in self.objectives[row].named_parameters():
                    parameter.copy_(self.state[name][row])


def chain(model: nn.Module) -> list[nn.Module]:
    """Flatten nested `Sequential`s into their layers."""
    if type(model) is nn.Sequential:
        return [layer for part in model for layer in chain(part)]
    return [model]


def stackable(model: nn.Module) -> bool:
    """Tell whether `Stacked` knows every layer of the model."""
    return all(
        type(layer) in (nn.Linear, *POINTWISE)
        or (type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1))
        or (type(layer) is nn.Unflatten and layer.dim == 1)
        for layer in chain(model)
    )


def mappable(objectives: Sequence[Objective], x: Tensor, y: Tensor) -> bool:
    """Tell whether `torch.func` maps these with the same numbers as one after another.

    Random layers draw other numbers when mapped, convolutions become slow grouped ones, and
    buffers that a forward pass changes (batch norm) cannot be mapped at all.
    """
    for module in objectives[0].modules():
        if isinstance(module, (*(CONVOLUTIONS,), DROPOUTS)):
            return False
    if any(True for _ in objectives[0].buffers()) and any(
        isinstance(m, nn.modules.batchnorm._NormBase) for m in objectives[0].modules()
    ):
        return False
    try:
        trial = Mapped(objectives)
        total, _ = trial.losses(x, y)
        torch.autograd.grad(total.sum(), trial.parameters, allow_unused=True)
    except (RuntimeError, TypeError, ValueError):  # what torch.func raises for what it cannot map
        return False
    return True


def choose(name: str, objectives: Sequence[Objective], x: Tensor, y: Tensor) -> str:
    """Choose how to train: 'stack', 'map' or 'turn'; 'auto' takes the fastest that is exact."""
    if name not in ("auto", "stack", "map", "turn"):
        raise nearest("engine", name, ("auto", "stack", "map", "turn"))
    first = objectives[0]
    alike = len({str(o.model) for o in objectives}) == 1
    can_stack = alike and not first.penalties and stackable(first.model)
    if name == "stack" and not can_stack:
        raise Refused(
            "engine='stack' takes equal chains of Linear and pointwise layers without penalties; "
            f"{type(first.model).__name__} is not one. Use engine='auto'."
        )
    if name != "auto":
        return name
    if len(objectives) == 1 or not alike:
        return "turn"
    if can_stack:
        return "stack"
    return "map" if mappable(objectives, x, y) else "turn"
