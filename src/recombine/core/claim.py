"""A claim: one sentence of a paper, decided by a number and its interval over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import Any, Literal, Protocol, TypeVar, get_args, overload, runtime_checkable

import numpy as np

from recombine.core.error import Refused, nearest
from recombine.core.experiment import EXPERIMENTS
from recombine.core.outcome import FAILS as FAILS
from recombine.core.outcome import HOLDS as HOLDS
from recombine.core.outcome import MISSING as MISSING
from recombine.core.outcome import OPEN as OPEN
from recombine.core.registry import F, enter, first_line, registry
from recombine.core.score import is_share
from recombine.core.show import shown
from recombine.core.space import Array, Numbers

LEAST = 5  # fewest seeds that decide a claim
FRESH = 1000  # first seed of claims whose settings were chosen on seeds from 0
SECOND = 15  # seeds of a second stage
MOST = 1000  # largest number of seeds that an inconclusive verdict proposes

Role = Literal["headline", "detail", "control", "beyond"]
Run = Mapping[str, Any]  # fields that differ from the size's config
Runs = Mapping[str, Run] | Sequence[Run]


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
    def config(self) -> Mapping[str, Any]:
        """Every field of its config."""

    @property
    def scores(self) -> Mapping[str, float]:
        """Its scores by name."""


R = TypeVar("R", bound=Scored)


@shown
@dataclass(frozen=True)
class Verdict:
    """An outcome, the number that decided it, and its bounds."""

    outcome: str
    value: float | None = None
    interval: tuple[float, float] | None = None
    seeds: int = 0
    why: str = ""
    above: float | None = None
    below: float | None = None
    start: int = 0  # the smallest of the seeds
    first: Verdict | None = None  # of the first stage, where a second one decided

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The number, its interval and the bounds: what `report.numbers.measured` writes."""
        return self.value, self.interval, self.above, self.below

    @property
    def seeds_used(self) -> str:
        """How many seeds decided, and from which one on.

        >>> Verdict(HOLDS, seeds=5).seeds_used, Verdict(HOLDS, seeds=15, start=5).seeds_used
        ('5', '15 from 5')
        """
        return f"{self.seeds} from {self.start}" if self.start else str(self.seeds)

    def __repr__(self) -> str:
        number = "" if self.value is None else f": {self.value:.4g}"
        if self.interval is not None:
            number += f" [{self.interval[0]:.4g}, {self.interval[1]:.4g}]"
        seeds = f" over {self.seeds} seed{'s' * (self.seeds != 1)}" if self.seeds else ""
        return f"{self.outcome}{number}{seeds}{f' ({self.why})' * bool(self.why)}"


@dataclass(frozen=True)
class Evidence(Sequence[R]):
    """The records of a claim: all of them in order, or those of one run by its name.

    Every run has the same seeds in the same order, so that runs can be compared seed by seed.
    """

    runs: Mapping[str, Sequence[R]]

    @overload
    def __getitem__(self, key: str) -> Sequence[R]: ...
    @overload
    def __getitem__(self, key: int) -> R: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[R]: ...
    def __getitem__(self, key: str | int | slice) -> R | Sequence[R]:
        """Return the records of a named run, or a record by its position among all."""
        if not isinstance(key, str):
            return [*self][key]
        if key not in self.runs:
            raise nearest("run of this claim called", key, self.runs)
        return self.runs[key]

    def __len__(self) -> int:
        return sum(map(len, self.runs.values()))

    def __iter__(self) -> Iterator[R]:
        return (record for run in self.runs.values() for record in run)

    def items(self) -> Iterator[tuple[str, Sequence[R]]]:
        """Iterate over names and records."""
        return iter(self.runs.items())


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
    start: int = 0  # its first seed
    second: bool = False  # whether `recombine reproduce` runs its second stage, too
    reason: str = ""  # the likely one, if it does not hold

    @property
    def family(self) -> str:
        """The paper, or other family, that the claim belongs to."""
        return self.experiment.partition(".")[0]

    @property
    def stages(self) -> tuple[range, range]:
        """Seeds of the first stage, and of the second, which decides where the first does not."""
        middle = self.start + self.seeds
        return range(self.start, middle), range(middle, middle + SECOND)


CLAIMS: dict[str, Claim] = registry("claim")


