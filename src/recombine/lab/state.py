"""The state of the lab: one small value shared by address, server and generated code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

import numpy as np

from recombine.base.error import Refused, nearest
from recombine.spaces.space import Mask

SMALLEST, LARGEST = 4, 32  # levels of each factor
MODELS = ("mlp", "cnn", "transformer", "factored", "low_rank")
PENALTIES = ("none", "weights", "activity", "weight_activity", "stripes", "rank_and_stripes")


@dataclass(frozen=True)
class Net:
    """A network and how it trains."""

    model: str = "mlp"
    width: int = 128
    depth: int = 3
    steps: int = 2000
    batch: int = 32
    lr: float = 1e-3
    stripes: float = 0.0  # images of one factor alone per training image (bump world)
    penalty: str = "none"
    strength: float = 1e-3  # of the penalty
    noise: float = 0.0  # standard deviation of activity noise at activity 1
    power: float = 1.0  # its variance grows with this power of the activity
    seeds: int = 1


LIMITS: dict[str, tuple[float, float]] = {
    "width": (4, 512),
    "depth": (1, 6),
    "steps": (10, 50_000),
    "batch": (1, 1024),
    "lr": (1e-6, 1.0),
    "stripes": (0, 2),
    "strength": (0, 10),
    "noise": (0, 2),
    "power": (0, 2),
    "seeds": (1, 8),
    "size": (SMALLEST, LARGEST),
    "kernel_depth": (1, 12),
    "salience": (0.0, 1.0),
}


@dataclass(frozen=True)
class State:
    """Everything on screen that determines what is computed."""

    world: str = "bumps"
    size: int = 14
    shown: str = ""  # hexadecimal digits of the mask, row by row; empty shows every cell
    kernel_depth: int = 1
    salience: float | None = None  # of the conjunction of both factors; None follows the depth
    net: Net = field(default_factory=Net)

    def mask(self, shape: tuple[int, int]) -> Mask:
        """Return which cells are shown, as a table over both factors."""
        if not self.shown:
            return np.ones(shape, dtype=bool)
        return unpack(self.shown, shape)

    def with_mask(self, mask: Mask) -> State:
        """Return this state with other cells shown."""
        return replace(self, shown=pack(mask))


def pack(mask: Mask) -> str:
    """Write a mask as hexadecimal digits.

    >>> pack(np.eye(4, dtype=bool))
    '8421'
    """
    return np.packbits(np.ravel(mask)).tobytes().hex()


def unpack(text: str, shape: tuple[int, int]) -> Mask:
    """Read a mask from hexadecimal digits.

    >>> int(unpack("8421", (4, 4)).trace())
    4
    """
    count = shape[0] * shape[1]
    try:
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), dtype=np.uint8))
    except ValueError as problem:
        raise Refused("The mask of training cells needs hexadecimal digits.") from problem
    if len(bits) != -(-count // 8) * 8:
        raise Refused(f"The mask needs {count} cells for {shape[0]} × {shape[1]} combinations.")
    return bits[:count].astype(bool).reshape(shape)


def parse(plain: Any, worlds: Mapping[str, Any]) -> State:
    """Build a state from JSON, or refuse it; every number is checked against its limits."""
    if not isinstance(plain, dict):
        raise Refused("A state is an object with the fields of recombine.lab.state.State.")
    net = _read(Net, plain.get("net", {}))
    state: State = replace(_read(State, {k: v for k, v in plain.items() if k != "net"}), net=net)
    for name, value, known in (
        ("world", state.world, worlds),
        ("model", net.model, MODELS),
        ("penalty", net.penalty, PENALTIES),
    ):
        if value not in known:
            raise nearest(name, value, known)
    return state


def from_address(address: str, worlds: Mapping[str, Any]) -> State:
    """Read a state from the part of an address after #, as the page writes it.

    >>> from_address("http://127.0.0.1:1/?token=t#world=sum&size=9&net.lr=0.01", {"sum": 0}).size
    9
    """
    plain: dict[str, Any] = {"net": {}}
    hints = {"": get_type_hints(State), "net.": get_type_hints(Net)}
    for name, text in parse_qsl(address.partition("#")[2]):
        if name in ("view", "scene", "step"):  # of the page, not of the state
            continue
        prefix = "net." * name.startswith("net.")
        field_name = name.removeprefix("net.")
        value: Any = text
        if hints[prefix].get(field_name) is not str:
            try:
                value = float(text)
            except ValueError:
                raise Refused(f"{field_name} needs a number; got {text[:40]!r}.") from None
        (plain["net"] if prefix else plain)[field_name] = value
    return parse(plain, worlds)


def _read(kind: Any, plain: Any) -> Any:
    """Fill a dataclass from JSON, field by field."""
    if not isinstance(plain, dict):
        raise Refused(f"{kind.__name__} needs an object; got {type(plain).__name__}.")
    hints = get_type_hints(kind)
    values = {}
    for f in fields(kind):
        if f.name not in plain or f.name == "net":
            continue
        value = plain[f.name]
        if hints[f.name] is str:
            if not isinstance(value, str) or len(value) > 1024:
                raise Refused(f"{f.name} needs a short text.")
        elif value is not None or hints[f.name] in (int, float):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise Refused(f"{f.name} needs a number; got {str(value)[:40]!r}.")
            low, high = LIMITS[f.name]
            if not isfinite(value) or not low <= value <= high:
                raise Refused(f"{f.name} needs a number from {low:g} to {high:g}; got {value:g}.")
            value = int(value) if hints[f.name] is int else float(value)
        values[f.name] = value
    if unknown := set(plain) - {f.name for f in fields(kind)}:
        raise nearest("field", str(min(unknown))[:40], [f.name for f in fields(kind)])
    return kind(**values)
