"""Noise, shifts and retraining, with known answers for separate networks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from recombine.base.error import Refused
from recombine.claims.claim import CLAIMS, FAILS, HOLDS, Evidence
from recombine.claims.record import Record
from recombine.maps.noise import Noise
from recombine.measures.observed import predict
from recombine.models.modular import fully_connected, separate
from recombine.penalties import Batch, chain_norm
from recombine.spaces.sets import everything
from recombine.tasks.task import Data
from recombine_papers.qian2025 import elsewhere, elsewhere_training
from recombine_papers.qian2025 import robustness as robust
from recombine_papers.qian2025 import robustness_training as robust_training
from recombine_papers.qian2025.disturbed import errors
from recombine_papers.qian2025.figures.elsewhere import chosen
from recombine_papers.qian2025.independent import independent_sines

SMALL = robust.Disturbed(steps=20, samples=100, batch=50, width=8, again=40)


def examples(n=60, count=4):
    task = independent_sines(count)
    split = task.split(everything(), n=n, queries=n, rng=np.random.default_rng(0))
    return split.train


def test_separate_networks_are_a_chain_of_blocks():
    data = examples()
    model = separate(data, widths=(3, 5), seed=2)
    chain = model.whole()
    torch.testing.assert_close(chain(data.x), model(data.x))
    for layer, (inputs, outputs) in zip(chain[::2], ((1, 3), (3, 5), (5, 1)), strict=True):
        blocks = np.kron(np.eye(4), np.ones((outputs, inputs)))
        np.testing.assert_array_equal(layer.weight.detach().numpy() != 0, blocks > 0)
    jac = torch.func.vmap(torch.func.jacrev(lambda x: model(x[None])[0]))(data.x)
    assert (jac[:, ~torch.eye(4, dtype=torch.bool)] == 0).all()
    assert (jac[:, torch.eye(4, dtype=torch.bool)] != 0).all()
    with pytest.raises(Refused, match="one output per input"):
        separate(Data(data.z, data.x, data.y[:, :2]))


def test_separate_networks_have_the_same_l2_penalty_as_their_chain():
    data = examples()
    model, batch = separate(data), Batch(data.x, data.y)
    torch.testing.assert_close(
        robust_training.squares(0.3)(model, batch), chain_norm(0.3)(model.whole(), batch)
    )


def test_separate_networks_are_unaffected_by_another_input_or_output():
    data = examples()
    model = separate(data)
    arrays = robust_training.shift(model.whole(), data)
    assert arrays["moved_others"] == 0
    np.testing.assert_allclose(arrays["shifted"][:, 1:], arrays["shifted"][:1, 1:].repeat(51, 0))
    taught = robust_training.relearn(SMALL, model, data, 0)
    assert taught["forgot_others"] == 0
    assert taught["learned_again"] < 1
    joined = fully_connected(data, widths=(8, 8, 8))
    known = Data(data.z, data.x, predict(joined, data.x))  # errors start at zero
    assert robust_training.relearn(SMALL, joined, known, 0)["forgot_others"] > 0
    assert robust_training.shift(joined, data)["moved_others"] > 0


def test_noise_adds_the_variance_of_a_linear_readout():
    data = examples(n=20_000, count=1)
    model = nn.Sequential(nn.Linear(1, 1), nn.Identity(), nn.Linear(1, 1))
    with torch.no_grad():
        for layer, weight in ((model[0], 1.0), (model[2], 3.0)):
            layer.weight.fill_(weight)
            layer.bias.zero_()
    measured = robust_training.noise(model, data, 0)
    x = data.x.double().numpy()
    assert measured["added_1"] == pytest.approx(9 * 0.01 * np.abs(x).mean(), rel=0.1)
    assert measured["added_2"] == pytest.approx(9 * 0.01 * (x**2).mean(), rel=0.1)
    assert measured["noisy_1"][0] == pytest.approx(errors(model, data).mean())


def test_seeds_train_in_a_stack_as_alone():
    for network in ("weight_activity", "poisson_noise", "separate"):
        cfg = robust.Disturbed(
            network=network, steps=20, samples=100, batch=50, width=8, again=5
        )  # fmt: skip
        stacked, (alone,) = robust.robustness(cfg, [0, 3]), robust.robustness(cfg, [3])
        for name in ("mse_id", "added_1", "moved_others", "learned_again"):
            assert stacked[1].scores[name] == pytest.approx(alone.scores[name], rel=1e-3, abs=1e-7)


@torch.no_grad()
def test_networks_differ_in_penalty_and_noise():
    data = examples()
    batch = Batch(data.x, data.y)

    def terms(network):
        cfg = replace(SMALL, network=network)
        model = robust_training.build(cfg, data, 0)
        amounts = [m.power for m in model.modules() if isinstance(m, Noise)]
        return amounts, sum(float(p(model, batch)) for p in robust_training.penalties(cfg))

    noises, values = zip(
        *map(terms, ("l2", "poisson_noise", "weight_activity", "poisson_penalty")), strict=True
    )
    assert noises == ([], [1.0] * 3, [], [])
    assert values[0] == pytest.approx(values[1])
    assert values[1] < values[2] < values[3]  # small activities


def test_ratios_are_of_the_network_over_l2():
    def verdict(claim, **added):
        runs = {
            name: [
                Record(f"{name}{s}", "", "quick", {}, s, scores={"added_1": v, "added_2": v})
                for s in range(5)
            ]
            for name, v in added.items()
        }
        return CLAIMS[f"qian2025.{claim}"].check(Evidence(runs))

    poisson, multiplicative, design = (
        "the_penalty_halves_the_error_of_poisson_noise",
        "the_penalty_resists_multiplicative_noise",
        "separate_networks_resist_noise",
    )
    assert verdict(poisson, weight_activity=0.1, l2=0.4).value == pytest.approx(0.25)
    assert verdict(multiplicative, weight_activity=0.1, l2=0.4).outcome == HOLDS
    assert verdict(design, separate=0.3, l2=0.4).outcome == HOLDS
    assert verdict(poisson, weight_activity=0.3, l2=0.4).outcome == FAILS
    assert verdict(design, separate=0.5, l2=0.4).outcome == FAILS


def test_validation_pairs_lie_in_the_training_support():
    cfg = elsewhere.Penalized(world="sprites", samples=80, asked=50, side=8)
    task, (whole,) = elsewhere_training.scenes(cfg, [3])
    split, left = elsewhere_training.halves(cfg, whole, 3)
    assert (len(split.train), len(left)) == (72, 8)
    assert whole.support.contains(task.space, left.z).all()
    assert not whole.inside.any()  # three planes of a cube: every query is out of distribution


def test_the_figure_of_two_worlds_chooses_strengths_as_the_claims_do():
    rows = [  # world, penalty, strength, validation error, OOD error
        ("bumps", "weights", 1e-5, 0.3, 0.6),
        ("bumps", "weights", 1e-4, 0.2, 0.7),
        ("bumps", "weights", 0.0, 0.1, 0.9),
        ("sprites", "weights", 1e-5, 0.1, 0.5),
    ]
    records = [
        Record(
            str(i), "", "quick", {"world": w, "penalty": p, "strength": s}, 0,
            scores={"risk_left": left, "risk_ood": new},
        )
        for i, (w, p, s, left, new) in enumerate(rows)
    ]  # fmt: skip
    assert chosen(records, "bumps", "weights") == [0.7]
    assert chosen(records, "bumps", "none") == [0.9]
    assert chosen(records, "sprites", "weights") == [0.5]
    assert chosen(records, "sprites", "none") == []
