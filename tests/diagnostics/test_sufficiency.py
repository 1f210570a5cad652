"""Certificates for continuous spaces: marginals, partners, ranks, assumptions and the proof."""

import numpy as np
import pytest
import torch
from torch import nn

from recombine.core.error import Refused
from recombine.core.sets import box, cross, everything, values
from recombine.core.shapes import axes
from recombine.core.space import cube
from recombine.diagnostics.sufficiency import _lifted, _spectrum, jacobians, rank, sufficiency
from recombine.diagnostics.theorem import check_assumptions, reconstruct
from recombine.maps.compose import Combination, alpha, compose, gated, product, sigmoid, step

SQUARE = cube(a=1, b=1)
SPRITES = cube(first=5, second=5)
RNG = np.random.default_rng(0)
# The paper's three planes and its gap, in the unit cube.
PLANES = cross(first=[(0,) * 5, (0.5, 0.5, 0.5, 0, 0.5)], second=[(1, 1, 1, 0, 1)])
GAP = PLANES - box({"first[0]": (0.05, 0.45)})


def curve(seed, width=4, pixels=None):
    """Draw a smooth random component of one latent: (n, width) or (n, width, pixels)."""
    rng = np.random.default_rng(seed)
    size = width * (pixels or 1)
    inner, shift = (torch.as_tensor(rng.normal(size=(1, 12))) for _ in range(2))
    outer, offset = (
        torch.as_tensor(rng.normal(size=(12, size))),
        torch.as_tensor(rng.normal(size=size)),
    )

    def part(z):
        out = torch.tanh(z @ inner + shift) @ outer / 4 + offset
        return out if pixels is None else out.reshape(len(z), width, pixels)

    return part


def bump(color, pixels=6, ground=0.0):
    """Draw a soft colored bump that moves along a row."""
    paint = torch.tensor(color, dtype=torch.float64)[:, None]

    def part(z):
        away = torch.arange(pixels) - z * (pixels - 1)
        return ground + torch.exp(-(away**2) / 0.5)[:, None] * paint

    return part


# Ranks.


def test_anchors_and_values_outside_the_space_are_refused():
    f = compose([curve(0), curve(1)], "add")
    with pytest.raises(Refused, match="numbers from 0 to 1"):
        sufficiency(f, SQUARE, cross(a=[1.5], b=[0]))


def brute(combine, parts, component):
    """Stack whole Jacobians by torch's own routine, as (n, outputs, inputs)."""

    def one(x, others):
        full = [*others[:component], x, *others[component:]]
        return combine(*[p[None] for p in full])[0].flatten()

    actual = []
    for i in range(len(parts[0])):
        others = [p[i] for j, p in enumerate(parts) if j != component]
        jac = torch.autograd.functional.jacobian(lambda x, o=others: one(x, o), parts[component][i])
        actual.append(jac.flatten(1))
    return torch.stack(actual)


def mixing(*parts):
    """Compose by a filter that mixes positions."""
    out = sum(parts)
    return out + 0.5 * out.roll(1, dims=-1) * parts[0]


