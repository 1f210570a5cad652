"""Many models of one architecture as one: stacked weights, a vectorized map, or a single model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.func import functional_call, stack_module_state, vmap

from recombine.core.error import Refused, nearest
from recombine.training.noise import Noise
from recombine.training.penalty import Batch, Chain, Chained, Penalty, layers_of

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
        if data.ndim:
            raise Refused(
                f"The loss gave a tensor of shape {tuple(data.shape)}, but one number is needed; "
                "average it, as in reduction='mean'."
            )
        total = data
        for factor, penalty in zip(self.factors, self.penalties, strict=True):
            if factor:  # one that has not begun costs nothing
                total = total + factor * penalty(self.model, Batch(x, y))
        return total, data


@final
class Single(Ensemble):
    """One model; convolutions in channels-last order, which is faster on every CPU we measured."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.parameters = list(objective.model.parameters())

    def __enter__(self) -> Single:
        self._order(torch.channels_last)
        return self

    def __exit__(self, *problem: object) -> None:
        self._order(torch.contiguous_format)

    def losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Call the model; `x` and `y` have a leading axis of one."""
        total, data = self.objective(x[0], y[0])
        return total[None], data[None]

    def write(self, rows: Sequence[int]) -> None:
        """Do nothing: the module trains in place."""

    def _order(self, order: torch.memory_format) -> None:
        # Torch 2.13 writes beyond its memory in the backward pass of a narrow strided 1×1
        # convolution in channels-last order, so such layers stay as they are.
        for module in self.objective.model.modules():
            if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)) and (
                max(module.kernel_size) > 1 or max(module.stride) == 1
            ):
                module.to(memory_format=order)  # type: ignore[call-overload]


class Readout(Function):
    """Each model's mean squared error after a last linear layer, with few passes over memory.

    The residual is the only tensor as large as the targets: it lives in a buffer that every step
    uses again, and its scale enters the gradients through their smaller factor.
    """

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, y: Tensor, residual: Tensor
    ) -> Tensor:
        """Give (models,) errors of `h @ weight + bias` against `y`; overwrite `residual`."""
        torch.sub(bias, y, out=residual).baddbmm_(h, weight)
        ctx.save_for_backward(h, weight)
        ctx.residual, ctx.scale = residual, 1 / residual[0].numel()
        errors: Tensor = torch.linalg.vector_norm(residual, dim=2).square().sum(dim=1)
        return errors.mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Give the gradients of `h`, `weight` and `bias`."""
        h, weight = ctx.saved_tensors
        scale = 2 * ctx.scale * grad[:, None, None]
        wanted = ctx.needs_input_grad
        to_h = ctx.residual.bmm(weight.mT) * scale if wanted[0] else None
        to_weight = (h * scale).mT.bmm(ctx.residual) if wanted[1] else None
        to_bias = ctx.residual.sum(dim=1, keepdim=True) * scale if wanted[2] else None
        return to_h, to_weight, to_bias, None, None


