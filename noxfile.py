#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Tests on other interpreters and other versions of the dependencies than those of `make test`.

`make setup` installs nox; `.venv/bin/nox -s tests-3.12` tests one interpreter.
"""

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"

PYTHONS = ["3.11", "3.12", "3.13"]
GROUPS = nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), "test", "docs")
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run all tests with the newest versions of all dependencies."""
    _test(session)


@nox.session(python=PYTHONS[0], default=False)
def oldest(session: nox.Session) -> None:
    """Run all tests with the oldest versions that pyproject.toml allows."""
    _test(session, "-c", "constraints-oldest.txt")


def _test(session: nox.Session, *constraints: str) -> None:
    session.install(*constraints, "-e", ".[dask,notebook]", *GROUPS)
    parallel = () if session.posargs else ("-n", "3", "--dist", "loadfile")
    session.run("pytest", *parallel, *session.posargs, env=THREADS)


if __name__ == "__main__":
    nox.main()
