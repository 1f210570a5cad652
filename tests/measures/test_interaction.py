"""Interaction order: known answers for known maps, methods against each other, and refusals."""

from functools import partial
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import nn

from recombine.base.error import Refused
from recombine.maps.derivatives import energies
from recombine.measures.interaction import interaction, interaction_order
from recombine.measures.observed import observe
from recombine.measures.shares import apart, dispersion
from recombine.models.decoders import mlp
from recombine.spaces.sets import box
from recombine_papers.brady2024.generators import ORDERS
from recombine_papers.brady2024.interacting import generator, interacting, space
from recombine_papers.lippl2025.symbolic import addition

BLOCKS = [[0, 1], [2, 3, 4]]


def points(n=6, dim=12, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).uniform(-1, 1, size=(n, dim)))


@pytest.mark.parametrize("kind", ORDERS)
def test_known_generators_have_their_order_by_every_method(kind):
    f, z = generator(kind, side=3), points(3)
    expected = ORDERS[kind] if ORDERS[kind] in (0, 1, 2) else None
    interaction = interaction_order(f, z, space(), tolerance=1e-9)
    assert (interaction.order, interaction.method) == (expected, "exact")
    for method in ("probes", "differences"):
        other = interaction_order(f, z, space(), tolerance=1e-9, method=method, probes=2, steps=2)
        assert other.order == expected, method


def test_zeros_are_exact_in_single_precision():
    interaction = interaction_order(generator("additive", side=3), points(2).float(), space())
    assert (interaction.shares[1].value, interaction.shares[2].value) == (0.0, 0.0)


def test_shares_of_a_product_are_those_of_its_formula():
    z = torch.tensor([[2.0, 3.0, 5.0]], dtype=torch.float64)

    def f(z):  # D²: 2·2y, 2x; D³: 3 of 2
        return z[:, :1] * z[:, 1:2] ** 2 + z[:, 2:]

    interaction = interaction_order(f, z, [[0], [1, 2]])
    cross, within = 2 * 6.0**2, 4.0**2
    assert interaction.shares[1].value == pytest.approx(cross / (cross + within))
    assert interaction.shares[2].value == pytest.approx(1)
    assert interaction.pairs[1][0, 1] == pytest.approx(cross / (cross + within))
    p = np.array([9, 12, 1]) / 22  # |x slope|, |y slope|, 1
    spread = (1 - p[0] ** 2 - (p[1] + p[2]) ** 2) / 0.5
    assert interaction.shares[0].value == pytest.approx(spread)
    np.testing.assert_allclose(interaction.blocks, [p[0], p[1] + p[2]])


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
    interaction = interaction_order(f, z, space(), method="probes", probes=48)
    for n in (1, 2):
        a, b = exact.shares[n], interaction.shares[n]
        assert 0 < b.error < 0.5 * a.value
        assert abs(a.value - b.value) < 5 * b.error
        assert b.ratio == pytest.approx(a.ratio, rel=0.5)


def test_order_0_is_one_number_by_derivatives_and_by_probes():
    for kind in ("softmax", "entangled"):
        f, z = generator(kind, side=3), points(2)
        exact, probed = (
            interaction_order(f, z, space(), method=m, up_to=0) for m in ("exact", "probes")
        )
        assert probed.shares[0].value == pytest.approx(exact.shares[0].value, rel=1e-12)
        np.testing.assert_allclose(probed.blocks, exact.blocks)


def relu(dim=5):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, 8)).double()


def test_kinks_are_named_and_measured_by_differences():
    interaction = interaction_order(relu(), points(8, 5), BLOCKS)
    assert (interaction.method, interaction.order) == ("differences", None)
    assert "ReLU in layer '1'" in str(interaction)
    assert interaction_order(relu(), points(8, 5), BLOCKS, method="exact").order == 1


def test_hidden_kinks_and_lost_derivatives_are_noticed():
    model = relu()
    interaction = interaction_order(lambda z: model(z), points(8, 5), BLOCKS)
    assert (interaction.method, interaction.order) == ("differences", None)
    assert "a kink between two points" in interaction.why
    interaction = interaction_order(lambda z: z.detach().tanh().cumsum(dim=1), points(8, 5), BLOCKS)
    assert (interaction.method, interaction.order) == ("differences", 1)
    assert "differ from differences" in interaction.why


def behind(kink, z):
    """Hide a kink across blocks behind a large sum over blocks and a small smooth cross term."""
    return z.sin().sum(dim=1, keepdim=True) + 1e-3 * z[:, :1] * z[:, 2:3] + kink(z)


