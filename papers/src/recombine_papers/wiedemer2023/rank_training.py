"""Wiedemer et al. 2023: the rank condition for several composition functions and supports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from recombine.claims.experiment import Result
from recombine.maps.compose import Composition, Part, compose
from recombine.spaces.sets import cross, everything
from recombine.spaces.space import cube
from recombine.spaces.support import Support
from recombine_papers.wiedemer2023.rank import BACK, FRONT, Rows
from recombine_papers.wiedemer2023.sufficiency import sufficiency


def under(z: Tensor, pixels: int) -> Tensor:
    """Mark the pixel at position z of a row: (n, pixels)."""
    return torch.arange(pixels) == torch.floor(z * (pixels - 1) + 0.5)


def sprite(color: Sequence[float], pixels: int, ground: float = 0.0) -> Part:
    """Render one colored pixel at position z on a gray background."""
    paint = torch.tensor(color, dtype=torch.float64)[:, None]

    def draw(z: Tensor) -> Tensor:
        return ground + under(z, pixels)[:, None] * (paint - ground)

    return draw


def with_opacity(color: Sequence[float], pixels: int, *, soft: bool = False) -> Part:
    """Render a colored row with an opacity channel: 1 at position z and 0 elsewhere, or soft."""
    paint = torch.tensor(color, dtype=torch.float64)[:, None]

    def draw(z: Tensor) -> Tensor:
        away = torch.arange(pixels) - z * (pixels - 1)
        here = 0.2 + 0.6 * torch.exp(-(away**2)) if soft else under(z, pixels).double()
        return torch.cat([paint.expand(len(z), 3, pixels), here[:, None]], dim=1)

    return draw


def cosine(pixels: int) -> Part:
    """Fill a row with one gray level that changes sign with z."""
    return lambda z: torch.cos(2 * torch.pi * z)[:, None].expand(len(z), 3, pixels)


def setting(cfg: Rows) -> tuple[Composition, Support]:
    """Build the composition and the support of a case."""
    name, _, how = cfg.case.partition("_")
    raw = [sprite(color, cfg.pixels) for color in (FRONT, BACK)]
    planes = cross(a=[0], b=[1])  # b varies with a at 0, a varies with b at 1
    parts: list[Part] = raw
    if name == "product" and how != "black":
        parts = [sprite([v + 0.3 for v in c], cfg.pixels, ground=0.3) for c in (FRONT, BACK)]
    if how == "cosine":
        parts, planes = [parts[0], cosine(cfg.pixels)], cross(a=[0], b=[0, 0.5])
    if name == "saturated":
        parts = [sprite([20 * v + 10 for v in FRONT], cfg.pixels, ground=-10), raw[1]]
    if name == "alpha":
        parts = [with_opacity(c, cfg.pixels, soft=how == "soft") for c in (FRONT, BACK)]
    if how == "three_planes":
        planes = cross(a=[0, 0.5], b=[1])
    combine = "sigmoid" if name == "saturated" else name
    return compose(parts, combine), everything() if how in ("random", "soft") else planes


def rank(cfg: Rows) -> Result:
    """Rank of the Jacobians of C over training combinations, for several C and supports."""
    f, support = setting(cfg)
    certificate = sufficiency(f, cube(a=1, b=1), support, tried=cfg.values, n=cfg.draws)
    numbers: dict[str, float] = {"sufficient": float(certificate.sufficient)}
    arrays = {}
    for k, name in enumerate(("a", "b"), start=1):
        worst, plane = certificate.worst(name), certificate.repairs.get(name)
        numbers |= {
            f"width_{k}": worst.width,
            f"sum_{k}": certificate.paper(name),
            f"stack_{k}": worst.stack,
            f"practical_{k}": min(r.practical for r in certificate.ranks[name]),
            f"smallest_{k}": min(r.smallest for r in certificate.ranks[name]),
            f"repaired_{k}": plane.after if plane else worst.stack,
        }
        arrays[f"lost_{k}"] = np.stack([r.lost for r in certificate.ranks[name]])
    return Result({name: float(value) for name, value in numbers.items()}, arrays)
