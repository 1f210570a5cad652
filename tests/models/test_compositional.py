"""Compositional generators against plain transcriptions, and the variance that they explain."""

import copy
import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score
from torch import nn

from recombine.core.diagnostic import Observed, observe, predict
from recombine.core.error import Refused
from recombine.core.sets import box, values
from recombine.core.space import cube
from recombine.core.task import Data, Task
from recombine.diagnostics.risk import variance
from recombine.diagnostics.variance import block_map, explained, variance_weighted_r2
from recombine.maps.compose import add, alpha, sigmoid
from recombine.models.compositional import Double, compositional, doubling, monolithic
from recombine.training.fit import cosine, fit


def images(side=16, n=4, inputs=10, channels=3) -> Data:
    source = torch.Generator().manual_seed(0)
    x = torch.rand(n, inputs, generator=source)
    return Data(np.zeros((n, 2)), x, torch.rand(n, channels, side, side, generator=source))


def vectors(n=64, inputs=4, outputs=16) -> Data:
    source = torch.Generator().manual_seed(0)
    x = torch.rand(n, inputs, generator=source)
    return Data(np.zeros((n, 2)), x, torch.rand(n, outputs, generator=source))


def count(model) -> int:
    return sum(p.numel() for p in model.parameters())


def plain(model, k, side, channels, outputs) -> nn.Sequential:
    """Write component `k` with torch's own layers, and give it the same weights."""
    affine = [m for m in model.networks if hasattr(m, "weight")]
    layers = []
    for m in affine:
        linear = nn.Linear(m.weight.shape[1], m.weight.shape[2])
        linear.weight.data, linear.bias.data = m.weight[k].T.detach(), m.bias[k, 0].detach()
        layers += [linear, nn.ELU()]
    layers += [nn.Unflatten(1, (channels, 4, 4))]
    layers[-2], layers[-1] = layers[-1], nn.Identity()  # the first ELU of a doubling comes below
    doubles = [m for m in model.networks if isinstance(m, Double)]
    for i, m in enumerate(doubles):
        drawn = channels if i < len(doubles) - 1 else outputs
        conv = nn.Conv2d(channels, drawn, 2, padding="same")
        conv.weight.data = m.mix.weight.view(-1, drawn, channels, 2, 2)[k].detach().clone()
        conv.bias.data = m.mix.bias.view(-1, drawn)[k].detach().clone()
        layers += [nn.ELU(), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), conv]
    assert 4 * 2 ** len(doubles) == side
    return nn.Sequential(*layers)


# the paper's networks


def test_parameters_are_counted_as_in_the_paper():
    data = images(64, n=1)
    assert count(compositional(data, channels=32)) == 554_950
    assert count(compositional(data, channels=32, combine="alpha", shared=True)) == 277_604
    assert count(monolithic(data, channels=64)) == 587_779


def test_parameters_of_the_reduced_networks():
    sizes = [5, 256, 256, 256, 768]
    weights = sum((a + 1) * b for a, b in pairwise(sizes))
    assert count(compositional(images())) == 2 * weights
    small = vectors()
    assert count(compositional(small, combine="add", width=64, depth=2)) == 2 * (
        3 * 64 + 65 * 64 + 65 * 16
    )
    assert count(monolithic(small, width=96, depth=2)) == 5 * 96 + 97 * 96 + 97 * 16


