"""Brady et al. 2024: why a penalty on attention bounds derivatives with respect to slots."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from recombine.claims.experiment import Result
from recombine.maps.derivatives import jacobian, second
from recombine_papers.brady2024.attention import Attention


def attention(cfg: Attention) -> Result:
    """Derivatives of attention with respect to slots, next to closed forms and to its weights."""
    rng = np.random.default_rng(0)
    key, value = (torch.as_tensor(rng.normal(size=(cfg.width, cfg.dim))) for _ in range(2))
    query = torch.as_tensor(rng.normal(size=(cfg.pixels, cfg.width)))
    z = torch.as_tensor(rng.normal(size=(cfg.points, cfg.slots * cfg.dim)))
    scale = cfg.width**-0.5

    def weights(slots: Tensor) -> Tensor:
        return torch.softmax(torch.einsum("pw,wd,nkd->npk", query, key, slots) * scale, dim=2)

    def read(z: Tensor) -> Tensor:
        slots = z.view(len(z), cfg.slots, cfg.dim)
        return weights(slots) @ (slots @ value.T)

    slots = z.unflatten(1, (cfg.slots, cfg.dim))
    a, output = weights(slots), read(z)  # (n, pixels, slots), (n, pixels, width)
    centered = (slots @ value.T)[:, None] - output[:, :, None]  # (n, pixels, slots, width)
    slope = value + centered[..., None] * (query @ key)[:, None, None] * scale
    jacobian_formula = a[..., None, None] * slope  # (n, pixels, slots, width, dim)
    shape = (cfg.points, cfg.pixels, cfg.width, cfg.slots, cfg.dim)
    jacobians = jacobian(read, z).reshape(shape).transpose(2, 3)
    hessian = second(read, z).reshape(*shape, cfg.slots, cfg.dim).permute(0, 1, 3, 5, 2, 4, 6)
    # by slots j and k: -a_j a_k (κ ⊗ slope_k + slope_j ⊗ κ), where κ is the scaled query @ key
    outer = torch.einsum("npkvd,pe->npkved", slope, (query @ key) * scale)
    symmetric = outer[:, :, None] + outer.mT[:, :, :, None]
    hessian_formula = -(a[..., :, None] * a[..., None, :])[..., None, None, None] * symmetric
    i, j = torch.triu_indices(cfg.slots, cfg.slots, 1)
    hessian_norms = hessian.square().sum(dim=(4, 5, 6)).sqrt()
    product = (a[..., i] * a[..., j]).flatten().log()
    norms = jacobians.square().sum(dim=(3, 4)).sqrt()
    bound = torch.linalg.matrix_norm(slope)
    over = norms[..., i] * norms[..., j] / (a[..., i] * a[..., j] * bound[..., i] * bound[..., j])
    logs = torch.stack([product, hessian_norms[..., i, j].flatten().log()])
    return Result(
        {
            "error": float((jacobians - jacobian_formula).abs().max()),
            "error_second": float((hessian - hessian_formula)[:, :, i, j].abs().max()),
            "over": float(over.max()),
            "correlation": float(torch.corrcoef(logs)[0, 1]),
        }
    )
