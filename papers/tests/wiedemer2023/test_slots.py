"""The slot experiment: matching slots to objects, recombining them, and consistency."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

from recombine.claims.experiment import EXPERIMENTS
from recombine.maps.slots import Layered
from recombine.measures.slots import Latents, Readout, by_slot
from recombine.runs.run import execute
from recombine.tasks.scenes import scene_data, scene_latents, scene_support, scenes
from recombine_papers.wiedemer2023.slots import Scenes, look
from recombine_papers.wiedemer2023.slots_training import by_drawing, recombine


def reader(latents: int) -> Readout:
    """Read the latents of a slot from its first numbers."""
    first = nn.Linear(latents + 1, latents, bias=False)
    first.weight.data = torch.eye(latents + 1)[:latents]
    zero, one = torch.zeros(latents), torch.ones(latents)
    unit = torch.zeros(latents + 1), torch.ones(latents + 1)
    return Readout(first, Latents(latents), zero, one, unit)


def coded(z: np.ndarray, objects: int, latents: int) -> Tensor:
    """Put the true latents of each object into its slot, followed by a random number."""
    blocks = torch.as_tensor(z, dtype=torch.float32).view(len(z), objects, latents)
    return torch.cat([blocks, torch.randn(len(z), objects, 1)], dim=2)


def test_slots_are_ordered_as_objects(rng):
    z = scenes(factors="x,y", objects=3).space.draw(50, rng=rng)
    truth, _ = scene_latents(z, 3, "x,y")
    slots = coded(z, 3, 2)
    order = torch.stack([torch.randperm(3) for _ in range(50)])
    mixed = slots.gather(1, order[:, :, None].expand_as(slots))
    torch.testing.assert_close(by_slot(mixed, reader(2).match(mixed, truth)), slots)


class Oracle(Layered):
    """Return given slots, image by image; render a sprite at the position that each slot holds."""

    def __init__(self, slots: Tensor) -> None:
        super().__init__()
        self.left = slots
        self.draw = scenes(objects=1, factors="x,y").inputs

    def encode(self, x: Tensor) -> Tensor:
        z, self.left = self.left[: len(x)], self.left[len(x) :]
        return z

    def parts(self, z: Tensor) -> Tensor:
        return vmap(self.draw)(z[:, :, :2].flatten(0, 1)).unflatten(0, z.shape[:2])


def test_slots_are_ordered_by_what_they_render(rng):
    cfg = Scenes(factors="x,y")
    task = scenes(**look(cfg))
    z = scene_support(cfg.delta, factors=cfg.factors)[1].draw(task.space, 600, rng=rng)
    slots = coded(z, 2, 2)
    order = torch.stack([torch.randperm(2) for _ in range(600)])
    mixed = slots.gather(1, order[:, :, None].expand_as(slots))
    ordered = by_drawing(cfg, Oracle(mixed), scene_data(task, z))
    torch.testing.assert_close(ordered, slots)


def test_recombined_scenes_are_held_out_and_made_of_known_objects(rng):
    cfg = Scenes(factors="x,y")
    task = scenes(**look(cfg))
    shown, held_out = scene_support(cfg.delta, factors=cfg.factors, distance=cfg.distance)
    z = shown.draw(task.space, 200, rng=rng)
    slots, truth = recombine(task, held_out, coded(z, 2, 2), z, rng)
    assert 20 < len(slots) == len(truth) <= 200
    assert held_out.contains(task.space, truth.z).all()
    np.testing.assert_allclose(slots[:, :, :2].flatten(1), truth.z, atol=1e-6)
    for k in range(2):
        known = {tuple(row) for row in z[:, 2 * k : 2 * k + 2]}
        assert {tuple(row) for row in truth.z[:, 2 * k : 2 * k + 2]} <= known
    torch.testing.assert_close(truth.x, task.data(truth.z).x)
    assert truth.x is truth.y


ENTRY = EXPERIMENTS["wiedemer2023.slots"]


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "attention", "masks": "sigmoid"},
        {"model": "attention", "masks": "softmax", "initial": "random"},
        {"consistency": 1.0, "ignition": 0.5},
        {"objects": 3, "factors": "x,y,shape,scale,hue", "smallest": 0.1, "distance": 0.15},
    ],
    ids=["sigmoid", "softmax", "consistency", "three"],
)
def test_other_runs_give_scores(changes):
    cfg = ENTRY.configure("smoke", **changes)
    ((record, arrays),) = execute(ENTRY, cfg, [0], size="smoke")
    assert record.error == ""
    assert {"r2_recombined", "identified_ood", "inconsistency"} <= set(record.scores)
    assert arrays["parts_ood"].shape == (4, cfg.objects, 3, 16, 16)
    if cfg.model == "additive":
        parts, drawn = arrays["parts_id"], arrays["drawn_id"]
        np.testing.assert_allclose(parts.sum(axis=1), drawn, atol=1e-5)


def test_consistency_changes_training_only_after_its_ignition():
    base = ENTRY.configure("smoke", steps=6)
    runs = {
        name: execute(ENTRY, replace(base, **changes), [0], size="smoke")[0][0].scores
        for name, changes in {
            "without": {},
            "late": {"consistency": 1.0, "ignition": 1.0},
            "half": {"consistency": 1.0, "ignition": 0.5},
        }.items()
    }
    assert runs["late"] == runs["without"]
    assert runs["half"] != runs["without"]
