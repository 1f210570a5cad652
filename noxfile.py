#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Tests on other interpreters and other versions of the dependencies than those of `make test`.

`make setup` installs nox; `.venv/bin/nox -s tests-3.12` tests one interpreter.
"""

from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"

PYTHONS = ["3.11", "3.12", "3.13"]
PROJECT = nox.project.load_toml("pyproject.toml")
GROUPS = nox.project.dependency_groups(PROJECT, "test", "docs")
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run all tests with the newest versions of all dependencies."""
    _test(session)


@nox.session(python=PYTHONS[0], default=False)
def oldest(session: nox.Session) -> None:
    """Run all tests with the oldest versions that pyproject.toml allows."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    bounds = [
        r for part in (PROJECT["project"]["dependencies"], *extras) for r in part if ">=" in r
    ]
    path = Path(session.create_tmp()) / "oldest.txt"
    path.write_text("\n".join(bound.replace(">=", "==") for bound in bounds))
    _test(session, "-c", str(path))


def _test(session: nox.Session, *constraints: str) -> None:
    session.install(*constraints, "-e", ".[dask,notebook]", *GROUPS)
    parallel = () if session.posargs else ("-n", "3", "--dist", "loadfile")
    session.run("pytest", *parallel, *session.posargs, env=THREADS)


if __name__ == "__main__":
    nox.main()