@dataclass(frozen=True)
class Rule:
    """Decide by one score: bounds on its mean over seeds.

    Several runs that are not compared must all respect the bounds: per seed, the smallest counts
    for a lower bound and the largest for an upper one.
    """

    score: str  # a name, or "a / b" or "a - b" of two scores or numbers
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
        if self.compare:
            a, operator, b = terms(self.compare)
            by_run = [combine(self.values(evidence[a]), operator, self.values(evidence[b]))]
        else:
            by_run = [self.values(run) for _, run in evidence.items()]
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

    def decide(self, values: Array, above: float | None, below: float | None) -> Verdict:
        """Decide by a mean over seeds, or by the one number of a closed form."""
        if self.exact:
            return exact(float(values[0]), above=above, below=below, what=self.what)
        return decide(values, above=above, below=below, what=self.what, share=self.share)

    @property
    def share(self) -> bool:
        """Whether the deciding number is a share, by the declaration of its score."""
        if self.compare or self.log10 or len(terms(self.score)) > 1:
            return False
        return is_share(self.score, self.experiment)

    def values(self, records: Sequence[Scored]) -> Array:
        """Evaluate the score in order of seed."""
        parts = terms(self.score)
        if len(parts) == 1:
            return scores(records, self.score)
        a, b = (
            np.float64(part) if part[0].isdigit() else scores(records, part)
            for part in (parts[0], parts[2])
        )
        return combine(a, parts[1], b)


def terms(expression: str) -> list[str]:
    """Split "a", "a / b" or "a - b" into words; refuse anything else.

    >>> terms("mse_ood / mse_id")
    ['mse_ood', '/', 'mse_id']
    """
    words = expression.split(" ")
    if len(words) == 1 or (len(words) == 3 and words[1] in ("/", "-") and all(words)):
        return words
    raise Refused(f"A claim needs one name, 'a / b' or 'a - b'; got {expression!r}.")


def combine(a: Array | np.float64, operator: str, b: Array | np.float64) -> Array:
    """Divide or subtract, seed by seed."""
    with np.errstate(divide="ignore", invalid="ignore"):  # `decide` refuses what is not finite
        return np.asarray(a / b if operator == "/" else a - b)


@overload
def claim(
    experiment: str,
    *,
    name: str,
    sentence: str,
    score: str,
    above: float | None = None,
    below: float | None = None,
    compare: str = "",
    log10: bool = False,
    what: str = "",
    runs: Runs | Callable[[str], Runs] = ({},),
    seeds: int | None = None,
    paper: str = "",
    source: str = "",
    oracle: str = "",
    role: Role = "detail",
    start: int = 0,
    second: bool = False,
    reason: str = "",
) -> Claim: ...
@overload
def claim(
    experiment: str,
    *,
    runs: Runs | Callable[[str], Runs] = ({},),
    seeds: int | None = None,
    paper: str = "",
    source: str = "",
    oracle: str = "",
    role: Role = "detail",
    start: int = 0,
    second: bool = False,
    reason: str = "",
) -> Callable[[F], F]: ...
def claim(
    experiment: str,
    *,
    name: str = "",
    sentence: str = "",
    score: str = "",
    above: float | None = None,
    below: float | None = None,
    compare: str = "",
    log10: bool = False,
    what: str = "",
    runs: Runs | Callable[[str], Runs] = ({},),
    seeds: int | None = None,
    paper: str = "",
    source: str = "",
    oracle: str = "",
    role: Role = "detail",
    start: int = 0,
    second: bool = False,
    reason: str = "",
) -> Claim | Callable[[F], F]:
    """Register a claim: bounds on one score as data, or a function of the records.

    ```python
    claim(
        "toy.addition", name="composes", sentence="An MLP generalizes to held-out sums.",
        score="risk_ood", below=0.1, runs={"mlp": {"decoder": "mlp"}}, source="Fig. 2",
    )

    @claim("toy.addition", runs={"noise": {"noise": 1.0}, "none": {}})
    def noise_helps(records: Evidence[Record]) -> Verdict:
        \"\"\"Noise lowers the held-out error.\"\"\"
        return decide(scores(records["noise"], "risk") - scores(records["none"], "risk"), below=0)
    ```

    - experiment: name of the experiment
    - name, sentence: of the claim; a decorated function has them as its name and docstring
    - above, below: bounds on the mean score over seeds
    - what: describes the deciding number in tables (default: the score's name)
    - runs: the fields that each run changes, by the run's name, or a function of the size
    - score: a score's name, or `"a / b"` or `"a - b"` of two scores or numbers of one run
    - compare: `"a / b"` or `"a - b"` decides by the ratio or difference of two runs, per seed
    - log10: decide by the logarithm to base 10, for ratios that span orders of magnitude
    - seeds: how many each run needs; default 5, and 1 for a closed form
    - paper, source: the published number, and the figure, table or text that has it
    - oracle: what was chosen after held-out results were seen; empty if nothing was
    - role: headline (the abstract promises it), detail, control, or beyond (not in the paper)
    - start: first seed; 1000 where a setting or measure was chosen by looking at seeds from 0
    - second: run a second stage of 15 further seeds, too; where the first stage is inconclusive,
      the second decides alone
    - reason: shown if it does not hold: the likely cause with a number, and whether the paper's own
      size was tried
    """
    needed = check_claim(experiment, name or "a claim", seeds, role)
    family = experiment.partition(".")[0]
    runs_at = (lambda size: named_runs(runs(size))) if callable(runs) else _same(named_runs(runs))

    def add(name: str, sentence: str, check: Callable[[Evidence[Any]], Verdict]) -> Claim:
        name = f"{family}.{name}"
        fields = (needed, paper, source, oracle, role, start, second, reason)
        entry = Claim(name, sentence, experiment, check, runs_at, *fields)
        before = CLAIMS.get(name)
        if (
            before
            and isinstance(check, Rule)
            and (before.sentence, before.check) != (sentence, check)
        ):
            raise Refused(f"Two claims are called {name!r}; rename one of them.")
        enter("claim", CLAIMS, name, entry, check)
        return entry

    if score:
        if not name or not sentence:
            raise Refused(
                f"A claim on {experiment} by the score {score!r} needs name= and sentence=."
            )
        if above is None and below is None:
            raise Refused(f"Claim {name!r} needs a bound: above=, below= or both.")
        what = what or score.replace("_", " ")
        stochastic = EXPERIMENTS[experiment].stochastic
        rule = Rule(score, above, below, compare, log10, what, not stochastic, experiment)
        if compare and not callable(runs):
            for run in terms(compare)[::2]:
                if run not in named_runs(runs):
                    raise nearest(f"run of claim {name!r} called", run, named_runs(runs))
        return add(name, sentence, rule)
    if name or sentence or compare or above is not None or below is not None:
        raise Refused(f"Claim {name!r} on {experiment} needs score=, or a decorated function.")

    def register(function: F) -> F:
        add(function.__name__, first_line(function), function)
        return function

    return register


