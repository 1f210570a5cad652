"""Networks of the lab: the data of a state, the model it names, its training and its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.claims.experiment import History
from recombine.lab.state import Net, State
from recombine.lab.theory import Truth, truth, visible
from recombine.lab.worlds import World
from recombine.maps.noise import Noise
from recombine.maps.seed import seeded
from recombine.measures.flow import flows, purity
from recombine.measures.modularity import matrices
from recombine.measures.observed import predict
from recombine.models.decoders import cnn, mlp, outer
from recombine.models.rendering import low_rank, pixel_transformer
from recombine.penalties import (
    Penalty,
    activity,
    chain_norm,
    rank_entropy,
    stripe_variance,
    weight_activity,
)
from recombine.spaces.space import Array
from recombine.tasks.bumps import striped_bumps
from recombine.tasks.task import Data, Task
from recombine.training.fit import cosine, fit
from recombine.training.watch import Moment, Watch


@dataclass(frozen=True)
class Problem:
    """A task, its training data, and all cells of the grid in order."""

    task: Task
    train: Data
    grid: Data
    shown: NDArray[np.bool_]  # (cells,)
    measured: NDArray[np.bool_]  # (cells,)
    truth: Truth
    shape: tuple[int, int]
    combine: str  # how a factored model composes its parts

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """Cells outside the training set that have a value, (cells,)."""
        return np.logical_and(~self.shown, self.measured)


def problem(world: World, state: State) -> Problem:
    """Build the data of a state; in the bump world, stripes are added to the training set."""
    shape, mask = world.shape(state.size), visible(world, state)
    if not mask.any():
        raise Refused("The training set is empty; paint some cells before training.")
    task = world.build(state.size)
    cells = task.space.points()
    train = task.data(cells[mask.ravel()])
    if state.net.stripes and world.name == "bumps":
        task = striped_bumps(state.size)
        n = state.size
        alone = [(float(i), float(n)) for i in range(n)] + [(float(n), float(i)) for i in range(n)]
        count = round(state.net.stripes * len(train))
        extra = np.resize(np.array(alone), (count, 2)) if count else np.empty((0, 2))
        train = task.data(np.concatenate([train.z, extra]))
    grid_ = task.data(cells)
    measured = np.ones(len(cells), bool) if world.measured is None else world.measured.ravel()
    true = truth(world, state.size)
    return Problem(task, train, grid_, mask.ravel(), measured, true, shape, world.combine)


def build(net: Net, p: Problem, seed: int) -> nn.Module:
    """Build the network that a state names, or refuse one that does not fit the world."""
    data = p.train
    image = data.y.ndim == 3
    if net.model in ("cnn", "transformer", "low_rank") and not image:
        raise Refused(f"The model {net.model} draws gray images; use mlp or factored here.")
    if net.model == "cnn":
        return cnn(data, channels=max(4, net.width // 8), depth=max(2, net.depth), seed=seed)
    if net.model == "transformer":
        width = max(8, net.width // 4 // 8 * 8)
        return pixel_transformer(
            data, width=width, depth=min(net.depth, 3), hidden=4 * width, dropout=0.0, seed=seed
        )
    if net.model == "low_rank":
        return low_rank(data, seed=seed)
    if net.model == "factored":
        return outer(data, seed=seed) if p.combine == "outer" else Factored(p, net.width, seed)
    model = mlp(data, width=net.width, depth=net.depth, seed=seed)
    if net.noise:
        return with_noise(model, net.noise, net.power)
    return model


def prepared(world: World, state: State) -> tuple[Problem, list[nn.Module]]:
    """Build the data of a state and its networks, one per seed; refuse a penalty that misfits."""
    p = problem(world, state)
    models = [build(state.net, p, seed) for seed in range(state.net.seeds)]
    penalties(state.net)
    return p, models


class Factored(nn.Module):
    """One network per factor; their outputs are added, or one is laid over the other."""

    def __init__(self, p: Problem, width: int, seed: int) -> None:
        super().__init__()
        shape, inputs = p.train.y.shape[1:], p.train.x.shape[1]
        self.first = inputs * p.shape[0] // sum(p.shape)  # inputs of the first factor
        self.combine = p.combine
        with seeded(seed):
            self.parts = nn.ModuleList(
                nn.Sequential(
                    nn.Linear(n, width),
                    nn.ReLU(),
                    nn.Linear(width, shape.numel()),
                    nn.Unflatten(1, tuple(shape)),
                )
                for n in (self.first, inputs - self.first)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Compose the outputs; the first part lies on top."""
        top, under = self.parts[0](x[:, : self.first]), self.parts[1](x[:, self.first :])
        image: Tensor = top + under
        return image - top * under if self.combine == "over" else image


def with_noise(model: nn.Module, amount: float, power: float) -> nn.Sequential:
    """Add noise after every hidden activation of a chain of layers."""
    layers: list[nn.Module] = []
    for layer in model.children():
        layers += [layer, Noise(amount, power)] if isinstance(layer, nn.ReLU) else [layer]
    return nn.Sequential(*layers)


