"""Slot autoencoders, their penalties and scores, on known answers."""

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score
from torch import Tensor, nn
from torch.func import jacrev, vmap

from recombine.base.error import Refused
from recombine.maps.slots import Layered, assign, sensitivity, shared_outputs
from recombine.measures.slots import Latents, ari, contrast, readout, segments, slot_order
from recombine.models.decoders import mlp
from recombine.models.slots import slot_attention, slot_autoencoder
from recombine.penalties import Batch, compositional_consistency
from recombine.tasks.task import Data
from recombine.training.fit import fit


def images(side=16, n=4) -> Data:
    x = torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0))
    return Data(np.zeros((n, 2)), x, x)


def count(module) -> int:
    return sum(p.numel() for p in module.parameters())


SMALL = {"channels": 8, "dim": 4}


# models


def test_parameters_are_counted_as_in_the_paper():
    model = slot_autoencoder(images(64, 1))
    assert (count(model.encoder), count(model.decoder)) == (282_380, 249_955)


@pytest.mark.parametrize("side", [8, 16, 32])
@pytest.mark.parametrize("build", [slot_autoencoder, slot_attention])
def test_slots_are_encoded_decoded_and_added(build, side):
    data = images(side)
    model = build(data, slots=3, **SMALL)
    z = model.encode(data.x)
    assert z.shape == (4, 3, 4)
    assert model.parts(z).shape == (4, 3, 3, side, side)
    torch.testing.assert_close(model.parts(z).sum(dim=1), model.decode(z))
    torch.testing.assert_close(model(data.x), model.decode(z))


def additive(model, z: Tensor) -> bool:
    """Compare the effects of changing one slot and the other with that of changing both."""
    a, b = z.clone(), z.clone()
    a[:, 0] += 1
    b[:, 1] -= 1
    union = a + b - z
    mixed = model.decode(union) - model.decode(a) - model.decode(b) + model.decode(z)
    return bool(mixed.abs().max() < 1e-5)


def test_sigmoid_masks_add_slots_and_softmax_masks_do_not():
    data = images(8)
    z = torch.randn(4, 2, 4)
    assert additive(slot_autoencoder(data, **SMALL), z)
    assert additive(slot_attention(data, masks="sigmoid", **SMALL), z)
    soft = slot_attention(data, masks="softmax", **SMALL)
    assert not additive(soft, z)
    torch.testing.assert_close(soft.masks(z).sum(dim=1), torch.ones(4, 8, 8))


def test_slot_attention_orders_slots_as_it_was_started():
    data = images(8)
    model = slot_attention(data, slots=3, **SMALL)
    start, order = torch.randn(4, 3, 4), [2, 0, 1]
    z, turned = model.encode(data.x, start), model.encode(data.x, start[:, order])
    torch.testing.assert_close(z[:, order], turned)
    assert not torch.allclose(z, turned)
    torch.testing.assert_close(model.decode(z), model.decode(turned))


def test_initial_slots_are_fixed_or_random():
    data = images(8)
    fixed, random = (slot_attention(data, initial=i, **SMALL) for i in ("fixed", "random"))
    assert torch.equal(fixed(data.x), fixed(data.x))
    assert not torch.equal(random(data.x), random(data.x))
    torch.testing.assert_close(fixed(data.x)[:2], fixed(data.x[:2]))


def test_smaller_broadcasts_reach_the_size_of_the_image():
    data = images(16)
    whole, less = (
        slot_attention(data, **SMALL),
        slot_attention(data, broadcast=4, halvings=2, **SMALL),
    )
    assert less(data.x).shape == whole(data.x).shape == data.x.shape
    assert count(less) == count(whole)
    assert less.encoder(data.x).shape == (4, 16, 8)  # 4×4 tokens
    with pytest.raises(Refused, match="got halvings=5"):
        slot_attention(data, halvings=5)
    with pytest.raises(Refused, match="got broadcast=3"):
        slot_attention(data, broadcast=3)


