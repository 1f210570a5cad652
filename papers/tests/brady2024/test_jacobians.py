"""Which slot a pixel depends on: slopes against brute force, scores against known answers."""

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch.func import jacrev, vmap

from recombine.base.error import Refused
from recombine.models.transformer import transformer_autoencoder
from recombine.tasks.task import Data
from recombine_papers.brady2024.jacobians import (
    j_ari,
    jis,
    shares,
    slot_maps,
    slot_shares,
    slot_slopes,
)

TINY = {"channels": 8, "width": 8, "query": 8, "inner": 8, "hidden": (8, 8), "drawing": (8,)}


def images(side=8, n=5) -> Data:
    x = torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0))
    return Data(np.zeros((n, 2)), x, x)


def model(decoder="transformer"):
    return transformer_autoencoder(images(), decoder=decoder, dim=4, **TINY).double().eval()


def codes(n=2):
    return torch.randn(n, 3, 4, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def brute(decode, z):
    """All slopes by reverse mode, one point after another: (n, channels, rows, cols, k, d)."""
    return torch.stack([jacrev(lambda one: decode(one[None])[0])(point) for point in z])


@pytest.mark.parametrize("decoder", ["transformer", "broadcast"])
@pytest.mark.parametrize(("chunk", "ways"), [(1, 5), (100, 100)])
def test_slopes_are_those_of_brute_force(decoder, chunk, ways):
    decode, z = model(decoder).decode, codes()
    expected = brute(decode, z).abs().sum(dim=(1, 5)).movedim(3, 1)
    slopes = slot_slopes(decode, z, chunk=chunk, ways=ways)
    assert slopes.shape == (2, 3, 8, 8)
    torch.testing.assert_close(slopes, expected)
    shares_of_slots = expected / expected.sum(dim=1, keepdim=True)
    torch.testing.assert_close(slot_maps(decode, z), shares_of_slots)
    if decoder == "transformer":
        torch.testing.assert_close(slot_maps(decode, z, separate=True), shares_of_slots)
        where = torch.rand(2, 8, 8) < 0.3
        some = slot_maps(decode, z, separate=True, where=where)
        torch.testing.assert_close(some.movedim(1, 3)[where], shares_of_slots.movedim(1, 3)[where])
        assert (some.movedim(1, 3)[~where] == 1 / 3).all()


def masks():
    """Two images of 6×6 with three and two objects on background."""
    labels = torch.zeros(2, 6, 6, dtype=torch.long)
    labels[0, :2], labels[0, 2:4], labels[0, 4:, :3] = 1, 2, 3
    labels[1, :, :2], labels[1, :, 4:] = 1, 2
    return labels


def one_hot(labels, k=4):
    return (labels[:, None] == torch.arange(k)[None, :, None, None]).double()


def test_one_slot_per_object_scores_one():
    maps = one_hot(masks())
    assert j_ari(maps, masks()).tolist() == [1, 1]
    assert jis(maps, masks()) == pytest.approx(1)
    order = maps[:, [2, 0, 3, 1]]
    assert j_ari(order, masks()).tolist() == [1, 1]


def test_slots_with_equal_slopes_have_score_zero():
    assert jis(torch.full((2, 4, 6, 6), 0.25), masks()) == pytest.approx(0)


def test_a_single_slot_that_renders_everything_is_recognized_by_its_share():
    maps = torch.zeros(2, 4, 6, 6)
    maps[:, 1] = 1
    assert j_ari(maps, masks()).tolist() == [0, 0]
    assert jis(maps, masks()) == pytest.approx(1)
    assert slot_shares(maps, masks()).tolist() == [0, 1, 0, 0]


def test_scores_are_scikit_learns_and_the_definitions(rng):
    labels = torch.tensor(rng.integers(0, 4, size=(6, 5, 5)))
    maps = shares(torch.tensor(rng.random((6, 4, 5, 5))))
    index = j_ari(maps, labels)
    for i in range(6):
        keep = labels[i] > 0
        expected = adjusted_rand_score(labels[i][keep], maps[i].argmax(dim=0)[keep])
        assert index[i].item() == pytest.approx(expected, abs=1e-12)
    largest = [maps[i, :, a, b].max().item() for i, a, b in (labels > 0).nonzero().tolist()]
    assert jis(maps, labels) == pytest.approx((np.mean(largest) - 1 / 4) / (1 - 1 / 4))


def test_background_does_not_count():
    maps = one_hot(masks())
    other = maps.clone()
    other.movedim(1, -1)[masks() == 0] = 0.25
    assert torch.equal(j_ari(maps, masks()), j_ari(other, masks()))
    assert jis(maps, masks()) == jis(other, masks())


def test_pixels_without_any_slope_count_all_slots_alike():
    def decode(z):
        drawn = z.new_zeros(len(z), 1, 2, 2)
        drawn[:, 0, 0, 0] = z[:, 0, 0] ** 2
        return drawn

    maps = slot_maps(decode, torch.ones(1, 2, 3))
    assert maps[0, :, 0, 0].tolist() == [1, 0]
    assert maps[0, :, 1, 1].tolist() == [0.5, 0.5]


def test_labels_that_do_not_fit_are_refused():
    maps = torch.full((2, 2, 6, 6), 0.5)
    with pytest.raises(Refused, match="3 objects, but there are 2 slots"):
        jis(maps, masks())
    with pytest.raises(Refused, match="1 of 2 images have no pixel"):
        j_ari(maps, masks() * torch.tensor([0, 1])[:, None, None])
    with pytest.raises(Refused, match="one label per pixel"):
        j_ari(maps, masks()[:, :5])
    with pytest.raises(Refused, match="below 0"):
        jis(torch.full((2, 4, 6, 6), 0.25), masks() - 1)
    with pytest.raises(Refused, match="single slot"):
        jis(maps[:, :1], masks())


def test_slopes_leave_no_gradient_behind():
    net = model()
    assert not slot_slopes(net.decode, codes()).requires_grad
    one = vmap(lambda z: net.decode(z[None])[0])(codes())
    torch.testing.assert_close(one, net.decode(codes()))