def penalties(net: Net) -> list[Penalty]:
    """List the penalties of a state, or refuse one that does not fit the model."""
    if net.penalty == "none" or not net.strength:
        return []
    if net.penalty in ("stripes", "rank_and_stripes"):
        if net.model != "low_rank":
            raise Refused(f"The penalty {net.penalty} belongs to the model low_rank.")
        terms: list[Penalty] = [stripe_variance(net.strength)]
        return terms if net.penalty == "stripes" else [*terms, rank_entropy(10 * net.strength)]
    if net.model != "mlp":
        raise Refused(f"The penalty {net.penalty} belongs to the model mlp.")
    if net.penalty == "weights":
        return [chain_norm(net.strength)]
    return [activity(net.strength) if net.penalty == "activity" else weight_activity(net.strength)]


def run(
    p: Problem,
    models: list[nn.Module],
    net: Net,
    watch: Watch | None = None,
    seeds: int | Sequence[int] = 0,
) -> list[History]:
    """Fit some networks; `watch` is called after every step."""
    return fit(
        models,
        p.train,
        steps=net.steps,
        batch=min(net.batch, len(p.train)),
        lr=net.lr,
        penalties=penalties(net),
        schedule=cosine(),
        watch=watch,
        seed=seeds,
    )


def errors(p: Problem, models: Sequence[nn.Module]) -> Array:
    """Error of every model at every cell, where 1 is the error of a constant answer."""
    residuals = [(predict(m, p.grid.x) - p.grid.y).double().flatten(1) for m in models]
    return np.stack([r.square().mean(dim=1).cpu().numpy() for r in residuals]) / p.truth.scale


def measured(world: World, state: State) -> dict[str, float]:
    """Train as the page does and return its numbers: mean error on training and held-out cells."""
    p, models = prepared(world, state)
    run(p, models, state.net)
    error = errors(p, models)
    result = {"shown": float(error[:, p.shown].mean())}
    if p.held_out.any():
        result["held_out"] = float(error[:, p.held_out].mean())
    return result


def frame(p: Problem, models: Sequence[nn.Module], step: int, steps: int) -> dict[str, Any]:
    """Measure every cell; the models are in evaluation mode. Numbers are plain, for JSON."""
    maps = errors(p, models)
    return {
        "type": "frame",
        "step": step,
        "steps": steps,
        "shown": [_plain(m[p.shown].mean()) for m in maps],
        "held_out": [_plain(m[p.held_out].mean()) if p.held_out.any() else None for m in maps],
        "error": [[_plain(v) for v in row] for row in maps.mean(axis=0).reshape(p.shape)],
        **weights(p, models[0]),
    }


def _plain(value: float) -> float | None:
    """Round for JSON, which has no number that is not finite."""
    return round(float(value), 6) if np.isfinite(value) else None


def weights(p: Problem, model: nn.Module) -> dict[str, Any]:
    """Return the weights between hidden layers, sorted by the function that each unit serves."""
    x, y = p.grid.x, p.grid.y
    if y.ndim != 2 or x.shape[1] != y.shape[1]:
        return {}
    # Imported here so that training processes start sooner.
    try:
        flow = flows(model, x)
        share = float(np.mean([purity(f) for f in flow]))
    except Refused:  # not a chain of linear layers, or no signal is left
        return {}
    if len(flow) < 2 or not np.isfinite(share):
        return {}
    kinds = [modules(f) for f in flow[:2]]
    orders = [np.lexsort((-f.sum(axis=(1, 2)), k)) for f, k in zip(flow, kinds, strict=False)]
    matrix = np.abs(matrices(model)[1])[np.ix_(orders[0], orders[1])]
    return {
        "weights": np.round(matrix / (matrix.max() or 1.0), 3).tolist(),
        "modules": [kind[order].tolist() for kind, order in zip(kinds, orders, strict=True)],
        "purity": round(share, 4),
    }


def modules(flow: Array) -> NDArray[np.int64]:
    """Index of the function that each unit serves most; silent units get the next index."""
    each = np.diagonal(flow, axis1=1, axis2=2)  # (units, functions)
    total = flow.sum(axis=(1, 2))
    kinds: NDArray[np.int64] = each.argmax(axis=1)
    kinds[total < 0.01 * total.max()] = each.shape[1]
    return kinds


def record(world: World, state: State, count: int = 200) -> list[dict[str, Any]]:
    """Train as the page does and return some frames of it."""
    (p, models), net = prepared(world, state), state.net
    frames = [frame(p, models, 0, net.steps)]
    every = max(1, net.steps // count)

    def watch(moment: Moment) -> None:
        step = round(moment.share * moment.steps)
        if moment.step % every == 0 and step > frames[-1]["step"]:
            moment.fetch()
            frames.append(frame(p, models[: moment.rows[-1] + 1], step, moment.steps))

    run(p, models, net, watch)
    return frames
