"""Text that `run` prints: errors on one scale, a verdict in words, and the next command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recombine.report.numbers import number

if TYPE_CHECKING:
    from recombine.cli.options import RunOptions
    from recombine.core.claim import Claim
    from recombine.core.experiment import Experiment
    from recombine.runs.record import Record

FITS, PARTLY = 0.1, 0.5  # errors below which a model fits, and fits in part
FRAMES = 3  # of a traceback


def errors(scores: Mapping[str, float]) -> tuple[float | None, float | None]:
    """Return the errors on training and held-out combinations; a constant answer has error 1.

    R² is converted to the error `1 - R²`.

    >>> errors({"risk_id": 0.01, "risk_ood": 1.2}), errors({"r2_id": 0.75})
    ((0.01, 1.2), (0.25, None))
    """

    def error(side: str) -> float | None:
        if f"risk_{side}" in scores:
            return scores[f"risk_{side}"]
        return 1 - scores[f"r2_{side}"] if f"r2_{side}" in scores else None

    return error("id"), error("ood")


def verdict(held_in: float | None, held_out: float | None) -> str:
    """Put two errors into words.

    >>> verdict(0.001, 0.02)
    'it generalizes to the held-out combinations'
    >>> verdict(0.001, 0.7)
    'it fits the training combinations and fails on the held-out ones'
    >>> verdict(0.8, 0.9)
    'it does not fit the training combinations, so the held-out error says little'
    """
    if held_in is not None and held_in >= PARTLY:
        rest = ", so the held-out error says little" if held_out is not None else ""
        return f"it does not fit the training combinations{rest}"
    if held_out is None:
        return "it fits" if held_in is not None and held_in < FITS else "it fits in part"
    if held_out < FITS:
        return "it generalizes to the held-out combinations"
    if held_out < PARTLY:
        return "it generalizes in part"
    fits = "fits" if held_in is not None and held_in < FITS else "partly fits"
    worse = "does worse than a constant answer" if held_out > 1 else "fails"
    return f"it {fits} the training combinations and {worse} on the held-out ones"


def sentence(record: Record) -> str:
    """Describe the outcome of one run: errors and a verdict, or scores if it has no errors."""
    held_in, held_out = errors(record.scores)
    if held_in is None and held_out is None:
        from recombine.report.columns import short_list

        names = short_list(record.scores, record.experiment)[:4]
        return ", ".join(f"{name} {number(record.scores[name])}" for name in names)
    parts = [
        f"{which} error {number(value)}"
        for which, value in (("held-in", held_in), ("held-out", held_out))
        if value is not None
    ]
    text = ", ".join(parts)
    scale = "(0 is perfect, 1 a constant answer)"
    return f"{text[0].upper()}{text[1:]} {scale}: {verdict(held_in, held_out)}."


def groups(record: Record) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Group all scores: held-in, held-out and other, each as (name, value, meaning)."""
    from recombine.core.score import schema

    sides = {"held-in": "_id", "held-out": "_ood", "other": ""}
    names = sorted(record.scores)
    for title, suffix in sides.items():
        group = [n for n in names if n.endswith(suffix)]
        names = [n for n in names if n not in group]
        meanings = [getattr(schema(n, record.experiment), "about", "") for n in group]
        numbers = [number(record.scores[n]) for n in group]
        if group:
            yield title, list(zip(group, numbers, meanings, strict=True))


def frames(error: str) -> str:
    r"""Return the last frames of a traceback with its message; '' if it has no frames.

    >>> print(frames('Traceback:\n  File "a.py", line 1, in f\n    g()\nValueError: no'))
      File "a.py", line 1, in f
        g()
    ValueError: no
    """
    parts = re.split(r"(?m)^(?=  File )", error.rstrip())
    return "".join(parts[1:][-FRAMES:])


def command(experiment: Experiment, cfg: Any, size: str) -> list[str]:
    """Write the flags that turn the defaults of a size into this config.

    Tuples have one word per entry, as the parser reads them.
    """
    from dataclasses import fields

    default = experiment.configure(size)
    words = [] if size == "quick" else ["--size", size]
    for f in fields(cfg):
        value = getattr(cfg, f.name)
        if value == getattr(default, f.name):
            continue
        flag = "--" + f.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else "--no-" + f.name.replace("_", "-"))
        elif isinstance(value, tuple):
            words += [flag, *map(str, value)]
        else:
            words += [flag, str(value)]
    return words


def next_step(
    experiment: Experiment, configs: Sequence[Any], options: RunOptions, claims: Sequence[Claim]
) -> str:
    """Return the next command after one seed: the claim of these configs, or five seeds of each."""
    from recombine.report.conditions import configured, key_of
    from recombine.runs.record import jsonable

    size, records = options.size, str(options.records)
    where = [] if records == "runs" else ["--records", records]
    where += ["--plugin", *options.plugin] if options.plugin else []
    keys = {key_of(jsonable(cfg), experiment) for cfg in configs}
    for claim in claims:
        if keys <= {key for _, _, key in configured(claim, size)}:
            sizes = [] if size == "quick" else ["--size", size]
            words = ["recombine", "reproduce", claim.name, *sizes, *where]
            return f"Next: {shlex.join(words)}   (the claim that this run belongs to)"
    sweeps = [
        ["recombine", "sweep", experiment.name, *command(experiment, cfg, size), *where]
        for cfg in configs
    ]
    lines = dict.fromkeys(shlex.join([*words, "--seeds", "5"]) for words in sweeps)
    return f"Next: {' && '.join(lines)}   (one seed decides nothing)"
