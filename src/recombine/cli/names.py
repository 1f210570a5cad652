"""Names on a command line, resolved to an experiment or to claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from recombine.base.error import Refused, nearest
from recombine.claims.bibliography import papers
from recombine.claims.claim import CLAIMS, Claim
from recombine.claims.experiment import EXPERIMENTS, Experiment
from recombine.cli.parse import leading, load_plugins
from recombine.cli.terminal import warn
from recombine.runs.discover import load
from recombine.runs.listing import entries


def experiment_of(
    words: list[str], command: str, about: str, *, claims: bool = False
) -> tuple[Experiment, Claim | None, list[str]]:
    """Find the experiment that the first word names, or refuse without importing others.

    - claims: the command also takes claims; return the named one, with its experiment
    """
    name, rest = leading(words)
    load_plugins(rest)
    if name in EXPERIMENTS:
        return EXPERIMENTS[name], None, rest
    rows = entries("experiments", "claims", note=warn)
    experiments, what = rows["experiments"], "EXPERIMENT" + " | CLAIM" * claims
    if name is None and {"-h", "--help"} & set(words):
        print(f"Usage: recombine {command} {what} [--field value ...] [OPTIONS]\n")
        print(f"{about}\n\nExperiments:")
        for row in experiments:
            print(f"  {row['name']:<28}{row['sentence']}")
        if claims:
            print("\nClaims are listed by 'recombine list claims'.")
        print(f"\n'recombine {command} EXPERIMENT --help' lists its fields and all options.")
        raise SystemExit(0)
    names = [row["name"] for row in experiments]
    if name is None:
        raise Refused(f"'recombine {command}' needs an experiment first: {', '.join(names)}.")
    names += [row["name"] for row in rows["claims"]] if claims else []
    if name not in names:
        raise _unknown("experiment" + " or claim" * claims, name, names)
    load(warn)
    claim = CLAIMS.get(name) if claims else None
    experiment = EXPERIMENTS.get(claim.experiment if claim else name)
    if experiment is None:
        raise Refused(f"{name!r} could not be loaded; see the warnings above.")
    return experiment, claim, rest


def claims_of(names: Sequence[str], note: Callable[[str], None]) -> list[Claim]:
    """Find the claims of papers, experiments or claims by name; all if there are no names."""
    rows = {row["name"]: row for row in entries("claims", note=note)["claims"]}
    aliases = {n: {n, row["paper"], row["experiment"]} for n, row in rows.items()}
    known = set[str]().union(*aliases.values())
    for name in names:
        if name not in known:
            raise _unknown("paper, experiment or claim", name, known)
    load(note)
    chosen = [c for n, c in CLAIMS.items() if not names or aliases.get(n, {n}) & set(names)]
    if not chosen:
        raise Refused(
            f"{' and '.join(names) or 'No claim'} could not be loaded; see the warnings above."
        )
    return chosen


def _unknown(kind: str, name: str, known: Iterable[str]) -> Refused:
    """Build the error for an unknown name; say where papers come from if there are none."""
    refused = nearest(kind, name, known)
    if papers():
        return refused
    return Refused(f"{refused} The papers come with: pip install recombine-papers")
