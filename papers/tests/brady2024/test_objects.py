"""The ablation of objects: its scenes, its scores on known answers, and its refusals."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recombine.base.error import Refused
from recombine.claims.experiment import EXPERIMENTS
from recombine.claims.record import Record, jsonable
from recombine.maps.slots import Slotted
from recombine_papers.brady2024 import objects_claims
from recombine_papers.brady2024.figures.objects import label, scores_by_penalty
from recombine_papers.brady2024.jacobians import j_ari, jis, slot_maps
from recombine_papers.brady2024.objects_claims import ARMS, NONE
from recombine_papers.brady2024.objects_scenes import (
    APART,
    OVERLAP,
    SINGLE,
    THREE,
    Ablation,
    held_out_hues,
)
from recombine_papers.brady2024.objects_scenes_training import draw_scenes
from recombine_papers.brady2024.objects_training import (
    build,
    choose,
    objective,
    objects,
    owners,
    penalties,
    recombined,
)

SMOKE = EXPERIMENTS["brady2024.objects"].configure("smoke")
SMALL = replace(Ablation(), shown=32, asked=24, looked=16, mixed=24)
SMALL_APART = replace(SMALL, **{k: v for k, v in APART.items() if k not in ("looked", "mixed")})


def small_scenes(seed=0):
    return draw_scenes(SMALL, np.random.default_rng(seed))


class Oracle(Slotted):
    """Encode some scenes truly: the k-th slot is the k-th sprite, and the last one is empty."""

    def __init__(self, scenes, mixed=False):
        super().__init__()
        self.task, self.mixed = scenes.task, mixed
        data = scenes.tests["id"][0]
        self.x, self.z = data.x, torch.as_tensor(data.z, dtype=torch.float32)

    def encode(self, x: Tensor) -> Tensor:
        at = (x[:, None] - self.x[None]).flatten(2).abs().sum(dim=2).argmin(dim=1)
        z = self.z[at].unflatten(1, (2, 4))
        if self.mixed:  # each slot holds half of each sprite
            z = torch.stack([z[:, 0] + z[:, 1], z[:, 0] - z[:, 1]], dim=1)
        return torch.cat([z, torch.zeros_like(z[:, :1])], dim=1)

    def decode(self, z: Tensor) -> Tensor:
        sprites = z[:, :2]
        if self.mixed:
            a, b = sprites.unbind(dim=1)
            sprites = torch.stack([a + b, a - b], dim=1) / 2
        return vmap(self.task.targets)(sprites.flatten(1).clamp(0, 0.999))


def test_held_out_pairs_of_hues_never_occur_in_training():
    scenes = small_scenes()
    hues = {name: data.z[:, [3, 7]] for name, (data, _) in scenes.tests.items()}
    assert (hues["ood"] >= SMALL.hidden).all()
    for shown in (hues["id"], scenes.train.z[:, [3, 7]]):
        assert not (shown >= SMALL.hidden).all(axis=1).any()
        assert (shown >= SMALL.hidden).any(axis=0).all()  # each hue occurs, with other partners


def test_three_sprites_hold_out_every_pair():
    scenes = draw_scenes(replace(SMALL, objects=3, slots=4), np.random.default_rng(0))
    many = (scenes.tests["ood"][0].z[:, [3, 7, 11]] >= SMALL.hidden).sum(axis=1)
    few = (scenes.train.z[:, [3, 7, 11]] >= SMALL.hidden).sum(axis=1)
    assert many.min() == 2
    assert few.max() == 1


def test_slots_that_are_sprites_score_best_and_recombine():
    scenes = small_scenes()
    model = Oracle(scenes)
    data, labels = scenes.tests["id"]
    maps = slot_maps(model.decode, model.encode(data.x))
    visible = ((labels == 1).flatten(1).any(1) & (labels == 2).flatten(1).any(1)).nonzero()[:, 0]
    slots = owners(maps[visible], labels[visible], 2)
    assert (slots == torch.tensor([0, 1])).float().mean() > 0.95  # some sprites are fully occluded
    assert j_ari(maps, labels).mean() > 0.8  # edges of a front sprite depend on both
    assert jis(maps, labels) > 0.8
    scores, examples = recombined(SMALL, model, scenes, maps, np.random.default_rng(1))
    assert scores["r2_recombined"] > 0.95
    # One scene alone recombines with itself, into nothing new: that is no perfect score.
    assert recombined(SMALL, model, scenes, maps[:1], np.random.default_rng(1)) == ({}, {})
    assert examples["scene_new"].shape == examples["drawn_new"].shape


def test_slots_that_mix_two_sprites_do_neither():
    scenes = small_scenes()
    model = Oracle(scenes, mixed=True)
    data, labels = scenes.tests["id"]
    torch.testing.assert_close(model(data.x), data.x, atol=1e-4, rtol=0)
    maps = slot_maps(model.decode, model.encode(data.x))
    assert jis(maps, labels) < 0.6
    scores, _ = recombined(SMALL, model, scenes, maps, np.random.default_rng(1))
    assert scores["r2_recombined"] < 0.5


def test_sprites_keep_apart_unless_they_may_overlap():
    def nearest(cfg):
        scenes = draw_scenes(cfg, np.random.default_rng(0))
        z = scenes.train.z.reshape(len(scenes.train), cfg.objects, 4)
        gaps = np.abs(z[:, :, None, :2] - z[:, None, :, :2]) * [0.8, 0.6]  # of image sides
        far = gaps.max(axis=3) + np.eye(cfg.objects)
        return far.min(axis=(1, 2))

    assert nearest(replace(SMALL_APART, objects=3, slots=4)).min() >= 0.34
    assert nearest(SMALL).min() < 0.34


def test_the_restart_with_the_lowest_training_objective_is_scored():
    cfg = replace(SMALL, side=8, capacity=0.0, interaction=0.0, looked=2)
    scenes = draw_scenes(cfg, np.random.default_rng(0))
    models = [build(cfg, scenes.train, seed).eval() for seed in range(3)]
    with torch.no_grad():  # the second reconstructs best: the mean image
        for model, bias in zip(models, (5.0, 0.1, 3.0), strict=True):
            model.decoder.readout[-1].weight.zero_()
            model.decoder.readout[-1].bias.fill_(bias)
    scores, _, best = choose(cfg, models, scenes, 0, np.random.default_rng(0))
    assert best == 1
    assert scores["objective"] == scores["objective_2"] < scores["objective_1"]
    assert scores["objective"] == pytest.approx(20 * scores["error"])
    data = scenes.tests["id"][0]
    assert scores["mse_id"] == pytest.approx(float((0.1 - data.y).square().mean()), rel=1e-5)


def test_the_objective_is_the_weighted_sum_of_its_terms():
    scenes = small_scenes()
    model = build(SMALL, scenes.train, 0).eval()
    terms = objective(SMALL, model, scenes.train)
    weighted = 20 * terms["error"] + 0.05 * terms["kl"] + 20 * terms["interaction"]
    assert terms["objective"] == pytest.approx(weighted)
    assert terms["kl"] > 0
    assert 0 < terms["interaction"] <= 1


def test_owners_are_matched_once():
    maps = torch.zeros(1, 3, 1, 4)
    maps[0, 2] = torch.tensor([0.9, 0.9, 0.8, 0.8])
    maps[0, 0] = torch.tensor([0.1, 0.1, 0.2, 0.2])
    labels = torch.tensor([[[1, 1, 2, 2]]])
    assert owners(maps, labels, 2).tolist() == [[2, 0]]


def test_penalties_are_those_of_the_config():
    assert len(penalties(Ablation())) == 2
    assert not penalties(replace(Ablation(), capacity=0.0, interaction=0.0))
    assert not penalties(replace(Ablation(), capacity=0.0, decoder="broadcast"))
    data = small_scenes().train
    assert build(Ablation(), data, 0).posterior(data.x[:2])[1] is not None
    assert build(replace(Ablation(), capacity=0.0), data, 0).posterior(data.x[:2])[1] is None


def test_restarts_of_many_seeds_train_as_one_stack():
    cfg = replace(SMALL_APART, steps=2, restarts=2, looked=2, side=8, dim=2)
    results = objects(cfg, [3, 5])
    assert [r.history.engine for r in results] == ["map", "map"]
    assert {"j_ari_2", "objective_2", "kl", "interaction", "r2_recombined"} <= set(
        results[0].scores
    )
    assert results[0].scores["objective"] != results[1].scores["objective"]


def test_slot_attention_with_masks_runs_too():
    cfg = replace(SMOKE, encoder="attention", decoder="broadcast", capacity=0.0)
    assert {"j_ari_id", "jis_ood", "r2_recombined"} <= set(objects(cfg, [0])[0].scores)


def test_scenes_from_a_file_are_trained_on(tmp_path):
    scenes = draw_scenes(replace(SMALL, side=8, shown=40, asked=40), np.random.default_rng(0))
    data, labels = scenes.tests["id"]
    np.savez(tmp_path / "own.npz", images=data.x.numpy().clip(0, 1), masks=labels.numpy())
    scores = objects(replace(SMOKE, album="own.npz", data_dir=str(tmp_path)), [0])[0].scores
    assert "j_ari_id" in scores
    assert not any("ood" in name or "recombined" in name for name in scores)
    np.savez(tmp_path / "bare.npz", images=data.x.numpy().clip(0, 1))
    with pytest.raises(Refused, match="masks"):
        objects(replace(SMOKE, album="bare.npz", data_dir=str(tmp_path)), [0])
    with pytest.raises(Refused, match="slots >= 3"):
        objects(replace(SMOKE, album="own.npz", data_dir=str(tmp_path), objects=1, slots=2), [0])


def test_impossible_configs_are_refused():
    with pytest.raises(Refused, match="slots >= 3"):
        draw_scenes(replace(SMALL, slots=2), np.random.default_rng(0))
    with pytest.raises(Refused, match="objects >= 2"):
        held_out_hues(replace(SMALL, objects=1))
    with pytest.raises(Refused, match="between 0 and 1"):
        held_out_hues(replace(SMALL, hidden=1.0))


def test_every_setting_of_a_claim_or_ablation_has_its_own_name():
    settings = [
        *objects_claims.runs(THREE, "both", "none")("quick").values(),
        *objects_claims.runs(OVERLAP, *ARMS, "fast")("quick").values(),
        *[{**THREE, **change} for change in SINGLE.values()],
    ]
    experiment = EXPERIMENTS["brady2024.objects"]
    labels = [label(jsonable(experiment.configure("quick", **run))) for run in settings]
    assert len(set(labels)) == len(settings)
    assert label(jsonable(Ablation())) == "first setting: both"
    assert labels[0] == "3 apart: both"
    assert labels[-1] == "the paper's encoder: both"


def test_the_figure_has_one_row_per_run_of_a_claim():
    experiment = EXPERIMENTS["brady2024.objects"]
    changes = [THREE, {**THREE, **NONE}, OVERLAP, {**THREE, "dim": 6}, {}]
    configs = [jsonable(experiment.configure("quick", **change)) for change in changes]
    scores = {f"{name}_id": 0.5 for name in ("j_ari", "jis", "r2")}
    records = [
        Record(str(i), experiment.name, "quick", config, i, scores=scores)
        for i, config in enumerate(configs)
    ]
    figure = scores_by_penalty(records, lambda r: {})
    assert figure.axes[0].y.names == ["3 apart: none", "3 apart: both", "2 overlapping: both"]
