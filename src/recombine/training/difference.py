"""Compare modules in everything but the values of their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import partial
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

REGISTERED = ("_parameters", "_buffers", "_modules")


def difference(a: nn.Module, b: nn.Module) -> str:
    """Name the first attribute in which two modules differ, other than values of weights.

    >>> difference(nn.Linear(2, 3), nn.Linear(2, 3))
    ''
    >>> difference(nn.LeakyReLU(0.1), nn.LeakyReLU(0.2))
    'LeakyReLU.negative_slope'
    """
    inside = [dict(m.named_modules(remove_duplicate=False)) for m in (a, b)]
    if list(inside[0]) != list(inside[1]):
        return "the names of their modules"
    pairs = list(zip(inside[0].values(), inside[1].values(), strict=True))
    compared = {(id(m), id(n)) for m, n in pairs}
    for m, n in pairs:
        if type(m) is not type(n):
            return "the types of their modules"
        for table in ("_parameters", "_buffers"):
            if _outline(getattr(m, table)) != _outline(getattr(n, table)):
                return f"{type(m).__name__}{table}"
        states = [{k: v for k, v in vars(o).items() if k not in REGISTERED} for o in (m, n)]
        for key in {**states[0], **states[1]}:
            if any(key not in s for s in states) or not same(
                states[0][key], states[1][key], compared
            ):
                return f"{type(m).__name__}.{key}"
    return ""


def _outline(tensors: Mapping[str, Tensor | None]) -> list[Any]:
    """Describe tensors by everything but their values."""
    return [
        (name, t if t is None else (t.shape, t.dtype, t.device, t.requires_grad))
        for name, t in tensors.items()
    ]


def same(a: Any, b: Any, compared: set[tuple[int, int]] | None = None) -> bool:
    """Compare by value: containers, arrays, functions with their closures, plain objects."""
    compared = set() if compared is None else compared
    if a is b or (id(a), id(b)) in compared:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return bool(a.hex() == b.hex())
    if isinstance(a, (int, str, bytes)):
        return bool(a == b)
    compared.add((id(a), id(b)))
    content = _same_content(a, b, compared)
    first, second = _attributes(a), _attributes(b)
    if first is None or second is None:
        return content or False
    return content is not False and _all_same(first, second, compared)


def _same_content(a: Any, b: Any, compared: set[tuple[int, int]]) -> bool | None:
    """Compare two objects of one type, attributes aside; None if they consist of attributes."""
    if isinstance(a, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and _equal(a, b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(a, Mapping):
        return _all_same(a, b, compared)
    if isinstance(a, (list, tuple)):
        return _all_same(dict(enumerate(a)), dict(enumerate(b)), compared)
    if isinstance(a, partial):
        fields = ("func", "args", "keywords")
        return all(same(getattr(a, f), getattr(b, f), compared) for f in fields)
    if isinstance(a, MethodType):
        return a.__func__ is b.__func__ and same(a.__self__, b.__self__, compared)
    if isinstance(a, FunctionType):
        return a.__code__ is b.__code__ and all(
            same(c, d, compared) for c, d in zip(_captured(a), _captured(b), strict=True)
        )
    if "__eq__" in {k for c in type(a).__mro__[:-1] for k in vars(c)} and not is_dataclass(a):
        try:
            return bool(a == b)
        except Exception:  # not comparable, so not known to be the same
            return False
    return None


def _all_same(a: Mapping[Any, Any], b: Mapping[Any, Any], compared: set[tuple[int, int]]) -> bool:
    return list(a) == list(b) and all(same(a[k], b[k], compared) for k in a)


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return an object's attributes, in slots too; None if its type does not allow any."""
    slots = [vars(c) for c in type(value).__mro__ if "__slots__" in vars(c)]
    if not slots and not hasattr(value, "__dict__"):
        return None
    attributes = dict(getattr(value, "__dict__", {}))
    for members in slots:
        for name, member in members.items():
            if isinstance(member, MemberDescriptorType):
                attributes[name] = getattr(value, name, None)
    return attributes


def _equal(a: Tensor, b: Tensor) -> bool:
    """Compare exactly; NaN equals NaN."""
    return torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def _captured(function: FunctionType) -> list[Any]:
    """List a function's closure and defaults."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [*cells, function.__defaults__, function.__kwdefaults__]