@pytest.mark.parametrize("side", [8, 16, 32])
def test_a_component_is_the_papers_network(side):
    data = images(side, n=3)
    model = compositional(data, channels=6, width=16, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that it pads even kernels by a copy
        drawn = [plain(model, k, side, 6, 3)(data.x[:, 5 * k : 5 * k + 5]) for k in (0, 1)]
        expected = torch.autograd.grad((sigmoid(*drawn) - data.y).square().sum(), drawn)[0]
    for k in (0, 1):
        torch.testing.assert_close(model.parts[k](data.x[:, 5 * k : 5 * k + 5]), drawn[k])
    torch.testing.assert_close(model(data.x), sigmoid(*drawn))
    parts = model.draw(data.x)
    gradient = torch.autograd.grad((model.combine(*parts) - data.y).square().sum(), parts)[0]
    torch.testing.assert_close(gradient[0], expected)


def test_gradients_are_those_of_the_papers_network():
    data = images(16, n=3)
    model = compositional(data, channels=6, width=16, seed=1)
    nets = [plain(model, k, 16, 6, 3) for k in (0, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sigmoid(
            *[n(z) for n, z in zip(nets, data.x.chunk(2, 1), strict=True)]
        ).square().sum().backward()
    model(data.x).square().sum().backward()
    last = [m for m in model.networks if isinstance(m, Double)][-1]
    for k in (0, 1):
        torch.testing.assert_close(model.networks[0].weight.grad[k].T, nets[k][0].weight.grad)
        torch.testing.assert_close(
            last.mix.weight.grad.view(2, 3, 6, 2, 2)[k], nets[k][-1].weight.grad
        )


def test_doubling_is_torchs_bilinear_upsampling():
    row = torch.rand(1, 1, 5, 1)
    expected = nn.functional.interpolate(
        row.expand(-1, -1, -1, 2), scale_factor=(2, 1), mode="bilinear", align_corners=True
    )
    torch.testing.assert_close(doubling(5) @ row[0, 0, :, 0], expected[0, 0, :, 0])


def test_a_shared_network_renders_all_components_alike():
    data = images(16)
    model = compositional(data, combine="alpha", shared=True, channels=4, width=8)
    assert len(model.parts) == 2
    z = data.x[:, :5]
    torch.testing.assert_close(model.parts[0](z), model.parts[1](z))
    assert model.parts[0](z).shape == (4, 4, 16, 16)
    torch.testing.assert_close(
        model(data.x), alpha(model.parts[0](z), model.parts[1](data.x[:, 5:]))
    )


def test_a_component_depends_only_on_its_part():
    data = vectors()
    model = compositional(data, combine="add", width=8, depth=1)
    other = data.x.clone()
    other[:, 2:] += 1
    torch.testing.assert_close(model.draw(data.x)[0], model.draw(other)[0])
    assert not torch.allclose(model.draw(data.x)[1], model.draw(other)[1])
    whole = monolithic(data, width=8, depth=1)
    assert len(whole.parts) == 1
    torch.testing.assert_close(whole.parts[0](data.x), whole(data.x))


def test_any_number_of_components_and_any_combination():
    data = vectors(inputs=6)
    model = compositional(data, combine=lambda a, b, c: a * b - c, components=3, width=8, depth=0)
    a, b, c = (part(z) for part, z in zip(model.parts, data.x.chunk(3, 1), strict=True))
    torch.testing.assert_close(model(data.x), a * b - c)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: compositional(vectors(inputs=5)), "divides 5 inputs; got components=2"),
        (lambda: compositional(images(12), channels=4), "with a side of 8, 16, 32"),
        (lambda: compositional(vectors(), channels=4), "with a side of 8, 16, 32"),
        (lambda: compositional(vectors(), width=0), "width >= 1.*got width=0"),
        (lambda: compositional(vectors(), combine="ad"), "Did you mean 'add'"),
        (lambda: compositional(images(), drawn=2, combine="add"), "`drawn`"),
        (lambda: monolithic(Data(np.zeros((1, 2)), torch.rand(1, 2), torch.rand(1, 4, 4))), "gray"),
    ],
)
def test_what_cannot_be_built_is_refused(build, why):
    with pytest.raises(Refused, match=why):
        build()


# training


def test_seeds_train_side_by_side_as_alone():
    data = vectors()
    together, alone = (
        [compositional(data, combine="add", width=8, depth=1, seed=s) for s in range(3)]
        for _ in range(2)
    )
    engines = {h.engine for h in fit(together, data, steps=20, batch=16)}
    fit(alone, data, steps=20, batch=16, engine="turn")
    assert engines == {"map"}
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a(data.x), b(data.x), rtol=1e-4, atol=1e-5)


def test_upsampling_networks_train_one_after_another_which_is_faster():
    data = images()
    models = [compositional(data, channels=4, width=8, seed=s) for s in range(2)]
    before = copy.deepcopy(models[0])
    history = fit(models, data, steps=3)
    assert {h.engine for h in history} == {"turn"}
    assert not torch.equal(before(data.x), models[0](data.x))


def test_a_sum_of_parts_is_learned_from_its_axes():
    source = torch.Generator().manual_seed(3)
    first, second = (torch.randn(2, 8, generator=source) for _ in range(2))

    def truth(x):
        return (2 * x[:, :2] @ first).tanh() + (2 * x[:, 2:] @ second).tanh()

    shown = torch.rand(1000, 4, generator=source)
    shown[:500, 2:], shown[500:, :2] = 0.5, 0.5
    everywhere = torch.rand(500, 4, generator=source)
    data = Data(np.zeros((1000, 4)), shown, truth(shown))
    options = {"steps": 600, "batch": 128, "lr": 3e-2, "schedule": cosine()}
    one = compositional(data, combine="add", width=48, depth=2)
    whole = monolithic(data, width=64, depth=2)
    for model in (one, whole):
        fit(model, data, **options)
    scores = [variance_weighted_r2(predict(m, everywhere), truth(everywhere)) for m in (one, whole)]
    assert variance_weighted_r2(predict(whole, shown), data.y) > 0.99
    assert scores[0] > 0.99
    assert 1 - scores[1] > 2 * (1 - scores[0])  # one network fails on held-out combinations
    parts = add(*[p(z) for p, z in zip(one.parts, everywhere.chunk(2, 1), strict=True)])
    torch.testing.assert_close(parts, one(everywhere))


