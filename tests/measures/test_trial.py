"""A trial gives the numbers of the loop written out by hand, one result per seed."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import recombine as rc
from recombine.claims.experiment import Training
from recombine.measures.trial import Trained, separate, train, trial

SEEDS = (0, 2, 5)
TASK = rc.find("task", "bumps")(6)
HIDDEN = rc.box(x=(2, 4), y=(2, 4))


@dataclass(frozen=True)
class Brief(Training):
    """A short training."""

    steps: int = 5
    batch: int = 4


def build(data, seed):
    return rc.mlp(data, width=8, depth=1, seed=seed)


def splits():
    return [TASK.split(~HIDDEN, n=60, rng=np.random.default_rng(s)) for s in SEEDS]


def test_a_subclass_overrides_defaults_and_keeps_the_rest():
    assert (Brief().steps, Brief().batch, Brief().lr) == (5, 4, Training().lr)


@pytest.mark.parametrize("shared", [True, False])
def test_a_trial_gives_the_numbers_of_the_loop_by_hand(shared):
    cfg, split = Brief(lr=1e-2), splits()[0] if shared else splits()
    each = [split] * 3 if shared else split
    models = [build(s.train, seed) for s, seed in zip(each, SEEDS, strict=True)]
    histories = rc.fit(
        models,
        split.train if shared else [s.train for s in split],
        steps=5,
        batch=4,
        lr=1e-2,
        schedule=rc.cosine(),
        seed=SEEDS,
    )
    results = trial(
        cfg, SEEDS, TASK, split, build, diagnostics=["risk", "error_map"], schedule=rc.cosine()
    )
    for result, model, history, s in zip(results, models, histories, each, strict=True):
        scores, arrays = rc.measure(rc.observe(model, TASK, s), ["risk", "error_map"])
        assert result.scores == scores
        assert result.history == history
        np.testing.assert_equal(result.arrays, arrays)


def test_hooks_add_scores_and_arrays():
    def before(model, split):
        return {"start": rc.predict(model, split.query.x).mean(), "weights": model[1].weight}

    def after(trained: Trained):
        return {"gain": trained.scores["mse_ood"], "seed": trained.seed, "rows": [1.0, 2.0]}

    def follow(observed):
        return {"half": rc.measure(observed, ["risk"])[0]["risk_id"]}

    (first, *_) = trial(
        Brief(), SEEDS, TASK, splits(), build, before=before, after=after, follow=follow
    )
    untrained = build(splits()[0].train, 0)
    np.testing.assert_array_equal(first.arrays["weights"], untrained[1].weight.detach().numpy())
    assert first.scores["gain"] == first.scores["mse_ood"]
    assert first.scores["seed"] == 0
    assert first.scores["start"] == pytest.approx(
        float(rc.predict(untrained, splits()[0].query.x).mean())
    )
    assert first.arrays["rows"].tolist() == [1.0, 2.0]
    assert first.history.scores["half"][-1] == pytest.approx(first.scores["risk_id"])
    assert len(first.history.scores["half"]) == 5


def test_batch_zero_trains_on_the_full_batch():
    split = splits()[0]
    model, other = build(split.train, 0), build(split.train, 0)
    (history,) = train(Brief(batch=0), [model], split.train, [0])
    assert rc.fit(other, split.train, steps=5, lr=1e-3, seed=[0]) == [history]
    assert torch.equal(model[1].weight, other[1].weight)


def test_a_model_that_diverged_is_not_measured():
    results = trial(Brief(lr=1e30), SEEDS, TASK, splits(), build)
    assert all(r.history.diverged is not None and not r.scores for r in results)


def test_tensors_become_arrays_or_scores():
    scores, arrays = separate({"one": torch.tensor(2.0), "many": nn.Parameter(torch.ones(2))})
    assert scores == {"one": 2.0}
    assert arrays["many"].tolist() == [1.0, 1.0]
