"""Evaluate models of one architecture together: stacked weights, a vectorized map, or one model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.func import functional_call, stack_module_state, vmap

from recombine.base.error import Refused
from recombine.maps.chain import layers_of
from recombine.maps.noise import Noise
from recombine.maps.slots import Transparent
from recombine.penalties import Batch, Chained, ChainState, Penalty
from recombine.penalties.loss import Loss, mse

POINTWISE = (
    *(nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.ELU, nn.SiLU, nn.Softplus),
    nn.Identity,
)

# Outputs (models, batch, …); then the data loss and every unscaled penalty, each (models,).
Parts = tuple[Tensor, list[Tensor]]


class Objective(nn.Module):
    """A model with its loss and penalties: inputs and targets in, losses out."""

    def __init__(self, model: nn.Module, loss: Loss, penalties: Sequence[Penalty]) -> None:
        super().__init__()
        self.model = model
        self.functions = (loss,)  # a tuple, so that a loss that is a module is not a submodule
        self.penalties = list(penalties)
        self.factors = [1.0] * len(self.penalties)  # set by the loop, step by step

    @property
    def loss(self) -> Loss:
        """The loss function."""
        return self.functions[0]

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        *,
        draws: Mapping[str, Tensor] | None = None,
        apart: bool = False,
    ) -> tuple[Tensor, ...]:
        """Return the total and the data loss; if `apart`, outputs, data loss and each penalty.

        `draws` are the random numbers of a `Transparent` model's forward pass. If it decodes a
        part of the pixels, the loss sees the same part of the targets.
        """
        batch, target = Batch(x, y), y
        if isinstance(self.model, Transparent):
            work = self.model.run(x, draws)
            batch, outputs = Batch(x, y, work), work.drawn
            if work.pixels is not None:
                target = y.flatten(2).index_select(2, work.pixels)
        else:
            outputs = self.model(x)
        data = self.loss(outputs, target)
        if data.ndim:
            raise Refused(
                f"The loss must return one number; got a tensor of shape {tuple(data.shape)}. "
                "Average it, as in reduction='mean'."
            )
        if apart:
            return outputs, data, *(p(self.model, batch) for p in self.penalties)
        total = data
        for factor, penalty in zip(self.factors, self.penalties, strict=True):
            if factor:  # a penalty that has not begun costs nothing
                total = total + factor * penalty(self.model, batch)
        return total, data


class Ensemble(ABC):
    """Interface of the training loop to one model or many: parameters, losses, trained weights."""

    objectives: Sequence[Objective]
    parameters: list[Tensor]

    @abstractmethod
    def losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return each model's total loss and its data loss, both of shape (models,)."""

    @abstractmethod
    def of_model(self, values: Sequence[Tensor], row: int) -> list[Tensor]:
        """Slice one model's part of tensors shaped like `parameters`, in its modules' shapes."""

    def write(self, rows: Sequence[int]) -> None:
        """Copy the weights of some models back into their modules."""
        with torch.no_grad():
            for row in rows:
                values = self.of_model(self.parameters, row)
                model = self.objectives[row].model
                for parameter, value in zip(model.parameters(), values, strict=True):
                    if parameter is not value:
                        parameter.copy_(value)


