"""Conditions: runs grouped by configuration, with names from the paper or its claims."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, get_args, get_origin

from recombine.core.claim import Claim, Run
from recombine.core.experiment import EXPERIMENTS, Experiment, Training, field_types
from recombine.core.registry import NAMES
from recombine.runs.record import DONE, Record, defaults, described, jsonable

Config = Mapping[str, Any]
Note = Callable[[str], object]


@dataclass(frozen=True)
class Condition:
    """The runs of one configuration, in order of seed."""

    label: str
    records: tuple[Record, ...]
    key: str = ""  # the configuration as text

    @cached_property
    def done(self) -> list[Record]:
        """The finished runs."""
        return [r for r in self.records if r.status == DONE]

    @property
    def config(self) -> Config:
        """The configuration that all its runs share."""
        return self.records[0].config

    def values(self, score: str) -> list[float]:
        """Return one score of every run that has it."""
        return [r.scores[score] for r in self.done if score in r.scores]


def group_runs(
    records: Sequence[Record], claims: Sequence[Claim] = (), note: Note = str
) -> list[Condition]:
    """Group the runs of one experiment at one size by configuration, and label each group.

    The label is the configuration's name in the paper's figures, or else its name in a claim, or
    else the values of a few fields, without those at their most common value. Equal labels are
    extended by the fields that differ. Conditions that claims use come first. `note` receives a
    sentence about names that cannot be had.
    """
    experiment = EXPERIMENTS.get(records[0].experiment)
    groups: dict[str, list[Record]] = {}
    for r in sorted(records, key=lambda r: (r.seed, r.id)):
        groups.setdefault(key_of(r.config, experiment), []).append(r)
    configs = {key: json.loads(key) for key in groups}
    telling = _telling_fields([*configs.values()], experiment)
    from_claims = _claimed_names(claims, records[0].size, experiment)
    plain_name = records[0].experiment.rpartition(".")[2].replace("_", " ")
    usual = _usual([*configs.values()], telling)
    labels = {
        key: _paper_name(records[0].experiment, config, note)
        or from_claims.get(key, "")
        or _label(config, telling, usual)
        or plain_name
        for key, config in configs.items()
    }
    for label, count in Counter(labels.values()).items():
        if count > 1:
            same = [configs[key] for key in groups if labels[key] == label]
            differing = _telling_fields(same, experiment)
            for key, config in configs.items():
                if labels[key] == label:
                    labels[key] = f"{label}, {_label(config, differing)}"
    conditions = [Condition(labels[key], tuple(group), key) for key, group in groups.items()]
    order = _order([*configs.values()], telling, experiment)
    return sorted(conditions, key=lambda c: (c.key not in from_claims, order(configs[c.key])))


def varying(configs: Sequence[Config], experiment: str) -> list[str]:
    """List the fields in which configurations differ, in the order of the experiment's config."""
    declared = {name: i for i, name in enumerate(_options(EXPERIMENTS.get(experiment)))}
    names = sorted({f for c in configs for f in c}, key=lambda f: (declared.get(f, 99), f))
    return [f for f in names if len({json.dumps(c.get(f)) for c in configs}) > 1]


def key_of(config: Config, experiment: Experiment | None) -> str:
    """Write a config as text; fields that an old record lacks have their default."""
    default = defaults(experiment.config) if experiment else {}
    return json.dumps(default | dict(config), sort_keys=True)


def _paper_name(experiment: str, config: Config, note: Note) -> str:
    try:
        return str(NAMES[experiment](config)) if experiment in NAMES else ""
    except KeyError:  # a value that the paper's figures do not name
        return ""
    except Exception as problem:
        what = f"The names of conditions that {NAMES[experiment].__module__} gives {experiment}"
        note(f"{what} are left out: {described(problem)}")
        return ""


def configured(claim: Claim, size: str) -> list[tuple[str, Run, str]]:
    """List a claim's runs: name, changed fields, and the configuration as text.

    A claim whose runs cannot be configured has none; its verdict says why.
    """
    experiment = EXPERIMENTS[claim.experiment]
    try:
        return [
            (name, run, key_of(jsonable(experiment.configure(size, **run)), experiment))
            for name, run in claim.runs(size).items()
        ]
    except Exception:
        return []


