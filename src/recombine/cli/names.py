"""Names on a command line: which experiment, or which claims, they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from recombine.cli.parse import leading, load_plugins
from recombine.core.error import Refused, nearest

if TYPE_CHECKING:
    from recombine.core.claim import Claim
    from recombine.core.experiment import Experiment


def claim_first(words: list[str]) -> tuple[Claim | None, list[str]]:
    """Replace a leading claim by its experiment; without one, return the words unchanged."""
    from recombine.cli.terminal import warn
    from recombine.runs.discover import load
    from recombine.runs.index import entries

    name, rest = leading(words)
    load_plugins(rest)
    rows = entries("claims", note=warn)["claims"] if name is not None else []
    if name not in [row["name"] for row in rows]:
        return None, words if name is None else [name, *rest]
    load(warn)
    from recombine.core.claim import CLAIMS

    if name not in CLAIMS:
        raise Refused(f"The claim {name!r} could not be loaded; see the warnings above.")
    return CLAIMS[name], [CLAIMS[name].experiment, *rest]


def experiment_of(
    words: list[str], command: str, about: str, *, claims: bool = False
) -> tuple[Experiment, list[str]]:
    """Find the experiment that the first word names, or refuse without importing others.

    - claims: the command takes claims as well, so that a typo suggests them
    """
    from recombine.cli.terminal import warn
    from recombine.core.experiment import EXPERIMENTS
    from recombine.runs.discover import load
    from recombine.runs.index import entries

    name, rest = leading(words)
    load_plugins(rest)
    if name not in EXPERIMENTS:
        known = entries("experiments", "claims", note=warn)
        rows, what = known["experiments"], "EXPERIMENT" + " | CLAIM" * claims
        names = [row["name"] for row in rows]
        if name is None and {"-h", "--help"} & set(words):
            print(f"Usage: recombine {command} {what} [--field value ...] [OPTIONS]\n")
            print(f"{about}\n\nExperiments:")
            for row in rows:
                print(f"  {row['name']:<28}{row['sentence']}")
            if claims:
                print("\nClaims are listed by 'recombine list claims'.")
            print(f"\n'recombine {command} EXPERIMENT --help' lists its fields and all options.")
            raise SystemExit(0)
        if name is None:
            raise Refused(f"'recombine {command}' needs an experiment first: {', '.join(names)}.")
        if name not in names:
            others = [row["name"] for row in known["claims"]] if claims else []
            raise nearest("experiment" + " or claim" * claims, name, names + others)
        load(warn)
    if name not in EXPERIMENTS:
        raise Refused(f"The experiment {name!r} could not be loaded; see the warnings above.")
    return EXPERIMENTS[name], rest


def claims_of(names: Sequence[str], note: Callable[[str], None]) -> list[Claim]:
    """Find the claims of papers, experiments or claims by name; all if there are no names."""
    from recombine.runs.discover import load
    from recombine.runs.index import entries

    rows = {row["name"]: row for row in entries("claims", note=note)["claims"]}
    aliases = {n: {n, row["paper"], row["experiment"]} for n, row in rows.items()}
    known = set[str]().union(*aliases.values())
    for name in names:
        if name not in known:
            raise nearest("paper, experiment or claim", name, known)
    load(note)
    from recombine.core.claim import CLAIMS

    return [c for n, c in CLAIMS.items() if not names or aliases.get(n, {n}) & set(names)]
