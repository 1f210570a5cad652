"""A claim: one sentence of a paper, the runs that decide it, and bounds on their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import (
    Any,
    Generic,
    Literal,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
    runtime_checkable,
)

import numpy as np

from recombine.core.error import Refused, nearest
from recombine.core.experiment import EXPERIMENTS
from recombine.core.outcome import FAILS as FAILS
from recombine.core.outcome import HOLDS as HOLDS
from recombine.core.outcome import MISSING as MISSING
from recombine.core.outcome import OPEN as OPEN
from recombine.core.registry import F, enter, first_line, registry
from recombine.core.score import is_share
from recombine.core.space import Array, Numbers
from recombine.core.verdict import LEAST as LEAST
from recombine.core.verdict import Verdict as Verdict
from recombine.core.verdict import decide as decide
from recombine.core.verdict import exact as exact
from recombine.core.verdict import interval as interval

FRESH = 1000  # first seed of claims whose settings were chosen on seeds from 0
SECOND = 15  # seeds of a second stage

Role = Literal["headline", "detail", "control", "beyond"]
Run = Mapping[str, Any]  # fields that differ from the size's config
Runs = Mapping[str, Run]
DEFAULT: Runs = {"default": {}}


@runtime_checkable
class Scored(Protocol):
    """The part of a record that claims read."""

    @property
    def id(self) -> str:
        """Id of the run."""

    @property
    def seed(self) -> int:
        """Seed of the run."""

    @property
    def scores(self) -> Mapping[str, float]:
        """Its scores by name."""


R = TypeVar("R", bound=Scored)


@dataclass(frozen=True)
class Evidence(Generic[R]):
    """The records of a claim: those of each run by its name, or all of them in order.

    Every run has the same seeds in the same order, so that runs can be compared seed by seed.
    """

    runs: Mapping[str, Sequence[R]]

    def __getitem__(self, name: str) -> Sequence[R]:
        """Return the records of a named run."""
        if name not in self.runs:
            raise nearest("run of this claim called", name, self.runs)
        return self.runs[name]

    def __iter__(self) -> Iterator[R]:
        return (record for run in self.runs.values() for record in run)

    def scores(self, name: str) -> dict[str, Array]:
        """Return one score of every run, by the name of the run."""
        return {run: scores(records, name) for run, records in self.runs.items()}


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, the runs that decide it, and where the paper says so."""

    name: str
    sentence: str
    experiment: str
    check: Callable[[Evidence[Any]], Verdict]
    runs: Callable[[str], Mapping[str, Run]]  # at a size: named runs
    seeds: int = 5
    paper: str = ""  # the published number
    source: str = ""  # where it is published: figure, table, text, authors' code, or "ours"
    oracle: str = ""  # what was chosen after held-out results were seen
    role: Role = "detail"
    start: int = 0  # first seed
    second: bool = False  # whether `recombine reproduce` runs its second stage, too
    reason: str = ""  # the likely reason if it does not hold

    @property
    def family(self) -> str:
        """The paper, or other family, that the claim belongs to."""
        return self.experiment.partition(".")[0]

    @property
    def stages(self) -> tuple[range, range]:
        """Seeds of the first stage, and of the second, which decides where the first does not."""
        middle = self.start + self.seeds
        return range(self.start, middle), range(middle, middle + SECOND)

    def planned(self, size: str) -> list[int]:
        """List the seeds that `recombine reproduce` runs."""
        first, second = self.stages
        return [*first, *second] if self.second and size == "quick" else [*first]


CLAIMS: dict[str, Claim] = registry("claim")


Values = Callable[[Evidence[Any]], Numbers | float]


