"""Check that a version can be released, and tag it: `python -m tools.release 0.3.0 [--tag]`.

Without --tag nothing is changed: every check is printed, and what would be done.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Check(NamedTuple):
    """Something that must hold before a release, and what to do if it does not."""

    holds: bool
    what: str
    remedy: str = ""


def notes(changelog: str) -> tuple[str, str, str]:
    r"""Return version, date and text of the topmost section of a changelog.

    >>> notes("# Changelog\n\n## 1.2.0 (unreleased)\n\n- New.\n\n## 1.1.0 (2026-01-02)\n")
    ('1.2.0', 'unreleased', '- New.')
    """
    _, heading, text, *_ = [*re.split(r"(?m)^## (.+)$", changelog), "", ""]
    version, _, when = heading.partition(" (")
    return version, when.removesuffix(")"), text.strip()


def order(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, by which versions are ordered.

    >>> order("0.10.0") > order("v0.9.1")
    True
    """
    return tuple(map(int, version.removeprefix("v").split(".")))


def checks(root: Path, version: str, today: date) -> Iterator[Check]:
    """Yield what must hold before a version is tagged."""
    yield Check(
        bool(re.fullmatch(r"\d+\.\d+\.\d+", version)),
        f"{version} is a version of three numbers",
        "Give one such as 0.3.0.",
    )
    source = (root / "src/recombine/__init__.py").read_text("utf-8")
    stated = re.findall(r'(?m)^__version__ = "(.+)"$', source)
    yield Check(
        stated == [version],
        f"the package calls itself {', '.join(stated)}",
        f'Set __version__ = "{version}" in src/recombine/__init__.py.',
    )
    heading, when, text = notes((root / "CHANGELOG.md").read_text("utf-8"))
    yield Check(
        (heading, when) == (version, today.isoformat()),
        f"the changelog begins with {heading} ({when})",
        f"Begin it with `## {version} ({today})`.",
    )
    yield Check(bool(text), "the changelog says what changed", "Write what users notice.")
    for name, pattern in {
        "CITATION.cff": rf"(?m)^version: {re.escape(version)}$",
        "codemeta.json": rf'"version": "{re.escape(version)}"',
        "conda/recipe.yaml": rf'version: "{re.escape(version)}"',
    }.items():
        found = re.search(pattern, (root / name).read_text("utf-8"))
        yield Check(bool(found), f"{name} has this version", "Run `python -m tools.metadata`.")
    changed = git(root, "status", "--porcelain")
    yield Check(not changed, "everything is committed", f"Commit or remove:\n{changed}")
    tags = [t for t in git(root, "tag").split() if re.fullmatch(r"v\d+\.\d+\.\d+", t)]
    newest = max(tags, key=order, default="")
    if re.fullmatch(r"\d+\.\d+\.\d+", version):
        yield Check(
            not newest or order(version) > order(newest),
            f"the newest tag is {newest}" if newest else "there is no tag yet",
            f"Release a version above {newest}.",
        )


def git(root: Path, *words: str) -> str:
    """Run git in a folder and return what it prints."""
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def release(root: Path, version: str, *, tag: bool, today: date) -> int:
    """Print the checks; tag the commit if all hold and `tag` says so. Return an exit code."""
    failed = 0
    for check in checks(root, version, today):
        print(f"{'ok' if check.holds else 'NO'}  {check.what}")
        if not check.holds:
            failed += 1
            print(f"    {check.remedy}")
    if failed:
        print(f"Not ready: {failed} to mend.")
        return 1
    name = f"v{version}"
    if not tag:
        print(f"Ready. Nothing was changed; --tag makes the tag {name}.")
        return 0
    text = notes((root / "CHANGELOG.md").read_text("utf-8"))[2]
    git(root, "tag", "--annotate", "--cleanup=verbatim", name, "-m", f"{name}\n\n{text}")
    print(f"Tagged {name}. Next: `make package`, then `git push --follow-tags`.")
    return 0


def main(arguments: list[str]) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("version", help="the version to release, such as 0.3.0")
    parser.add_argument("--tag", action="store_true", help="make the tag if every check holds")
    options = parser.parse_args(arguments)
    today = datetime.now(UTC).date()
    return release(ROOT, options.version, tag=options.tag, today=today)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
