"""Noise on unit activities: additive, Poisson-like or multiplicative."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recombine.base.error import Refused

SMALL = 1e-12  # smaller activities count as this, so that the gradient of the root stays finite


class Noise(nn.Module):
    """Add `amount` · |a|^(power/2) · ξ with ξ ~ N(0, 1) to every activity a (Qian et al. 2025).

    Power 0 is additive, 1 Poisson-like (the variance is proportional to |a|), 2 multiplicative.
    The noise is active in training and, if `at_test`, in evaluation too; ξ comes from torch's
    global generator, which `seeded` sets. Gradients also flow through |a|.
    """

    def __init__(self, amount: float = 0.1, power: float = 1.0, *, at_test: bool = False) -> None:
        super().__init__()
        if amount < 0 or power < 0:
            raise Refused(f"Noise() needs amount >= 0 and power >= 0; got {amount} and {power}.")
        self.amount, self.power, self.at_test = amount, power, at_test

    def forward(self, a: Tensor) -> Tensor:
        """Add noise if it is active."""
        return self.perturb(a, torch.randn_like(a)) if self.active else a

    @property
    def active(self) -> bool:
        """Whether the layer adds noise in its current mode."""
        return self.amount > 0 and (self.training or self.at_test)

    def perturb(self, a: Tensor, xi: Tensor) -> Tensor:
        """Add the noise for standard normal numbers `xi`."""
        if self.power == 0:
            return a + self.amount * xi
        if self.power == 2:
            return a + self.amount * a.abs() * xi
        return a + self.amount * a.abs().clamp(min=SMALL).pow(self.power / 2) * xi

    def extra_repr(self) -> str:
        """List all settings, so that different layers print differently."""
        return f"{self.amount:g}, power={self.power:g}, at_test={self.at_test}"