@pytest.mark.parametrize(
    "kink",
    [
        lambda z: (z[:, :1] + z[:, 2:3]).relu(),
        lambda z: torch.maximum(z[:, :1], z[:, 2:3]),
        lambda z: (z[:, :1] + z[:, 2:3] > 0).to(z),
    ],
)
def test_kinks_and_jumps_behind_a_smooth_cross_term_are_found(kink):
    f, z = partial(behind, kink), points(16, 5)
    blind = interaction_order(f, z, BLOCKS, method="exact")
    assert blind.order == 2
    interaction = interaction_order(f, z, BLOCKS)
    assert (interaction.method, interaction.order) == ("differences", None)
    assert interaction_order(partial(behind, torch.sin), z, BLOCKS).method == "exact"


def test_kinks_within_blocks_are_no_interaction():
    interaction = interaction_order(lambda z: z.abs().cumsum(dim=1), points(16, 5), BLOCKS)
    assert (interaction.method, interaction.order) == ("differences", 1)


def test_derivatives_that_are_not_finite_are_refused_or_replaced():
    z = points(8, 5).abs()
    z[0] = 0

    def f(z):
        return z.sqrt().cumsum(dim=1)

    for method in ("exact", "probes"):
        with pytest.raises(Refused, match="order 1 are not finite"):
            interaction_order(f, z, BLOCKS, method=method)
    interaction = interaction_order(f, z, BLOCKS)
    assert (interaction.method, interaction.order) == ("differences", 1)
    with pytest.raises(Refused, match="not finite"):
        interaction_order(f, z[:1], BLOCKS)
    corners = torch.tensor([[0.0], [1.0]]).expand(2, 5)
    with pytest.raises(Refused, match="not finite between the points"):
        interaction_order(
            lambda z: (0.5 + z[:, :1] - z[:, 2:3]).sqrt(), corners, BLOCKS, method="differences"
        )


@pytest.mark.parametrize("offset", [0.0, 3e3, -1e5])
@pytest.mark.parametrize("method", ["auto", "exact", "differences"])
def test_an_offset_is_no_interaction(offset, method):
    z = points(16, 5).float()

    def additive(z):
        return z.sin().cumsum(dim=1) + offset

    interaction = interaction_order(additive, z, BLOCKS, method=method, up_to=1)
    assert interaction.order == 1
    # In single precision, rounding of large values hides kinks.
    assert interaction.method == {"auto": "differences" if offset else "exact"}.get(method, method)

    def mixed(z):
        return additive(z.cumsum(dim=1))

    assert interaction_order(mixed, z, BLOCKS, method=method, up_to=1).order is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("offset", [3e3, 1e5])
def test_an_offset_hides_no_kink(offset, dtype):
    """The derivatives of a maximum are those of order 0."""
    z = points(16, 5).to(dtype)
    for f in (lambda z: torch.maximum(z[:, :2], z[:, 2:4]), lambda z: (z[:, :2] - z[:, 2:4]).abs()):
        assert interaction_order(f, z, BLOCKS, up_to=1).order is None
        assert interaction_order(lambda z, f=f: f(z) + offset, z, BLOCKS, up_to=1).order is None


@pytest.mark.parametrize("seed", range(8))
def test_a_derivative_that_is_lost_in_one_block_is_noticed(seed):
    """Along a direction that hardly moves in this block the error is small."""
    z = points(16, 5).float()
    interaction = interaction_order(lambda z: z[:, :2].detach() * z[:, 2:4], z, BLOCKS, seed=seed)
    assert (interaction.method, interaction.order) == ("differences", 2)


@pytest.mark.parametrize("seed", range(8))
def test_probes_of_few_equal_latents_do_not_cancel(seed):
    z = points(32, 4)
    interaction = interaction_order(
        lambda z: z.sum(dim=1, keepdim=True).exp(), z, [[0, 1], [2, 3]], method="probes", seed=seed
    )
    assert interaction.shares[1].value == pytest.approx(0.5, abs=0.15)
    assert interaction.shares[2].value == pytest.approx(0.75, abs=0.5)


def test_an_order_that_rounding_hides_is_refused():
    with pytest.raises(Refused, match=r"Rounding hides shares of order 2 up to .* lower order"):
        interaction_order(
            lambda z: z.sum(dim=1, keepdim=True).exp() + 6e5, points(32, 4).float(),
            [[0, 1], [2, 3]], method="differences",
        )  # fmt: skip


