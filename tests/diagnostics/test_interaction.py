"""Interaction order: known answers for known maps, methods against each other, what is refused."""

from itertools import permutations

import numpy as np
import pytest
import torch
from torch import nn

from recombine.core.diagnostic import observe
from recombine.core.error import Refused
from recombine.core.support import box
from recombine.diagnostics.interaction import interaction, interaction_order
from recombine.diagnostics.shares import apart, dispersion
from recombine.maps.derivatives import energies
from recombine.maps.slots import sensitivity
from recombine.models.decoders import mlp
from recombine.tasks.interactions import ORDERS, generator, interacting, space
from recombine.tasks.symbolic import addition

BLOCKS = [[0, 1], [2, 3, 4]]


def points(n=6, dim=12, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).uniform(-1, 1, size=(n, dim)))


@pytest.mark.parametrize("kind", ORDERS)
def test_known_generators_have_their_order_by_every_method(kind):
    f, z = generator(kind, side=3), points(3)
    wanted = ORDERS[kind] if ORDERS[kind] in (0, 1, 2) else None
    found = interaction_order(f, z, space(), tolerance=1e-9)
    assert (found.order, found.method) == (wanted, "exact")
    for method in ("probes", "differences"):
        other = interaction_order(f, z, space(), tolerance=1e-9, method=method, probes=2, steps=2)
        assert other.order == wanted, method


def test_zeros_are_exact_in_single_precision():
    found = interaction_order(generator("additive", side=3), points(2).float(), space())
    assert (found.shares[1].value, found.shares[2].value) == (0.0, 0.0)


def test_shares_of_a_product_are_those_of_its_formula():
    z = torch.tensor([[2.0, 3.0, 5.0]], dtype=torch.float64)

    def f(z):  # D²: 2·2y, 2x; D³: 3 of 2
        return z[:, :1] * z[:, 1:2] ** 2 + z[:, 2:]

    found = interaction_order(f, z, [[0], [1, 2]])
    cross, own = 2 * 6.0**2, 4.0**2
    assert found.shares[1].value == pytest.approx(cross / (cross + own))
    assert found.shares[2].value == pytest.approx(1)
    assert found.pairs[1][0, 1] == pytest.approx(cross / (cross + own))
    p = np.array([9, 12, 1]) / 22  # |x slope|, |y slope|, 1
    spread = (1 - p[0] ** 2 - (p[1] + p[2]) ** 2) / 0.5
    assert found.shares[0].value == pytest.approx(spread)
    np.testing.assert_allclose(found.blocks, [p[0], p[1] + p[2]])


def test_random_blocks_have_the_mean_over_all_of_them():
    f, z = generator("entangled", side=2), points(1)
    dim, sizes = 5, (2, 3)

    def g(z):
        return f(torch.nn.functional.pad(z, (0, 7)))

    for order in (2, 3):
        squares = energies(g, z[:, :dim], order)[0]
        total = []
        for turn in permutations(range(dim)):
            label = np.repeat([0, 1], sizes)[list(turn)]
            grids = np.meshgrid(*[label] * order, indexing="ij")
            mixed = np.ptp(np.stack(grids), axis=0) > 0
            total.append(float(squares[torch.from_numpy(mixed)].sum()))
        assert float((squares * apart(sizes, order)).sum()) == pytest.approx(np.mean(total))


def test_dispersion_is_0_for_one_block_an_output_1_for_all_alike_and_skips_dead_outputs():
    norms = torch.eye(3)[None].repeat(2, 1, 1)
    assert dispersion(norms) == 0
    assert dispersion(torch.ones(2, 3, 4)) == pytest.approx(1)
    assert dispersion(torch.cat([norms, torch.zeros(2, 3, 5)], dim=2)) == 0
    assert dispersion(torch.zeros(2, 3, 5)) == 0


def test_probes_agree_with_exact_values_within_their_errors():
    f, z = generator("occluding", side=4), points(3)
    exact = interaction_order(f, z, space(), method="exact")
    found = interaction_order(f, z, space(), method="probes", probes=48)
    for n in (1, 2):
        a, b = exact.shares[n], found.shares[n]
        assert 0 < b.error < 0.5 * a.value
        assert abs(a.value - b.value) < 5 * b.error
        assert b.ratio == pytest.approx(a.ratio, rel=0.5)