@final
class Stacked(Ensemble):
    """Chains of linear layers, pointwise functions and noise, with one batched product a layer.

    Each model draws its noise from a generator of its own, as it would alone; chained penalties
    read the activity on its way.
    """

    def __init__(self, objectives: Sequence[Objective], seeds: Sequence[int]) -> None:
        models, loss = [o.model for o in objectives], objectives[0].loss
        self.objective = objectives[0]
        self.chains = [layers_of(m) for m in models]
        self.loss = loss
        device = next(models[0].parameters()).device
        self.sources = [torch.Generator(device).manual_seed(s) for s in seeds]
        carried = [
            b for m in models if (b := dict(m.named_buffers()).get("coefficients")) is not None
        ]
        self.coefficients = torch.stack(carried) if len(carried) == len(models) else None
        self.parameters = []
        self.layers: list[tuple[nn.Module, list[Tensor]]] = []  # with their stacked weights
        for alike in zip(*self.chains, strict=True):
            held: list[Tensor] = []
            if isinstance(alike[0], nn.Linear):
                held = [_stack([layer.weight.T for layer in alike])]
                if alike[0].bias is not None:
                    held.append(_stack([layer.bias[None] for layer in alike]))
            self.layers.append((alike[0], held))
            self.parameters += held
        self.residual = torch.empty(0)
        last = max(
            (i for i, (_, held) in enumerate(self.layers) if len(held) == 2),
            default=len(self.layers),
        )
        reshaped = all(
            isinstance(m, (nn.Flatten, nn.Unflatten)) for m, _ in self.layers[last + 1 :]
        )
        self.body = last if loss is mse and reshaped else len(self.layers)

    def losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Run (models, batch, …) through the chain."""
        h, read = x, []
        for layer, held in self.layers[: self.body]:
            if isinstance(layer, nn.Linear):
                read.append(h)
                h = h.bmm(held[0]) if len(held) == 1 else torch.baddbmm(held[1], h, held[0])
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
            read.append(h)
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
        return self._penalized(data, read[1:]), data

    def _draw(self, h: Tensor) -> Tensor:
        """Draw standard normal numbers, each model its own."""
        xi = torch.empty_like(h, requires_grad=False)
        for row, source in zip(xi, self.sources, strict=True):
            row.normal_(generator=source)
        return xi

    def _penalized(self, data: Tensor, activities: list[Tensor]) -> Tensor:
        """Add the penalties, all models at once."""
        weights = [held[0] for _, held in self.layers if held]
        at_work, total = Chain(weights, activities, self.coefficients), data
        for factor, penalty in zip(self.objective.factors, self.objective.penalties, strict=True):
            if factor and isinstance(penalty, Chained):
                total = total + factor * penalty.weight * penalty.term(at_work)
        return total

    def write(self, rows: Sequence[int]) -> None:
        """Copy rows of the stacks back."""
        with torch.no_grad():
            for row in rows:
                for layer, (_, held) in zip(self.chains[row], self.layers, strict=True):
                    if isinstance(layer, nn.Linear):
                        layer.weight.copy_(held[0][row].T)
                        if layer.bias is not None:
                            layer.bias.copy_(held[1][row, 0])


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


def _stack(weights: Sequence[Tensor]) -> Tensor:
    """Stack weights into a new leaf that trains if they did."""
    stack = torch.stack([w.detach() for w in weights]).contiguous()
    return stack.requires_grad_(weights[0].requires_grad)


def stackable(model: nn.Module) -> bool:
    """Tell whether `Stacked` knows every layer of the model, and none occurs twice."""
    layers = layers_of(model)
    own = sum(len(list(layer.parameters())) for layer in layers)
    return own == len(list(model.parameters())) and all(
        type(layer) in (nn.Linear, Noise, *POINTWISE)
        or (type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1))
        or (type(layer) is nn.Unflatten and layer.dim == 1)
        for layer in layers
    )


def constant(objective: Objective, x: Tensor, y: Tensor) -> bool:
    """Tell whether a forward pass leaves the buffers as they are (batch norm does not)."""
    if not any(True for _ in objective.buffers()):
        return True
    trial = deepcopy(objective)
    trial(x, y)
    pairs = zip(objective.buffers(), trial.buffers(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def exact(
    build: Callable[[], Ensemble], objectives: Sequence[Objective], x: Tensor, y: Tensor
) -> bool:
    """Tell on a small batch whether an ensemble can train and gives each model its own loss.

    Random layers refuse to be mapped, and so does whatever else `torch.func` cannot do; models
    that differ in more than their weights give other losses.
    """
    try:
        if not constant(objectives[0], x[0], y[0]):
            return False
        trial = build()
        total, _ = trial.losses(x, y)
        trained = [p for p in trial.parameters if p.requires_grad]
        torch.autograd.grad(total.sum(), trained, allow_unused=True)
        with torch.no_grad():
            alone = []
            for i, (o, a, b) in enumerate(zip(objectives, x, y, strict=True)):
                with torch.random.fork_rng(devices=[]):  # the stack draws its noise alike
                    torch.manual_seed(i)
                    alone.append(o(a, b)[0])
    except (RuntimeError, TypeError, ValueError):  # what torch.func raises for what it cannot map
        return False
    return torch.allclose(total, torch.stack(alone), rtol=1e-3, atol=1e-6, equal_nan=True)


def choose(name: str, objectives: Sequence[Objective], x: Tensor, y: Tensor) -> str:
    """Choose how to train: 'stack', 'map' or 'turn'; 'auto' takes the fastest that is exact."""
    if name not in ("auto", "stack", "map", "turn"):
        raise nearest("engine", name, ("auto", "stack", "map", "turn"))
    first = objectives[0]
    alike = len({_outline(o.model) for o in objectives}) == 1 and not any(
        m._forward_hooks or m._forward_pre_hooks for o in objectives for m in o.modules()
    )

    # Penalties see activity without its noise, which a noisy stack does not hold.
    noisy = any(isinstance(m, Noise) for m in first.modules())

    def can_stack() -> bool:
        return (
            alike
            and all(isinstance(p, Chained) and not (p.walks and noisy) for p in first.penalties)
            and stackable(first.model)
            and exact(lambda: Stacked(objectives, range(len(objectives))), objectives, x, y)
        )

    def can_map() -> bool:
        # A module held under two names comes out of `functional_call` with mapped weights.
        once = len(list(first.modules())) == len(list(first.named_modules(remove_duplicate=False)))
        return alike and once and exact(lambda: Mapped(objectives), objectives, x, y)

    if name == "stack" and not can_stack():
        raise Refused(
            "engine='stack' takes equal chains of Linear, pointwise and Noise layers, with no "
            f"penalties but chained ones; {type(first.model).__name__} is not one. Use "
            "engine='auto'."
        )
    if name == "map" and not can_map():
        raise Refused(
            "engine='map' takes equal models that torch.func can map: no randomness, no hooks, no "
            f"buffers that change; {type(first.model).__name__} is not one. Use engine='auto'."
        )
    if name != "auto":
        return name
    if can_stack():
        return "stack"
    # Mapped convolutions become grouped ones, which are slower than one model after another.
    slow = len(objectives) == 1 or any(isinstance(m, CONVOLUTIONS) for m in first.modules())
    return "map" if not slow and can_map() else "turn"


def _outline(model: nn.Module) -> tuple[Any, ...]:
    """Describe all of a model but the values of its weights."""
    return str(model), *((n, p.shape, p.requires_grad) for n, p in model.named_parameters())
