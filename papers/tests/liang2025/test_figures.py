"""Figures of the hidden square: runs, labels and values, from made-up arrays."""

import re
from dataclasses import replace

import numpy as np
import pytest

from recombine.claims.record import Record, jsonable
from recombine.plots import plot
from recombine.plots.panel import Figure
from recombine_papers.liang2025.figures import hidden_square as pictures
from recombine_papers.liang2025.hidden_square import Square

ALL = (pictures.error_maps, pictures.embeddings, pictures.volume_maps, pictures.spectra)


def record(seed=0, **fields) -> Record:
    config = jsonable(replace(Square(), **fields))
    id = f"{hash((str(config), seed)) % 16**12:x}"
    scores = {"blank_id": 0.5, "blank_ood": 2.0}
    return Record(id, "liang2025.hidden_square", "quick", config, seed, scores=scores)


def arrays(r: Record) -> dict:
    """Make up the arrays of a run; the error is the seed everywhere."""
    support = np.ones((6, 6), dtype=bool)
    support[2:4, 2:5] = False
    maps = np.random.default_rng(r.seed).normal(size=(5, 6, 6))
    return {
        "error_map": np.full((6, 6), float(r.seed)),
        "support": support,
        "transport_layers": np.array(["input", "1", "2", "3", "output"]),
        "transport_factorization": np.linspace(1, 0.8, 5),
        "transport_maps": maps.astype(np.float32),
        "kernel_spectra": np.tile(0.5 ** np.arange(1, 17), (5, 1)),
        "embeddings_start": np.ones((2, 4, 6, 6)),
        "embeddings_end": np.zeros((2, 4, 6, 6)),
    }


def titles(figure: Figure) -> list[str]:
    return [axes.title for axes in figure.axes if axes.title]


@pytest.mark.parametrize("draw", ALL)
def test_a_figure_without_its_arrays_is_left_out(draw):
    runs = [record(decoder=d) for d in ("mlp", "cnn", "low_rank", "outer")]
    assert isinstance(draw(runs, arrays), Figure)
    assert draw(runs, lambda r: {}) is None
    assert draw([], arrays) is None


def test_errors_are_means_over_seeds_relative_to_a_blank_image(monkeypatch):
    tables = []
    monkeypatch.setattr(plot.Axes, "imshow", lambda self, table, *rest: tables.append(table))
    pictures.error_maps([record(seed) for seed in (1, 3)], arrays)
    (shown,) = tables
    assert shown[0, 0] == pytest.approx(2 / 0.5)  # seen
    assert shown[2, 2] == pytest.approx(2 / 2.0)  # held out, where a blank image has a larger error


def test_every_decoder_code_and_cure_has_its_panel_in_words():
    runs = [
        record(decoder="low_rank", encoding="one_hot", entropy=0.1, variance=0.01),
        record(decoder="low_rank", encoding="one_hot", variance=0.01),
        record(decoder="cnn", stripes=0.5, absent="mean"),
        record(encoding="ramp"),
        record(),
        record(decoder="cnn"),
    ]
    assert titles(pictures.error_maps(runs, arrays)) == [
        "MLP",
        "MLP, ramp",
        "CNN",
        "CNN + 0.5 stripes (mean)",
        "low rank + variance",
        "low rank + both penalties",
    ]


def test_of_several_depths_the_middle_one_is_shown():
    runs = [record(seed, depth=depth) for depth in (5, 2, 3, 4) for seed in (1, 0)]
    ((_, records),) = pictures.kinds(runs).items()
    assert [(r.config["depth"], r.seed) for r in records] == [(3, 0), (3, 1)]


def test_embeddings_are_drawn_by_penalty():
    runs = [
        record(decoder="low_rank", encoding="one_hot", entropy=e, variance=v)
        for e in (0.0, 0.1)
        for v in (0.0, 0.01)
    ]
    figure = pictures.embeddings(runs, arrays)
    assert len(figure.axes) == 4 * 8
    labels = re.findall(
        r">([a-z,]+)</text>", "".join(p for p in figure.parts if p not in figure.axes)
    )
    after = [word for kind in ("no", "variance", "both") for word in ("after,", kind, "penalty")]
    assert labels == ["before", *after]


def test_volumes_are_named_by_layer_and_spectra_by_decoder():
    runs = [record(), record(decoder="cnn"), record(decoder="outer")]
    labels = titles(pictures.volume_maps(runs, arrays))
    assert labels[:3] == ["input\nF = 1.000", "layer 2\nF = 0.900", "output\nF = 0.800"]
    assert titles(pictures.spectra(runs, arrays)) == ["MLP", "CNN", "product of two profiles"]