@pytest.mark.parametrize("combine", [sigmoid, product, gated, alpha, step, mixing])
@pytest.mark.parametrize("component", [0, 1])
def test_ranks_agree_with_numpy_on_whole_jacobians(combine, component):
    colors = ([1, 0.5, 0.2, 0.9], [0.2, 0.6, 1, 0.7])
    f = compose([bump(color, ground=-0.05) for color in colors], combine)
    z = np.random.default_rng(3).random((5, 2))
    z[:, component] = 0.4
    ranks = rank(f, SQUARE, SQUARE.names[component], z)
    parts = [p(torch.as_tensor(z[:, k : k + 1])) for k, p in enumerate(f.parts)]
    jac = brute(combine, parts, component).numpy()
    tall = jac.reshape(-1, jac.shape[2])
    singular = np.linalg.svd(tall, compute_uv=False)
    tolerance = 1e-9 * singular[0]
    assert ranks.width == jac.shape[2]
    assert ranks.stack == np.linalg.matrix_rank(tall, tol=tolerance)
    assert ranks.sum == np.linalg.matrix_rank(jac.sum(axis=0), tol=tolerance)
    assert ranks.smallest == pytest.approx(singular[-1] if len(singular) == 24 else 0, abs=1e-12)
    alive = singular[singular > tolerance]
    strong = np.sort(alive)[(len(alive) - 1) // 2] * 1e-2  # the lower median, as torch takes it
    assert ranks.practical == (singular > strong).sum()
    # An output is lost if its unit vector does not lie in the row space.
    unit = np.eye(jac.shape[2])
    gap = np.linalg.norm(unit - np.linalg.pinv(tall, rcond=1e-9) @ tall @ unit, axis=0)
    np.testing.assert_array_equal(ranks.lost, (gap > 1e-3).reshape(ranks.lost.shape))


def test_functions_of_single_positions_are_recognized_without_a_declaration():
    parts = [torch.rand(3, 2, 4, 5), torch.rand(3, 2, 4, 5)]
    assert jacobians(lambda a, b: torch.sin(a) * b, parts, 0).shape == (3, 20, 2, 2)
    assert jacobians(lambda a, b: a + b.mean(dim=(2, 3), keepdim=True), parts, 0).shape == (
        3,
        20,
        2,
        2,
    )
    assert jacobians(lambda a, b: b + a.mean(dim=(2, 3), keepdim=True), parts, 0).shape == (
        3,
        1,
        40,
        40,
    )
    assert jacobians(lambda a, b: (a + b).flatten(1), parts, 0).shape == (3, 1, 40, 40)
    assert not jacobians(lambda a, b: b, parts, 0).any()


def test_jacobians_cancel_in_the_sum_and_not_in_the_stack():
    f = compose([curve(0), lambda z: torch.cos(2 * torch.pi * z).repeat(1, 4)], "product")
    certificate = sufficiency(f, SQUARE, cross(a=[0], b=[0, 0.5]))
    assert certificate.sufficient
    assert certificate.paper("a") == 0
    assert certificate.worst("a").stack == 4


def test_conditioning_is_reported_beside_the_rank():
    f = compose(
        [curve(0, width=3), lambda z: torch.tensor([[1.0, 1.0, 1e-4]]).repeat(len(z), 1)], "product"
    )
    certificate = sufficiency(f, SQUARE, cross(a=[0], b=[0]))
    worst = certificate.worst("a")
    assert (worst.stack, worst.practical, worst.smallest) == (3, 2, pytest.approx(1e-4))
    assert certificate.sufficient
    assert not certificate.practical
    assert "weak" in str(certificate)


@pytest.mark.parametrize(
    ("combine", "hidden"), [("sigmoid", 100.0), ("step", 1.0), ("product", 1.0)]
)
def test_the_plane_that_is_named_repairs_the_support(combine, hidden):
    def front(z):
        here = torch.arange(6) == torch.floor(z * 5 + 0.5)
        shape = here[:, None] * torch.full((3, 1), hidden, dtype=torch.float64)
        return shape if combine != "product" else 1 - shape

    f = compose([front, bump([0.2, 0.6, 1.0], ground=0.1)], combine)
    support = cross(a=[0], b=[1])
    before = sufficiency(f, SQUARE, support)
    lost = before.worst("b")
    assert (lost.stack, lost.width) == (15, 18)
    assert lost.lost[:, 0].all()
    assert lost.lost.sum() == 3
    assert "b at" in str(before)
    assert "positions 0, channels 0, 1, 2" in str(before)
    plane = before.repairs["b"]
    assert (plane.before, plane.after) == (15, 18)
    after = sufficiency(f, SQUARE, support | plane.support)
    assert after.worst("b").sufficient
    assert "show b with a at" in str(plane)


def test_no_plane_helps_the_ground_of_a_hard_occluder():
    f = compose([bump([1, 1, 1], ground=-5.0), bump([1, 1, 1])], step)
    certificate = sufficiency(f, SQUARE, everything())
    assert not certificate.sufficient
    assert certificate.repairs["a"] is None
    assert "no candidate plane raises the rank" in str(certificate)
    assert "not differentiable" in str(certificate)
    assert "Use sigmoid." in str(certificate)


def test_a_component_that_never_moves_alone_is_lost_and_any_plane_helps():
    f = compose([curve(0), curve(1)], "add")
    certificate = sufficiency(f, SQUARE, values(b=[0.5]))
    assert certificate.worst("a").sufficient
    assert (certificate.worst("b").stack, certificate.worst("b").partners) == (0, 0)
    assert certificate.worst("b").lost.all()
    assert len(certificate.ranks["b"]) == 1  # of 11 values, one occurs
    assert certificate.repairs["b"].after == 4


def test_three_components():
    space = cube(a=1, b=1, c=1)
    f = compose([curve(k, 3, 4) for k in range(3)], "product")
    assert sufficiency(f, space, axes(0.3, 0.4, 0.5), tried=3).sufficient
    g = compose([curve(0, 3, 4), lambda z: 0 * curve(1, 3, 4)(z), curve(2, 3, 4)], "product")
    certificate = sufficiency(g, space, everything(), tried=3)
    assert [certificate.worst(n).stack for n in "abc"] == [0, 12, 0]


def test_a_trained_model_is_certified_as_it_is():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(5, 6), nn.Linear(5, 6)])
            self.combine = sigmoid

        def forward(self, z):
            return self.combine(self.parts[0](z[:, :5]), self.parts[1](z[:, 5:]))

    model = Model()
    certificate = sufficiency(model, SPRITES, PLANES, tried=5)
    assert certificate.sufficient
    assert certificate.worst("second").partners == 2
    with pytest.raises(Refused, match="`parts`"):
        sufficiency(nn.Linear(10, 6), SPRITES, PLANES)
    with pytest.raises(Refused, match="needs 3 components, one per factor; got 2"):
        sufficiency(model, cube(a=1, b=1, c=1), everything())


