"""Published verdicts: what the committed records say, shipped with the package."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recombine.core.error import Refused
from recombine.report.numbers import brief, measured

if TYPE_CHECKING:
    from recombine.runs.judge import Judged
    from recombine.runs.record import Record

PACKAGE = Path(__file__).parents[1]
FILE = "published.json"  # in the folder of the papers
PLACE = re.compile(r"\{([\w.]+)(?:\|([^|}]+)(?:\|(\w+))?|: (\w+))\}")


@dataclass(frozen=True)
class Published:
    """The verdicts, the scores that texts quote, and what each experiment costs, at quick size."""

    claims: Mapping[str, Mapping[str, Any]]  # name -> outcome, value, interval, seeds
    seconds: Mapping[str, float]
    processors: Sequence[str]
    runs: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)  # "experiment: score" -> mean

    def outcome(self, judged: Judged) -> str | None:
        """Return the published outcome of a claim at the same size, if there is one."""
        known = self.claims.get(judged.claim.name)
        return None if known is None or judged.size != "quick" else str(known["outcome"])

    def agreement(self, judged: Judged) -> str:
        """Say whether a verdict agrees with the published one; empty if there is none."""
        outcome = self.outcome(judged)
        if outcome is None:
            return ""
        return "agrees" if outcome == judged.verdict.outcome else f"published: {outcome}"

    def outcomes(self, paper: str) -> list[str]:
        """List the published outcomes of a paper's claims."""
        return [c["outcome"] for name, c in self.claims.items() if name.startswith(f"{paper}.")]

    def minutes(self, paper: str) -> str:
        """Write how long it takes to reproduce a paper, or an experiment, at quick size.

        >>> Published({}, {"a.x": 30.0, "a.y": 10.0, "b.z": 7200.0}, []).minutes("a")
        'under a minute'
        >>> Published({}, {"a.x": 30.0, "a.y": 10.0, "b.z": 7200.0}, []).minutes("b")
        '2.0 h'
        """
        times = [s for name, s in self.seconds.items() if paper in (name, name.partition(".")[0])]
        return duration(sum(times)) if times else ""

    def cost(self, experiment: str) -> str:
        """Write how many runs the claims of an experiment need, and their CPU time.

        >>> Published({}, {"a.x": 30.0}, [], {"a.x": 20}).cost("a.x")
        '20 runs of 1.5 s: under a minute'
        """
        if experiment not in self.runs:
            return "no claim needs it"
        runs, seconds = self.runs[experiment], self.seconds[experiment]
        each = f"{seconds / runs:.2g}" if seconds < 100 * runs else f"{seconds / runs:.0f}"
        return f"{runs} run{'s' * (runs > 1)} of {each} s: {duration(seconds)}"

    def fill(self, text: str) -> str:
        """Replace the places of a text by numbers; refuse a verdict that has changed.

        - `{claim|verdict}`: the claim's number, with two significant digits
        - `{claim|verdict|percent}`, `{claim|verdict|power}`: as a percentage; ten to its power
        - `{claim|verdict|interval}`: with its interval
        - `{experiment: score}`: a score of the experiment's default run

        >>> known = Published({"a.b": {"outcome": "holds", "value": 0.626}}, {}, [])
        >>> known.fill("{a.b|holds|percent} of an error of {a.b|holds}")
        '63 % of an error of 0.63'
        """
        return PLACE.sub(self._number, text)

    def _number(self, place: re.Match[str]) -> str:
        name, verdict, kind, score = place.groups()
        if score:
            return brief(self.scores[f"{name}: {score}"])
        known = self.claims.get(name)
        if known is None or known["outcome"] != verdict:
            now = known["outcome"] if known else "not among the published claims"
            raise Refused(f"{name} is written as {verdict!r}, but it is {now!r}; rewrite the text.")
        value = known["value"]
        if kind == "interval":
            return " ".join(measured(value, known["interval"])).replace("-", "−")
        if kind == "percent":
            return "100 %" if round(value, 2) == 1 else f"{brief(100 * value)} %"
        return brief(10.0**value if kind == "power" else value)


def duration(seconds: float) -> str:
    """Write CPU seconds for people.

    >>> duration(20), duration(600), duration(9000)
    ('under a minute', '10 min', '2.5 h')
    """
    minutes = seconds / 60
    if minutes < 1:
        return "under a minute"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


@cache
def published() -> Published:
    """Read the published verdicts."""
    return Published(**json.loads((PACKAGE / "papers" / FILE).read_text(encoding="utf-8")))


def shipped() -> Path:
    """Return the folder of the records behind the published verdicts: in the package, or beside it.

    A wheel holds them inside the package; a checkout has them in its folder `results`.
    """
    folders = [PACKAGE / "results", PACKAGE.parents[1] / "results"]
    for folder in folders:
        if folder.is_dir():
            return folder
    raise Refused(
        f"The published records are not there: neither {folders[0]} nor {folders[1]} exists. "
        "Install recombine from its wheel, or work in a checkout."
    )


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def quoted(records: Iterable[Record], texts: Iterable[str]) -> dict[str, float]:
    """Return the scores that texts quote, each a mean over the seeds of the default run."""
    from recombine.core.experiment import EXPERIMENTS
    from recombine.runs.record import DONE, jsonable

    places = {(m[1], m[4]) for text in texts for m in PLACE.finditer(text) if m[4]}
    values: dict[str, list[float]] = {}
    for r in records:
        for name, score in places:
            if (r.experiment, r.size, r.status) == (name, "quick", DONE):
                config = jsonable(EXPERIMENTS[name].configure("quick"))
                if config | dict(r.config) == config:
                    values.setdefault(f"{name}: {score}", []).append(r.scores[score])
    return {place: sum(v) / len(v) for place, v in sorted(values.items())}


def published_json(
    judged: Iterable[Judged],
    records: Sequence[Record],
    texts: Iterable[str] = (),
    needed: Container[str] | None = None,
) -> str:
    """Write verdicts, times and what texts quote as the file that ships: one claim per line.

    Times are those of the runs that are `needed` (their ids), or of all.
    """
    claims = {
        j.claim.name: {
            "outcome": j.verdict.outcome,
            "value": _short(j.verdict.value),
            "interval": [_short(end) for end in j.verdict.interval or ()] or None,
            "seeds": j.verdict.seeds,
        }
        for j in judged
        if j.size == "quick"
    }
    seconds: dict[str, float] = {}
    runs: Counter[str] = Counter()
    processors = set()
    for r in records:
        processors.add(r.processor)
        if r.size == "quick" and (needed is None or r.id in needed):
            seconds[r.experiment] = round(seconds.get(r.experiment, 0.0) + r.cpu_seconds, 4)
            runs[r.experiment] += 1
    lines = [f"  {json.dumps(name)}: {json.dumps(claims[name])}" for name in sorted(claims)]
    return (
        '{"claims": {\n' + ",\n".join(lines) + "\n},\n"
        f'"seconds": {json.dumps(seconds, sort_keys=True)},\n'
        f'"runs": {json.dumps(runs, sort_keys=True)},\n'
        f'"scores": {json.dumps({k: _short(v) for k, v in quoted(records, texts).items()})},\n'
        f'"processors": {json.dumps(sorted(p for p in processors if p))}}}\n'
    )
