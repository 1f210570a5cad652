"""Scores: what a number or array of a result means, and how a report shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, get_args

from recombine.core.error import Refused, nearest
from recombine.core.registry import registry, shelves

Better = Literal["lower", "higher", ""]
Draw = Literal["number", "map", "curve", "matrix", "images", "none"]
ACRONYMS = {"r2": "R²", "j_ari": "J-ARI", "knn": "kNN"}
ACRONYMS |= {name: name.upper() for name in ("jis", "sis", "mse", "mlp", "cnn", "auroc")}


@dataclass(frozen=True)
class Score:
    """One declared output of a diagnostic or an experiment.

    Names that end in `_id` and `_ood` are one quantity, in-distribution and out-of-distribution.

    - name: a name, or a pattern such as `"factorization_*"`
    - title: above its column, where the name in words would say something else
    - about: one short phrase without a full stop
    - unit: what 1 means; empty for a plain number
    - better: the direction of improvement, if there is one
    - draw: `number`; `map`, with one axis per factor of the space; `curve`; `matrix`; `images`,
      one per entry of the first axis; `none` for labels and masks that other arrays use
    - beside: arrays that are drawn with it: the labels of a curve's points or of images, the
      support and the factor names of a map, the targets of images; a `*` stands for the text that
      the name's `*` matched
    - per: the score that a map is divided by for drawing, such as `"blank_*"`: `blank_id` where
      the support is, `blank_ood` elsewhere
    - share: whether it is a share of cases, such as an accuracy; its intervals stay within [0, 1]
    - summary: whether tables that have room for a few scores show it
    """

    name: str
    about: str = ""
    unit: str = ""
    better: Better = ""
    draw: Draw = "number"
    beside: tuple[str, ...] = ()
    per: str = ""
    share: bool = False
    summary: bool = False
    title: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise Refused('A Score needs a name, such as Score("risk_ood").')
        for field, known in (("better", get_args(Better)), ("draw", get_args(Draw))):
            if (value := getattr(self, field)) not in known:
                raise nearest(f"{field}= of Score({self.name!r}) called", str(value), known)

    def matches(self, name: str) -> bool:
        """Return whether this declares an output called `name`."""
        return fnmatchcase(name, self.name)

    def companions(self, name: str) -> tuple[str, ...]:
        """Name the arrays that are drawn beside the output called `name`.

        >>> Score("drawn_*", draw="images", beside=("shown_*",)).companions("drawn_ood")
        ('shown_ood',)
        """
        start, _, end = self.name.partition("*")
        middle = name.removeprefix(start).removesuffix(end)
        return tuple(other.replace("*", middle) for other in self.beside)


def declared(name: str, scores: Iterable[Score]) -> Score | None:
    """Find the score that declares a name: the name itself comes before patterns.

    >>> declared("r2_id", [Score("r2_*"), Score("r2_id", unit="R²")]).unit
    'R²'
    """
    scores = list(scores)
    exact = next((score for score in scores if score.name == name), None)
    return exact or next((score for score in scores if score.matches(name)), None)


def spelled(name: str) -> str:
    """Write the name of a score as words.

    >>> spelled("r2_recombined"), spelled("j_ari"), spelled("eigengap_min")
    ('R² recombined', 'J-ARI', 'eigengap min')
    """
    words = [ACRONYMS.get(word, word) for word in name.split("_")]
    return ACRONYMS.get(name) or " ".join(words)


def is_share(name: str, experiment: str = "") -> bool:
    """Return whether a score is declared as a share of cases."""
    score = schema(name, experiment)
    return score is not None and score.share


def schema(name: str, experiment: str = "") -> Score | None:
    """Look up what a stored number or array means; None if nothing declares it.

    The experiment's declarations come before those of all registered diagnostics.
    """
    if experiment:
        shelves("experiment")
        entry = registry("experiment").get(experiment)
        if entry is not None and (score := declared(name, entry.scores)):
            return score
    shelves("score")  # of the index: importing the diagnostics is slow
    imported = {key: entry.scores for key, entry in registry("diagnostic").items()}
    scores = (registry("score") | imported).values()
    return declared(name, [s for group in scores for s in group])