def test_numbers_that_are_not_finite_are_refused():
    f = compose([lambda z: z, lambda z: z], lambda a, b: torch.sqrt(a) + b)
    with pytest.raises(Refused, match="not finite"):
        sufficiency(f, SQUARE, everything())
    g = compose([lambda z: 1 / z, lambda z: z], "add")
    with pytest.raises(Refused, match="Component 1 returned values that are not finite"):
        sufficiency(g, SQUARE, everything())


def test_invalid_arguments_are_refused():
    f = compose([curve(0), curve(1)], "add")
    with pytest.raises(Refused, match="tried >= 1; got 0"):
        sufficiency(f, SQUARE, everything(), tried=0)
    with pytest.raises(Refused, match="needs n >= 1 partners"):
        sufficiency(f, SQUARE, everything(), n=0)
    with pytest.raises(Refused, match="None of the tested values of 'a'"):
        sufficiency(f, SQUARE, box(a=(0, 0.5)), tried={"a": np.array([0.7]), "b": np.array([0.5])})
    with pytest.raises(Refused, match="same value"):
        rank(f, SQUARE, "a", np.random.default_rng(0).random((3, 2)))


def test_a_large_occluder_is_certified_and_repaired_pixel_by_pixel():
    edge = torch.linspace(0, 1, 24, dtype=torch.float64)

    def square(z):
        far = ((edge - z[:, :1]).abs()[:, None] > 0.15) | (
            (edge - z[:, 1:]).abs()[..., None] > 0.15
        )
        return (~far)[:, None].double().expand(-1, 3, -1, -1)

    space = cube(front=2, back=2)
    f = compose([square, lambda z: 0.5 * square(z)], step)
    certificate = sufficiency(f, space, cross(front=[(0.2, 0.2)], back=[(0.8, 0.8)]), tried=4)
    hidden = square(torch.tensor([[0.2, 0.2]], dtype=torch.float64))[0].bool().numpy()
    np.testing.assert_array_equal(certificate.lost("back"), hidden)
    assert certificate.worst("back").stack == 3 * 24 * 24 - hidden.sum()
    assert certificate.repairs["back"].after == 3 * 24 * 24
    assert "positions, rows 2 to 8, columns 2 to 8, channels 0, 1, 2" in str(certificate)


# The theorem.


def test_all_assumptions_hold_for_a_sum_on_a_cross():
    f = compose([curve(0), curve(1)], "add")
    assumptions = check_assumptions(f, SQUARE, cross(a=[0.5], b=[0.5]), truth=f)
    assert [c.holds for c in assumptions.checks] == [True] * 4
    assert assumptions.holds is True
    assert assumptions.message == "All assumptions hold."
    without = check_assumptions(f, SQUARE, cross(a=[0.5], b=[0.5]))
    assert without.holds is without["A4"].holds is None
    assert "No assumption fails.\nA4 (a point where" in without.message


