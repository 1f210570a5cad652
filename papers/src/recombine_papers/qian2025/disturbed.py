"""Robustness of outputs to shifted inputs, noise, pruning and retraining of one output."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import OptimizeWarning, curve_fit
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.maps.chain import layers_of
from recombine.maps.noise import Noise
from recombine.maps.seed import seeded
from recombine.measures.observed import predict
from recombine.penalties import run_chain
from recombine.spaces.space import Array
from recombine.tasks.task import Data
from recombine.training.fit import fit


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


def two_modes(weights: NDArray[Any]) -> float | None:
    """Fit two Gaussians to the histogram of log₁₀|w| (-5 to 0) and cut between their means.

    The cut is (μ₁/s₁ + μ₂/s₂)/(1/s₁ + 1/s₂), as in Qian et al. (2025). It is None if fewer than 8
    weights are in range, the fit fails, a mode is empty or outside the histogram, or the modes are
    closer than the sum of their widths: then the weights have one mode, and a cut would be
    arbitrary.
    """
    size = np.abs(np.asarray(weights, dtype=np.float64)).ravel()
    logs = np.log10(size[size > 0])
    counts, edges = np.histogram(logs, bins=50, range=(-5.0, 0.0))
    if counts.sum() < 8:
        return None
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
    except (RuntimeError, OptimizeWarning):
        return None
    s, t = abs(s), abs(t)
    empty = min(a * s, b * t) < 0.01 * max(a * s, b * t)
    outside = not all(-5 <= mean <= 0 for mean in (m, n))
    if empty or outside or abs(m - n) < s + t:
        return None
    return float((m / s + n / t) / (1 / s + 1 / t))


def prune(model: nn.Module) -> tuple[nn.Module, list[bool]]:
    """Copy a model without the small weights of its linear layers, and mark the layers cut.

    Layers whose weights have one mode stay unchanged.
    """
    thin = deepcopy(model)
    layers = [m for m in thin.modules() if isinstance(m, nn.Linear)]
    if not layers:
        raise Refused(f"prune() needs a model with linear layers; {type(model).__name__} has none.")
    cuts = [two_modes(layer.weight.detach().cpu().numpy()) for layer in layers]
    with torch.no_grad():
        for layer, cut in zip(layers, cuts, strict=True):
            if cut is not None:
                layer.weight[layer.weight.abs() < 10**cut] = 0.0
    return thin, [cut is not None for cut in cuts]


def forgetting(
    model: nn.Module, old: Data, new: Data, output: int, *, steps: int, **options: Any
) -> tuple[Float[np.ndarray, " outputs"], Float[np.ndarray, " outputs"]]:
    """Retrain a copy on one output of `new` data; return errors before and after.

    The loss includes that output alone; errors are its own on `new` and the others' on `old` data.
    Options go to `fit`.
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
    return before, measured(learner)
