"""Transformer autoencoders: counts, attention, options of the paper, and penalties."""

import copy
import pickle
from functools import partial
from inspect import unwrap

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.func import jacrev
from torch.nn.functional import gelu, softmax

from recombine.base.error import Refused
from recombine.maps.slots import Work
from recombine.models.attention import fourier
from recombine.models.slots import slot_autoencoder
from recombine.models.transformer import CLEVR6, CLEVRTEX, SPRITES, transformer_autoencoder
from recombine.penalties import Batch, attention_interaction, latent_capacity
from recombine.penalties.loss import mse, sum_of_squares
from recombine.penalties.slots import divergence, shared_attention
from recombine.tasks.task import Data
from recombine.training.ensemble import Objective
from recombine.training.fit import fit

TINY = {"channels": 8, "width": 8, "query": 8, "inner": 8, "hidden": (8, 8), "drawing": (8,)}
TINY |= {"drawing_channels": 8}
KINDS = [
    (e, d) for e in ("transformer", "attention", "dense") for d in ("transformer", "broadcast")
]


def images(side=8, n=4, depth=3) -> Data:
    x = torch.rand(n, depth, side, side, generator=torch.Generator().manual_seed(0))
    return Data(np.zeros((n, 2)), x, x)


def count(module) -> int:
    return sum(p.numel() for p in module.parameters())


# counts


@pytest.mark.parametrize(
    ("side", "depth", "options", "reading", "drawing"),
    [
        (64, 3, SPRITES, 365_888, 2_980_359),
        (128, 3, CLEVR6, 1_444_736, 3_046_407),
        # theirs has unused convolutions and positions, too
        (16, 768, CLEVRTEX, 2_101_248 - (4_864 + 3 * 102_464 + 102_464) - 640, 8_091_540),
    ],
    ids=["sprites", "clevr6", "clevrtex"],
)
def test_parameters_are_counted_as_in_the_paper(side, depth, options, reading, drawing):
    model = transformer_autoencoder(images(side, 1, depth), **options)
    assert (count(model.encoder), count(model.decoder)) == (reading, drawing)
    assert count(model) == reading + drawing


def test_baselines_are_counted_as_in_the_paper():
    options = {**SPRITES, "encoder": "attention", "decoder": "broadcast", "variational": False}
    model = transformer_autoencoder(images(64, 1), **options)
    assert count(model.encoder) == 95_712 - 2 * 32  # theirs has an unused mean and spread
    assert count(model.decoder) == 129_476
    assert model(images(64, 1).x).shape == (1, 3, 64, 64)


def test_the_reduced_model_keeps_its_size_whether_variational_or_not():
    data = images(16)
    plain, variational = (transformer_autoencoder(data, variational=v) for v in (False, True))
    assert count(variational) == 103_967
    assert count(plain.encoder) == count(variational.encoder)
    assert count(plain.decoder) == count(variational.decoder)
    tied = [transformer_autoencoder(data, dim=8, width=None, variational=v) for v in (False, True)]
    assert count(tied[1].encoder) > 1.2 * count(tied[0].encoder)


# decoding


@pytest.mark.parametrize(("encoder", "decoder"), KINDS)
@pytest.mark.parametrize("side", [8, 16])
def test_slots_are_encoded_and_decoded(encoder, decoder, side):
    data = images(side)
    model = transformer_autoencoder(data, encoder=encoder, decoder=decoder, dim=4, **TINY).eval()
    z = model.encode(data.x)
    assert z.shape == (4, 3, 4)
    torch.testing.assert_close(model(data.x), model.decode(z))
    assert model(data.x).shape == data.x.shape
    torch.testing.assert_close(model(data.x)[:2], model(data.x[:2]))
    masks = model.masks(z)
    torch.testing.assert_close(masks.sum(dim=1), torch.ones(4, side, side))