def test_a_change_that_drowns_in_rounding_is_refused():
    with pytest.raises(Refused, match="too little relative to their size for float32"):
        interaction_order(
            lambda z: 1e-3 * z.cumsum(dim=1) + 3e3, points(8, 5).float(), BLOCKS,
            method="differences",
        )  # fmt: skip


def test_expanded_tensors_are_accepted_as_points():
    z = points(1, 5)
    f = nn.Sequential(nn.Tanh(), nn.Linear(5, 3), nn.Tanh()).double()
    for g in (f, lambda z: f(z)):
        one, many = (interaction_order(g, at, BLOCKS) for at in (z, z.expand(4, 5)))
        assert one.order is many.order is None
        assert many.shares[1].value == pytest.approx(one.shares[1].value)
        assert "only one point" in many.why
    with pytest.raises(Refused, match="two or more different points"):
        interaction_order(f, z.expand(4, 5), BLOCKS, method="differences")


def test_the_number_that_decides_is_printed_beside_the_tolerance():
    def f(z):
        return 9 * z.square().sum(dim=1, keepdim=True) + z[:, :1] * z[:, 2:3]

    interaction = interaction_order(f, points(3, 5), BLOCKS)
    share = interaction.shares[1]
    assert share.value < interaction.tolerance < interaction.deciding[1] == share.ratio
    assert f"order 1 is excluded: {share.ratio:.3g} > tolerance 0.02" in str(interaction)
    assert "order 2 is possible: 0 ≤ tolerance 0.02" in str(interaction)


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

    interaction = interaction_order(f, points(8, 5), BLOCKS)
    assert (interaction.method, interaction.order) == ("differences", None)
    assert "derivatives failed" in interaction.why
    with pytest.raises(Refused, match="loop=True"):
        interaction_order(f, points(8, 5), BLOCKS, method="exact")


def test_many_latents_are_probed():

    def f(z):
        return (z @ torch.ones(24, 2).to(z)).tanh()

    interaction = interaction_order(f, points(2, 24), [slice(0, 12), slice(12, 24)], probes=2)
    assert (interaction.method, interaction.order) == ("probes", None)
    assert "24 latents are many" in interaction.why


def test_slots_are_blocks_and_one_latent_each_has_no_random_partition():

    def f(slots):
        return slots[:, 0] * slots[:, 1]

    interaction = interaction_order(f, points(3, 2).unflatten(1, (2, 1)))
    assert interaction.order == 2
    assert np.isnan(interaction.shares[1].ratio)
    assert interaction.shares[1].value == 1


def test_a_collapse_is_reported():
    interaction = interaction_order(
        lambda z: z[:, :2].sin() + 1e-6 * z[:, 2:4], points(3, 5), BLOCKS
    )
    assert interaction.collapsed
    assert "collapse" in str(interaction)


def test_a_constant_map_and_a_linear_one_have_no_interaction():
    assert interaction_order(lambda z: 0 * z, points(3, 5), BLOCKS).order == 0
    interaction = interaction_order(lambda z: z.cumsum(dim=1), points(3, 5), BLOCKS)
    assert (interaction.order, interaction.shares[1].value) == (1, 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"blocks": [[0, 1], [2, 3]]}, "left out"),
        ({"blocks": None}, "need blocks"),
        ({"up_to": 3}, "up_to=3"),
        ({"probes": 0}, "probes=0"),
        ({"method": "differences", "z": points(1, 5)}, "two or more different points"),
    ],
)
def test_invalid_measurements_are_refused(change, said):
    arguments = {"z": points(3, 5), "blocks": BLOCKS} | change
    z, blocks = arguments.pop("z"), arguments.pop("blocks")
    with pytest.raises(Refused, match=said):
        interaction_order(lambda z: z, z, blocks, **arguments)


def test_the_diagnostic_measures_models_on_grids_and_on_blocks():
    task = addition()
    split = task.split(~box(a=(3, 5), b=(3, 5)))
    measured = interaction(observe(mlp(split.train, width=16, depth=1), task, split))
    assert measured["interaction_1_truth"] == pytest.approx(0, abs=1e-9)
    assert measured["interaction_1"] > 1e-4
    assert "interaction_2" not in measured
    task = interacting("additive", side=3)
    split = task.split(
        ~box({"a[0]": (0, 1), "b[0]": (0, 1)}), n=32, queries=32, rng=np.random.default_rng(0)
    )
    observation = observe(mlp(split.train, width=16, depth=1), task, split)
    measured = interaction(observation)
    assert measured["interaction_1_truth"] < 1e-9 < measured["interaction_1"]
    assert measured["interaction_2_truth"] < 1e-9
