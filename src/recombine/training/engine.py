"""Choose how to train models together: an engine is used only if it is exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from recombine.base.error import Refused, nearest
from recombine.maps.chain import layers_of
from recombine.maps.noise import Noise
from recombine.maps.seed import seeded
from recombine.penalties import Chained
from recombine.training.difference import difference, same
from recombine.training.ensemble import POINTWISE, Mapped, Objective, Stacked, cast

ENGINES = ("auto", "stack", "map", "turn")
CONVOLUTIONS = nn.modules.conv._ConvNd
PLAIN = (Tensor, nn.Parameter)  # tensor types that hold nothing but numbers
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

# Relative differences that count as rounding, in double precision and in the models' own.
TOLERANCES = {torch.float64: 1e-9, None: 1e-4}


def choose(name: str, objectives: Sequence[Objective], x: Tensor, y: Tensor) -> str:
    """Choose an engine: 'stack', 'map' or 'turn'; 'auto' takes the fastest that is exact.

    Engines are tested on `x` and `y`, one batch per model: (models, batch, …).
    """
    if name not in ENGINES:
        raise nearest("engine", name, ENGINES)
    first, penalties = objectives[0], objectives[0].penalties
    reason = _obstacle([o.model for o in objectives])

    def can_stack() -> bool:
        # Penalties read activations without noise, which a noisy stack does not compute.
        noisy = any(isinstance(m, Noise) for m in first.modules())
        stacks = [isinstance(p, Chained) and not (p.reads_activity and noisy) for p in penalties]
        return (
            not reason
            and all(stacks)
            and stackable(first.model)
            and exact(partial(Stacked, objectives, range(len(x))), objectives, x, y)
        )

    def can_map() -> bool:
        return not reason and exact(partial(Mapped, objectives, range(len(x))), objectives, x, y)

    if name == "stack" and not can_stack():
        raise Refused(
            "engine='stack' needs equal chains of Linear, pointwise and Noise layers, and only "
            f"chain penalties; {type(first.model).__name__} is not one{reason}. Use engine='auto'."
        )
    if name == "map" and not can_map():
        raise Refused(
            "engine='map' needs models that differ only in their weights and that torch.func can "
            "map: no internal randomness, no hooks, no state that a forward pass changes; "
            f"{type(first.model).__name__} is not one{reason}. Use engine='auto'."
        )
    if name != "auto":
        return name
    if can_stack():
        return "stack"
    # Mapped convolutions become grouped ones, which are slower than one model after another.
    slow = len(objectives) == 1 or any(isinstance(m, CONVOLUTIONS) for m in first.modules())
    return "map" if not slow and can_map() else "turn"


def stackable(model: nn.Module) -> bool:
    """Return whether `Stacked` knows every layer of the model, and no weight occurs twice."""
    layers = layers_of(model)
    weights = sum(len(list(layer.parameters())) for layer in layers)
    return weights == len(list(model.parameters())) and all(
        type(layer) in (nn.Linear, Noise, *POINTWISE)
        or (type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1))
        or (type(layer) is nn.Unflatten and layer.dim == 1)
        for layer in layers
    )


def exact(
    build: Callable[[torch.dtype | None], Stacked | Mapped],
    objectives: Sequence[Objective],
    x: Tensor,
    y: Tensor,
) -> bool:
    """Test on one batch whether an ensemble computes for every model what the model does alone.

    Outputs, the data loss, every penalty and the gradients of each are compared, in double
    precision where the models can run in it. An ensemble is not exact for models whose forward pass
    changes their state, that cannot be mapped (such as random layers), or that access their weights
    other than by name.
    """
    first, tolerance = objectives[0], TOLERANCES[None]
    try:
        if _stateful(first, x[0], y[0]):
            return False
        copied = _alone(first, x[0], y[0], None, 0)
        if not _agree(copied, _in_place(first, x[0], y[0]), tolerance=tolerance):
            return False
    except Exception:  # training will raise the same error
        return False
    for dtype, tolerance in TOLERANCES.items():
        try:
            inputs, targets = cast(x, dtype), cast(y, dtype)
            alone = [
                _alone(o, a, b, dtype, seed)
                for seed, (o, a, b) in enumerate(zip(objectives, inputs, targets, strict=True))
            ]
        except Exception:  # a model that cannot run in double precision
            continue
        try:
            together = _together(build(dtype), inputs, targets)
        except Exception:  # what torch.func cannot map
            return False
        return all(_agree(*pair, tolerance=tolerance) for pair in zip(together, alone, strict=True))
    return False


@dataclass(frozen=True)
class Trial:
    """Outputs of one model; its data loss and penalties; their gradients by parameter."""

    outputs: Tensor
    losses: list[Tensor]
    gradients: list[list[Tensor]]


def _alone(
    objective: Objective, x: Tensor, y: Tensor, dtype: torch.dtype | None, seed: int
) -> Trial:
    """Evaluate a model alone, on copies of its weights and buffers."""
    weights = {
        name: cast(p.detach().clone(), dtype).requires_grad_(p.requires_grad)
        for name, p in objective.named_parameters()
    }
    buffers = {name: cast(b.clone(), dtype) for name, b in objective.named_buffers()}
    with seeded(seed):  # a stack draws the same noise
        outputs, *losses = functional_call(objective, (weights, buffers), (x, y), {"apart": True})
    return Trial(outputs, losses, [_gradients(part, [*weights.values()]) for part in losses])


def _in_place(objective: Objective, x: Tensor, y: Tensor) -> Trial:
    """Evaluate a model as training in turn does."""
    with seeded(0):
        outputs, *losses = objective(x, y, apart=True)
    return Trial(outputs, losses, [_gradients(part, [*objective.parameters()]) for part in losses])


def _together(ensemble: Stacked | Mapped, x: Tensor, y: Tensor) -> list[Trial]:
    """Evaluate all models of an ensemble at once."""
    outputs, losses = ensemble.parts(x, y)
    gradients = [_gradients(part.sum(), ensemble.parameters) for part in losses]
    return [
        Trial(
            outputs[row],
            [part[row] for part in losses],
            [ensemble.of_model(grads, row) for grads in gradients],
        )
        for row in range(len(x))
    ]


def _gradients(loss: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """Differentiate by all parameters; frozen and unused ones have gradient zero."""
    trained = [p for p in parameters if p.requires_grad]
    grads: Sequence[Tensor | None] = [None] * len(trained)
    if loss.requires_grad:
        grads = torch.autograd.grad(loss, trained, retain_graph=True, allow_unused=True)
    known = {id(p): g for p, g in zip(trained, grads, strict=True) if g is not None}
    return [known.get(id(p), torch.zeros_like(p)) for p in parameters]


def _agree(a: Trial, b: Trial, *, tolerance: float) -> bool:
    """Return whether two trials agree up to rounding."""
    close = partial(_close, tolerance=tolerance)
    largest = [max(map(_largest, grads), default=0.0) for grads in b.gradients]
    return (
        close(a.outputs.flatten(), b.outputs.flatten())
        and all(map(close, a.losses, b.losses))
        and all(
            close(c, d, scale=scale)
            for scale, *grads in zip(largest, a.gradients, b.gradients, strict=True)
            for c, d in zip(*grads, strict=True)
        )
    )


def _stateful(objective: Objective, x: Tensor, y: Tensor) -> bool:
    """Return whether a forward pass changes something in the model, as batch norm does."""
    copy = Objective(deepcopy(objective.model), objective.loss, objective.penalties)
    with seeded(0):
        copy(x, y)
    buffers = zip(objective.model.buffers(), copy.model.buffers(), strict=True)
    return not all(same(a, b) for a, b in buffers) or bool(difference(objective.model, copy.model))


def _largest(t: Tensor) -> float:
    """Return the largest finite absolute value."""
    return float(t.detach().abs().nan_to_num(0.0, 0.0, 0.0).max()) if t.numel() else 0.0


def _close(a: Tensor, b: Tensor, *, tolerance: float, scale: float = 0.0) -> bool:
    """Compare relative to the largest entry, or to 1/1000 of `scale`, where entries cancel."""
    atol = tolerance * max(_largest(b), scale / 1000)
    return a.shape == b.shape and torch.allclose(
        a.detach(), b.detach(), rtol=tolerance, atol=atol, equal_nan=True
    )


def _obstacle(models: Sequence[nn.Module]) -> str:
    """Say why models cannot train side by side, whatever their layers; '' if they can."""
    first = models[0]
    # A module under two names comes out of `functional_call` with mapped weights.
    if len(list(first.modules())) < len(list(first.named_modules(remove_duplicate=False))):
        return ": one of its modules has two names"
    if any(getattr(m, hooks) for model in models for m in model.modules() for hooks in HOOKS):
        return ": it has hooks"
    if any(
        p._backward_hooks or p._post_accumulate_grad_hooks for m in models for p in m.parameters()
    ):
        return ": its parameters have hooks"
    plain = (t for m in models for t in (*m.parameters(), *m.buffers()) if type(t) in PLAIN)
    if any(set(vars(t)) - {"persistent", "_is_buffer"} for t in plain):
        return ": its weights carry attributes"
    for i, model in enumerate(models[1:], start=1):
        if attribute := difference(first, model):
            return f": models 0 and {i} differ in {attribute}"
    return ""
