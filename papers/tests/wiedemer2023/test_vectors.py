"""Composed and concatenated vectors: their equations, the readers, the certificate, the claims."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import linear

from recombine.base.error import Refused
from recombine.claims.claim import CLAIMS, FAILS, HOLDS, Evidence
from recombine.claims.record import Record, jsonable
from recombine.measures.observed import predict
from recombine.models.compositional import slotwise
from recombine.spaces.sets import everything
from recombine.spaces.shapes import diagonal
from recombine.spaces.space import cube
from recombine.training.fit import fit
from recombine_papers.wiedemer2023.composed_vectors import (
    composed_vectors,
    composition,
    concatenated_vectors,
    slot_weights,
    world,
)
from recombine_papers.wiedemer2023.figures.vectors import order_of, place_of, unexplained_by_support
from recombine_papers.wiedemer2023.sufficiency import sufficiency
from recombine_papers.wiedemer2023.vectors import PRODUCTS, SUPPORTS, Composed, conditioning
from recombine_papers.wiedemer2023.vectors_training import shown, vectors

CORNER, CENTER = SUPPORTS["corner"], SUPPORTS["center"]


def corners(task, rng, n=50):
    """Return f at (a, b), (a, b'), (a', b) and (a', b') for random blocks of two components."""
    a, b = task.space.draw(n, rng=rng), task.space.draw(n, rng=rng)
    half = task.space.dim // 2
    mixed = [(a, a), (a, b), (b, a), (b, b)]
    points = [np.concatenate([p[:, :half], q[:, half:]], axis=1) for p, q in mixed]
    return [task.data(z).y.double() for z in points]


def test_sums_have_no_cross_difference_and_products_no_cross_ratio(rng):
    one, two, three, four = corners(composed_vectors("add"), rng)
    torch.testing.assert_close(one + four, two + three, rtol=0, atol=1e-5)
    assert (one - two).abs().mean() > 0.05
    one, two, three, four = corners(composed_vectors("product"), rng)
    torch.testing.assert_close(one * four, two * three, rtol=0, atol=1e-5)
    assert (one + four - two - three).abs().mean() > 0.01


def test_the_task_composes_the_parts_of_its_composition(rng):
    f = composition("sigmoid", outputs=5, seed=3)
    task = composed_vectors("sigmoid", outputs=5, seed=3)
    z = task.space.draw(20, rng=rng)
    data = task.data(z)
    a, b = f.components(torch.from_numpy(z).float())
    mass = a.sum(dim=1, keepdim=True)
    torch.testing.assert_close(data.y, a / (1 + (-mass).exp()) + b / (1 + mass.exp()))
    torch.testing.assert_close(data.x, torch.from_numpy(z).float())
    assert not torch.allclose(data.y, composed_vectors("sigmoid", outputs=5, seed=4).data(z).y)


def test_an_offset_keeps_factors_away_from_zero(rng):
    z = torch.from_numpy(world().draw(2000, rng=rng))
    for offset, low, high in ((0.0, 0.0, 1.0), (2.0, 1.0, 3.0)):
        parts = torch.stack(composition("product", offset=offset).components(z)).abs()
        assert low <= parts.min()
        assert parts.max() <= high
    assert torch.stack(composition("product").components(z)).abs().min() < 1e-3


def test_slots_draw_by_two_layers_with_rows_of_length_one(rng):
    source = torch.Generator().manual_seed(5)
    z = world(4, 2).draw(10, rng=rng)
    x = concatenated_vectors(seed=5).data(z).x.unflatten(1, (4, 10))
    for k in range(4):
        (inner, shift), (outer, offset) = slot_weights(2, 50, 10, source)
        for weight in (inner, outer):
            torch.testing.assert_close(weight.norm(dim=1), torch.ones(len(weight)))
        hidden = linear(torch.from_numpy(z[:, 2 * k : 2 * k + 2]).float(), inner, shift)
        hidden = torch.where(hidden > 0, hidden, 0.2 * hidden)
        torch.testing.assert_close(x[:, k], linear(hidden, outer, offset))


def test_a_slot_shows_its_own_latents_only_and_shows_them_injectively():
    task = concatenated_vectors()
    axis = (np.arange(24) + 0.5) / 24
    z = np.full((576, 8), 0.3)
    z[:, 2:4] = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    x = task.data(z).x.unflatten(1, (4, 10))
    assert (x[:, [0, 2, 3]] == x[:1, [0, 2, 3]]).all()
    apart = torch.cdist(x[:, 1], x[:, 1]) + torch.eye(576) * 9
    latents = torch.from_numpy(z[:, 2:4]).float()
    assert (apart / (torch.cdist(latents, latents) + torch.eye(576))).min() > 0.05
    torch.testing.assert_close(task.data(z).y, torch.from_numpy(z).float())


def test_the_diagonal_holds_what_it_draws_and_nothing_else(rng):
    space = world(4, 2)
    z = diagonal().draw(space, 500, rng=rng)
    blocks = z.reshape(500, 4, 2)
    assert (blocks == blocks[:, :1]).all()
    assert blocks[:, 0].std(axis=0) == pytest.approx(np.sqrt(1 / 12), abs=0.03)
    assert abs(np.corrcoef(blocks[:, 0].T)[0, 1]) < 0.15
    assert diagonal().contains(space, space.check(z)).all()
    assert not diagonal().contains(space, space.draw(500, rng=rng)).any()
    z[:, 7] += 1e-12
    assert not diagonal().contains(space, z).any()


def test_a_slotwise_reader_is_its_networks_on_inputs_with_other_slots_at_zero(rng):
    data = concatenated_vectors().data(world(4, 2).draw(12, rng=rng))
    model = slotwise(data, width=7, depth=2, seed=1)
    layers = [layer for layer in model.networks if hasattr(layer, "weight")]
    read = []
    for k in range(4):
        masked = torch.zeros_like(data.x)
        masked[:, 10 * k : 10 * k + 10] = data.x[:, 10 * k : 10 * k + 10]
        wide = torch.zeros(40, 7)
        wide[10 * k : 10 * k + 10] = layers[0].weight[k]
        h = masked @ wide + layers[0].bias[k]
        for layer in layers[1:]:
            h = h.relu() @ layer.weight[k] + layer.bias[k]
        read.append(h)
    torch.testing.assert_close(model(data.x), torch.cat(read, dim=1))
    moved = data.x.clone()
    moved[:, :10] += 1
    changed = (model(moved) != model(data.x)).any(dim=0)
    assert changed.tolist() == [True] * 2 + [False] * 6


def test_readers_train_side_by_side_as_they_do_alone(rng):
    data = concatenated_vectors().data(world(4, 2).draw(64, rng=rng))
    together, alone = ([slotwise(data, width=5, seed=s) for s in (0, 1)] for _ in range(2))
    histories = fit(together, data, steps=20, batch=16, seed=[0, 1])
    fit(alone, data, steps=20, batch=16, seed=[0, 1], engine="turn")
    assert histories[0].engine == "map"
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(predict(a, data.x), predict(b, data.x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("anchor", [0.0, 0.5])
def test_on_a_cross_the_certificate_is_the_smallest_factor_at_the_anchor(anchor):
    f = composition("product", seed=7)
    support = shown(Composed(anchor=anchor))
    measured = conditioning(sufficiency(f, world(), support, repair=False))
    at = torch.full((1, 2), anchor, dtype=torch.float64)
    wanted = min(float(part(at).abs().min()) for part in f.parts)
    assert measured == {"rank_missing": 0.0, "sigma_min": pytest.approx(wanted)}


def test_with_many_partners_conditioning_is_a_root_mean_square(rng):
    f = composition("product", seed=2)
    tried = {name: np.array([[0.2, 0.9]]) for name in world().names}
    many = sufficiency(f, world(), everything(), tried=tried, n=4000, repair=False)
    z = torch.from_numpy(rng.random((4000, 2)))
    wanted = min(float(part(z).square().mean(dim=0).min().sqrt()) for part in f.parts)
    assert conditioning(many)["sigma_min"] == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("combine", ["add", "sigmoid"])
def test_what_adds_is_determined_anywhere(combine):
    support = shown(Composed(**CORNER))
    measured = conditioning(sufficiency(composition(combine), world(), support, repair=False))
    assert measured["rank_missing"] == 0
    assert (
        measured["sigma_min"] == pytest.approx(1) if combine == "add" else measured["sigma_min"] < 1
    )


def test_supports_are_those_of_the_config(rng):
    for cfg, at in ((Composed(**CORNER), 0.0), (Composed(**CENTER), 0.5)):
        z = shown(cfg).draw(world(), 400, rng=rng)
        at_anchor = np.stack([(z[:, :2] == at).all(axis=1), (z[:, 2:] == at).all(axis=1)])
        assert (at_anchor.sum(axis=0) == 1).all()
        assert 120 < at_anchor[0].sum() < 280
    z = shown(Composed(support="diagonal", delta=0.05)).draw(world(), 400, rng=rng)
    gap = np.abs(z[:, :2] - z[:, 2:])
    assert 0.06 < gap.max() < 0.05 * np.sqrt(2)
    assert shown(Composed(support="random")) == everything()


def record(seed, r2, sigma, **fields):
    config = jsonable(replace(Composed(), **fields))
    scores = {"r2_all": r2, "r2_id": 1.0, "sigma_min": sigma, "rank_missing": 0.0}
    return Record(f"{seed}", "wiedemer2023.vectors", "quick", config, seed, scores=scores)


@pytest.mark.parametrize(("sign", "verdict"), [(1, HOLDS), (-1, FAILS)])
def test_conditioning_is_judged_seed_by_seed(sign, verdict):
    # Within a seed R² rises or falls with sigma; between seeds it always falls.
    records = {
        name: [record(s, sign * k - 100.0 * s, k + 10.0 * s + 1, **run) for s in range(5)]
        for k, (name, run) in enumerate(PRODUCTS.items())
    }
    judged = CLAIMS["wiedemer2023.conditioning_predicts_success"].check(Evidence(records))
    assert (judged.outcome, judged.value) == (verdict, sign)


def test_two_networks_compose_a_sum_that_one_does_not():
    small = {"samples": 500, "steps": 300, "outputs": 4, "batch": 64}
    two, one = (
        vectors(Composed(model=m, **small), [0])[0].scores for m in ("compositional", "monolithic")
    )
    assert min(two["r2_id"], one["r2_id"]) > 0.9
    assert two["r2_all"] > 0.5 > one["r2_all"]


def test_supports_have_names_in_order():
    configs = [jsonable(Composed(**fields)) for fields in SUPPORTS.values()]
    names = list(dict.fromkeys(place_of(c) for c in sorted(configs, key=order_of)))
    assert names == ["all pairs", "band 0.2", "band 0.05", "cross at corner", "cross in center"]
    assert place_of(jsonable(Composed(anchor=0.25))) == "cross at 0.25"


def test_a_picture_has_a_panel_for_each_composition():
    runs = [
        record(0, r2, 1.0, combine=c, offset=o)
        for c, o, r2 in (("add", 0.0, 0.9), ("product", 0.0, -20.0), ("product", 2.0, 1.0))
    ]
    figure = unexplained_by_support(runs, lambda r: {})
    actual = {a.title: a.series[0].x[0] for a in figure.axes}
    assert actual == {
        "sum": pytest.approx(0.1),
        "product": pytest.approx(21),
        "product, offset 2": 1e-5,
    }


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda: composed_vectors(components=0), "got 0 and 2"),
        (lambda: composed_vectors(outputs=0), "outputs >= 1; got 0"),
        (lambda: composed_vectors("produkt"), "Did you mean 'product'"),
        (lambda: concatenated_vectors(hidden=0), "hidden >= 1"),
        (
            lambda: slotwise(concatenated_vectors().data(np.zeros((1, 8))), slots=3),
            "divides 40 inputs and 8 outputs",
        ),
        (
            lambda: slotwise(concatenated_vectors().data(np.zeros((1, 8))), width=0),
            "got slots=4, width=0",
        ),
        (lambda: diagonal().contains(cube(a=1, b=2), np.zeros((1, 3))), "factors of one kind"),
    ],
)
def test_bad_arguments_are_refused(bad, sentence):
    with pytest.raises(Refused, match=sentence):
        bad()