@dataclass(frozen=True)
class Rule:
    """Decide by one score: bounds on its mean over seeds.

    Several runs that are not compared must all respect the bounds: per seed, the smallest counts
    for a lower bound and the largest for an upper one.
    """

    score: str | Values  # a name, "a / b" or "a - b" of two scores or numbers, or a function
    above: float | None
    below: float | None
    compare: str  # "a / b" or "a - b", by the names of runs
    log10: bool
    what: str
    exact: bool
    experiment: str = ""

    def __post_init__(self) -> None:
        terms(self.score)
        if self.compare and len(terms(self.compare)) == 1:
            raise Refused(f"compare= needs 'a / b' or 'a - b' of two runs; got {self.compare!r}.")

    def __call__(self, evidence: Evidence[Any]) -> Verdict:
        """Check the records."""
        if callable(self.score):
            return self.decide(self.score(evidence), self.above, self.below)
        if self.compare:
            a, operator, b = terms(self.compare)
            by_run = [combine(self.values(evidence[a]), operator, self.values(evidence[b]))]
        else:
            by_run = [self.values(run) for run in evidence.runs.values()]
        if self.log10:
            with np.errstate(divide="ignore", invalid="ignore"):  # `decide` refuses them
                by_run = [np.log10(values) for values in by_run]
        if len(by_run) == 1:
            return self.decide(by_run[0], self.above, self.below)
        verdicts = []
        if self.above is not None:
            verdicts.append(self.decide(np.min(by_run, axis=0), self.above, None))
        if self.below is not None:
            verdicts.append(self.decide(np.max(by_run, axis=0), None, self.below))
        return min(verdicts, key=lambda v: (FAILS, MISSING, OPEN, HOLDS).index(v.outcome))

    def decide(self, values: Numbers | float, above: float | None, below: float | None) -> Verdict:
        """Decide by a mean over seeds, or by the one number of a closed form."""
        if self.exact:
            return exact(float(np.ravel(values)[0]), above=above, below=below, what=self.what)
        return decide(
            np.asarray(values), above=above, below=below, what=self.what, share=self.share
        )

    @property
    def share(self) -> bool:
        """Whether the deciding number is a share, by the declaration of its score."""
        if callable(self.score) or self.compare or self.log10 or len(terms(self.score)) > 1:
            return False
        return is_share(self.score, self.experiment)

    def values(self, records: Iterable[Scored]) -> Array:
        """Evaluate the score in order of seed."""
        parts, records = terms(self.score), list(records)
        if len(parts) == 1:
            return scores(records, parts[0])
        a, b = (
            np.float64(part) if part[0].isdigit() else scores(records, part)
            for part in (parts[0], parts[2])
        )
        return combine(a, parts[1], b)


def terms(expression: str | Values) -> list[str]:
    """Split "a", "a / b" or "a - b" into words, and a function into none; refuse anything else.

    >>> terms("mse_ood / mse_id")
    ['mse_ood', '/', 'mse_id']
    """
    if callable(expression):
        return []
    words = expression.split(" ")
    if len(words) == 1 or (len(words) == 3 and words[1] in ("/", "-") and all(words)):
        return words
    raise Refused(f"A claim needs one name, 'a / b' or 'a - b'; got {expression!r}.")


def combine(a: Array | np.float64, operator: str, b: Array | np.float64) -> Array:
    """Divide or subtract, seed by seed."""
    with np.errstate(divide="ignore", invalid="ignore"):  # `decide` refuses what is not finite
        return np.asarray(a / b if operator == "/" else a - b)


class Fields(TypedDict, total=False):
    """Optional fields of every claim; `claim` explains each."""

    seeds: int
    paper: str
    source: str
    oracle: str
    role: Role
    start: int
    second: bool
    reason: str