def check_claim(experiment: str, name: str, seeds: int | None, role: str) -> int:
    """Return how many seeds a claim needs; refuse too few, and an unknown experiment or role."""
    if experiment not in EXPERIMENTS:
        raise nearest("experiment", experiment, EXPERIMENTS)
    least = LEAST if EXPERIMENTS[experiment].stochastic else 1
    if seeds is not None and seeds < least:
        raise Refused(f"{name} on {experiment} needs seeds >= {least}; got seeds={seeds}.")
    if role not in get_args(Role):
        raise nearest("role", role, get_args(Role))
    return least if seeds is None else seeds


def named_runs(runs: Runs) -> dict[str, Run]:
    """Name runs that come as a list by the fields they change.

    >>> named_runs([{}, {"noise": 1.0}])
    {'default': {}, 'noise=1.0': {'noise': 1.0}}
    """
    if isinstance(runs, Mapping):
        by_name = dict(runs)
    else:
        labels = [", ".join(f"{k}={v}" for k, v in run.items()) or "default" for run in runs]
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise Refused(f"A claim lists the run {twice[0]!r} twice; list each run once.")
        by_name = dict(zip(labels, runs, strict=True))
    if not by_name:
        raise Refused("A claim needs at least one run; got none. {} is the default config.")
    return by_name


def _same(runs: dict[str, Run]) -> Callable[[str], Mapping[str, Run]]:
    return lambda size: runs


def interval(values: Numbers, *, share: bool = False) -> tuple[float, float]:
    """Student's 95 % interval of a mean; where all values are equal, it is that value.

    For a share, such as an accuracy, the interval is Student's on the logit scale (by the delta
    method), so that it stays within 0 and 1.

    >>> low, high = interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    >>> low, high = interval([0.94, 0.97, 1.0], share=True)
    >>> round(low, 3), round(high, 3)
    (0.714, 0.998)
    """
    v = np.asarray(values, dtype=np.float64)
    if len(v) < 2:
        return (float("-inf"), float("inf"))
    if (v == v[0]).all():  # their mean may be rounded to another number
        return (float(v[0]), float(v[0]))
    return _interval(float(v.mean()), float(v.std(ddof=1)), len(v), share=share)


def _interval(mean: float, deviation: float, n: int, *, share: bool) -> tuple[float, float]:
    """Student's 95 % interval from the mean and standard deviation of n values."""
    # Imported here because it is slow and `list` does not need it.
    from scipy.special import expit, logit, stdtrit

    half = float(stdtrit(n - 1, 0.975) * deviation) / sqrt(n)
    if share and 0 < mean < 1:
        middle, half = logit(mean), half / (mean * (1 - mean))
        return (float(expit(middle - half)), float(expit(middle + half)))
    return (mean - half, mean + half)