def transcribed(decoder, z, scale):
    """Decode by textbook attention, head by head, with the same weights."""
    slots, h = decoder.slots(z), decoder.pixels(decoder.positions).expand(len(z), -1, -1)
    weights = []
    for layer in decoder.layers:
        query = layer.query(layer.norm_query(h)).chunk(layer.heads, dim=2)
        key, value = layer.key_value(layer.norm_slots(slots)).chunk(2, dim=2)
        key, value = key.chunk(layer.heads, dim=2), value.chunk(layer.heads, dim=2)
        shares = [softmax(q @ k.mT * scale, dim=2) for q, k in zip(query, key, strict=True)]
        weights.append(torch.stack(shares, dim=1).mT)
        read = torch.cat([s @ v for s, v in zip(shares, value, strict=True)], dim=2)
        h = h + layer.out(read)
        first, second = layer.mlp[0], layer.mlp[2]
        h = h + second(gelu(first(layer.norm_mlp(h))))
    return decoder.readout(decoder.norm(h)).mT.unflatten(2, (decoder.side,) * 2), weights


@pytest.mark.parametrize("scale", ["head", "query"])
def test_attention_agrees_with_the_textbook(scale):
    """Weights moved from pixels to slots give the same sums; the paper scales by another width."""
    options = {**TINY, "query": 12, "inner": 20, "drawing_heads": 4}
    model = transformer_autoencoder(images(), dim=4, scale=scale, **options).double()
    for parameter in model.parameters():  # gains and biases of norms, too
        nn.init.normal_(parameter, std=0.5)
    z = torch.randn(3, 3, 4, dtype=torch.double)
    expected, weights = transcribed(model.decoder, z, (5 if scale == "head" else 12) ** -0.5)
    drawn, attention = model.decoder(z)
    torch.testing.assert_close(drawn, expected)
    torch.testing.assert_close(attention, weights)
    for layer in attention:
        assert layer.shape == (3, 4, 3, 64)
        torch.testing.assert_close(layer.sum(dim=2), torch.ones(3, 4, 64, dtype=torch.double))


def test_a_pixel_depends_only_on_its_own_position():
    model = transformer_autoencoder(images(), dim=4, **TINY)
    z = torch.randn(2, 3, 4)
    before = model.decode(z)
    with torch.no_grad():
        model.decoder.positions[10] += 1
    changed = (model.decode(z) - before).abs().sum(dim=1).flatten(1) > 0
    assert changed[:, 10].all()
    assert not changed[:, torch.arange(64) != 10].any()


@pytest.mark.parametrize("decoder", ["transformer", "broadcast"])
def test_the_order_of_slots_does_not_change_the_output(decoder):
    model = transformer_autoencoder(images(), decoder=decoder, dim=4, **TINY).double()
    z, order = torch.randn(2, 3, 4, dtype=torch.double), [2, 0, 1]
    torch.testing.assert_close(model.decode(z), model.decode(z[:, order]))
    torch.testing.assert_close(model.masks(z)[:, order], model.masks(z[:, order]))
    assert not torch.allclose(model.masks(z), model.masks(z[:, order]))


def test_slots_follow_the_order_of_learned_initial_slots():
    data = images()
    for encoder, name in (("transformer", "queries"), ("attention", "initial")):
        model = transformer_autoencoder(data, encoder=encoder, **TINY).eval()
        z, start, order = model.encode(data.x), getattr(model.encoder, name), [1, 2, 0]
        start.data = start.data[:, order]
        torch.testing.assert_close(model.encode(data.x), z[:, order])
        assert not torch.allclose(z, z[:, order])


def test_gradients_of_slot_attention_are_those_of_its_last_iteration():
    data = images()
    model = transformer_autoencoder(data, encoder="attention", **TINY)
    model(data.x).sum().backward()
    assert model.encoder.initial.grad is None
    assert model.encoder.update.weight_hh.grad.abs().sum() > 0


def test_positions_are_sines_and_cosines_of_rows_and_columns():
    codes = fourier(5, 3).view(5, 5, 12)
    assert codes[1, 2, 0].item() == pytest.approx(np.sin(np.pi / 4))  # row, lowest octave
    assert codes[1, 2, 2].item() == pytest.approx(np.sin(4 * np.pi / 4), abs=1e-6)
    assert codes[1, 2, 3].item() == pytest.approx(np.sin(np.pi / 2))  # column
    assert codes[1, 2, 6].item() == pytest.approx(np.cos(np.pi / 4))
    assert len(torch.unique(fourier(16, 5), dim=0)) == 256