@pytest.mark.parametrize("build", [slot_autoencoder, slot_attention])
def test_inputs_that_are_not_images_are_refused(build):
    x = torch.rand(2, 5)
    with pytest.raises(Refused, match="square images"):
        build(Data(np.zeros((2, 1)), x, x))
    with pytest.raises(Refused, match="slots=0"):
        build(images(), slots=0)


def test_an_odd_image_cannot_be_halved():
    with pytest.raises(Refused, match="got 12"):
        slot_autoencoder(images(12))


@pytest.mark.parametrize("build", [slot_autoencoder, slot_attention])
def test_an_autoencoder_learns(build):
    data = images(8, 8)
    model = build(data, **SMALL)
    history = fit(model, data, steps=60, lr=3e-3)[0]
    assert history.loss[-1] < 0.8 * history.loss[0]


# penalties


def test_assignments_are_scipys(rng):
    for k in (1, 2, 4):
        cost = rng.normal(size=(20, k, k))
        expected = [linear_sum_assignment(c)[1] for c in cost]
        np.testing.assert_array_equal(assign(torch.tensor(cost)), expected)


def test_gradients_of_consistency_reach_only_the_encoder():
    data = images(8)
    for build in (slot_autoencoder, slot_attention):
        model = build(data, **SMALL)
        compositional_consistency()(model, Batch(data.x, data.y)).backward()
        drawing = [p.grad for p in model.decoder.parameters()]
        assert all(g is None for g in drawing)
        reading = [p.grad for p in model.encoder.parameters()]
        assert all(g is not None and g.abs().sum() > 0 for g in reading)


class Written(Layered):
    """Decodes slots into pixels and encodes them back: reordered, scaled, or wrongly."""

    def __init__(self, read=lambda z: z) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.read = read

    def encode(self, x: Tensor) -> Tensor:
        return self.read(x) * self.weight

    def parts(self, z: Tensor) -> Tensor:
        return torch.diag_embed(z.mT).permute(0, 2, 3, 1)  # slot k in row k


def slots(n=16, k=2, d=3) -> Tensor:
    return torch.rand(n, k, d, generator=torch.Generator().manual_seed(1))


def test_consistency_is_zero_for_slots_read_back_in_any_order_and_scale():
    x = slots()
    torch.testing.assert_close(Written().decode(x), x)
    exact, wide = compositional_consistency(), compositional_consistency(least=-9, most=9)
    assert exact(Written(), Batch(x, x)) < 1e-6
    assert exact(Written(lambda z: z.flip(1)), Batch(x, x)) < 1e-6
    scaled = Written(lambda z: 3 * z - 1)
    assert wide(scaled, Batch(x, x)) < 1e-6
    assert exact(scaled, Batch(x, x)) > 0.1  # the clamp cuts off its outputs
    assert exact(Written(lambda z: z.mean(dim=1, keepdim=True) * z), Batch(x, x)) > 0.1


def test_consistency_follows_its_definition():
    """Matched by brute force, with the same random recombination."""
    x = slots(5)
    model = Written(lambda z: z.square())
    torch.manual_seed(4)
    penalty = compositional_consistency(weight=2.0)(model, Batch(x, x)).item()
    torch.manual_seed(4)
    code = model.encode(x).detach()
    rows = torch.randint(10, (10,))
    expected = code.flatten(0, 1)[rows].view(5, 2, 3)
    again = model.encode(model.decode(expected).clamp(0, 1)).detach()
    a = ((again - again.mean()) / again.std()).numpy()
    b = ((expected - expected.mean()) / expected.std()).numpy()
    total = [
        min(((p - q) ** 2).sum(), ((p[::-1] - q) ** 2).sum()) for p, q in zip(a, b, strict=True)
    ]
    assert penalty == pytest.approx(2 * np.mean(total), rel=1e-5)


