"""A recorded scene as one self-contained page: it plays, pauses and scrubs without a server."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from recombine.lab import theory
from recombine.lab.state import State
from recombine.lab.worlds import World

KEPT = ("step", "steps", "shown", "held_out", "error")


def export_page(state: State, world: World, frames: list[dict[str, Any]]) -> str:
    """Write a page that holds the state, what theory says of it, and the recorded frames."""
    folder = files("recombine.lab") / "static"
    data = {
        "state": asdict(state),
        "world": world.row(),
        "mask": theory.visible(world, state).astype(int).tolist(),
        "theory": theory.look(world, state),
        "frames": [{k: frame[k] for k in KEPT} for frame in frames],
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    page = (folder / "player.html").read_text("utf-8")
    return (
        page.replace("/*STYLE*/", (folder / "lab.css").read_text("utf-8"))
        .replace("/*MAPS*/", plain_script((folder / "maps.js").read_text("utf-8")))
        .replace("/*PLAYER*/", plain_script((folder / "player.js").read_text("utf-8")))
        .replace("{/*DATA*/}", text)
    )


def plain_script(module: str) -> str:
    """Turn a module without imports of its own into a script that a file can hold."""
    lines = [line for line in module.splitlines() if not line.startswith("import ")]
    return "\n".join(line.removeprefix("export ") for line in lines)
