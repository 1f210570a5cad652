"""The hidden square with every decoder and cure: stored arrays, and refusals."""

from dataclasses import replace
from statistics import mean
from typing import Any

import numpy as np
import pytest

from recombine.base.error import Refused
from recombine.measures.factorization import kernel_risk
from recombine.measures.observed import Observed
from recombine.spaces.support import NotCompositional
from recombine_papers.liang2025.hidden_square import Square
from recombine_papers.liang2025.hidden_square_training import hidden_square, worlds

TINY = Square(side=7, steps=12, width=8, channels=2, depth=1, batch=8)
RENDERED = replace(TINY, decoder="low_rank", encoding="one_hot")


@pytest.mark.parametrize("decoder", ["transformer", "spatial", "low_rank"])
def test_every_decoder_is_scored_on_the_whole_grid(decoder: str) -> None:
    cfg = replace(RENDERED, decoder=decoder, hidden=1)
    (result,) = hidden_square(cfg, [0])
    assert {"risk_ood", "position_deep", "superposition_index", "kernel_risk_ood"} <= set(
        result.scores
    )
    assert result.arrays["error_map"].shape == (7, 7)


def test_layers_are_measured_only_on_request() -> None:
    (all_of_it,), (outputs,) = (
        hidden_square(replace(TINY, layers=layers), [0]) for layers in (True, False)
    )
    assert {"factorization_lost", "volume_left"} <= set(all_of_it.scores) - set(outputs.scores)
    assert {"transport_maps", "kernel_spectra"} <= set(all_of_it.arrays) - set(outputs.arrays)
    same = {k: v for k, v in all_of_it.scores.items() if k in outputs.scores}
    assert same == outputs.scores


def test_late_scores_are_means_over_the_last_measurements() -> None:
    (result,) = hidden_square(replace(RENDERED, follow=True), [0])
    assert result.history is not None
    curve = result.history.scores["risk_ood"]
    assert len(curve) == 12
    assert result.scores["risk_ood_late"] == pytest.approx(mean(curve[-5:]))
    assert curve[-1] == pytest.approx(result.scores["risk_ood"], rel=1e-5)


def test_penalties_flatten_the_embeddings() -> None:
    cfg = replace(RENDERED, steps=150, lr=0.03, decay=0.0)
    (free,), (penalized,) = (
        hidden_square(replace(cfg, entropy=e, variance=v), [0]) for e, v in ((0, 0), (0.1, 0.01))
    )

    def second(images: np.ndarray) -> float:
        """Give the mean share of the second singular value in the first."""
        values = np.linalg.svd(images, compute_uv=False)
        return float((values[..., 1] / values[..., 0]).mean())

    start, end = penalized.arrays["embeddings_start"], penalized.arrays["embeddings_end"]
    assert start.shape == end.shape == (2, 4, 7, 7)
    assert np.array_equal(start, free.arrays["embeddings_start"])
    assert second(end) < 0.3 * second(free.arrays["embeddings_end"])


def test_penalties_need_embeddings() -> None:
    with pytest.raises(Refused, match="low_rank"):
        hidden_square(replace(TINY, entropy=0.1), [0])


def test_the_memorizing_kernel_has_the_error_of_its_closed_form() -> None:
    """At 28 pixels its error is 0.0045 to 0.0059, for a blank one of 0.0040."""
    task, (split,) = worlds(Square(side=28), [0])
    error = kernel_risk(Observed(task, split, split.query.y))["kernel_risk_ood"]
    assert 0.0044 / 0.00401 < error < 0.0060 / 0.00401


def test_a_hole_over_whole_rows_warns() -> None:
    with pytest.warns(NotCompositional, match="y"):
        worlds(replace(TINY, hole="0:7,2:4"), [0])


@pytest.mark.parametrize("wrong", [{"side": 1}, {"sigma": 0.0}, {"sigma": -1.0}])
def test_invalid_configs_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=r"size >= 2|sigma > 0"):
        hidden_square(replace(TINY, **wrong), [0])
