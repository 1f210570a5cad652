"""Published verdicts: those of the committed records, shipped with the package."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recombine.base import plugins
from recombine.base.error import Refused

if TYPE_CHECKING:
    from recombine.claims.judge import Judged


@dataclass(frozen=True)
class Published:
    """Verdicts, scores quoted in texts, and the cost of each experiment, at quick size."""

    claims: Mapping[str, Mapping[str, Any]]  # name -> outcome, value, interval, seeds
    seconds: Mapping[str, float]  # of CPU, by experiment
    processors: Sequence[str]
    runs: Mapping[str, int] = field(default_factory=dict)  # by experiment
    scores: Mapping[str, float] = field(default_factory=dict)  # "experiment: score" -> mean

    def outcome(self, judged: Judged) -> str | None:
        """Return the published outcome of a claim at the same size, if there is one."""
        known = self.claims.get(judged.claim.name)
        return None if known is None or judged.size != "quick" else str(known["outcome"])

    def agreement(self, judged: Judged) -> str:
        """Compare a verdict with the published one; empty if there is none."""
        outcome = self.outcome(judged)
        if outcome is None:
            return ""
        return "agrees" if outcome == judged.verdict.outcome else f"published: {outcome}"

    def outcomes(self, paper: str) -> list[str]:
        """List the published outcomes of a paper's claims."""
        return [c["outcome"] for name, c in self.claims.items() if name.startswith(f"{paper}.")]

    def minutes(self, paper: str) -> str:
        """Return the CPU time to reproduce a paper or an experiment at quick size.

        >>> Published({}, {"a.x": 30.0, "a.y": 10.0, "b.z": 7200.0}, []).minutes("a")
        'under a minute'
        >>> Published({}, {"a.x": 30.0, "a.y": 10.0, "b.z": 7200.0}, []).minutes("b")
        '2.0 h'
        """
        times = [s for name, s in self.seconds.items() if paper in (name, name.partition(".")[0])]
        return duration(sum(times)) if times else ""

    def cost(self, experiment: str) -> str:
        """Return the number of runs that the claims of an experiment need, and their CPU time.

        >>> Published({}, {"a.x": 30.0}, [], {"a.x": 20}).cost("a.x")
        '20 runs of 1.5 s: under a minute'
        """
        if experiment not in self.runs:
            return "no claim needs it"
        runs, seconds = self.runs[experiment], self.seconds[experiment]
        each = f"{seconds / runs:.2g}" if seconds < 100 * runs else f"{seconds / runs:.0f}"
        return f"{runs} run{'s' * (runs > 1)} of {each} s: {duration(seconds)}"


def duration(seconds: float) -> str:
    """Write seconds in readable units.

    >>> duration(20), duration(600), duration(9000)
    ('under a minute', '10 min', '2.5 h')
    """
    minutes = seconds / 60
    if minutes < 1:
        return "under a minute"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


@cache
def published() -> Published:
    """Read the published verdicts of all installed packages."""
    total = Published({}, {}, [])
    for path in plugins.files("published.json"):
        more = Published(**json.loads(path.read_text(encoding="utf-8")))
        total = Published(
            {**total.claims, **more.claims},
            {**total.seconds, **more.seconds},
            list(dict.fromkeys([*total.processors, *more.processors])),
            {**total.runs, **more.runs},
            {**total.scores, **more.scores},
        )
    return total


def shipped() -> Path:
    """Return the folder of the records behind the published verdicts.

    A wheel has them inside the package; a checkout has them in the folder `results` beside `src`.
    """
    homes = [path.parent for path in plugins.files("published.json")]
    if not homes:
        raise Refused(
            "No installed package has published verdicts. Those of the papers come with: "
            "pip install recombine-papers"
        )
    folders = [folder / "results" for home in homes for folder in (home, home.parents[1])]
    for folder in folders:
        if folder.is_dir():
            return folder
    raise Refused(
        f"The published records are missing: neither {' nor '.join(map(str, folders))} exists. "
        "Install the package from its wheel, or work in a checkout."
    )
