"""A recorded training as one self-contained page that replays it without a server."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from recombine.lab import theory
from recombine.lab.state import State
from recombine.lab.worlds import World

FRAME_KEYS = ("step", "steps", "shown", "held_out", "error")


def export_page(state: State, world: World, frames: list[dict[str, Any]]) -> str:
    """Write a page that contains the state, its theory, and the recorded frames."""
    folder = files("recombine.lab") / "static"
    data = {
        "state": asdict(state),
        "world": world.row(),
        "mask": theory.visible(world, state).astype(int).tolist(),
        "theory": theory.look(world, state),
        "frames": [{k: frame[k] for k in FRAME_KEYS} for frame in frames],
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
    """Turn a module into a script that can be embedded in a page."""
    lines = [line for line in module.splitlines() if not line.startswith("import ")]
    return "\n".join(line.removeprefix("export ") for line in lines)
