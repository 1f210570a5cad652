"""Wiedemer et al. 2023: the proof of Theorem 1 as an algorithm that recovers components."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from recombine.claims.experiment import Result
from recombine.maps.compose import Composition, Part, compose
from recombine.spaces.sets import cross
from recombine.spaces.space import Space, cube
from recombine.spaces.support import Support
from recombine.tasks.drawing.network import normal, random_network
from recombine_papers.wiedemer2023.reconstruction import HIDDEN, WIDTH, Path
from recombine_papers.wiedemer2023.sufficiency import sufficiency
from recombine_papers.wiedemer2023.theorem import reconstruct


def random_part(rng: np.random.Generator) -> Part:
    """Draw a smooth component: a tanh network plus a constant."""
    network = random_network(normal(rng), 1, HIDDEN, WIDTH)
    offset = torch.as_tensor(rng.normal(size=WIDTH))
    return lambda z: network(z) + offset


def compositions(cfg: Path, space: Space, shown: Support) -> list[Composition]:
    """Draw random compositions until enough of them have the rank that the config asks for.

    Either every component is determined numerically, or all but one output of the first.
    """
    rng = np.random.default_rng(0)
    accepted: list[Composition] = []
    while len(accepted) < cfg.nets:
        first, second = random_part(rng), random_part(rng)
        if cfg.lost:
            gone = second(torch.zeros(1, 1, dtype=torch.float64)) * torch.eye(WIDTH)[0]

            def zeroed(z: Tensor, part: Part = second, gone: Tensor = gone) -> Tensor:
                return part(z) - gone

            second = zeroed
        f = compose([first, second], cfg.combine, dims=(1, 1))
        certificate = sufficiency(f, space, shown, tried=cfg.steps // 4 + 1, repair=False)
        ranks = [min(r.practical for r in certificate.ranks[k]) for k in space.names]
        if [WIDTH - rank for rank in ranks] == [int(cfg.lost), 0]:
            accepted.append(f)
    return accepted


def reconstruction(cfg: Path) -> Result:
    """Recover components from the derivatives of f on a cross by solving the proof's equation."""
    space, shown = cube(a=1, b=1), cross(a=[0], b=[0])
    anchor, path = torch.zeros(1, 1, dtype=torch.float64), np.array([[0.0], [1.0]])
    line = torch.linspace(0, 1, cfg.steps + 1, dtype=torch.float64)[:, None]
    errors, r2 = [], []
    for f in compositions(cfg, space, shown):
        truth = [part(line) for part in f.parts]
        recovered = [
            reconstruct(
                f, f.combine, space, name, path=path, start=f.parts[k](anchor)[0],
                partners=np.zeros((1, 2)), steps=cfg.steps,
                parts={space.names[1 - k]: f.parts[1 - k](anchor)},
            )
            for k, name in enumerate(space.names)
        ]  # fmt: skip
        errors.append(
            torch.stack([(a - b).abs().amax(dim=0) for a, b in zip(recovered, truth, strict=True)])
        )
        i, j = torch.cartesian_prod(*[torch.arange(len(line))] * 2).T
        y, guess = (f.combine(parts[0][i], parts[1][j]) for parts in (truth, recovered))
        r2.append(float(1 - ((y - guess) ** 2).sum() / ((y - y.mean(dim=0)) ** 2).sum()))
    error = torch.stack(errors)  # (nets, components, outputs)
    return Result(
        {
            "error_1": float(error[:, 0].max()),
            "error_2": float(error[:, 1].max()),
            "error_first_output": float(error[:, 0, 0].min()),
            "error_other_outputs": float(max(error[:, 0, 1:].max(), error[:, 1].max())),
            "r2": min(r2),
        }
    )
