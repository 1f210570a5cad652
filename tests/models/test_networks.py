"""Networks: sizes counted by hand, initial scales, inputs they refuse, and a training each."""

import numpy as np
import pytest
import torch
from torch import nn

from recombine.base.error import Refused
from recombine.measures.observed import predict
from recombine.models.networks import convnet, relu_mlp, resnet, vit
from recombine.penalties.loss import margin_cross_entropy
from recombine.tasks.task import Data
from recombine.training.fit import fit

IMAGE_NETWORKS = [convnet, resnet, vit]


def data(*shape: int, n: int = 6, out: tuple[int, ...] = (1,)) -> Data:
    source = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, *s, generator=source) for s in (shape, out))
    return Data(np.zeros((n, 2)), x, y)


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        # 18 one-hot inputs: 18·1000 + 1000, then 1000 + 1.
        (relu_mlp(data(18)), 20_001),
        (relu_mlp(data(18), width=100, depth=3), 18 * 100 + 100 + 2 * 10_100 + 101),
        # 28 → 24 → 20, pooled 10 → 6 → 2, so 64·2·2 = 256 numbers reach the dense layers.
        (
            convnet(data(2, 28, 28)),
            (2 * 25 * 32 + 32)
            + (32 * 25 * 32 + 32)
            + (32 * 25 * 64 + 64)
            + (64 * 25 * 64 + 64)
            + 2 * (32 + 32 + 64 + 64)
            + (256 * 512 + 512)
            + (512 * 1024 + 1024)
            + (1024 + 1),
        ),
        # 8 → 6, pooled 3 → 1.
        (
            convnet(data(2, 8, 8), channels=(16, 16), kernel=3, dense=(64,)),
            (2 * 9 * 16 + 16) + (16 * 9 * 16 + 16) + 64 + (16 * 64 + 64) + 65,
        ),
        (
            resnet(data(3, 32, 32)),
            (3 * 9 * 16 + 32)
            + 4 * (16 * 16 * 9 + 32)
            + (16 * 32 * 9 + 3 * 32 * 32 * 9 + 4 * 64 + 16 * 32 + 64)
            + (32 * 64 * 9 + 3 * 64 * 64 * 9 + 4 * 128 + 32 * 64 + 128)
            + (64 * 128 * 9 + 3 * 128 * 128 * 9 + 4 * 256 + 64 * 128 + 256)
            + 129,
        ),
        # A layer: two norms, queries, keys and values of 6·64 without bias, output, two dense.
        (
            vit(data(3, 32, 32)),
            (3 * 64 * 256 + 256)
            + 17 * 256
            + 256
            + 4 * (2 * 512 + 256 * 3 * 384 + 384 * 256 + 256 + 2 * (256 * 256 + 256))
            + 512
            + 257,
        ),
    ],
    ids=["mlp", "mlp3", "convnet", "convnet-digits", "resnet", "vit"],
)
def test_networks_have_the_sizes_counted_by_hand(model, expected):
    assert parameters(model) == expected


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_the_scale_sets_weights_and_biases(scale):
    first, last = (m for m in relu_mlp(data(18), scale=scale) if isinstance(m, nn.Linear))
    with torch.no_grad():
        assert float(first.weight.std()) == pytest.approx(scale * np.sqrt(2 / 18), rel=0.03)
        assert float(last.weight.std()) == pytest.approx(scale * np.sqrt(2 / 1000), rel=0.1)
        assert float(first.bias.abs().max()) == pytest.approx(scale * np.sqrt(1 / 18), rel=0.01)


@pytest.mark.parametrize("build", IMAGE_NETWORKS)
def test_image_networks_refuse_vectors(build):
    with pytest.raises(Refused, match="relu_mlp"):
        build(data(18))


@pytest.mark.parametrize("build", IMAGE_NETWORKS)
@pytest.mark.parametrize("shape", [(28, 28), (2, 28, 33)])
def test_image_networks_take_gray_and_oblong_images(build, shape):
    images = data(*shape, n=2, out=(2, 3))
    assert build(images)(images.x).shape == (2, 2, 3)


def test_small_images_need_a_small_convnet():
    with pytest.raises(Refused, match=r"8×8 pixels are too small.*kernel=3"):
        convnet(data(2, 8, 8))
    images = data(2, 8, 20)
    assert convnet(images, channels=(16, 16), kernel=3)(images.x).shape == (6, 1)


def test_stages_of_a_resnet_need_channels_and_blocks():
    with pytest.raises(Refused, match="got 2 channels and 4 blocks"):
        resnet(data(3, 8, 8), channels=(8, 16))


def test_the_fourth_activation_has_the_authors_index():
    parts = dict(convnet(data(2, 28, 28)).named_modules())
    assert isinstance(parts["features.10"], nn.Conv2d)
    assert isinstance(parts["features.11"], nn.ReLU)


def test_a_vit_sees_what_lies_beyond_the_last_whole_patch():
    images = data(1, 10, 10, n=2)
    model = vit(images, patch=4, dim=8, depth=1, heads=2, head_dim=4, mlp=8).eval()
    moved = images.x.clone()
    moved[:, :, 9, 9] += 1
    assert (model(moved) != model(images.x)).any()


@pytest.mark.parametrize(
    ("build", "options"),
    [
        (relu_mlp, {"width": 50}),
        (convnet, {"channels": (8, 8), "kernel": 3, "dense": (16,)}),
        (resnet, {"channels": (4, 8), "blocks": (1, 1)}),
        (vit, {"patch": 4, "dim": 16, "depth": 1, "heads": 2, "head_dim": 8, "mlp": 16}),
    ],
)
def test_networks_learn_their_training_set(build, options):
    images = data(2, 8, 8, n=16)
    models = [build(images, **options, seed=s) for s in range(2)]
    before = float((predict(models[0], images.x) - images.y).square().mean())
    fit(models, images, steps=60, lr=5e-3)
    after = float((predict(models[0], images.x) - images.y).square().mean())
    assert after < 0.3 * before


def test_the_margin_loss_is_cross_entropy_of_a_sign():
    f = torch.randn(7, 1, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = torch.tensor([1.0, -1, 1, 1, -1, -1, 1])[:, None]
    expected = nn.functional.binary_cross_entropy_with_logits(f, (y + 1) / 2)
    torch.testing.assert_close(margin_cross_entropy(f, y), expected)
    assert float(margin_cross_entropy(torch.tensor([-1e4]), torch.tensor([1.0]))) == 1e4


def test_the_margin_loss_trains_a_stack_as_it_trains_one():
    images = data(4, n=8)
    signs = Data(images.z, images.x, images.y.sign())
    together = [relu_mlp(signs, width=10, seed=s) for s in range(3)]
    alone = [relu_mlp(signs, width=10, seed=s) for s in range(3)]
    options = {"steps": 20, "lr": 0.1, "optimizer": torch.optim.SGD, "loss": margin_cross_entropy}
    assert fit(together, signs, **options)[0].engine == "stack"
    fit(alone, signs, **options, engine="turn")
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(predict(one, signs.x), predict(other, signs.x))
