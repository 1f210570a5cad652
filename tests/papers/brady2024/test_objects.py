"""The ablation of objects: its world, its scores on known answers, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recombine.core.error import Refused
from recombine.core.experiment import EXPERIMENTS
from recombine.diagnostics.jacobians import j_ari, jis, slot_maps
from recombine.maps.slots import Slotted
from recombine.papers.brady2024.objects import (
    Ablation,
    build,
    one,
    owners,
    penalties,
    rare,
    recombined,
    world,
)

SMOKE = EXPERIMENTS["brady2024.objects"].configure("smoke")
SMALL = replace(Ablation(), shown=32, asked=24, looked=16)


def small_world(seed=0):
    return world(SMALL, np.random.default_rng(seed))


class Told(Slotted):
    """Knows the truth of some scenes: the k-th slot is the k-th sprite, and the last is empty."""

    def __init__(self, place, mixed=False):
        super().__init__()
        self.task, self.mixed = place.task, mixed
        data = place.tested["id"][0]
        self.x, self.z = data.x, torch.as_tensor(data.z, dtype=torch.float32)

    def encode(self, x: Tensor) -> Tensor:
        at = (x[:, None] - self.x[None]).flatten(2).abs().sum(dim=2).argmin(dim=1)
        z = self.z[at].unflatten(1, (2, 4))
        if self.mixed:  # each slot holds half of each sprite
            z = torch.stack([z[:, 0] + z[:, 1], z[:, 0] - z[:, 1]], dim=1)
        return torch.cat([z, torch.zeros_like(z[:, :1])], dim=1)

    def decode(self, z: Tensor) -> Tensor:
        own = z[:, :2]
        if self.mixed:
            own = torch.stack([own[:, 0] + own[:, 1], own[:, 0] - own[:, 1]], dim=1) / 2
        return vmap(self.task.targets)(own.flatten(1).clamp(0, 0.999))


def test_held_out_scenes_are_pairs_that_are_never_shown():
    place = small_world()
    hues = {name: data.z[:, [3, 7]] for name, (data, _) in place.tested.items()}
    assert (hues["ood"] >= SMALL.hidden).all()
    for shown in (hues["id"], place.train.z[:, [3, 7]]):
        assert not (shown >= SMALL.hidden).all(axis=1).any()
        assert (shown >= SMALL.hidden).any(axis=0).all()  # each hue is shown, with others


def test_three_sprites_hold_out_every_pair():
    place = world(replace(SMALL, objects=3, slots=4), np.random.default_rng(0))
    many = (place.tested["ood"][0].z[:, [3, 7, 11]] >= SMALL.hidden).sum(axis=1)
    few = (place.train.z[:, [3, 7, 11]] >= SMALL.hidden).sum(axis=1)
    assert many.min() == 2
    assert few.max() == 1


def test_slots_that_are_sprites_score_best_and_recombine():
    place = small_world()
    model = Told(place)
    data, labels = place.tested["id"]
    maps = slot_maps(model.decode, model.encode(data.x))
    both = ((labels == 1).flatten(1).any(1) & (labels == 2).flatten(1).any(1)).nonzero()[:, 0]
    mine = owners(maps[both], labels[both], 2)
    assert (mine == torch.tensor([0, 1])).float().mean() > 0.95  # some hide all of each other
    assert j_ari(maps, labels).mean() > 0.8  # edges of a front sprite depend on both
    assert jis(maps, labels) > 0.8
    score, kept = recombined(SMALL, model, place, maps, np.random.default_rng(1))
    assert score > 0.95
    assert kept["scene_new"].shape == kept["drawn_new"].shape


def test_slots_that_hold_half_of_each_sprite_do_not():
    place = small_world()
    model = Told(place, mixed=True)
    data, labels = place.tested["id"]
    torch.testing.assert_close(model(data.x), data.x, atol=1e-4, rtol=0)  # it draws as well
    maps = slot_maps(model.decode, model.encode(data.x))
    assert jis(maps, labels) < 0.6
    assert recombined(SMALL, model, place, maps, np.random.default_rng(1))[0] < 0.5


def test_owners_are_matched_once():
    maps = torch.zeros(1, 3, 1, 4)
    maps[0, 2] = torch.tensor([0.9, 0.9, 0.8, 0.8])
    maps[0, 0] = torch.tensor([0.1, 0.1, 0.2, 0.2])
    labels = torch.tensor([[[1, 1, 2, 2]]])
    assert owners(maps, labels, 2).tolist() == [[2, 0]]


def test_penalties_are_those_of_the_way_of_training():
    assert len(penalties(Ablation())) == 2
    assert not penalties(replace(Ablation(), capacity=0.0, interaction=0.0))
    assert not penalties(replace(Ablation(), capacity=0.0, decoder="broadcast"))
    data = small_world().train
    assert build(Ablation(), data, 0).posterior(data.x[:2])[1] is not None
    assert build(replace(Ablation(), capacity=0.0), data, 0).posterior(data.x[:2])[1] is None


def test_slot_attention_with_masks_runs_too():
    found = one(replace(SMOKE, encoder="attention", decoder="broadcast", capacity=0.0), 0)
    assert {"j_ari_id", "jis_ood", "r2_recombined"} <= set(found.scores)


def test_scenes_from_a_file_are_trained_on(tmp_path):
    place = world(replace(SMALL, side=8, shown=40, asked=40), np.random.default_rng(0))
    data, labels = place.tested["id"]
    np.savez(tmp_path / "own.npz", images=data.x.numpy().clip(0, 1), masks=labels.numpy())
    found = one(replace(SMOKE, album="own.npz", data_dir=str(tmp_path)), 0)
    assert "j_ari_id" in found.scores
    assert not any("ood" in name or "recombined" in name for name in found.scores)
    np.savez(tmp_path / "bare.npz", images=data.x.numpy().clip(0, 1))
    with pytest.raises(Refused, match="masks"):
        one(replace(SMOKE, album="bare.npz", data_dir=str(tmp_path)), 0)
    with pytest.raises(Refused, match="3 slots or more"):
        one(replace(SMOKE, album="own.npz", data_dir=str(tmp_path), objects=1, slots=2), 0)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(Refused, match="3 slots or more"):
        world(replace(SMALL, slots=2), np.random.default_rng(0))
    with pytest.raises(Refused, match="2 or more"):
        rare(replace(SMALL, objects=1))
    with pytest.raises(Refused, match="between 0 and 1"):
        rare(replace(SMALL, hidden=1.0))