def test_each_assumption_that_fails_is_named():
    smooth = [bump([1, 0.5, 0.2]), bump([0.2, 0.6, 1.0])]
    hard = check_assumptions(compose(smooth, "step"), SQUARE, everything())
    assert hard["A1"].holds is False
    assert "A1 (differentiable C and components) does not hold: step is not" in hard.message
    assert "use sigmoid" in hard.message
    soft = compose(smooth, "sigmoid")
    broken = check_assumptions(soft, SQUARE, cross(a=[0], b=[1]) - box(a=(0.2, 0.4)))
    assert [c.holds for c in broken.checks] == [True, False, True, None]
    assert (
        "A2 (connected and compositional support) does not hold: a in [0.2, 0.4]" in broken.message
    )
    lost = check_assumptions(compose(smooth, "product"), SQUARE, everything())
    assert lost["A3"].holds
    black = compose([smooth[0], lambda z: smooth[1](z) * (torch.arange(6) > 0)], "product")
    lost = check_assumptions(black, SQUARE, everything())
    assert [c.holds for c in lost.checks] == [True, True, False, None]
    assert "A3 (sufficient support) does not hold" in lost.message
    assert "no candidate plane" in lost.message
    other = compose([smooth[0], lambda z: smooth[1](z) + 0.1], "sigmoid")
    assert check_assumptions(other, SQUARE, everything(), truth=soft)["A4"].holds is False


def test_jumps_of_components_are_found_and_steep_slopes_are_not_jumps():
    def shape(z):
        return torch.round(2 * z[:, 2:3]).repeat(1, 3)

    def steep(z):
        return torch.tanh(1000 * (z[:, :1] - 0.3)).repeat(1, 3)

    assumptions = check_assumptions(compose([steep, shape], "add"), SPRITES, PLANES, tried=3)
    assert assumptions["A1"].holds is False
    assert "component 'second' jumps by 1 where second[2] is" in assumptions["A1"].why
    assert (
        check_assumptions(compose([steep, steep], "add"), SPRITES, PLANES, tried=3)["A1"].holds
        is True
    )
    cut = compose([curve(0), curve(1)], lambda a, b: torch.where(a > a.mean() * 0, a, b))
    crossing = [lambda z: 2 * z - 1, lambda z: z + 5]
    assert (
        check_assumptions(compose(crossing, cut.combine), SQUARE, everything())["A1"].holds is False
    )


def a1(first, combine="add"):
    return check_assumptions(compose([first, torch.sin], combine), SQUARE, everything())["A1"]


def hinge(at):
    """Build a network of one ReLU with its kink at a value."""
    network = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    with torch.no_grad():
        for p, value in zip(network.parameters(), (1, -at, 1, 0), strict=True):
            p.fill_(value)
    return network


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (lambda z: (z - 0.5).abs(), "component 'a' has a kink where a is 0.5"),
        (lambda z: (z - 0.25).relu() + 1e-3 * z.sin(), "component 'a' has a kink where a is 0.25"),
        (
            lambda z: (100 * (z - 0.5)).tanh() + 1e-4 * (z > 0.503),
            "component 'a' jumps by 0.0001 where a is 0.503",
        ),
        (lambda z: 100 * z + 1e-3 * (z > 0.7), "component 'a' jumps by 0.001 where a is 0.7"),
        (hinge(0.4), "component 'a' has a kink where a is 0.39"),
    ],
)
def test_kinks_and_small_jumps_of_components_are_found_beside_steep_slopes(first, said):
    check = a1(first)
    assert check.holds is False
    assert said in check.why


def test_a_composition_function_that_is_not_known_is_searched_and_else_not_checked():
    def wide(z):
        return 3 * z - 1

    kinked = [torch.maximum, torch.minimum, lambda a, b: (a - b).abs(), lambda a, b: (a * b).relu()]
    for combine in kinked:
        check = a1(wide, combine)
        assert check.holds is False
        assert "has a kink between two points of the support" in check.why
    smooth = a1(wide, lambda a, b: a * b + b.tanh())
    assert smooth.holds is None
    assert "which is no proof" in smooth.why
    declared = Combination("mixed", lambda a, b: a * b + b.tanh(), differentiable=True)
    assert a1(wide, declared).holds is True


