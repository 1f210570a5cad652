"""Dependence of pixels on slots, by derivatives of the decoder: J-ARI and JIS."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.base.error import Refused
from recombine.maps.derivatives import Map, directional
from recombine.measures.slots import ari


def slot_slopes(
    decode: Map, z: Float[Tensor, "n k d"], *, chunk: int = 4, ways: int = 10
) -> Float[Tensor, "n k *places"]:
    """Sum |∂x/∂zᵢ| of each pixel over its channels and over the dimensions of each slot.

    Exact, in forward mode: one derivative per dimension of the code, `ways` of them at once, for
    `chunk` points at once. The decoder returns (n, channels, *places).
    """
    k, dim = z.shape[1:]
    axes = torch.eye(k * dim, dtype=z.dtype, device=z.device).view(-1, k, dim)
    maps, shape = [], _shape(decode, z)
    for part in z.detach().split(chunk):
        sizes = []
        for some in axes.split(ways):
            with torch.no_grad():
                slopes = directional(decode, part, some).reshape(len(some), len(part), *shape)
            sizes.append(slopes.abs().sum(dim=2))
        maps.append(torch.cat(sizes).unflatten(0, (k, dim)).sum(dim=1).transpose(0, 1))
    return torch.cat(maps)


def separate_slopes(
    decode: Callable[[Tensor, Tensor], Tensor],
    z: Float[Tensor, "n k d"],
    where: Bool[Tensor, "n *places"],
) -> Float[Tensor, "n k *places"]:
    """Return `slot_slopes` of a decoder that decodes each pixel separately, given its index.

    Exact, in reverse mode: one derivative per pixel and channel, for all points at once. That is
    cheaper than one derivative of the image per dimension of the code. Slopes are 0 where they are
    not needed, outside of `where`.
    """
    needed = where.flatten(1)
    maps = z.new_zeros(len(z), z.shape[1], needed.shape[1])
    for pixel, points in enumerate(needed.T):
        if not points.any():
            continue
        leaf = z[points].detach().requires_grad_()
        with torch.enable_grad():
            channels = decode(leaf, torch.tensor([pixel], device=z.device)).flatten(1).sum(dim=0)
        slopes = [torch.autograd.grad(c, leaf, retain_graph=True)[0] for c in channels]
        maps[points, :, pixel] = torch.stack(slopes).abs().sum(dim=(0, 3))
    slopes_of_slots: Tensor = maps.unflatten(2, where.shape[1:])
    return slopes_of_slots


def _shape(decode: Map, z: Tensor) -> tuple[int, ...]:
    """Return the shape of one output."""
    with torch.no_grad():
        return tuple(decode(z[:1]).shape[1:])


def shares(slopes: Float[Tensor, "n k *places"]) -> Float[Tensor, "n k *places"]:
    """Divide by the sum over slots; pixels without any slope count equally for all slots.

    >>> shares(torch.tensor([[[3.0, 0.0], [1.0, 0.0]]]))
    tensor([[[0.7500, 0.5000],
             [0.2500, 0.5000]]])
    """
    total = slopes.sum(dim=1, keepdim=True)
    return torch.where(total > 0, slopes / total.where(total > 0, 1), 1 / slopes.shape[1])


def slot_maps(
    decode: Callable[..., Tensor],
    z: Float[Tensor, "n k d"],
    *,
    separate: bool = False,
    where: Bool[Tensor, "n rows cols"] | None = None,
) -> Float[Tensor, "n k rows cols"]:
    """Return each slot's share of the slopes of each pixel.

    - decode: (n, slots, dim) slots to (n, channels, rows, columns) images
    - separate: `decode` decodes each pixel separately and takes the indices of some pixels as a
      second argument; the same shares then cost less, in reverse mode
    - where: pixels that are needed, if decoded separately; others count for all slots alike
    """
    if not separate:
        return shares(slot_slopes(decode, z))
    if where is None:
        where = torch.ones(len(z), *_shape(decode, z)[1:], dtype=torch.bool, device=z.device)
    return shares(separate_slopes(decode, z, where))


def j_ari(
    maps: Float[Tensor, "n k rows cols"], labels: Int[Tensor, "n *pixels"]
) -> Float[Tensor, " n"]:
    """Adjusted Rand index between objects and the slots that pixels depend on most, per image.

    Label 0 is background and is left out (Brady et al. 2024).
    """
    _check(maps, labels)
    return ari(maps.argmax(dim=1), labels, foreground=True)


def jis(maps: Float[Tensor, "n k rows cols"], labels: Int[Tensor, "n *pixels"]) -> float:
    """Jacobian interaction score: 1 if each pixel of an object depends on one slot, 0 if on all.

    The mean of the largest share over all pixels of objects, rescaled. A decoder that renders
    everything from one slot also scores 1, so compare with `j_ari` and `slot_shares` (Brady et al.
    2024).
    """
    _check(maps, labels)
    k = maps.shape[1]
    largest = maps.max(dim=1).values[labels > 0].double().mean().item()
    return (largest - 1 / k) / (1 - 1 / k)


def slot_shares(
    maps: Float[Tensor, "n k rows cols"], labels: Int[Tensor, "n *pixels"]
) -> Float[Tensor, " k"]:
    """Mean share of each slot over all pixels of objects; one slot near 1 means collapse."""
    _check(maps, labels)
    return maps.movedim(1, -1)[labels > 0].mean(dim=0)


def _check(maps: Tensor, labels: Tensor) -> None:
    """Refuse labels that are not those of the maps."""
    n, k = maps.shape[:2]
    if labels.shape != (n, *maps.shape[2:]):
        raise Refused(
            f"Labels (n, rows, columns) need one label per pixel of the maps; got maps "
            f"{tuple(maps.shape)} and labels {tuple(labels.shape)}."
        )
    if k < 2:
        raise Refused("Maps of at least 2 slots are needed; got a single slot.")
    flat = labels.flatten(1)
    empty = int((flat <= 0).all(dim=1).sum())
    if empty:
        raise Refused(
            f"{empty} of {n} images have no pixel with a label above 0, so there is no object to "
            "score; leave these images out."
        )
    if bool((flat < 0).any()):
        raise Refused(
            "Labels must count objects from 1, with 0 for background; got labels below 0."
        )
    present = torch.zeros(n, int(flat.max()) + 1, dtype=torch.bool, device=flat.device)
    objects = int(present.scatter_(1, flat.long(), True)[:, 1:].sum(dim=1).max())
    if objects > k:
        raise Refused(
            f"An image has {objects} objects, but there are {k} slots; build the model with "
            f"slots={objects} or more."
        )
