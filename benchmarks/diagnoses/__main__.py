"""Judge the diagnosis: `python -m benchmarks.diagnoses` fills docs/audit.md."""

from __future__ import annotations

import json

from benchmarks.diagnoses.confusion import ANSWERS, PAGE, WORLDS, answers, filled


def main() -> None:
    """Diagnose all worlds, store the answers and fill the page."""
    rows = {name: answers(worlds) for name, worlds in WORLDS.items()}
    ANSWERS.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