@pytest.mark.parametrize("combine", ["add", "product", "sigmoid"])
def test_the_proof_recovers_components(combine):
    f = compose([curve(0), curve(1)], combine, dims=(1, 1))
    line = torch.linspace(0.2, 1, 33, dtype=torch.float64)[:, None]
    at = torch.tensor([[0.2]], dtype=torch.float64)
    for k, name in enumerate("ab"):
        recovered = reconstruct(
            f, f.combine, SQUARE, name, path=np.array([[0.2], [1.0]]), start=f.parts[k](at)[0],
            partners=np.array([[0.2, 0.2]]), parts={"ba"[k]: f.parts[1 - k](at)}, steps=32,
        )  # fmt: skip
        assert (recovered - f.parts[k](line)).abs().max() < 1e-7  # 3⁴ times 1e-9: order four


def test_undetermined_outputs_keep_their_start_until_a_second_partner_determines_them():
    second = curve(1, 3, 4)
    zero = second(torch.zeros(1, 1, dtype=torch.float64))
    mask = torch.zeros(3, 4, dtype=torch.float64)
    mask[1, 2] = 1
    f = compose([curve(0, 3, 4), lambda z: second(z) - zero * mask], "product", dims=(1, 1))
    line = torch.linspace(0, 1, 21, dtype=torch.float64)[:, None]
    truth = f.parts[0](line)

    def rebuild(anchors):
        at = torch.tensor(anchors, dtype=torch.float64)[:, None]
        z = np.column_stack([np.zeros(len(anchors)), anchors])
        return reconstruct(
            f, product, SQUARE, "a", path=np.array([[0.0], [1.0]]), start=truth[0],
            partners=z, parts={"b": f.parts[1](at)}, steps=20,
        )  # fmt: skip

    assert rank(f, SQUARE, "a", np.array([[0.3, 0.0]])).lost.nonzero()[0].tolist() == [1]
    alone = rebuild([0.0])
    gap = (alone - truth).abs().amax(dim=0)
    assert gap[1, 2] > 0.05
    gap[1, 2] = 0
    assert gap.max() < 5e-7
    assert (alone[:, 1, 2] == truth[0, 1, 2]).all()
    assert (rebuild([0.0, 0.7]) - truth).abs().max() < 5e-7


def test_a_reconstruction_names_missing_arguments():
    f = compose([curve(0), curve(1)], "add", dims=(1, 1))
    start, z = torch.zeros(4), np.zeros((1, 2))
    with pytest.raises(Refused, match="outputs of 'b'"):
        reconstruct(
            f,
            f.combine,
            SQUARE,
            "a",
            path=np.array([[0.0], [1]]),
            start=start,
            partners=z,
            parts={},
        )
    with pytest.raises(Refused, match="two ends"):
        reconstruct(
            f, f.combine, SQUARE, "a", path=np.zeros((3, 1)), start=start, partners=z, parts={}
        )


def test_each_candidate_raises_the_ranks_that_a_new_decomposition_finds():
    """Four places of rank 3, 2, 1 and 0 out of 3; candidates raise none, some or all of them."""
    rng = np.random.default_rng(0)
    blocks, added = np.zeros((4, 4, 2, 3)), np.zeros((9, 4, 2, 3))
    for place, full in enumerate((3, 2, 1, 0)):
        rows = rng.normal(size=(full, 3))
        blocks[:, place] = rng.normal(size=(4, 2, full)) @ rows
        for k in range(len(added)):
            inside = rng.normal(size=(2, full)) @ rows
            outside = rng.normal(size=(2, k % 3)) @ rng.normal(size=(k % 3, 3))
            added[k, place] = inside + outside * (k // 3 != place % 3)
    spectrum = _spectrum(torch.tensor(blocks))
    assert spectrum.rank.tolist() == [3, 2, 1, 0]
    every = np.linalg.matrix_rank  # of one matrix per place
    stacked = [np.concatenate([*blocks, one], axis=1) for one in added]
    expected = [int(every(tall, rtol=1e-9).sum()) for tall in stacked]
    assert len(set(expected)) > 3
    assert _lifted(torch.tensor(added), spectrum).tolist() == expected
    alone = [int(every(one, rtol=1e-9).sum()) for one in added]
    assert _lifted(torch.tensor(added), None).tolist() == alone