def _claimed_names(
    claims: Sequence[Claim], size: str, experiment: Experiment | None
) -> dict[str, str]:
    """Map the configurations that claims use to their most common name in claims, or ""."""
    votes: dict[str, Counter[str]] = {}
    for claim in claims:
        if experiment is None or claim.experiment != experiment.name:
            continue
        for name, _, key in configured(claim, size):
            count = votes.setdefault(key, Counter())
            if not _automatic(name):
                count[name.replace("_", " ")] += 1
    return {key: max(count, key=lambda n: count[n], default="") for key, count in votes.items()}


def _automatic(name: str) -> bool:
    """Return whether a run's name was derived from its changed fields, or is a number.

    >>> _automatic("depth=2"), _automatic("1e-05"), _automatic("depth 2")
    (True, True, False)
    """
    return bool(re.fullmatch(r"default|.*=.*|[-+.\de]+", name))


def _telling_fields(configs: Sequence[Config], experiment: Experiment | None) -> list[str]:
    """Choose a few fields that distinguish all configurations.

    Text fields come before numbers, and options of training come last.
    """
    differ = varying(configs, experiment.name if experiment else "")
    training = {f.name for f in fields(Training)}
    differ.sort(key=lambda f: (f in training, all(_is_number(c.get(f)) for c in configs)))
    telling: list[str] = []
    while differ and _distinct(configs, telling) < len(configs):
        best = max(differ, key=lambda f: _distinct(configs, [*telling, f]))
        telling.append(best)
        differ.remove(best)
    return telling


def _label(config: Config, telling: Sequence[str], usual: Config | None = None) -> str:
    """Write the values of these fields: the first always, the others if unusual."""
    values = [(f, config.get(f)) for f in telling]
    unusual = [
        (f, v) for i, (f, v) in enumerate(values) if i == 0 or usual is None or v != usual.get(f)
    ]
    return ", ".join(_words(f.replace("_", " "), v) for f, v in unusual)


def _words(field: str, value: Any) -> str:
    """Write a field and its value for a label.

    >>> _words("decoder", "one_hot"), _words("depth", 2), _words("bias", True), _words("x", None)
    ('one hot', 'depth 2', 'bias', 'no x')
    """
    if isinstance(value, str) and value:
        return value.replace("_", " ")
    return f"{field} {value}" if _is_number(value) else field if value else f"no {field}"


def _usual(configs: Sequence[Config], telling: Sequence[str]) -> Config:
    """Return the most common value of each field; the first of equally common ones."""
    counts = {f: Counter(json.dumps(c.get(f)) for c in configs) for f in telling}
    return {f: json.loads(count.most_common(1)[0][0]) for f, count in counts.items()}


def _order(configs: Sequence[Config], telling: Sequence[str], experiment: Experiment | None) -> Any:
    """Return a sort key: options in the order of their type, numbers by value."""
    options = _options(experiment)
    rest = [f for f in varying(configs, experiment.name if experiment else "") if f not in telling]

    def sort_key(config: Config) -> list[tuple[int, float, str]]:
        keys = []
        for f in [*telling, *rest]:
            value, listed = config.get(f), options.get(f, ())
            number = float(value) if isinstance(value, int | float) else 0.0
            keys.append((listed.index(value) if value in listed else 99, number, str(value)))
        return keys

    return sort_key


def _options(experiment: Experiment | None) -> dict[str, tuple[Any, ...]]:
    """List the fields of an experiment's config in order, each with its literal options."""
    if experiment is None:
        return {}
    hints = field_types(experiment.config)
    return {
        f.name: get_args(hints[f.name]) if get_origin(hints[f.name]) is Literal else ()
        for f in fields(experiment.config)
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _distinct(configs: Sequence[Config], names: Sequence[str]) -> int:
    return len({json.dumps([c.get(f) for f in names]) for c in configs})
