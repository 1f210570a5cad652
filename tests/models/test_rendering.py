"""Rendering networks: sizes counted by hand, formulas written out, penalties and refusals."""

from math import exp, log, sin

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import jacrev, vmap

from recombine.base.error import Refused
from recombine.maps.seed import seeded
from recombine.measures.kernels import features
from recombine.measures.observed import predict
from recombine.models.decoders import mlp
from recombine.models.rendering import (
    PIECE,
    Embedding,
    encoder,
    low_rank,
    pixel_transformer,
    places,
    spatial_mlp,
)
from recombine.penalties import Batch, rank_entropy, stripe_variance
from recombine.tasks.bumps import bumps
from recombine.tasks.task import Data
from recombine.training.fit import fit

SMALL = {
    "transformer": lambda d, **k: pixel_transformer(d, width=16, heads=2, hidden=32, **k),
    "spatial": lambda d, **k: spatial_mlp(d, width=32, **k),
    "low_rank": low_rank,
}


def world(size: int = 6, encoding: str = "one_hot") -> Data:
    task = bumps(size, polarity="bright", encoding=encoding)
    return task.data(task.space.points())


def blank(inputs: int, side: int) -> Data:
    return Data(np.zeros((1, 2)), torch.zeros(1, inputs), torch.zeros(1, side, side))


def backwards(data: Data) -> Data:
    return Data(data.z, data.y, data.x)


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


NO_BATCH = Batch(torch.zeros(0), torch.zeros(0))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        # Embed, then a layer: queries, keys and values; output; two dense; two norms. Then readout.
        (
            pixel_transformer(blank(56, 28)),
            (56 * 128 + 128)
            + 2
            * (
                3 * (128 * 128 + 128)
                + (128 * 128 + 128)
                + (128 * 2048 + 2048)
                + (2048 * 128 + 128)
                + 4 * 128
            )
            + 129,
        ),
        # 14,592 + 2·65,793 + 257: the "146k" of the authors' network.
        (spatial_mlp(blank(56, 28)), (56 * 256 + 256) + 2 * (256 * 256 + 256 + 1) + 257),
        (spatial_mlp(blank(56, 28)), 146_435),
        # Two axes of N² values and 2·N³ entries of vectors; three PReLU; 38 + 38 + 19.
        (low_rank(blank(64, 32)), 133_218),
        # 28 → 14 → 7 → 4 pixels, so 128·16 = 2048 numbers reach the hidden layer.
        (
            encoder(backwards(blank(56, 28))),
            (9 * 32 + 32)
            + (32 * 9 * 64 + 64)
            + (64 * 9 * 128 + 128)
            + (2048 * 128 + 128)
            + (128 * 56 + 56),
        ),
    ],
    ids=["transformer", "spatial", "146k", "low_rank", "encoder"],
)
def test_networks_have_the_sizes_counted_by_hand(model, expected):
    assert parameters(model) == expected


def test_positions_are_sines_and_cosines_of_column_then_row():
    codes = places(5, 8)
    assert codes.shape == (25, 8)
    pixel = codes[3 * 5 + 2]  # row 3, column 2
    slow = exp(-4 * log(10_000) / 8)
    assert float(pixel[0]) == pytest.approx(sin(2))
    assert float(pixel[2]) == pytest.approx(sin(3))
    assert float(pixel[4]) == pytest.approx(sin(2 * slow), rel=1e-5)
    assert float(pixel[6]) == pytest.approx(sin(3 * slow), rel=1e-5)
    torch.testing.assert_close(pixel[::2] ** 2 + pixel[1::2] ** 2, torch.ones(4))
    assert len(codes.unique(dim=0)) == 25


def test_the_spatial_mlp_decodes_a_pixel_from_the_code_and_its_position():
    data = world()
    model = spatial_mlp(data, width=8)
    first, second = model.layers
    token = model.embed(data.x[7]) + places(6, 8)[4 * 6 + 1]
    by_hand = model.readout(second(first(token)))[0]
    torch.testing.assert_close(model(data.x)[7, 4, 1], by_hand)