def scores(records: Sequence[Scored], name: str, **where: Any) -> Array:
    """Return one score of the records whose config matches `where`, in order of seed."""
    chosen = [r for r in records if all(r.config.get(k) == v for k, v in where.items())]
    missing = next((r for r in chosen if name not in r.scores), None)
    if missing is not None:
        raise Refused(
            f"Record {missing.id} has no score {name!r}; it has {', '.join(missing.scores)}. "
            "Run the experiment again with this version."
        )
    return np.array([r.scores[name] for r in sorted(chosen, key=lambda r: r.seed)])


def decide(
    values: Numbers,
    *,
    above: float | None = None,
    below: float | None = None,
    what: str,
    share: bool = False,
) -> Verdict:
    """Decide by a mean over seeds: the whole interval must lie on one side of the bounds.

    >>> decide([0.1, 0.2, 0.1, 0.2, 0.1], below=0.5, what="error").outcome
    'holds'

    - values: one number per seed
    - above, below: the claim holds if the interval lies within these bounds, and does not hold if
      it lies entirely beyond one of them; an interval across a bound is inconclusive
    - what: describes the number
    - share: values are shares of cases, such as accuracies; the interval stays within 0 and 1
    """
    v = _numbers(values, what)
    limits = {"above": above, "below": below}
    for side, limit in limits.items():
        if limit is not None and not isfinite(limit):
            raise Refused(f"decide() needs a finite number to judge {what!r}; got {side}={limit}.")
    bounds = [f"{side} {limit:g}" for side, limit in limits.items() if limit is not None]
    if not bounds:
        raise Refused(f"decide() needs above=, below= or both to judge {what!r}; got neither.")
    if above is not None and below is not None and not above < below:
        raise Refused(
            f"decide() needs above < below to judge {what!r}, or nothing can hold; got "
            f"above={above:g} and below={below:g}."
        )
    if not np.isfinite(v).all():
        bad = v[~np.isfinite(v)][0]
        raise Refused(
            f"decide() needs finite numbers to judge {what!r}; got {bad} among {len(v)}. Look for "
            "a division by zero or a failed run."
        )
    if share and not ((v >= 0) & (v <= 1)).all():
        raise Refused(
            f"decide(share=True) needs values from 0 to 1 for {what!r}; got {v.tolist()}."
        )
    criterion = f"{what}, needed {' and '.join(bounds)}"
    low, high = interval(v, share=share)
    if share and low < high:
        criterion += " (logit interval)"
    mean = None if not len(v) else low if low == high else float(v.mean())
    if len(v) < LEAST:
        why = f"{criterion}; {LEAST} seeds are needed"
        return Verdict(MISSING, mean, None, len(v), why, above, below)
    inside = (above is None or low > above) and (below is None or high < below)
    beyond = (above is not None and high <= above) or (below is not None and low >= below)
    outcome = HOLDS if inside else FAILS if beyond else OPEN
    why = criterion
    if outcome == OPEN:
        why += f"; the interval crosses the bound; {_seeds_needed(v, above, below, share)}"
    return Verdict(outcome, mean, (low, high), len(v), why, above, below)


def _numbers(values: Numbers, what: str) -> Array:
    """Return one number per seed, or refuse anything else."""
    try:
        v = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise Refused(f"decide() needs numbers to judge {what!r}: {problem}.") from problem
    if v.ndim != 1:
        raise Refused(
            f"decide() needs one number per seed to judge {what!r}; got shape {v.shape}. Average "
            "what belongs to one seed."
        )
    return v


def _seeds_needed(values: Array, above: float | None, below: float | None, share: bool) -> str:
    """Say how many seeds would decide, if their mean and deviation stayed those of `values`.

    >>> _seeds_needed(np.array([0.0, 0.5, 1.0, 0.2, 0.8]), 0.4, None, share=False)
    'about 68 seeds would decide'
    """
    mean, deviation = float(values.mean()), float(values.std(ddof=1))

    def decides(n: int) -> bool:
        low, high = _interval(mean, deviation, n, share=share)
        inside = (above is None or low > above) and (below is None or high < below)
        return inside or (above is not None and high < above) or (below is not None and low > below)

    if not decides(MOST):
        return f"over {MOST} seeds would be needed"
    needed = next(n for n in range(len(values) + 1, MOST + 1) if decides(n))
    return f"about {needed} seeds would decide"


def exact(
    value: float, *, above: float | None = None, below: float | None = None, what: str
) -> Verdict:
    """Decide by one deterministic number, such as that of a closed form; arguments as `decide`.

    >>> exact(0.3, above=0.5, what="slope").outcome
    'does not hold'
    """
    verdict = decide([value] * LEAST, above=above, below=below, what=what)
    return replace(verdict, seeds=1, why=f"{verdict.why} (exact)")
