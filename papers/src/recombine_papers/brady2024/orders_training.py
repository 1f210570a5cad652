"""Brady et al. 2024: interaction orders of known generators, measured exactly."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from recombine.claims.experiment import Result
from recombine.maps.derivatives import energies
from recombine.measures.interaction import interaction_order
from recombine.tasks.drawing.network import normal, random_network
from recombine_papers.brady2024.generators import BLOCKS, SIZE
from recombine_papers.brady2024.interacting import HIDDEN, generator, space
from recombine_papers.brady2024.orders import MORE, TOLERANCE, Generator, Kinks, Reparametrized


def latents(points: int) -> Tensor:
    """Draw latents, the same ones in every run."""
    return torch.as_tensor(space().draw(points, rng=np.random.default_rng(1)))


def orders(cfg: Generator) -> Result:
    """Interaction order of generators by exact derivatives, next to finite differences."""
    f, z = generator(cfg.kind, cfg.side), latents(cfg.points)
    interaction = interaction_order(f, z, space(), tolerance=TOLERANCE, method="exact")
    differences = interaction_order(f, z, space(), method="differences", up_to=1)
    numbers = {"order": float(MORE if interaction.order is None else interaction.order)}
    for n, share in enumerate(interaction.shares):
        numbers |= {f"r{n}": share.value, f"ratio{n}": share.ratio}
    numbers["defect"] = differences.shares[1].value
    arrays = {
        "second": energies(f, z, 2).mean(dim=0).sqrt().numpy(),
        "third": energies(f, z, 3).mean(dim=0).sum(dim=2).sqrt().numpy(),
    }
    return Result(numbers, arrays)


def kinks(cfg: Kinks) -> Result:
    """Interaction order of an entangled ReLU network by derivatives and by finite differences."""
    draw = normal(np.random.default_rng(0))
    f = random_network(draw, BLOCKS * SIZE, HIDDEN, cfg.outputs, activation=torch.relu)
    z = latents(cfg.points)
    derivatives = interaction_order(f, z, space(), method="exact", up_to=1)
    automatic = interaction_order(f, z, space())
    near = latents(cfg.points).mul(0.01) + z[:1]  # the same steps, a hundred times smaller
    close = interaction_order(f, near, space(), method="differences", up_to=1)
    return Result(
        {
            "derivatives": derivatives.shares[1].value,
            "differences": automatic.shares[1].value,
            "close": close.shares[1].value,
            "chosen": float(automatic.method == "differences"),
            "order": float(MORE if automatic.order is None else automatic.order),
        }
    )


def reparametrized(cfg: Reparametrized) -> Result:
    """Shares across blocks after a change of coordinates within blocks."""
    f, z = generator(cfg.kind, cfg.side), latents(cfg.points)

    def changed(z: Tensor) -> Tensor:
        return f(z + cfg.strength * torch.sin(2 * z))

    interaction = interaction_order(changed, z, space(), tolerance=TOLERANCE, method="exact")
    return Result({f"r{n}": share.value for n, share in enumerate(interaction.shares)})