# the posterior and options of the paper


def test_the_code_is_a_sample_in_training_and_the_mean_in_evaluation():
    data = images()
    model = transformer_autoencoder(data, **TINY)
    mean, spread = model.posterior(data.x)
    torch.manual_seed(3)
    slots = model.encode(data.x)
    torch.manual_seed(3)
    torch.testing.assert_close(slots, mean + spread * torch.randn_like(mean))
    assert torch.equal(model.eval().encode(data.x), mean)
    always = transformer_autoencoder(data, sample="always", **TINY).eval()
    assert not torch.equal(always.encode(data.x), always.encode(data.x))
    plain = transformer_autoencoder(data, variational=False, **TINY)
    assert plain.posterior(data.x)[1] is None
    assert torch.equal(plain.encode(data.x), plain.encode(data.x))


def test_both_parameterizations_of_the_deviation_start_alike():
    data = images()
    for kind, expected in (
        ("log_variance", lambda s: (0.5 * s).exp()),
        ("half_exp", lambda s: 0.5 * s.exp()),
    ):
        model = transformer_autoencoder(data, deviation=kind, spread=0.2, **TINY)
        s = model.head(model.encoder(data.x))[:, :, 6:]
        torch.testing.assert_close(model.posterior(data.x)[1], expected(s))
        with torch.no_grad():
            model.head.weight[6:] = 0
        torch.testing.assert_close(model.posterior(data.x)[1], torch.full((4, 3, 6), 0.2))


def test_tokens_are_normalized_one_by_one_or_jointly():
    data = images()
    for norm, expected in (("token", (2,)), ("joint", (1, 2))):
        backbone = transformer_autoencoder(data, norm=norm, **TINY).encoder.backbone
        backbone.mlp = nn.Identity()
        tokens = backbone(data.x)
        torch.testing.assert_close(
            tokens.mean(dim=expected),
            torch.zeros(tokens.mean(dim=expected).shape),
            atol=1e-5,
            rtol=0,
        )
        alone = tokens.square().mean(dim=2)
        assert torch.allclose(alone, torch.ones_like(alone), atol=1e-2) == (norm == "token")


def test_a_decoded_image_that_is_too_large_is_cropped_to_its_corner():
    data = images()
    cut = transformer_autoencoder(data, decoder="broadcast", broadcast=4, **TINY)
    whole = transformer_autoencoder(images(16), decoder="broadcast", **TINY)
    whole.decoder.load_state_dict(cut.decoder.state_dict())
    z = torch.randn(2, 3, 6)
    torch.testing.assert_close(cut.decode(z), whole_corner(whole, z))


def whole_corner(model, z):
    return model.decode(z)[:, :, :8, :8]


def test_what_cannot_be_built_is_refused():
    x = torch.rand(2, 5)
    with pytest.raises(Refused, match="square images"):
        transformer_autoencoder(Data(np.zeros((2, 1)), x, x))
    with pytest.raises(Refused, match="slots=0"):
        transformer_autoencoder(images(), slots=0)
    with pytest.raises(Refused, match="divisible by its 4 heads; got width=6"):
        transformer_autoencoder(images(), width=6)
    with pytest.raises(Refused, match="does not reach 8 pixels"):
        transformer_autoencoder(images(), decoder="broadcast", broadcast=1)
    with pytest.raises(Refused, match="Did you mean 'transformer'"):
        unwrap(transformer_autoencoder)(images(), decoder="transformers")
    with pytest.raises(Refused, match="spread > 0; got 0"):
        transformer_autoencoder(images(), spread=0.0)
    with pytest.raises(Refused, match="got 5"):
        transformer_autoencoder(images(), decoder="broadcast", doublings=5)


# penalties


def test_interaction_is_the_sum_over_pairs():
    attention = [torch.randn(2, 3, 4, 5).softmax(dim=2) for _ in range(2)]
    mean = (attention[0] + attention[1]).sum(dim=1) / 2  # (n, slots, pixels)
    expected = sum(mean[:, j] * mean[:, k] for j in range(4) for k in range(j + 1, 4))
    torch.testing.assert_close(shared_attention(attention), expected)