def test_dispersion_by_probes_is_that_of_the_norms_of_slots():
    f, z = generator("softmax", side=3), points(2)

    def decode(slots):
        return f(slots.flatten(1))

    wanted = dispersion(sensitivity(decode, z.unflatten(1, (3, 4))))
    share = interaction_order(f, z, space(), method="probes", probes=200, up_to=0).shares[0]
    assert share.value == pytest.approx(wanted, abs=max(5 * share.error, 0.02))


def relu(dim=5):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, 8)).double()


def test_kinks_are_named_and_measured_by_differences():
    found = interaction_order(relu(), points(8, 5), BLOCKS)
    assert (found.method, found.order) == ("differences", None)
    assert "ReLU in layer '1'" in str(found)
    assert interaction_order(relu(), points(8, 5), BLOCKS, method="exact").order == 1


def test_hidden_kinks_and_lost_derivatives_are_noticed():
    model = relu()
    found = interaction_order(lambda z: model(z), points(8, 5), BLOCKS)
    assert (found.method, found.order) == ("differences", None)
    assert "exactly 0 but differences are not" in found.why
    found = interaction_order(lambda z: z.detach().tanh().cumsum(dim=1), points(8, 5), BLOCKS)
    assert (found.method, found.order) == ("differences", 1)


def test_only_layers_that_run_count_as_kinks():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = relu(), nn.Linear(5, 3).double()

        def decode(self, z):
            return self.decoder(z)

    assert interaction_order(Half().decode, points(8, 5), BLOCKS).method == "exact"


def test_maps_without_derivatives_fall_back_to_differences_or_are_refused():

    def f(z):
        return torch.as_tensor(np.tanh(z.numpy() @ np.ones((5, 3))))

    found = interaction_order(f, points(8, 5), BLOCKS)
    assert (found.method, found.order) == ("differences", None)
    assert "derivatives failed" in found.why
    with pytest.raises(Refused, match="loop=True"):
        interaction_order(f, points(8, 5), BLOCKS, method="exact")


def test_many_latents_are_probed():

    def f(z):
        return (z @ torch.ones(24, 2).to(z)).tanh()

    found = interaction_order(f, points(2, 24), [slice(0, 12), slice(12, 24)], probes=2)
    assert (found.method, found.order) == ("probes", None)
    assert "24 latents are many" in found.why


def test_slots_are_blocks_and_one_latent_each_has_no_random_partition():

    def f(slots):
        return slots[:, 0] * slots[:, 1]

    found = interaction_order(f, points(3, 2).unflatten(1, (2, 1)))
    assert found.order == 2
    assert np.isnan(found.shares[1].ratio)
    assert found.shares[1].value == 1


def test_a_collapse_is_hinted_at():
    found = interaction_order(lambda z: z[:, :2].sin() + 1e-6 * z[:, 2:4], points(3, 5), BLOCKS)
    assert found.collapsed
    assert "collapse" in str(found)


def test_a_constant_map_and_a_linear_one_have_no_interaction():
    assert interaction_order(lambda z: 0 * z, points(3, 5), BLOCKS).order == 0
    found = interaction_order(lambda z: z.cumsum(dim=1), points(3, 5), BLOCKS)
    assert (found.order, found.shares[1].value) == (1, 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"blocks": [[0, 1], [2, 3]]}, "left out"),
        ({"blocks": None}, "need blocks"),
        ({"up_to": 3}, "from 0 to 2"),
        ({"probes": 0}, "counts from 1"),
        ({"method": "differences", "z": points(1, 5)}, "two points or more"),
    ],
)
def test_what_cannot_be_measured_is_refused(change, said):
    given = {"z": points(3, 5), "blocks": BLOCKS} | change
    z, blocks = given.pop("z"), given.pop("blocks")
    with pytest.raises(Refused, match=said):
        interaction_order(lambda z: z, z, blocks, **given)


def test_the_diagnostic_measures_models_on_grids_and_on_blocks():
    task = addition()
    split = task.split(~box(a=(3, 5), b=(3, 5)))
    found = interaction(observe(mlp(split.train, width=16, depth=1), task, split))
    assert found["interaction_1_truth"] == pytest.approx(0, abs=1e-9)
    assert found["interaction_1"] > 1e-4
    assert "interaction_2" not in found
    task = interacting("additive", side=3)
    split = task.split(
        ~box({"a[0]": (0, 1), "b[0]": (0, 1)}), n=32, asked=32, rng=np.random.default_rng(0)
    )
    seen = observe(mlp(split.train, width=16, depth=1), task, split)
    found = interaction(seen)
    assert found["interaction_1_truth"] < 1e-9 < found["interaction_1"]
    assert found["interaction_2_truth"] < 1e-9
