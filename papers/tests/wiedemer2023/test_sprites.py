"""The sprite experiment: pixels that the certificate marks, errors there, and the claims."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.pillow import corners
from PIL import Image, ImageDraw

from recombine.claims.claim import CLAIMS, FAILS, HOLDS, OPEN
from recombine.claims.experiment import EXPERIMENTS
from recombine.claims.judge import judge
from recombine.claims.record import Record, identify
from recombine.measures.observed import Observed
from recombine_papers.wiedemer2023 import sprites as wiedemer
from recombine_papers.wiedemer2023 import sprites_training as wiedemer_training
from recombine_papers.wiedemer2023.sprites_claims import same_size

ENTRY = EXPERIMENTS["wiedemer2023.sprites"]
NAMES = [name for name, c in CLAIMS.items() if c.experiment == ENTRY.name]
SMALL = ENTRY.configure("smoke")


def polygon(side, shape, x, y, scale):
    """Draw a polygon at 16 times the resolution with Pillow; return the covered share per pixel."""
    large = Image.new("1", (16 * side, 16 * side))
    points = (corners(shape) * scale + (x, y)) * 16 * side
    points[:, 1] = 16 * side - points[:, 1]
    ImageDraw.Draw(large).polygon([tuple(p) for p in points.tolist()], fill=1)
    return np.asarray(large, dtype=float).reshape(side, 16, side, 16).mean(axis=(1, 3))


def test_two_planes_lose_what_lies_under_the_small_triangle_and_three_planes_nothing():
    triangle = polygon(16, 0, 0.1, 0.2, 0.2)  # sprite 1 where all its coordinates are 0
    two, three = (
        wiedemer_training.certified(replace(SMALL, support=s, tried=4))
        for s in ("star", "orthogonal")
    )
    assert np.array_equal(two["named_pixels"], three["named_pixels"])
    assert np.array_equal(two["named_pixels"], two["lost_pixels"] == 1)
    assert (triangle[two["named_pixels"]] > 0.5).all()  # hard sprites are half a pixel larger
    assert two["named_pixels"][triangle > 0.99].all()
    assert two["determined_2"] < 1
    assert not three["lost_pixels"].any()
    assert three["hidden_2"] == 0
    assert three["determined_2"] == 1


def test_opacity_leaves_sprites_undetermined_and_a_narrow_band_hides_the_second():
    opaque = wiedemer_training.certified(
        replace(SMALL, combine="alpha", shared=True, support="random")
    )
    assert opaque["determined_2"] < 1
    bands = [
        wiedemer_training.certified(replace(SMALL, support=f"diagonal({d})", tried=6, partners=64))
        for d in (0.05, 0.2)
    ]
    narrow, wide = (b["hidden_2"] for b in bands)
    assert narrow > 0.2 > 0.02 > wide


def test_pixels_that_show_the_second_sprite_are_those_that_it_changes():
    z = wiedemer_training.world(SMALL).space.draw(40, rng=np.random.default_rng(1))
    z[:, 5:7] = 0.5
    shows = wiedemer_training.shows_sprite_2(SMALL, z)
    moved = z.copy()
    moved[:, 9] = (z[:, 9] + 0.5) % 1  # another hue
    before, after = (wiedemer_training.world(SMALL).data(p).y for p in (z, moved))
    changed = (before - after).abs().amax(dim=1)
    assert (changed[shows] > 0.3).all()
    assert (changed[~shows] < 0.51).all()


def seen_with(error):
    """Observe outputs whose squared error is `error`, an array by pixel."""
    task, (split,) = wiedemer_training.worlds(SMALL, [0])
    outputs = split.query.y + torch.as_tensor(error, dtype=torch.float32).sqrt()
    return Observed(task, split, outputs, torch.nn.Identity())


def test_errors_are_averaged_over_pixels_that_show_the_second_sprite():
    marked = wiedemer_training.certified(SMALL)["named_pixels"]
    measured = wiedemer_training.by_pixel(SMALL, seen_with(np.where(marked, 0.12, 0.03)), marked)
    assert measured["error_named"] == pytest.approx(0.12, rel=1e-4)
    assert measured["error_others"] == pytest.approx(0.03, rel=1e-4)
    assert measured["named_ratio"] == pytest.approx(4, rel=1e-4)
    error = measured["error_pixels"].numpy()
    shown = np.isfinite(error)
    np.testing.assert_allclose(error[shown], np.where(marked, 0.12, 0.03)[shown], rtol=1e-4)
    nothing = wiedemer_training.by_pixel(SMALL, seen_with(np.ones((16, 16))), np.zeros_like(marked))
    assert set(nothing) == {"error_pixels"}


def test_scores_agree_with_each_other():
    (result,) = wiedemer.sprites(SMALL, [3])
    scores, arrays = result.scores, result.arrays
    for group in ("id", "all"):
        r2 = 1 - scores[f"mse_{group}"] / scores[f"variance_{group}"]
        assert scores[f"r2_{group}"] == pytest.approx(r2)
    assert scores["success"] == float(scores["r2_all"] > 0.5)
    assert arrays["scenes_truth"].shape == arrays["scenes_drawn"].shape == (8, 3, 16, 16)
    (other,) = wiedemer.sprites(replace(SMALL, support="gap"), [4])
    np.testing.assert_array_equal(arrays["scenes_truth"], other.arrays["scenes_truth"])


def test_models_have_the_sizes_of_the_paper_and_equal_ones_at_quick_size():
    def weights(size, **fields):
        cfg = ENTRY.configure(size, **fields)
        task = wiedemer_training.world(cfg)
        data = task.data(task.space.draw(1, rng=np.random.default_rng(0)))
        return sum(p.numel() for p in wiedemer_training.build(cfg, data, 0).parameters())

    assert weights("paper") == 554_950
    assert weights("paper", model="monolithic", **same_size("paper")) == 587_779
    assert weights("paper", combine="alpha", shared=True) == 277_604
    one = weights("quick", model="monolithic", **same_size("quick"))
    assert one == pytest.approx(weights("quick"), rel=0.01)


def test_the_paper_size_has_the_variances_of_the_published_table():
    for support, variance in (("random", 0.0253), ("orthogonal", 0.0161), ("star", 0.0151)):
        cfg = ENTRY.configure("paper", support=support, samples=1500, asked=1)
        _, (split,) = wiedemer_training.worlds(cfg, [0])
        y = split.train.y
        assert float((y - y.mean(dim=0)).square().mean()) == pytest.approx(variance, rel=0.05)


# Scores as the paper reports them, and scores as if composing did not help.
GOOD = {"r2_id": 0.95, "r2_all": 0.95, "hidden_2": 0.0, "determined_2": 1.0, "success": 1.0}
GOOD |= {"named_ratio": 1.0, "error_named": 0.01}
PAPER = {
    "gap": {"r2_all": 0.895},
    "star": {"r2_all": 0.869, "hidden_2": 0.1, "named_ratio": 9.0, "error_named": 0.2},
    "diagonal(0.05)": {"r2_all": 0.589, "hidden_2": 0.4},
    "alpha": {"r2_all": 0.979, "determined_2": 0.05},
    "monolithic": {"r2_all": -0.5},
}
OPPOSITE = {
    "orthogonal": {"r2_all": -0.5, "error_named": 0.2, "named_ratio": 9.0},
    "random": {"r2_all": -0.9},
    "star": {"hidden_2": 0.1},
    "normal": {"r2_all": 0.1},
    "gap": {"r2_all": -0.4},
    "diagonal(0.2)": {"r2_all": 0.5},
    "diagonal(0.05)": {"hidden_2": 0.4},
    "alpha": {"r2_all": -0.6, "determined_2": 0.05},
    "monolithic": {"r2_id": 0.1},
    "monolithic random": {"r2_all": 0.1},
}


def records(claim, changes):
    """Invent records of a claim's runs; seeds differ by a thousandth."""
    invented = []
    for run in claim.runs("quick").values():
        cfg = ENTRY.configure("quick", **run)
        kind = cfg.support if cfg.model == "compositional" else "monolithic"
        kind = "alpha" if cfg.combine == "alpha" else kind
        kind = "monolithic random" if kind == "monolithic" and cfg.support == "random" else kind
        for seed in range(5):
            scores = GOOD | changes.get(kind, {})
            if "hidden_2" not in changes.get(kind, {}):
                scores["r2_all"] += 1e-3 * seed * (-1) ** seed
            id = identify(ENTRY, cfg, seed, "quick")
            invented.append(Record(id, ENTRY.name, "quick", dict(vars(cfg)), seed, scores=scores))
    return invented


LUCK = "wiedemer2023.a_narrow_band_succeeds_by_luck"


@pytest.mark.parametrize("name", [n for n in NAMES if n != LUCK])
def test_a_claim_holds_on_the_papers_numbers_and_fails_on_the_opposite(name):
    claim = CLAIMS[name]
    assert judge(claim, records(claim, PAPER), "quick").outcome == HOLDS
    assert judge(claim, records(claim, OPPOSITE), "quick").outcome == FAILS


def test_luck_needs_both_outcomes():
    claim = CLAIMS[LUCK]
    always = records(claim, {})
    assert judge(claim, always, "quick").outcome == FAILS
    some = [replace(r, scores=r.scores | {"success": float(r.seed < 2)}) for r in always]
    verdict = judge(claim, some, "quick")
    assert (verdict.outcome, verdict.value) == (OPEN, pytest.approx(0.4))
