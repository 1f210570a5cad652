"""Networks of the kernel theory: their data, their sizes and the shares of conjunctions."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from recombine.claims.record import Record
from recombine.tasks.task import Data
from recombine_papers.lippl2025 import images, images_training, networks


def test_shares_of_conjunctions_sum_to_one():
    kinds = {"right": 3.0, "wrong": 1.0, "sensory": 2.0, "context": 4.0, "memorization": 0.0}
    scores = {f"size_{kind}": size for kind, size in kinds.items()}
    record = Record("", "lippl2025.networks", "quick", {}, 0, scores=scores)
    shares = {kind: networks.share([record], kind)[0] for kind in kinds}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["context"] == pytest.approx(0.4)


def test_a_short_lazy_training_is_additive_and_scores_conjunctions():
    cfg = networks.Net(task="context", preset="1", width=64, steps=200)
    (result,) = networks.networks(cfg, [0])
    assert {"size_right", "size_context", "accuracy_ood"} <= set(result.scores)
    (sums,) = networks.networks(networks.Net(width=200, steps=300), [0])
    assert sums.scores["additivity"] > 0.9


CFG = images.Images(samples=200, images=20)


def test_the_query_has_other_images_of_all_combinations():
    task, split = images_training.image_split(CFG, 0)
    assert len(split.train) == 200
    cells = {tuple(z) for z in split.query.z[:, :2]}
    assert len(cells) == 81
    middle = (split.train.z[:, :2] == 4).any(axis=1)
    assert middle.all()  # extrapolation: one row and one column are shown
    np.testing.assert_array_equal(split.inside, (split.query.z[:, :2] == 4).any(axis=1))
    trained = {image.numpy().tobytes() for image in split.train.x[:, 0]}
    tested = {image.numpy().tobytes() for image in split.query.x[:, 0]}
    assert not trained & tested
    torch.testing.assert_close(task.data(split.query.z[:3]).x, split.query.x[:3])


def test_combinations_and_images_are_drawn_from_their_ranges():
    cells = np.array([[0.0, 3.0], [2.0, 1.0]])
    z = images_training.exemplars(cells, 50, 7, np.random.default_rng(0))
    assert {tuple(row) for row in z[:, :2]} == {(0.0, 3.0), (2.0, 1.0)}
    assert z[:, 2:].min() >= 0
    assert z[:, 2:].max() <= 6


def test_similarities_before_training_cover_every_pair_of_combinations():
    cfg = replace(CFG, distance=4)
    _, split = images_training.image_split(cfg, 0)
    model = images_training.build(cfg, split.train, 0)
    measured = images_training.similarities(model, split, most=800)
    assert measured["alike"].shape == (81, 81)
    np.testing.assert_allclose(measured["alike"], measured["alike"].T, rtol=1e-3)
    assert 0 < measured["similarity_1"] < 0.6


@pytest.mark.parametrize("network", ["convnet", "resnet", "vit"])
def test_the_paper_s_networks_are_larger(network):
    data = Data(np.zeros((2, 2)), torch.zeros(2, 2, 32, 32), torch.zeros(2, 1))
    small, large = (
        images_training.build(replace(CFG, network=network, large=size), data, 0)
        for size in (False, True)
    )
    count = {m: sum(p.numel() for p in m.parameters()) for m in (small, large)}
    assert count[large] > 5 * count[small]
