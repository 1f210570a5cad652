"""Laws over the registries, for every task, model, diagnostic, experiment and claim."""

import json
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch

from recombine.base.error import Refused
from recombine.base.registry import FIGURES, MODELS, first_line
from recombine.claims.claim import CLAIMS, MISSING
from recombine.claims.declared import schema
from recombine.claims.experiment import EXPERIMENTS, SIZES
from recombine.claims.judge import judge
from recombine.claims.record import DONE, identify
from recombine.claims.score import declared
from recombine.measures.observed import DIAGNOSTICS, observe
from recombine.models.decoders import mlp
from recombine.plots.panel import Figure
from recombine.runs.run import execute
from recombine.spaces.sets import box
from recombine.tasks.task import TASKS, Data

# How many axes an output may have, by how it is drawn.
DIMENSIONS = {"number": (0,), "curve": (1,), "matrix": (2,), "images": (2, 3, 4)}
DIMENSIONS |= dict.fromkeys(("map", "none"), range(1, 9))  # one axis per factor


def every(registry):
    return pytest.mark.parametrize("name", sorted(registry))


@cache
def smoke(name, cfg):
    """Run an experiment over two seeds; cached."""
    return execute(EXPERIMENTS[name], cfg, [0, 1], size="smoke")


@cache
def smoke_split(name):
    """Split a task by holding out a corner of its first two factors."""
    task = TASKS[name]()
    sides = {
        f.name: (f.levels // 2, f.levels) if f.levels else ((f.low + f.high) / 2, f.high)
        for f in task.space.factors[:2]
    }
    n = None if task.space.listable else 64
    return task, task.split(~box(sides), n=n, queries=64, rng=np.random.default_rng(0))


@cache
def served(name):
    """Find data that a model builder accepts: a task's, or with inputs and targets swapped."""
    datas = [smoke_split(task)[1].train for task in sorted(TASKS)]
    for data in (*datas, *[Data(d.z, d.y, d.x) for d in datas]):
        try:
            MODELS[name](data, seed=0)
        except Refused:
            continue
        return data
    raise AssertionError(f"{name} serves no registered task")


@pytest.mark.parametrize("registry", [TASKS, MODELS, DIAGNOSTICS])
def test_registries_are_filled_and_entries_have_a_sentence(registry):
    assert registry
    for entry in registry.values():
        assert first_line(getattr(entry, "run", entry)).endswith(".")


@every(TASKS)
def test_a_task_depends_only_on_the_point(name):
    task = TASKS[name]()
    z = task.space.draw(6, rng=np.random.default_rng(0))
    together, again = task.data(z), TASKS[name]().data(z[::-1].copy())
    for values, backwards in ((together.x, again.x), (together.y, again.y)):
        assert values.isfinite().all()
        torch.testing.assert_close(values, backwards.flip(0), rtol=0, atol=0)
    for i in range(6):
        alone = task.data(z[i : i + 1])
        torch.testing.assert_close(together.x[i], alone.x[0])
        torch.testing.assert_close(together.y[i], alone.y[0])


@every(MODELS)
def test_a_model_depends_only_on_its_seed(name):
    data, before = served(name), torch.random.get_rng_state()
    one, again, other = (MODELS[name](data, seed=s).state_dict() for s in (3, 3, 4))
    torch.testing.assert_close(one, again, rtol=0, atol=0)
    assert any((one[key] != other[key]).any() for key in one)
    assert torch.equal(before, torch.random.get_rng_state())


@every(MODELS)
def test_outputs_of_a_model_have_the_shape_of_the_targets(name):
    data = served(name)
    assert MODELS[name](data)(data.x[:3]).shape == data.y[:3].shape


@every(DIAGNOSTICS)
def test_a_diagnostic_is_finite_and_repeatable_on_some_task(name):
    actual = {}
    for task in sorted(TASKS):
        world, split = smoke_split(task)
        observation = observe(mlp(split.train, width=8, depth=1), world, split)
        actual = DIAGNOSTICS[name](observation)
        again = DIAGNOSTICS[name](observation)
        for key, value in actual.items():
            assert np.asarray(value).dtype.kind == "U" or np.isfinite(value).all(), key
            np.testing.assert_array_equal(value, again[key])
        if actual:
            return
    raise AssertionError(f"{name} measures nothing on any registered task")


@every(DIAGNOSTICS)
def test_a_diagnostic_returns_what_it_declares_in_the_declared_shapes(name):
    entry, outputs = DIAGNOSTICS[name], {}
    missing = set(entry.scores)
    for task in sorted(TASKS):
        world, split = smoke_split(task)
        outputs |= entry(observe(mlp(split.train, width=8, depth=2), world, split))
        missing -= {declared(key, entry.scores) for key in outputs}
        if not missing:
            break
    assert not missing
    for key, value in outputs.items():
        score = declared(key, entry.scores)
        assert schema(key) == score  # no other diagnostic declares the name otherwise
        assert score.about
        assert not score.about.endswith(".")
        assert np.ndim(value) in DIMENSIONS[score.draw], key
        assert set(score.companions(key)) <= set(outputs)


@every(EXPERIMENTS)
def test_what_an_experiment_returns_can_be_drawn_as_declared(name):
    entry = EXPERIMENTS[name]
    assert all(score.about for score in entry.scores)
    for record, arrays in smoke(name, entry.configure("smoke")):
        for key in record.scores:
            score = schema(key, name)
            assert score is not None, f"{key} is not declared"
            assert score.draw == "number", key
        for key, value in arrays.items():
            score = schema(key, name)
            assert score is not None, f"{key} is not declared"
            if score.draw != "number":
                assert np.ndim(value) in DIMENSIONS[score.draw], key


@every(EXPERIMENTS)
def test_a_config_is_frozen_has_defaults_and_survives_json_at_every_size(name):
    entry = EXPERIMENTS[name]
    assert is_dataclass(entry.config)
    assert entry.config.__dataclass_params__.frozen
    assert entry.configure() == entry.config()
    assert entry.sentence.endswith(".")
    for size in SIZES:
        cfg = entry.configure(size)
        assert entry.config(**json.loads(json.dumps(asdict(cfg)))) == cfg
        assert entry.seeds_per_job(cfg) >= 1


@every(EXPERIMENTS)
def test_a_smoke_run_gives_one_finite_result_per_seed_and_repeats(name):
    cfg = EXPERIMENTS[name].configure("smoke")
    once = smoke(name, cfg)
    again = execute(EXPERIMENTS[name], cfg, [0, 1], size="smoke")
    assert [r.seed for r, _ in once] == [0, 1]
    assert (once[0][0].scores != once[1][0].scores) == EXPERIMENTS[name].stochastic
    for (one, arrays), (two, others) in zip(once, again, strict=True):
        assert (one.status, one.error) == (DONE, "")
        assert one.scores
        assert all(np.isfinite(v) for v in one.scores.values())
        assert (one.id, one.scores, one.history) == (two.id, two.scores, two.history)
        np.testing.assert_equal(arrays, others)


@every(EXPERIMENTS)
def test_a_config_refuses_unknown_fields_and_wrong_values(name):
    entry = EXPERIMENTS[name]
    for size in ("smoke", "tiny"):
        with pytest.raises(Refused, match=r"There is no (field|size)"):
            entry.configure(size, surely_not_a_field=1)
    for f in fields(entry.config):
        with pytest.raises(Refused, match=f.name):
            entry.configure("smoke", **{f.name: object()})


@every(CLAIMS)
def test_a_claim_has_a_sentence_an_experiment_and_runs_that_configure(name):
    claim = CLAIMS[name]
    assert claim.sentence.endswith(".")
    assert claim.seeds >= (5 if EXPERIMENTS[claim.experiment].stochastic else 1)
    for size in SIZES:
        configs = [
            EXPERIMENTS[claim.experiment].configure(size, **run)
            for run in claim.runs(size).values()
        ]
        assert len(set(configs)) == len(configs) > 0
        assert judge(claim, [], size).outcome == MISSING


@every(CLAIMS)
def test_a_claim_reads_the_records_of_its_own_runs(name):
    claim = CLAIMS[name]
    experiment = EXPERIMENTS[claim.experiment]
    records = []
    for run in claim.runs("smoke").values():
        cfg = experiment.configure("smoke", **run)
        for record, _ in smoke(claim.experiment, cfg):
            for seed in range(claim.start + record.seed, claim.start + 2 * claim.seeds, 2):
                id = identify(experiment, cfg, seed, "smoke")
                records.append(replace(record, seed=seed, id=id))
    verdict = judge(claim, records, "smoke")
    assert verdict.outcome == MISSING
    assert "smoke runs decide nothing" in verdict.why
    assert verdict.interval is not None
    assert verdict.interval[0] <= verdict.value <= verdict.interval[1]
    assert verdict.seeds == (2 * claim.seeds if experiment.stochastic else 1)


@every(FIGURES)
def test_a_figure_is_drawn_from_smoke_records_and_left_out_without(name):
    experiment = name.partition(": ")[0]
    runs_by_id = {}
    for claim in CLAIMS.values():
        if claim.experiment == experiment:
            for run in claim.runs("smoke").values():
                cfg = EXPERIMENTS[experiment].configure("smoke", **run)
                runs_by_id |= {r.id: (r, arrays) for r, arrays in smoke(experiment, cfg)}
    records = [r for r, _ in runs_by_id.values()]
    figure = FIGURES[name](records, lambda r: runs_by_id[r.id][1])
    assert isinstance(figure, Figure)
    assert "$" not in figure.svg()  # a page does not read formulas
    assert FIGURES[name]([], lambda r: {}) is None