# explained variance


def test_r2_is_scikit_learns_weighted_by_variance(rng):
    y = rng.normal(size=(50, 3, 4)) * rng.uniform(0, 3, size=(3, 4))
    out = y + rng.normal(size=y.shape)
    expected = r2_score(y.reshape(50, -1), out.reshape(50, -1), multioutput="variance_weighted")
    assert variance_weighted_r2(torch.tensor(out), torch.tensor(y)) == pytest.approx(expected)
    mse = ((out - y) ** 2).mean()
    assert 1 - mse / variance(torch.tensor(y)) == pytest.approx(expected)


def test_r2_of_the_mean_and_of_constant_targets():
    y = torch.rand(20, 3)
    assert variance_weighted_r2(y.mean(dim=0).expand_as(y), y) == pytest.approx(0)
    assert variance_weighted_r2(y, y) == 1
    constant = torch.cat([y, torch.zeros(20, 1)], dim=1)  # its error counts, its variance is zero
    off = torch.cat([y, torch.ones(20, 1)], dim=1)
    expected = 1 - 20 / (y - y.mean(dim=0)).square().sum()
    assert variance_weighted_r2(off, constant) == pytest.approx(float(expected))
    flat = torch.ones(4, 2)
    assert variance_weighted_r2(flat, flat) == 1
    assert variance_weighted_r2(flat + 1, flat) == 0


SQUARE = Task(cube(a=2, b=2), inputs=lambda z: z, targets=lambda z: z[:2] + z[2:])


class Wrong(nn.Module):
    """Correct where the first coordinates of both factors are below a half, and blank elsewhere."""

    def forward(self, x):
        right = (x[:, [0, 2]] < 0.5).all(dim=1, keepdim=True)
        return (x[:, :2] + x[:, 2:]) * right


def observed_on(support, n=2000) -> Observed:
    split = SQUARE.split(support, n=50, queries=n, rng=np.random.default_rng(1))
    return observe(Wrong(), SQUARE, split)


def test_explained_separates_the_support_from_the_whole_space():
    corner = observed_on(box({"a[0]": (0, 0.5), "b[0]": (0, 0.5)}))
    measured = explained(corner)
    assert measured["r2_id"] == 1
    query = corner.split.query
    assert measured["r2_all"] == pytest.approx(
        r2_score(query.y, corner.outputs, multioutput="variance_weighted")
    )
    assert measured["r2_ood"] < measured["r2_all"] < 0.5
    assert measured["variance_all"] == pytest.approx(1 / 6, abs=0.02)  # of a sum of two uniforms


def test_explained_draws_from_a_plane_that_uniform_points_miss():
    plane = observed_on(values(a=[(0.25, 0.25)]))
    assert not plane.split.inside.any()
    measured = explained(plane)
    # b varies, a does not: half of b[0] is right, the rest is blank.
    z = np.random.default_rng(5).uniform(size=(4000, 2))
    y = z + 0.25
    out = y * (z[:, :1] < 0.5)
    expected = r2_score(y, out, multioutput="variance_weighted")
    assert measured["r2_id"] == pytest.approx(expected, abs=0.3)
    assert measured["variance_id"] == pytest.approx(1 / 12, abs=0.01)
    assert measured == explained(plane)


def test_the_block_map_shows_where_the_error_is():
    measured = block_map(observed_on(box({"a[0]": (0, 0.5)}), n=8000))
    assert measured["error_map"].shape == measured["support"].shape == (17, 17)
    assert measured["factors"].tolist() == ["a[0]", "b[0]"]
    assert (measured["error_map"][:8, :8] == 0).all()
    assert (measured["error_map"][9:, 9:] > 0.3).all()
    assert measured["support"][:8].all()
    assert not measured["support"][9:].any()


def test_the_block_map_of_few_points_has_few_bins():
    assert block_map(observed_on(box({"a[0]": (0, 0.5)}), n=64))["error_map"].shape == (2, 2)