def test_interaction_is_zero_where_heads_agree_and_largest_where_all_slots_are_alike():
    one = torch.zeros(1, 3, 4, 5)
    one[:, :, 2] = 1
    assert shared_attention([one, one]).abs().max() == 0
    other = one.roll(1, dims=2)
    assert shared_attention([one, other]).min() > 0  # layers that disagree
    even = torch.full((1, 3, 4, 5), 0.25)
    torch.testing.assert_close(shared_attention([even]), torch.full((1, 5), 9 * 0.75 / 2))


def test_interaction_starts_at_its_largest_value_in_the_papers_model():
    data = images(64, 1)
    model = transformer_autoencoder(data, **SPRITES)
    batch = Batch(data.x, data.y)
    with torch.no_grad():
        raw = attention_interaction(normalized=False)(model, batch)
        share = attention_interaction()(model, batch)
    assert raw.item() == pytest.approx(57.56, abs=0.04)  # of ½ · 12² · (1 − 1/5) = 57.6
    assert raw < 57.6
    assert share.item() == pytest.approx(raw.item() / 57.6, abs=1e-3)  # another draw


def test_capacity_is_torchs_divergence():
    data = images()
    model = transformer_autoencoder(data, **TINY)
    mean, spread = model.posterior(data.x)
    expected = kl_divergence(Normal(mean, spread), Normal(0.0, 1.0))
    torch.testing.assert_close(divergence(mean, spread), expected)
    penalty = latent_capacity(0.3)(model, Batch(data.x, data.y))
    torch.testing.assert_close(penalty, 0.3 * expected.sum(dim=(1, 2)).mean())


def test_penalties_read_the_forward_pass_of_the_loss():
    data = images()
    model = transformer_autoencoder(data, **TINY)
    calls = []
    model.encoder.register_forward_hook(lambda *_: calls.append(1))
    penalties = [latent_capacity(), attention_interaction()]
    Objective(model, mse, penalties)(data.x, data.y)
    assert len(calls) == 1
    for penalty in penalties:  # called alone, a penalty makes its own pass
        penalty(model, Batch(data.x, data.y))
    assert len(calls) == 3


# random pixels


def terms_of(model, data, draws=None):
    """Return the summed squared error and the interaction of one pass."""
    loss = partial(sum_of_squares, outputs=data.y[0].numel())
    objective = Objective(model, loss, [attention_interaction()])
    return torch.stack(objective(data.x, data.y, draws=draws, apart=True)[1:])


def test_losses_of_random_pixels_average_to_the_full_loss():
    """Over all groups of pixels, the mean is the loss of the image; over draws, nearly."""
    data = images()
    model = transformer_autoencoder(data, pixels=16, variational=False, **TINY).double()
    data = Data(data.z, data.x.double(), data.y.double())
    with torch.no_grad():
        full = terms_of(model, data, {})
        groups = torch.randperm(64, generator=torch.Generator().manual_seed(0)).view(4, 16)
        parts = torch.stack([terms_of(model, data, {"pixels": group}) for group in groups])
        torch.testing.assert_close(parts.mean(dim=0), full)
        assert (parts.std(dim=0) > 0).all()  # a single group differs
        torch.manual_seed(0)
        drawn = torch.stack([terms_of(model, data) for _ in range(200)])
    error = drawn.std(dim=0) / 200**0.5
    assert ((drawn.mean(dim=0) - full).abs() < 4 * error).all()


def test_pixels_are_those_of_the_whole_image():
    data = images()
    model = transformer_autoencoder(data, pixels=5, **TINY).eval()
    z, some = model.encode(data.x), torch.tensor([3, 60, 0])
    torch.testing.assert_close(model.decode(z, some), model.decode(z).flatten(2)[:, :, some])
    assert model(data.x).shape == data.x.shape  # evaluation decodes everything
    work = model.train().run(data.x)
    assert work.drawn.shape == (4, 3, 5)
    assert len(set(work.pixels.tolist())) == 5