def test_consistency_enters_training_by_a_schedule():
    data = images(8, 8)
    models = [slot_autoencoder(data, **SMALL) for _ in range(3)]
    late = (compositional_consistency(), lambda t: float(t >= 0.5))
    never = (compositional_consistency(), lambda t: 0.0)
    for model, penalties in zip(models, ([], [never], [late]), strict=True):
        fit(model, data, steps=6, penalties=penalties)
    torch.testing.assert_close(models[0](data.x), models[1](data.x))
    assert not torch.allclose(models[0].encode(data.x), models[2].encode(data.x))


def test_penalties_refuse_models_without_slots():
    data = images(8)
    with pytest.raises(Refused, match="Slotted"):
        compositional_consistency()(mlp(data, width=4), Batch(data.x, data.y))


def test_sensitivity_is_the_norm_of_the_jacobian():
    model = slot_autoencoder(images(8), slots=3, **SMALL)
    z = torch.randn(2, 3, 4)
    jacobian = vmap(jacrev(lambda one: model.decode(one[None])[0]))(z)  # (n, 3, 8, 8, slots, dim)
    expected = jacobian.norm(dim=-1).flatten(1, 3).mT
    torch.testing.assert_close(sensitivity(model.decode, z), expected, rtol=1e-4, atol=1e-6)
    pairs = [(0, 1), (0, 2), (1, 2)]
    torch.testing.assert_close(
        shared_outputs(expected),
        sum((expected[:, a] * expected[:, b]).sum(dim=1) for a, b in pairs),
    )


def test_contrast_is_zero_for_disjoint_outputs_and_one_for_equal_ones():
    z = slots(4, 3)
    assert contrast(Written().decode, z) == 0
    assert contrast(lambda z: z.sum(dim=1), z) == pytest.approx(1)
    weights = torch.tensor([2.0, 1.0])[None, :, None]
    mixed = contrast(lambda z: (weights * z).sum(dim=1), slots(4, 2))
    assert mixed == pytest.approx(4 * 2 / 9)


def test_the_contrast_penalty_trains_the_decoder():
    data = images(8)
    model = slot_autoencoder(data, **SMALL)

    def penalty(model, batch):
        return shared_outputs(sensitivity(model.decode, model.encode(batch.x))).mean()

    before = penalty(model, Batch(data.x, data.y))
    before.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert any(p.grad.abs().sum() > 0 for p in model.decoder.parameters() if p.grad is not None)
    model.zero_grad()
    fit(model, data, steps=20, loss=lambda a, b: 0 * a.mean(), penalties=[penalty], lr=1e-2)
    assert penalty(model, Batch(data.x, data.y)) < before / 2


# scores


@pytest.mark.parametrize("foreground", [False, True])
def test_ari_is_scikit_learns(rng, foreground):
    truth = rng.integers(0, 4, size=(30, 6, 6))
    labels = np.where(rng.random(truth.shape) < 0.7, truth * 2 % 5, rng.integers(0, 5, truth.shape))
    truth[0], labels[0] = 2, 1  # single groups
    truth[1] = 1  # a single true group
    truth[2] = 0  # all background
    index = ari(torch.tensor(labels), torch.tensor(truth), foreground=foreground)
    for i in range(30):
        keep = truth[i] > 0 if foreground else np.ones((6, 6), dtype=bool)
        expected = adjusted_rand_score(truth[i][keep], labels[i][keep])
        assert index[i].item() == pytest.approx(expected, abs=1e-12)


def test_segments_follow_masks_or_decoded_images():
    data = images(8)
    model = slot_attention(data, **SMALL)
    z = model.encode(data.x)
    assert torch.equal(segments(model, z), model.masks(z).argmax(dim=1))

    class Squares(Layered):
        def encode(self, x: Tensor) -> Tensor:
            return torch.zeros(len(x), 2, 1)

        def parts(self, z: Tensor) -> Tensor:
            drawn = torch.full((len(z), 2, 3, 8, 8), 0.3)
            drawn[:, 0, :, :3, :3], drawn[:, 1, :, 5:, 5:] = 1.0, -1.0
            return drawn

    labels = segments(Squares(), z)[0]
    assert (labels[:3, :3] == 0).all()
    assert (labels[5:, 5:] == 1).all()