@final
class Single(Ensemble):
    """One model; convolutions in channels-last order, which is faster on every CPU we measured."""

    def __init__(self, objective: Objective) -> None:
        self.objectives = [objective]
        self.parameters = list(objective.model.parameters())

    def __enter__(self) -> Single:
        self._order(torch.channels_last)
        return self

    def __exit__(self, *problem: object) -> None:
        self._order(torch.contiguous_format)

    def losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Call the model; `x` and `y` have a leading axis of one."""
        total, data = self.objectives[0](x[0], y[0])
        return total[None], data[None]

    def of_model(self, values: Sequence[Tensor], row: int) -> list[Tensor]:
        """Return the values: the module trains in place."""
        return list(values)

    def _order(self, order: torch.memory_format) -> None:
        # Torch 2.13 writes beyond its memory in the backward pass of a narrow strided 1×1
        # convolution in channels-last order, so such layers stay as they are.
        for module in self.objectives[0].model.modules():
            if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)) and (
                max(module.kernel_size) > 1 or max(module.stride) == 1
            ):
                module.to(memory_format=order)  # type: ignore[call-overload]


class Readout(Function):
    """Each model's mean squared error after a last linear layer, with few passes over memory.

    The residual is the only tensor as large as the targets: it lives in a buffer that every step
    reuses, and its scale enters the gradients through their smaller factor.
    """

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, y: Tensor, residual: Tensor
    ) -> Tensor:
        """Return (models,) errors of `h @ weight + bias` against `y`; overwrite `residual`."""
        torch.sub(bias, y, out=residual).baddbmm_(h, weight)
        ctx.save_for_backward(h, weight)
        ctx.residual, ctx.scale = residual, 1 / residual[0].numel()
        errors: Tensor = torch.linalg.vector_norm(residual, dim=2).square().sum(dim=1)
        return errors.mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of `h`, `weight` and `bias`."""
        h, weight = ctx.saved_tensors
        scale = 2 * ctx.scale * grad[:, None, None]
        needed = ctx.needs_input_grad
        to_h = ctx.residual.bmm(weight.mT) * scale if needed[0] else None
        to_weight = (h * scale).mT.bmm(ctx.residual) if needed[1] else None
        to_bias = ctx.residual.sum(dim=1, keepdim=True) * scale if needed[2] else None
        return to_h, to_weight, to_bias, None, None


@final
class Stacked(Ensemble):
    """Chains of linear layers, pointwise functions and noise; one batched product per layer.

    Each model draws its noise from its own generator, as it would alone; chain penalties read the
    activations of the same forward pass. Weights are cast to `dtype`, if given.
    """

    def __init__(
        self,
        objectives: Sequence[Objective],
        seeds: Sequence[int],
        dtype: torch.dtype | None = None,
    ) -> None:
        self.objectives = objectives
        models, self.loss = [o.model for o in objectives], objectives[0].loss
        device = next(models[0].parameters()).device
        self.generators = [torch.Generator(device).manual_seed(s) for s in seeds]
        self.parameters = []
        self.layers: list[tuple[nn.Module, list[Tensor]]] = []  # with their stacked weights
        for layers in zip(*map(layers_of, models), strict=True):
            stacks: list[Tensor] = []
            if isinstance(layers[0], nn.Linear):
                stacks = [_leaf(torch.stack([layer.weight.T for layer in layers]), dtype)]
                if layers[0].bias is not None:
                    biases = torch.stack([layer.bias[None] for layer in layers])
                    stacks.append(_leaf(biases, dtype))
            self.layers.append((layers[0], stacks))
            self.parameters += stacks
        self.residual = torch.empty(0)
        biased = [i for i, (_, stacks) in enumerate(self.layers) if len(stacks) == 2]
        last = max(biased, default=len(self.layers))
        after = [layer for layer, _ in self.layers[last + 1 :]]
        readout = self.loss is mse and all(isinstance(m, (nn.Flatten, nn.Unflatten)) for m in after)
        self.body = last if readout else len(self.layers)

    def losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Run (models, batch, …) through the chain and add the penalties."""
        data, _, chain = self._run(x, y)
        total, first = data, self.objectives[0]
        for factor, penalty in zip(first.factors, first.penalties, strict=True):
            if factor and isinstance(penalty, Chained):
                total = total + factor * penalty.weight * penalty.term(chain)
        return total, data

    def parts(self, x: Tensor, y: Tensor) -> Parts:
        """Run (models, batch, …) through the chain."""
        data, h, chain = self._run(x, y)
        if self.body < len(self.layers):
            h = self.residual + y.reshape(self.residual.shape)
        penalties = [p for p in self.objectives[0].penalties if isinstance(p, Chained)]
        return h, [data, *(p.weight * p.term(chain) for p in penalties)]

    def _run(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, ChainState]:
        """Return data losses, the last layer's values and the activations for the penalties."""
        h, inputs = x, []  # what each linear layer reads
        for layer, stacks in self.layers[: self.body]:
            if isinstance(layer, nn.Linear):
                inputs.append(h)
                h = h.bmm(stacks[0]) if len(stacks) == 1 else torch.baddbmm(stacks[1], h, stacks[0])
            elif isinstance(layer, nn.Flatten):
                h = h.flatten(2)
            elif isinstance(layer, nn.Unflatten):
                h = h.unflatten(2, layer.unflattened_size)
            elif isinstance(layer, Noise):
                h = layer.perturb(h, self._draw(h)) if layer.active else h
            else:
                h = layer(h)
        if self.body < len(self.layers):
            weight, bias = self.layers[self.body][1]
            inputs.append(h)
            shape = (*h.shape[:2], weight.shape[2])
            if self.residual.shape != shape:
                self.residual = weight.new_empty(shape)
            data = Readout.apply(  # type: ignore[no-untyped-call]
                h, weight, bias, y.reshape(shape), self.residual
            )
        elif self.loss is mse:
            data = (h - y).square().flatten(1).mean(dim=1)
        else:
            data = vmap(self.loss)(h, y)
        weights = [stacks[0] for _, stacks in self.layers if stacks]
        return data, h, ChainState(weights, inputs[1:])

    def _draw(self, h: Tensor) -> Tensor:
        """Draw standard normal numbers, each model from its own generator."""
        xi = torch.empty_like(h, requires_grad=False)
        for row, generator in zip(xi, self.generators, strict=True):
            row.normal_(generator=generator)
        return xi

    def of_model(self, values: Sequence[Tensor], row: int) -> list[Tensor]:
        """Turn rows of the stacks into weights (outputs, inputs) and biases (outputs,)."""
        rows = iter(values)
        return [
            next(rows)[row].T if i == 0 else next(rows)[row, 0]
            for _, stacks in self.layers
            for i in range(len(stacks))
        ]


