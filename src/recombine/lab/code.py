"""Code that reproduces the page's numbers: a Python program, and a command."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import Any
from urllib.parse import urlencode

from recombine.lab.state import Net, State
from recombine.lab.worlds import World

PROGRAM = """\
{imports}

state = State(
{arguments}
)
world = {world}
theory = look(world, state)
print(theory["sentence"])
print("kernel, held-out error:", theory["mean_error"])
print("network:", measured(world, state))  # 1 is the error of the best constant output
"""
IMPORTS = """\
from recombine.lab.network import measured
from recombine.lab.state import Net, State
from recombine.lab.theory import look"""
BUILTIN = f"{IMPORTS}\nfrom recombine.lab.worlds import builtin"
TABLE = f"""\
from pathlib import Path

{IMPORTS}
from recombine.lab.upload import open_table
from recombine.lab.worlds import from_table"""


def changed(value: Any, default: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from its defaults.

    >>> changed(Net(lr=0.01), Net())
    {'lr': 0.01}
    """
    pairs = {f.name: getattr(value, f.name) for f in fields(default) if f.name != "net"}
    return {name: v for name, v in pairs.items() if v != getattr(default, name)}


def python_of(state: State, world: World) -> str:
    """Write a program that prints the page's numbers."""
    net = ", ".join(f"{k}={v!r}" for k, v in changed(state.net, Net()).items())
    arguments = {"world": state.world, **changed(state, State())}
    lines = [f"    {k}={v!r}," for k, v in arguments.items()] + [f"    net=Net({net}),"]
    imports, source = BUILTIN, f"builtin()[{state.world!r}]"
    if world.table:
        t = world.table
        imports = TABLE
        table = f"Path({t.source!r}), {t.factors!r}, {t.data.targets[0]!r}, {dict(t.fixed)!r}"
        source = f"from_table(open_table({table}))"
    return PROGRAM.format(imports=imports, arguments="\n".join(lines), world=source)


def command_of(state: State, world: World) -> str:
    """Write the command that trains the same networks and leaves records."""
    flags = changed(state, State()) | changed(state.net, Net())
    seeds = int(flags.pop("seeds", 1))
    words = ["recombine", *(["sweep"] if seeds > 1 else ["run"]), "lab.painted"]
    for name, value in flags.items():
        words += [f"--{'levels' if name == 'size' else name.replace('_', '-')}", f"{value}"]
    if world.table:
        t = world.table
        words += ["--table", t.source, "--factor-a", t.factors[0], "--factor-b", t.factors[1]]
        words += ["--target", t.data.targets[0]]
        words += ["--fixed", urlencode(t.fixed)] if t.fixed else []
    return shlex.join([*words, *(["--seeds", str(seeds)] if seeds > 1 else [])])