@pytest.mark.parametrize("name", ["transformer", "spatial"])
def test_decoding_in_pieces_changes_nothing(name):
    data = world()
    model = SMALL[name](data).eval()
    assert len(data) > PIECE
    torch.testing.assert_close(predict(model, data.x), model(data.x).detach())
    assert model(data.x[:0]).shape == (0, 6, 6)


def test_features_see_whole_batches():
    data = world()
    model = spatial_mlp(data, width=8)
    assert features(model, data.x, "layers.0").shape == (len(data), 36 * 8)


@pytest.mark.parametrize("name", SMALL)
def test_networks_can_be_mapped_over_examples(name):
    """Outputs of single examples are those of a batch."""
    data = world(4)
    model = SMALL[name](data).eval()
    alone = vmap(lambda x: model(x[None])[0])(data.x).detach()
    torch.testing.assert_close(alone, predict(model, data.x))


def test_the_low_rank_network_is_its_formula():
    data = world()
    model, n = low_rank(data), 6

    def image(part: Embedding, token: int) -> torch.Tensor:
        total = torch.zeros(n, n)
        for k in range(n):
            left, right = part.left[token, :, k], part.right[token, k, :]
            total = total + part.values[token, k] * torch.outer(
                left / left.norm(), right / right.norm()
            )
        return total

    with torch.no_grad():
        for part in (model.across, model.down):  # away from the normalized start
            for vectors in (part.left, part.right):
                vectors *= torch.rand(vectors.shape, generator=torch.Generator().manual_seed(1))
        pairs = [[image(model.across, int(x)), image(model.down, int(y))] for x, y in data.z]
        maps = torch.stack([torch.stack(pair) for pair in pairs])
        relu, conv = model.mix[::2], model.mix[1::2]
        for i in range(3):
            assert isinstance(relu[i], nn.PReLU)
            maps = conv[i](torch.where(maps > 0, maps, relu[i].weight * maps))
        torch.testing.assert_close(model(data.x), maps[:, 0])


def test_embeddings_start_normalized_with_values_of_variance_one_over_n():
    with seeded(0):
        part = Embedding(32)
    torch.testing.assert_close(part.left.norm(dim=1), torch.ones(32, 32))
    torch.testing.assert_close(part.right.norm(dim=2), torch.ones(32, 32))
    assert float(part.values.var().detach()) == pytest.approx(1 / 32, rel=0.1)


def test_selecting_a_token_is_the_product_with_a_one_hot_code():
    data = world()
    with seeded(0):
        part = Embedding(6)
    code, table = data.x[:10, :6], part.images(slice(None))
    picked = part(code)
    product = torch.tensordot(code, table, dims=1)
    torch.testing.assert_close(picked, product)
    torch.testing.assert_close(part(code.requires_grad_()), product)
    for one, other in zip(
        torch.autograd.grad(picked.square().sum(), part.parameters(), retain_graph=True),
        torch.autograd.grad(product.square().sum(), part.parameters()),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "code", [[0.0, 0, 0], [0.5, 0, 0], [1, 1, 0], [1, 0.2, 0], [2, -1, 0]], ids=str
)
def test_other_codes_are_sums_over_tokens(code):
    with seeded(0):
        part = Embedding(3)
    codes = torch.tensor([code, [0, 0, 1.0]])
    expected = codes @ part.images(slice(None)).flatten(1)
    torch.testing.assert_close(part(codes), expected.reshape(2, 3, 3))


def test_the_derivative_by_a_one_hot_code_counts_all_tokens():
    with seeded(0):
        part = Embedding(3)
    slope = jacrev(lambda code: part(code[None])[0])(torch.tensor([0, 1.0, 0]))
    torch.testing.assert_close(slope, part.images(slice(None)).permute(1, 2, 0))


def test_the_rank_entropy_counts_every_token_of_both_axes():
    model = low_rank(world(4))
    with torch.no_grad():
        model.across.values.fill_(-3.0)  # four tokens of four equal values
        model.down.values.zero_()[:, 0] = 1.0  # rank 1; three clamped values per token
    expected = 4 * log(4) - 4 * 3 * 1e-8 * log(1e-8)
    penalty = rank_entropy(0.1)(model, NO_BATCH)
    assert float(penalty.detach()) == pytest.approx(0.1 * expected, rel=1e-6)
    assert float(rank_entropy()(model, NO_BATCH).detach()) == float(penalty.detach())


