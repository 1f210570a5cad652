"""Fields as options: how the help shows the fields of a dataclass."""

import types
from dataclasses import is_dataclass, replace
from typing import Annotated, Any, get_args

from tyro import conf
from tyro.constructors import (
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)


def registry() -> ConstructorRegistry:
    """Wrap tyro's rule for dataclasses so that fields read better in the help."""
    rules, nested = ConstructorRegistry(), False

    @rules.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        nonlocal nested
        if nested or not is_dataclass(info.type):
            return None
        nested = True  # the next call falls through to tyro's rule
        spec = ConstructorRegistry.get_struct_spec(info)
        nested = False
        if not isinstance(spec, StructConstructorSpec):
            return None
        return replace(spec, fields=tuple(map(readable, spec.fields)))

    return rules


def readable(field: StructFieldSpec) -> StructFieldSpec:
    """Write the help as one paragraph, without an empty default or `None` among the types.

    A flag that is on by default is shown as `--flag, --no-flag`: its help describes `--flag`.
    """
    if is_dataclass(field.default):
        return field
    text = field.helptext() if callable(field.helptext) else field.helptext
    empty = field.default is None or field.default is False or field.default in ("", ())
    metavar: str | None = None
    match get_args(field.type):
        case (type(__name__=name), types.NoneType):
            metavar = name.upper()
    notes: list[Any] = [conf.arg(help_behavior_hint="" if empty else None, metavar=metavar)]
    if field.default is False:
        notes.append(conf.FlagCreatePairsOff)
    kind: Any = Annotated[field.type, *notes]
    return replace(field, type=kind, helptext=" ".join(text.split()) if text else None)