@overload
def claim(
    experiment: str,
    *,
    name: str,
    sentence: str,
    score: str | Values,
    above: float | None = None,
    below: float | None = None,
    compare: str = "",
    log10: bool = False,
    what: str = "",
    runs: Runs | Callable[[str], Runs] = DEFAULT,
    **fields: Unpack[Fields],
) -> Claim: ...
@overload
def claim(
    experiment: str,
    *,
    above: float | None = None,
    below: float | None = None,
    what: str = "",
    runs: Runs | Callable[[str], Runs] = DEFAULT,
    **fields: Unpack[Fields],
) -> Callable[[F], F]: ...
def claim(
    experiment: str,
    *,
    name: str = "",
    sentence: str = "",
    score: str | Values = "",
    above: float | None = None,
    below: float | None = None,
    compare: str = "",
    log10: bool = False,
    what: str = "",
    runs: Runs | Callable[[str], Runs] = DEFAULT,
    **fields: Unpack[Fields],
) -> Claim | Callable[[F], F]:
    """Register a claim: bounds on a score, or on numbers that a decorated function returns.

    ```python
    claim(
        "toy.addition", name="composes", sentence="An MLP generalizes to held-out sums.",
        score="risk_ood", below=0.1, runs={"mlp": {"decoder": "mlp"}}, source="Fig. 2",
    )

    @claim("toy.addition", below=0, what="difference", runs={"noise": {"noise": 1.0}, "none": {}})
    def noise_helps(records: Evidence[Record]) -> Array:
        \"\"\"Noise lowers the larger of two held-out errors.\"\"\"
        a, b = records.scores("risk_a"), records.scores("risk_b")
        return np.maximum(a["noise"], b["noise"]) - np.maximum(a["none"], b["none"])
    ```

    - experiment: name of the experiment
    - name, sentence: of the claim; a decorated function has them as its name and docstring
    - above, below: bounds on the mean over seeds. A decorated function without bounds decides
      itself and returns a `Verdict`
    - what: describes the deciding number in tables (default: the score's name)
    - runs: the fields that each run changes, by the run's name, or a function of the size
    - score: a score's name, `"a / b"` or `"a - b"` of two scores or numbers of one run, or a
      function of the records that returns one number per seed (of a closed form, one number)
    - compare: `"a / b"` or `"a - b"` decides by the ratio or difference of two runs, per seed
    - log10: decide by the logarithm to base 10, for ratios that span orders of magnitude
    - seeds: how many each run needs; default 5, and 1 for a closed form
    - paper: the published number, drawn in the report if it is one number, such as "0.31",
      "0.31 (validation)" or "0.951 - 0.895 = 0.056"; other text is quoted
    - source: the figure, table or text that has it
    - oracle: what was chosen after held-out results were seen; empty if nothing was
    - role: headline (the abstract promises it), detail, control, or beyond (not in the paper)
    - start: first seed; 1000 where a setting or measure was chosen by looking at seeds from 0
    - second: `recombine reproduce` also runs a second stage of 15 further seeds; where the first
      stage is inconclusive, the second decides alone
    - reason: printed if it does not hold: the likely cause with a number, and whether the paper's
      full size was tried
    """
    if experiment not in EXPERIMENTS:
        problem = nearest("experiment", experiment, EXPERIMENTS)
        raise Refused(f"{problem} Define or import the experiment before its claims.")
    stochastic = EXPERIMENTS[experiment].stochastic
    bounded = above is not None or below is not None
    least = LEAST if stochastic else 1
    if fields.setdefault("seeds", least) < least:
        raise Refused(
            f"{name or 'A claim'} on {experiment} needs seeds >= {least}; got "
            f"seeds={fields['seeds']}."
        )
    if fields.get("role", "detail") not in get_args(Role):
        raise nearest("role", fields["role"], get_args(Role))
    if not runs:
        raise Refused("A claim needs at least one run; got none. {} is the default config.")
    listed: Runs = {} if callable(runs) else runs
    runs_at = runs if callable(runs) else lambda size: listed

    def add(name: str, sentence: str, check: Callable[[Evidence[Any]], Verdict]) -> Claim:
        name = f"{experiment.partition('.')[0]}.{name}"
        entry = Claim(name, sentence, experiment, check, runs_at, **fields)
        before, source = CLAIMS.get(name, entry), cast(Any, check)
        if isinstance(check, Rule) and callable(check.score):
            source = getattr(check.score, "func", check.score)  # of a partial
        elif isinstance(check, Rule) and (before.sentence, before.check) != (sentence, check):
            raise Refused(f"Two claims are called {name!r}; rename one of them.")
        enter("claim", CLAIMS, name, entry, source)
        return entry

    def rule(score: str | Values, what: str) -> Rule:
        return Rule(score, above, below, compare, log10, what, not stochastic, experiment)

    if score:
        if not name or not sentence:
            raise Refused(f"A claim on {experiment} by a score needs name= and sentence=.")
        if not bounded:
            raise Refused(f"Claim {name!r} needs a bound: above=, below= or both.")
        if callable(score) and not what:
            raise Refused(f"Claim {name!r} needs what=, which describes the number it decides by.")
        check = rule(score, what or str(score).replace("_", " "))
        for run in terms(compare)[::2] if compare and listed else ():
            if run not in listed:
                raise nearest(f"run of claim {name!r} called", run, listed)
        return add(name, sentence, check)
    if name or sentence or compare or log10:
        raise Refused(f"Claim {name!r} on {experiment} needs score=, or a decorated function.")
    if bounded and not what:
        raise Refused(
            f"A claim on {experiment} with bounds needs what=, which describes the number."
        )

    def register(function: F) -> F:
        check = rule(function, what) if bounded else function
        add(function.__name__, first_line(function), check)
        return function

    return register


@runtime_checkable
class Register(Protocol):
    """`claim` with some arguments filled in."""

    @overload
    def __call__(self, *, name: str, sentence: str, **fields: Any) -> Claim: ...
    @overload
    def __call__(self, **fields: Any) -> Callable[[F], F]: ...


def claims(experiment: str, **shared: Any) -> Register:
    """Return `claim` with the arguments filled in that several claims on an experiment share."""
    register: Any = partial(claim, experiment, **shared)
    return cast(Register, register)


def scores(records: Iterable[Scored], name: str) -> Array:
    """Return one score of the records, in order of seed."""
    records = sorted(records, key=lambda r: r.seed)
    if missing := next((r for r in records if name not in r.scores), None):
        raise Refused(
            f"Record {missing.id} has no score {name!r}; it has {', '.join(missing.scores)}. "
            "Run the experiment again with this version."
        )
    return np.array([r.scores[name] for r in records])
