"""Papers are identified once, and everything that names them agrees."""

import re
from pathlib import Path

import pytest

from recombine.base.registry import FIGURES
from recombine.claims.bibliography import papers
from recombine.claims.experiment import EXPERIMENTS

ROOT = Path(__file__).parents[2]


def test_every_paper_with_an_experiment_is_identified():
    assert {*papers(), "lab"} == {entry.family for entry in EXPERIMENTS.values()}


@pytest.mark.parametrize("paper", papers().values(), ids=papers())
def test_a_paper_has_what_a_reader_needs(paper):
    assert set(paper.figures) <= set(FIGURES)
    assert len(re.findall(r"[.](?= [A-Z]|$)", paper.summary)) == 3
    if paper.ours:
        assert (ROOT / paper.link).is_file()
        assert not paper.bibtex
        return
    assert re.fullmatch(r"\d{4}\.\d{5}", paper.arxiv)
    assert paper.link.endswith(paper.arxiv)
    assert all(re.fullmatch(r"[^,]+, [^,]+", author) for author in paper.authors)
    assert paper.authors[0].lower().startswith(paper.key.rstrip("0123456789"))


def test_bibtex():
    assert papers()["brady2024"].bibtex.splitlines() == [
        "@inproceedings{brady2024,",
        "  title = {{Interaction Asymmetry: A General Principle for Learning Composable "
        "Abstractions}},",
        "  author = {Brady, Jack and von Kügelgen, Julius and Lachapelle, Sébastien and "
        "Buchholz, Simon and Kipf, Thomas and Brendel, Wieland},",
        "  booktitle = {International Conference on Learning Representations},",
        "  year = {2025},",
        "  eprint = {2411.07784},",
        "  archiveprefix = {arXiv},",
        "  url = {https://arxiv.org/abs/2411.07784},",
        "}",
    ]
    assert papers()["qian2025"].bibtex.startswith("@misc{")