def test_the_stripe_variance_counts_every_raw_vector():
    model = low_rank(world(4))
    expected = 0.0
    for part in (model.across, model.down):
        for token in range(4):
            for k in range(4):
                expected += np.var(part.left[token, :, k].tolist(), ddof=1)
                expected += np.var(part.right[token, k, :].tolist(), ddof=1)
    penalty = stripe_variance()(model, NO_BATCH)
    assert float(penalty.detach()) == pytest.approx(0.01 * expected, rel=1e-5)
    with torch.no_grad():
        for part in (model.across, model.down):  # stripes: vectors without variation
            part.left.copy_(part.left[:, :1].expand_as(part.left))
            part.right.copy_(part.right[:, :, :1].expand_as(part.right))
    assert float(stripe_variance()(model, NO_BATCH).detach()) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("penalty", [rank_entropy(), stripe_variance()])
def test_penalties_refuse_models_without_low_rank_embeddings(penalty):
    data = world()
    with pytest.raises(Refused, match=r"needs low-rank embeddings.*Sequential has none"):
        fit(mlp(data), data, steps=1, penalties=[penalty])


@pytest.mark.parametrize("engine", ["map", "turn"])
def test_penalties_drive_low_rank_networks_to_rank_one(engine):
    data = world(4)
    models = [low_rank(data, seed=s) for s in range(2)]
    penalties = [rank_entropy(), stripe_variance()]
    [history, _] = fit(models, data, steps=80, lr=0.05, penalties=penalties, engine=engine)
    assert history.engine == engine
    values = models[1].across.values.detach().square()
    assert float((values.max(dim=1).values / values.sum(dim=1)).min()) > 0.95


LEARNED = [(n, e) for n in SMALL for e in ("one_hot", "population", "ramp")]
LEARNED.remove(("low_rank", "ramp"))


@pytest.mark.parametrize(("name", "encoding"), LEARNED)
def test_decoders_learn_their_training_set(name, encoding):
    data = world(5, encoding)
    options = {"dropout": 0.0} if name == "transformer" else {}
    models = [SMALL[name](data, **options, seed=s) for s in range(2)]
    before = float((predict(models[0], data.x) - data.y).square().mean())
    fit(models, data, steps=40, lr=5e-3)
    after = float((predict(models[0], data.x) - data.y).square().mean())
    assert after < 0.7 * before


@pytest.mark.parametrize("encoding", ["population", "ramp"])
def test_the_encoder_reads_codes(encoding):
    data = backwards(world(encoding=encoding))
    model = encoder(data, channels=(8, 8), hidden=32)
    before = float((predict(model, data.x) - data.y).square().mean())
    fit(model, data, steps=60, lr=5e-3)
    assert float((predict(model, data.x) - data.y).square().mean()) < 0.3 * before


@pytest.mark.parametrize("build", [pixel_transformer, spatial_mlp, low_rank])
def test_decoders_refuse_images_that_are_not_square_and_codes_of_another_length(build):
    oblong = Data(np.zeros((1, 2)), torch.zeros(1, 8), torch.zeros(1, 4, 5))
    with pytest.raises(
        Refused, match=r"square gray images .side, side. as targets; got shape \(4, 5\)"
    ):
        build(oblong)
    with pytest.raises(Refused, match=r"codes of length 8; got length 6"):
        build(blank(8, 4))(torch.zeros(2, 6))


def test_builders_refuse_what_they_cannot_build():
    with pytest.raises(Refused, match=r"two codes of length 6.*got 2 inputs"):
        low_rank(world(encoding="ramp"))
    with pytest.raises(
        Refused, match=r"square gray images .side, side. as inputs; got shape \(12,\)"
    ):
        encoder(world())
    with pytest.raises(Refused, match="got width=30, heads=1"):
        spatial_mlp(world(), width=30)
    for heads in (0, 3):
        with pytest.raises(Refused, match=f"got width=16, heads={heads}"):
            pixel_transformer(world(), width=16, heads=heads)
