"""Robustness of outputs to shifted inputs, noise, pruning and retraining of one output."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import OptimizeWarning, curve_fit
from torch import Tensor, nn

from recombine.core.diagnostic import predict
from recombine.core.error import Refused
from recombine.core.seed import seeded
from recombine.core.space import Array
from recombine.core.task import Data
from recombine.maps.chain import layers_of
from recombine.training.fit import fit
from recombine.training.noise import Noise
from recombine.training.penalties import run_chain


def _rows(data: Data) -> None:
    if data.x.ndim != 2 or data.y.ndim != 2 or not len(data):
        raise Refused(
            f"Inputs and targets need one row of numbers per example; got shapes "
            f"{tuple(data.x.shape)} and {tuple(data.y.shape)}."
        )


def errors(model: nn.Module, data: Data) -> Float[np.ndarray, " outputs"]:
    """Mean squared error of each output."""
    _rows(data)
    gaps = (predict(model, data.x) - data.y).double()
    return np.asarray(gaps.square().mean(dim=0).cpu().numpy())


def influence(
    model: nn.Module, x: Float[Tensor, "n inputs"], shift: float = 1.0
) -> Float[np.ndarray, "inputs outputs"]:
    """Root mean square change of each output when one input at a time is shifted."""
    before = predict(model, x)
    rows = []
    for i in range(x.shape[1]):
        moved = x.clone()
        moved[:, i] += shift
        change = (predict(model, moved) - before).double()
        rows.append(change.square().mean(dim=0).sqrt().cpu().numpy())
    return np.stack(rows)


def shift_errors(
    model: nn.Module, data: Data, *, offsets: Sequence[float] | None = None
) -> tuple[Array, Float[np.ndarray, "offsets outputs"]]:
    """Add offsets (default: 51 from 0.1 to 1000) to the first input; return them and all errors.

    Targets are those of the unshifted inputs: outputs that do not depend on the first input keep
    their error, and the error of its own output grows.
    """
    _rows(data)
    shifts = np.logspace(-1, 3, 51) if offsets is None else np.asarray(offsets, dtype=np.float64)
    errors_of_shift = []
    for offset in shifts.tolist():
        moved = data.x.clone()
        moved[:, 0] += offset
        errors_of_shift.append(errors(model, Data(data.z, moved, data.y)))
    return shifts, np.stack(errors_of_shift)


def noisy(model: nn.Module, noise: Noise) -> nn.Sequential:
    """Copy a chain of linear layers; this noise replaces any other on all hidden units."""
    run_chain(model)  # refuses a model that is not a chain
    layers: list[nn.Module] = []
    for layer in layers_of(model):
        if isinstance(layer, nn.Linear) and any(isinstance(m, nn.Linear) for m in layers):
            layers.append(Noise(noise.amount, noise.power, at_test=noise.at_test))
        if not isinstance(layer, Noise):
            layers.append(deepcopy(layer))
    return nn.Sequential(*layers)


def noise_curve(
    model: nn.Module, data: Data, amounts: Sequence[float], *, power: float = 1.0, seed: int = 0
) -> Float[np.ndarray, "amounts outputs"]:
    """Error of each output at each amount of noise on hidden units.

    All amounts use the same random numbers; the noise replaces any that the model was trained with.
    """
    errors_of_amount = []
    for amount in amounts:
        with seeded(seed):
            errors_of_amount.append(errors(noisy(model, Noise(amount, power, at_test=True)), data))
    return np.stack(errors_of_amount)


@dataclass(frozen=True)
class Cut:
    """The threshold log₁₀|w| between small and large weights, or None and the reason."""

    at: float | None
    reason: str = ""


def two_modes(weights: NDArray[Any]) -> Cut:
    """Fit two Gaussians to the histogram of log₁₀|w| (-5 to 0) and cut between their means.

    The cut is (μ₁/s₁ + μ₂/s₂)/(1/s₁ + 1/s₂), as in Qian et al. (2025). There is none if the fit
    fails, a mode is empty or outside the histogram, or the modes are closer than the sum of their
    widths: then the weights have one mode, and a cut would be arbitrary.
    """
    size = np.abs(np.asarray(weights, dtype=np.float64)).ravel()
    logs = np.log10(size[size > 0])
    counts, edges = np.histogram(logs, bins=50, range=(-5.0, 0.0))
    if counts.sum() < 8:
        return Cut(
            None, f"only {counts.sum()} weights lie between 1e-5 and 1; at least 8 are needed"
        )
    middle = (edges[1:] + edges[:-1]) / 2
    height = counts / counts.max()

    def hills(x: Array, a: float, m: float, s: float, b: float, n: float, t: float) -> Array:
        return np.asarray(
            a * np.exp(-((x - m) ** 2) / (2 * s**2)) + b * np.exp(-((x - n) ** 2) / (2 * t**2))
        )

    low, high = np.quantile(logs.clip(-5, 0), [0.2, 0.8])
    start = (0.5, low, 0.5, 0.5, max(high, low + 0.1), 0.5)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", OptimizeWarning)
            warnings.filterwarnings("ignore", "overflow", RuntimeWarning)  # of a covariance
            (a, m, s, b, n, t), _ = curve_fit(hills, middle, height, p0=start, maxfev=5000)
    except (RuntimeError, OptimizeWarning) as problem:
        return Cut(None, f"the fit of two modes failed: {str(problem).splitlines()[0]}")
    s, t = abs(s), abs(t)
    if min(a * s, b * t) < 0.01 * max(a * s, b * t):
        return Cut(None, "one of the two modes is empty")
    if not all(-5 <= mean <= 0 for mean in (m, n)):
        return Cut(None, "one of the two modes lies outside [1e-5, 1]")
    if abs(m - n) < s + t:
        return Cut(None, f"the modes are {abs(m - n):.2f} apart, less than the sum of their widths")
    return Cut(float((m / s + n / t) / (1 / s + 1 / t)))


@dataclass(frozen=True)
class Pruned:
    """A copy of a model without its small weights, and the threshold of each layer."""

    model: nn.Module
    cuts: list[Cut]

    @property
    def whole(self) -> bool:
        """Whether every layer could be cut; `cuts` says why a layer could not."""
        return all(c.at is not None for c in self.cuts)


def prune(model: nn.Module) -> Pruned:
    """Set the small weights of each linear layer to zero; layers with one mode stay unchanged."""
    thin = deepcopy(model)
    layers = [m for m in thin.modules() if isinstance(m, nn.Linear)]
    if not layers:
        raise Refused(f"prune() needs a model with linear layers; {type(model).__name__} has none.")
    cuts = []
    with torch.no_grad():
        for layer in layers:
            cut = two_modes(layer.weight.cpu().numpy())
            if cut.at is not None:
                layer.weight[layer.weight.abs() < 10**cut.at] = 0.0
            cuts.append(cut)
    return Pruned(thin, cuts)


@dataclass(frozen=True)
class Forgetting:
    """Errors of every output before and after one of them was retrained."""

    output: int
    before: Array
    after: Array

    @property
    def others(self) -> float:
        """Increase of the other outputs' mean error: 0 if nothing was forgotten."""
        rest = np.arange(len(self.before)) != self.output
        return float((self.after - self.before)[rest].mean())


def forgetting(
    model: nn.Module, old: Data, new: Data, output: int, *, steps: int, **options: Any
) -> Forgetting:
    """Retrain a copy on one output of `new` data and measure the other outputs on `old` data.

    The loss includes that output alone; `before` and `after` are its errors on `new` and the
    others' on `old`. Options go to `fit`.
    """
    _rows(old)
    if old.y.shape[1:] != new.y.shape[1:] or not 0 <= output < old.y.shape[1]:
        raise Refused(
            f"forgetting() needs as many outputs in `new` as in `old`, and one of them; got "
            f"{new.y.shape[1]} and {old.y.shape[1]}, and output={output}."
        )
    if old.y.shape[1] < 2:
        raise Refused("forgetting() needs a model with at least 2 outputs; got 1.")

    def measured(m: nn.Module) -> Array:
        of_outputs = errors(m, old)
        of_outputs[output] = errors(m, new)[output]
        return of_outputs

    def loss(prediction: Tensor, target: Tensor) -> Tensor:
        return (prediction - target)[:, output].square().mean()

    learner = deepcopy(model)
    before = measured(learner)
    fit(learner, new, steps=steps, loss=loss, **options)
    return Forgetting(output, before, measured(learner))
