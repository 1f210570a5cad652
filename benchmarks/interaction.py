"""What derivatives by blocks cost: cross derivatives of a decoder, and probes of a large one."""

from __future__ import annotations

import time
import warnings
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import jacfwd, vmap

from benchmarks.measure import Result, benchmark, interleave, ratio
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.diagnostics.jacobians import probed_slopes
from recombine.maps.derivatives import entries, jacobian
from recombine.models.transformer import SPRITES, transformer_autoencoder

SIDE = 28
PROBES = 3


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


@benchmark
def probes_of_a_transformer(rounds: int) -> Result:
    """Slots' slopes at every pixel of the paper's 64×64 decoder, 160 latents: against its Jacobian.

    One point, once, since the Jacobian is slow.
    """
    image = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    model = transformer_autoencoder(Data(np.zeros((1, 2)), image, image), **SPRITES).eval()
    slots, dim = SPRITES["slots"], SPRITES["dim"]
    z = torch.randn(1, slots * dim, generator=torch.Generator().manual_seed(1))

    def decode(z: Tensor) -> Tensor:
        drawn: Tensor = model.decode(z.unflatten(1, (slots, dim)))
        return drawn

    start = time.process_time()
    probed = probed_slopes(model.decode, z.unflatten(1, (slots, dim)), probes=PROBES)
    middle = time.process_time()
    slopes = jacobian(decode, z, chunk=slots)
    end = time.process_time()
    norms = slopes.unflatten(2, (slots, dim)).square().sum(dim=3).mT  # (1, slots, outputs)
    exact = norms.unflatten(2, (3, 64, 64)).sum(dim=2).sqrt()  # (1, slots, rows, columns)
    error = float((probed - exact).norm() / exact.norm())
    shares = [float(v.sum(dim=(2, 3)).max() / v.sum()) for v in (probed, exact)]
    speedup = (end - middle) / (middle - start)
    return Result(
        "≥ 8 ×",
        f"{speedup:.1f} × with {PROBES} probes; {middle - start:.1f} s and {end - middle:.0f} s; "
        f"a slope to {100 * error:.0f} %, the largest slot's share {shares[0]:.3f} for "
        f"{shares[1]:.3f}",
        speedup >= 8,
    )
