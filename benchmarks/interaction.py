"""What derivatives by blocks cost: cross derivatives of a decoder."""

from __future__ import annotations

import warnings
from statistics import median

import torch
from torch import Tensor, nn
from torch.func import jacfwd, vmap

from benchmarks.measure import Result, benchmark, interleave, ratio
from recombine.maps.derivatives import entries
from recombine.maps.seed import seeded

SIDE = 28


class Code(nn.Module):
    """The population code of two coordinates, as the bump world writes it."""

    def forward(self, z: Tensor) -> Tensor:
        """Excite units around each coordinate."""
        units = torch.arange(SIDE, dtype=z.dtype)
        return torch.exp(-((units - z[..., None]) ** 2) / 2).flatten(-2)


def decoder() -> nn.Sequential:
    """Build the bump world's MLP decoder, 3 × 256, with tanh for ReLU, from the coordinates on."""
    with seeded(0):
        layers: list[nn.Module] = [Code()]
        for a in (2 * SIDE, 256, 256):
            layers += [nn.Linear(a, 256), nn.Tanh()]
        return nn.Sequential(*layers, nn.Linear(256, SIDE**2))


@benchmark
def cross_derivatives(rounds: int) -> Result:
    """Cross second derivatives of an MLP 3×256 on a 28×28 grid: against jacfwd of jacfwd."""
    f = decoder()
    z = torch.cartesian_prod(*[torch.arange(float(SIDE))] * 2)
    twice = vmap(jacfwd(jacfwd(lambda one: f(one[None])[0])))

    def ours() -> Tensor:
        with torch.no_grad():
            return torch.cat([found[0] for _, _, found in entries(f, z, [(0, 1)])])

    def theirs() -> Tensor:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            found: Tensor = twice(z)[:, :, 0, 1]
            return found

    off = float((ours() - theirs()).abs().max() / theirs().abs().max())
    seconds = interleave({"ours": ours, "theirs": theirs}, rounds)
    found = ratio(seconds, "theirs", "ours")
    each = [1e3 * median(seconds[name]) for name in ("ours", "theirs")]
    return Result(
        "≥ 3 ×",
        f"{found:.1f} ×; {each[0]:.0f} ms and {each[1]:.0f} ms; they agree to {off:.0e}",
        found >= 3 and off < 1e-4,
    )