@pytest.mark.parametrize("variational", [True, False])
def test_stacked_autoencoders_train_as_alone(variational):
    """Every model draws its noise and its pixels from its own seed, whatever trains beside it."""
    options = {"encoder": "dense", "units": (8,), "pixels": 9, "variational": variational, **TINY}
    data = images(n=12)
    data = Data(data.z, data.x.double(), data.x.double())
    penalties = [attention_interaction(0.1)] + [latent_capacity(0.1)] * variational
    fitting = {"steps": 6, "batch": 5, "lr": 1e-2, "penalties": penalties}
    models = [transformer_autoencoder(data, seed=s, **options).double() for s in (4, 7)]
    alone = [transformer_autoencoder(data, seed=s, **options).double() for s in (4, 7)]
    histories = fit(models, data, seed=[4, 7], **fitting)
    assert [h.engine for h in histories] == ["map", "map"]
    for model, seed, other in zip(alone, (4, 7), models, strict=True):
        fit(model, data, seed=seed, engine="turn", **fitting)
        torch.testing.assert_close(model.state_dict(), other.state_dict(), rtol=1e-9, atol=1e-11)


def test_a_model_can_be_copied_and_saved():
    data = images()
    model = transformer_autoencoder(data, **TINY)
    model(data.x)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(again.eval()(data.x), model.eval()(data.x))


def test_penalties_refuse_models_without_posterior_or_attention():
    data = images()
    batch = Batch(data.x, data.y)
    for penalty in (latent_capacity(), attention_interaction()):
        with pytest.raises(Refused, match="transformer_autoencoder"):
            penalty(slot_autoencoder(data, channels=4), batch)
    with pytest.raises(Refused, match="variational=True"):
        latent_capacity()(transformer_autoencoder(data, variational=False, **TINY), batch)
    with pytest.raises(Refused, match='decoder="transformer"'):
        attention_interaction()(transformer_autoencoder(data, decoder="broadcast", **TINY), batch)


@pytest.mark.parametrize(("encoder", "decoder"), KINDS)
def test_an_autoencoder_learns(encoder, decoder):
    data = images(8, 8)
    model = transformer_autoencoder(data, encoder=encoder, decoder=decoder, **TINY)
    penalties = [latent_capacity(1e-4)]
    if decoder == "transformer":
        penalties.append(attention_interaction(1e-3))
    history = fit(model, data, steps=80, lr=3e-3, penalties=penalties)[0]
    assert history.diverged is None
    assert history.loss[-1] < 0.8 * history.loss[0]
    assert not model.training


def test_training_lowers_the_penalty():
    data = images(8, 8)
    batch = Batch(data.x, data.y)
    for penalty in (latent_capacity(), attention_interaction()):
        model = transformer_autoencoder(data, **TINY).eval()
        before = penalty(model, batch).item()
        fit(model, data, steps=70, lr=3e-2, loss=lambda a, b: 0 * a.mean(), penalties=[penalty])
        assert penalty(model, batch).item() < 0.5 * before


def test_a_step_that_is_not_finite_ends_training():
    data = images()
    model = transformer_autoencoder(data, **TINY)
    history = fit(model, data, steps=4, every=1, penalties=[latent_capacity(float("nan"))])[0]
    assert history.diverged is not None


def test_attention_bounds_the_slopes():
    """Attention has ∂oₚ/∂zₖ = Aₚₖ (V + (V zₖ − oₚ) ⊗ qₚᵀK): slots without weight do not matter."""
    torch.manual_seed(0)
    z, q = torch.randn(3, 4, dtype=torch.double), torch.randn(5, dtype=torch.double)
    key, value = torch.randn(2, 5, 4, dtype=torch.double)

    def read(z):
        return (z @ key.T @ q).softmax(dim=0) @ (z @ value.T)

    share, out = (z @ key.T @ q).softmax(dim=0), read(z)
    expected = [share[k] * (value + torch.outer(value @ z[k] - out, q @ key)) for k in range(3)]
    torch.testing.assert_close(
        jacrev(read)(z).transpose(0, 1), torch.stack(expected), atol=1e-12, rtol=0
    )
    assert Work(z, z).attention == ()
