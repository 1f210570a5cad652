"""Composition functions against their formulas, and what they refuse."""

import pytest
import torch
from torch import nn

from recombine.base.error import Refused
from recombine.maps.compose import (
    COMBINATIONS,
    add,
    alpha,
    combination,
    compose,
    gated,
    known,
    product,
    sigmoid,
    step,
)


def parts(n=2, channels=3, shape=(4, 5), k=2):
    torch.manual_seed(0)
    return [torch.randn(n, channels, *shape, dtype=torch.float64) for _ in range(k)]


def test_sums_and_products_of_many_parts():
    a, b, c = parts(k=3)
    torch.testing.assert_close(add(a, b, c), a + b + c)
    torch.testing.assert_close(product(a, b, c), a * b * c)
    torch.testing.assert_close(add(a), a)


def test_hard_occlusion_shows_the_front_where_its_channels_sum_above_zero():
    a, b, c = parts(k=3)
    composed = step(a, b, c)
    for n in range(2):
        for y in range(4):
            for x in range(5):
                top = next((p for p in (a, b) if p[n, :, y, x].sum() > 0), c)
                assert torch.equal(composed[n, :, y, x], top[n, :, y, x])
    black = torch.zeros(1, 3)
    assert torch.equal(step(black, black + 1), black + 1)


def test_soft_occlusion_is_its_formula_and_hardens_with_contrast():
    a, b = parts()
    m = a.sum(dim=1, keepdim=True)
    expected = a / (1 + torch.exp(-m)) + b / (1 + torch.exp(m))
    torch.testing.assert_close(sigmoid(a, b), expected)
    torch.testing.assert_close(sigmoid(1e6 * a, 1e6 * b) / 1e6, step(a, b))
    a, b, c = parts(k=3)
    torch.testing.assert_close(sigmoid(a, b, c), sigmoid(a, sigmoid(b, c)))
    strong = sigmoid(1e7 * a, 1e7 * b, 1e7 * c) / 1e7
    torch.testing.assert_close(strong, step(a, b, c))


def test_opacity_is_laid_over_black_as_the_paper_does():
    a, b = (p.abs() for p in parts(channels=4))
    al, bl = (p[:, 3:].clip(0, 1) for p in (a, b))
    opacity = al + (1 - al) * bl
    rgb = (al * a[:, :3] + (1 - al) * bl * b[:, :3]) / opacity  # "over", then on opaque black
    torch.testing.assert_close(alpha(a, b), rgb * opacity)
    opaque = torch.cat([a[:, :3], torch.full_like(al, 7.0)], dim=1)
    torch.testing.assert_close(alpha(opaque, b), a[:, :3])


def test_the_gate_is_its_formula_on_vectors():
    a, b = parts(shape=())
    expected = a * torch.tanh(b.sum(dim=1))[:, None] + b
    torch.testing.assert_close(gated(a, b), expected)


@pytest.mark.parametrize("name", sorted(COMBINATIONS))
def test_every_position_depends_on_that_position_alone(name):
    pixels = parts(n=1, channels=4, shape=(3,))
    whole = combination(name)(*pixels)
    for x in range(3):
        alone = combination(name)(*[p[..., x : x + 1] for p in pixels])
        torch.testing.assert_close(whole[..., x : x + 1], alone)
    assert COMBINATIONS[name].pixelwise


def test_lookup_by_name_and_what_is_known():
    assert combination("sigmoid") is known(sigmoid)
    assert not known(step).differentiable
    assert known(step).instead == "sigmoid"
    custom = known(lambda *p: p[0])
    assert custom.pixelwise is custom.differentiable is None
    with pytest.raises(Refused, match="Did you mean 'sigmoid'"):
        combination("sigmoids")


def test_shapes_that_do_not_fit_are_refused():
    a, b = parts()
    with pytest.raises(Refused, match=r"part 2 \(2, 3, 4\)"):
        add(a, b[..., 0])
    with pytest.raises(Refused, match="4 channels"):
        alpha(a, b)
    with pytest.raises(Refused, match="at least one part"):
        product()


def test_a_composition_takes_lists_and_flat_points():
    f = compose([nn.Linear(2, 3), nn.Linear(1, 3)], "add", dims=(2, 1))
    z = torch.randn(5, 3)
    torch.testing.assert_close(f(z), f([z[:, :2], z[:, 2:]]))
    torch.testing.assert_close(f(z), f.parts[0](z[:, :2]) + f.parts[1](z[:, 2:]))
    loose = compose(f.parts, add)
    torch.testing.assert_close(loose([z[:, :2], z[:, 2:]]), f(z))
    with pytest.raises(Refused, match="Build it with dims"):
        loose(z)
    with pytest.raises(Refused, match=r"need latents \(n, 3\)"):
        f(z[:, :2])
    with pytest.raises(Refused, match=r"2 components needs as many.*got 1"):
        f([z[:, :2]])
    with pytest.raises(Refused, match="at least one component"):
        compose([], add)
    with pytest.raises(Refused, match="got 1 for 2"):
        compose(f.parts, add, dims=(3,))


def test_a_component_that_draws_something_else_is_named():
    f = compose([torch.sin, lambda z: z.sum()], "add", dims=(1, 1))
    with pytest.raises(Refused, match=r"Component 2 must return .* got \(\)"):
        f(torch.zeros(4, 2))
    g = compose([torch.sin, lambda z: z.repeat(1, 2)], "add", dims=(1, 1))
    with pytest.raises(Refused, match=r"part 1 has shape \(4, 1\) and part 2 \(4, 2\)"):
        g(torch.zeros(4, 2))