@final
class Mapped(Ensemble):
    """Any module that `torch.func` can map, with stacked state, cast to `dtype` if given.

    Random numbers of a `Transparent` model come from its own generator, as in training alone;
    other models must not draw any.
    """

    def __init__(
        self,
        objectives: Sequence[Objective],
        seeds: Sequence[int],
        dtype: torch.dtype | None = None,
    ) -> None:
        self.objectives = objectives
        state, buffers = stack_module_state(list(objectives))
        # Linear layers are stacked as (models, inputs, outputs): the order of their gradients in
        # memory, which would otherwise be copied in every step.
        modules = objectives[0].named_modules()
        self.linear = {f"{name}.weight" for name, m in modules if isinstance(m, nn.Linear)}
        self.state = {
            name: _leaf(p.mT if name in self.linear else p, dtype) for name, p in state.items()
        }
        self.buffers = {name: cast(b, dtype) for name, b in buffers.items()}
        self.parameters = list(self.state.values())
        device = self.parameters[0].device
        self.generators = [torch.Generator(device).manual_seed(s) for s in seeds]

    def _call(self, x: Tensor, y: Tensor, apart: bool) -> Any:
        """Map the first objective over the stacked state."""

        def one(state: Any, buffers: Any, x: Tensor, y: Tensor, draws: Any) -> Any:
            options = {"draws": draws, "apart": apart}
            return functional_call(self.objectives[0], (state, buffers), (x, y), options)

        state = {name: p.mT if name in self.linear else p for name, p in self.state.items()}
        return vmap(one)(state, self.buffers, x, y, self._draws(x))

    def _draws(self, x: Tensor) -> dict[str, Tensor]:
        """Draw the random numbers of every model, each from its own generator."""
        model = self.objectives[0].model
        if not isinstance(model, Transparent):
            return {}
        draws = [model.draws(row, g) for row, g in zip(x, self.generators, strict=True)]
        return {name: torch.stack([each[name] for each in draws]) for name in draws[0]}

    def losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Map the first objective over the stacked state."""
        total, data = self._call(x, y, False)
        return total, data

    def parts(self, x: Tensor, y: Tensor) -> Parts:
        """Map the first objective over the stacked state."""
        outputs, *losses = self._call(x, y, True)
        return outputs, losses

    def of_model(self, values: Sequence[Tensor], row: int) -> list[Tensor]:
        """Take rows of the stacks, and turn those of linear layers."""
        rows = zip(self.state, values, strict=True)
        return [value[row].T if name in self.linear else value[row] for name, value in rows]


def cast(t: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Convert floating-point numbers; leave others, and everything if `dtype` is None."""
    return t.to(dtype) if dtype and t.is_floating_point() else t


def _leaf(stack: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Make a stack of weights a contiguous leaf, which trains if they did."""
    return cast(stack.detach(), dtype).contiguous().requires_grad_(stack.requires_grad)
