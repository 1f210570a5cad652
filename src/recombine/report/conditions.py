"""Conditions: the runs of one configuration, with the name that its paper or a claim gives them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, Literal, get_args, get_origin

from recombine.core.claim import Claim
from recombine.core.experiment import EXPERIMENTS, Experiment, Training, field_types
from recombine.core.registry import NAMES
from recombine.runs.record import DONE, Record, jsonable

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    """The runs of one configuration, in order of seed."""

    label: str
    records: tuple[Record, ...]
    key: str = ""  # its configuration as text

    @cached_property
    def done(self) -> list[Record]:
        """The runs that have scores."""
        return [r for r in self.records if r.status == DONE]

    @property
    def config(self) -> Config:
        """The configuration that all its runs share."""
        return self.records[0].config

    def values(self, score: str) -> list[float]:
        """Return one score of every run that has it."""
        return [r.scores[score] for r in self.done if score in r.scores]


def conditions(records: Sequence[Record], claims: Sequence[Claim] = ()) -> list[Condition]:
    """Group the runs of one experiment at one size by configuration, and name each group.

    The name under which the paper's figures show a configuration comes first, then a claim's name
    for its run, then few fields, leaving out those at their most common value. Conditions of one
    name are set apart by the fields in which they differ. Those that claims run are listed first.
    """
    experiment = EXPERIMENTS.get(records[0].experiment)
    groups: dict[str, list[Record]] = {}
    for r in sorted(records, key=lambda r: (r.seed, r.id)):
        groups.setdefault(key_of(r.config, experiment), []).append(r)
    configs = {key: json.loads(key) for key in groups}
    telling = _telling_fields([*configs.values()], experiment)
    from_claims = _claimed_names(claims, records[0].size, experiment)
    bare = records[0].experiment.rpartition(".")[2].replace("_", " ")
    usual = _usual([*configs.values()], telling)
    labels = {
        key: _paper_name(records[0].experiment, config)
        or from_claims.get(key, "")
        or _label(config, telling, usual)
        or bare
        for key, config in configs.items()
    }
    for label, count in Counter(labels.values()).items():
        if count > 1:
            same = [configs[key] for key in groups if labels[key] == label]
            apart = _telling_fields(same, experiment)
            for key, config in configs.items():
                if labels[key] == label:
                    labels[key] = f"{label}, {_label(config, apart)}"
    split = [Condition(labels[key], tuple(group), key) for key, group in groups.items()]
    order = _order([*configs.values()], telling, experiment)
    return sorted(split, key=lambda c: (c.key not in from_claims, order(configs[c.key])))


def varying(configs: Sequence[Config], experiment: str) -> list[str]:
    """List the fields in which configurations differ, in the order of the experiment's config."""
    declared = {name: i for i, name in enumerate(_options(EXPERIMENTS.get(experiment)))}
    names = sorted({f for c in configs for f in c}, key=lambda f: (declared.get(f, 99), f))
    return [f for f in names if len({json.dumps(c.get(f)) for c in configs}) > 1]


def key_of(config: Config, experiment: Experiment | None) -> str:
    """Write a config as text; a record from before a field was added has the field's default."""
    defaults = _defaults(experiment.config) if experiment else {}
    return json.dumps(defaults | dict(config), sort_keys=True)


@cache
def _defaults(config: type) -> dict[str, Any]:
    return jsonable(config())


def _paper_name(experiment: str, config: Config) -> str:
    try:
        return NAMES[experiment](config) if experiment in NAMES else ""
    except KeyError:  # a value that the paper's figures do not know
        return ""


def _claimed_names(
    claims: Sequence[Claim], size: str, experiment: Experiment | None
) -> dict[str, str]:
    """Find the most common name that claims give to each configuration they run, or ""."""
    votes: dict[str, Counter[str]] = {}
    for claim in claims:
        for name, run in claim.runs(size).items():
            if experiment and claim.experiment == experiment.name:
                key = key_of(jsonable(experiment.configure(size, **run)), experiment)
                count = votes.setdefault(key, Counter())
                if not _automatic(name):
                    count[name.replace("_", " ")] += 1
    return {key: max(count, key=lambda n: count[n], default="") for key, count in votes.items()}


def _automatic(name: str) -> bool:
    """Tell whether a run's name was made of the fields that it changes, or is a mere number.

    >>> _automatic("depth=2"), _automatic("1e-05"), _automatic("depth 2")
    (True, True, False)
    """
    return bool(re.fullmatch(r"default|.*=.*|[-+.\de]+", name))


def _telling_fields(configs: Sequence[Config], experiment: Experiment | None) -> list[str]:
    """Choose few fields that tell all configurations apart.

    Words come before numbers, and these before how the training is done.
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
    """Write the values of the telling fields: the first always, the others where not usual."""
    values = [(f, config.get(f)) for f in telling]
    unusual = [
        (f, v) for i, (f, v) in enumerate(values) if i == 0 or usual is None or v != usual.get(f)
    ]
    return ", ".join(_words(f.replace("_", " "), v) for f, v in unusual)


def _words(field: str, value: Any) -> str:
    """Write the value of a field.

    >>> _words("decoder", "one_hot"), _words("depth", 2), _words("bias", True), _words("x", None)
    ('one hot', 'depth 2', 'bias', 'no x')
    """
    if isinstance(value, str) and value:
        return value.replace("_", " ")
    return f"{field} {value}" if _is_number(value) else field if value else f"no {field}"


def _usual(configs: Sequence[Config], telling: Sequence[str]) -> Config:
    """Return the most common value of each field; the first one listed where counts are equal."""
    counts = {f: Counter(json.dumps(c.get(f)) for c in configs) for f in telling}
    return {f: json.loads(count.most_common(1)[0][0]) for f, count in counts.items()}


def _order(configs: Sequence[Config], telling: Sequence[str], experiment: Experiment | None) -> Any:
    """Order conditions by their telling fields: listed words as listed, numbers by size."""
    options = _options(experiment)
    rest = [f for f in varying(configs, experiment.name if experiment else "") if f not in telling]

    def place(config: Config) -> list[tuple[int, float, str]]:
        keys = []
        for f in [*telling, *rest]:
            value, listed = config.get(f), options.get(f, ())
            number = float(value) if isinstance(value, int | float) else 0.0
            keys.append((listed.index(value) if value in listed else 99, number, str(value)))
        return keys

    return place


def _options(experiment: Experiment | None) -> dict[str, tuple[Any, ...]]:
    """List the fields of an experiment's config in order, with the words each may take."""
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