def world(n=600):
    """Two objects with two numbers and one of three shapes, each encoded by one slot."""
    source = torch.Generator().manual_seed(0)
    numbers = torch.rand(n, 2, 2, generator=source)
    shape = torch.randint(3, (n, 2, 1), generator=source)
    truth = torch.cat([numbers, shape], dim=2)
    turn = torch.randn(3, 5, generator=source)
    return truth, torch.tanh((truth - 0.5) @ turn / 2)


QUICK = {"classes": [3], "width": 48, "depth": 2, "steps": 300, "batch": 128, "lr": 1e-2}


def test_the_readout_finds_and_reads_permuted_slots():
    truth, z = world()
    z = z.flip(1)
    assert slot_order(z, truth) == [1, 0]
    reader = readout(z[:400], truth[:400], **QUICK)
    assert reader.match(z, truth).tolist() == [[1, 0]] * len(z)
    assert reader.score(z[400:], truth[400:]) > 0.95


def test_reading_does_not_depend_on_units():
    truth = torch.rand(60, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slots, options = truth.flip(1).float(), {"steps": 20, "width": 16, "depth": 1}
    plain = readout(slots, truth, **options).score(slots, truth)
    for unit in (1e-13, 1e-9, 1e9):
        for z, latents in ((slots * unit, truth), (slots, truth * unit)):
            assert slot_order(z, latents) == [1, 0]
            reader = readout(z, latents, **options)
            assert reader.score(z, latents) == pytest.approx(plain, abs=1e-3)


def test_a_readout_matches_the_slots_of_each_image():
    truth, z = world()
    reader = readout(z[:400], truth[:400], **QUICK)
    swap = torch.rand(len(z), generator=torch.Generator().manual_seed(2)) < 0.5
    z = torch.where(swap[:, None, None], z.flip(1), z)
    assert reader.score(z[400:], truth[400:]) > 0.9


def test_unrelated_slots_cannot_be_read():
    truth, _ = world()
    noise = torch.randn(600, 2, 5, generator=torch.Generator().manual_seed(3))
    reader = readout(noise[:400], truth[:400], **{**QUICK, "steps": 100})
    assert reader.score(noise[400:], truth[400:]) < 0.4  # of three shapes, a third is chance


def test_a_readout_can_fit_on_one_set_and_fail_on_another():
    truth, z = world()
    reader = readout(z[:400], truth[:400], **QUICK)
    broken = z[400:].clone()
    broken[:, 0] = z[:200, 0]
    assert reader.score(broken, truth[400:]) < reader.score(z[400:], truth[400:]) / 1.5


def test_errors_of_latents_are_squares_and_cross_entropies():
    readings, truth = torch.randn(4, 2, 5), torch.tensor([0.5, -0.5, 2.0]).expand(4, 2, 3)
    number = (readings[..., :2] - truth[..., :2]).square().sum(dim=-1)
    label = -readings[..., 2:].log_softmax(dim=-1)[..., 2]
    torch.testing.assert_close(Latents(2, (3,)).errors(readings, truth), number + label)
    torch.testing.assert_close(Latents(2).errors(readings[..., :2], truth[..., :2]), number)


def test_a_readout_refuses_what_does_not_fit():
    with pytest.raises(Refused, match="as many slots as objects"):
        readout(torch.rand(9, 3, 2), torch.rand(9, 2, 2))


def test_a_readout_refuses_latents_without_variance():
    truth, z = world(100)
    reader = readout(z, truth, **{**QUICK, "steps": 1})
    truth[..., 1] = 0.5
    for call in (lambda: readout(z, truth, **QUICK), lambda: reader.score(z, truth)):
        with pytest.raises(Refused, match="Latent 1 is constant over these points"):
            call()
