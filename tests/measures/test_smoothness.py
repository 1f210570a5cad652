"""Jumps and kinks are found beside steep slopes, and smooth maps have none."""

import pytest
import torch
from torch import nn

from recombine.measures.smoothness import find_break

SMOOTH = {
    "sine": torch.sin,
    "fast sine": lambda z: (50 * z).sin(),
    "exponential": lambda z: (5 * z).exp(),
    "offset": lambda z: (z - 0.3) ** 3 + 3e3,
    "constant": lambda z: 0 * z + 3e3,
    "steep": lambda z: (1e4 * (z - 0.3)).tanh(),
    "sharp": lambda z: nn.functional.softplus(z - 0.5, beta=100),
    "one derivative": lambda z: (z - 0.5).relu() ** 2,
}
ROUGH = {
    "absolute": ("kink", lambda z: (z - 0.5).abs()),
    "maximum": ("kink", lambda z: torch.maximum(z[:, :2], z[:, 2:])),
    "weak": ("kink", lambda z: 1e-2 * (z[:, :1] - 0.5).relu() + z.sin().sum(dim=1, keepdim=True)),
    "step": ("jump", lambda z: (z > 0.5).to(z)),
    "rounded": ("jump", lambda z: (3 * z).round()),
    "small": ("jump", lambda z: 1e-4 * (z > 0.503) + (100 * (z - 0.5)).tanh()),
    "on a slope": ("jump", lambda z: 1e-3 * (z > 0.41) + (30 * (z - 0.5)).tanh() + 100 * z),
}
SIZES = {"small": 1e-4, "on a slope": 1e-3}


def lines(dtype=torch.float64):
    z = torch.rand(8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    return z, z.roll(1, dims=0)


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_maps_have_no_break(name):
    for dtype in (torch.float64, torch.float32):
        if (name, dtype) == ("offset", torch.float32):  # too coarse for single precision
            assert find_break(SMOOTH[name], *lines(dtype)).kind == "rounding"
        elif (name, dtype) != ("steep", torch.float32):  # too steep for single precision
            assert find_break(SMOOTH[name], *lines(dtype)) is None, dtype


@pytest.mark.parametrize("name", ROUGH)
def test_jumps_and_kinks_are_found_and_distinguished(name):
    kind, f = ROUGH[name]
    start, end = lines()
    discontinuity = find_break(f, start, end)
    assert discontinuity.kind == kind
    at = start[discontinuity.line] + discontinuity.at * (
        end[discontinuity.line] - start[discontinuity.line]
    )
    way = 1e-5 * (end[discontinuity.line] - start[discontinuity.line])
    low, middle, high = f(torch.stack([at - way, at, at + way]))
    assert (
        float((low - 2 * middle + high).abs().max()) > 1e-8
    )  # otherwise 1e-10 times the curvature
    if kind == "jump":
        assert discontinuity.size == pytest.approx(SIZES.get(name, 1.0), rel=1e-3)


@pytest.mark.parametrize("offset", [3e3, 1e6, -1e8])
def test_an_offset_hides_no_kink(offset):
    """Cutting cells until rounding hides the kink must not lose it."""
    for name in ("absolute", "maximum", "weak"):
        at = find_break(lambda z, f=ROUGH[name][1]: f(z) + offset, *lines())
        assert (at is None) == (name == "weak" and offset < -1e6), name  # below rounding
        assert at is None or at.kind == "kink"
    for f in (torch.sin, lambda z: (50 * z).sin(), lambda z: (z - 0.5).relu() ** 2):
        assert find_break(lambda z, f=f: f(z) + offset, *lines()) is None


def test_maps_that_are_not_finite_say_so():
    assert find_break(lambda z: (z - 0.5).sqrt(), *lines()).kind == "not finite"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("activation", [nn.Tanh, nn.GELU, nn.ELU, nn.ReLU, nn.LeakyReLU])
def test_networks_have_kinks_if_their_activations_do(activation, dtype):
    for seed in range(4):
        torch.manual_seed(seed)
        layers = [nn.Linear(4, 32), activation(), nn.Linear(32, 32), activation(), nn.Linear(32, 5)]
        discontinuity = find_break(nn.Sequential(*layers).to(dtype), *lines(dtype))
        assert (discontinuity is not None) == (activation in (nn.ReLU, nn.LeakyReLU))
