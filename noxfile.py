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
TEST = nox.project.dependency_groups(PROJECT, "test")
DOCS = nox.project.dependency_groups(PROJECT, "docs")
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
BOTH = ["-e", ".[dask,notebook]", "-e", "papers"]
WITHOUT_DOCS = ["tests", "papers/tests", "src", "papers/src", "--ignore=tests/test_site.py"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run all tests with the newest versions of all dependencies."""
    session.install(*BOTH, *TEST, *DOCS)
    _test(session)


@nox.session(python=PYTHONS[0], default=False)
def oldest(session: nox.Session) -> None:
    """Run the tests, but not those of the site, with the oldest versions that are allowed."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    bounds = [
        r for part in (PROJECT["project"]["dependencies"], *extras, TEST) for r in part if ">=" in r
    ]
    # Matplotlib before 3.10.7 calls names that pyparsing 3.3 deprecates.
    pins = [bound.replace(">=", "==") for bound in bounds] + ["pyparsing<3.3"]
    path = Path(session.create_tmp()) / "oldest.txt"
    path.write_text("\n".join(pins))
    session.install("-c", str(path), *BOTH, *TEST)
    _test(session, *WITHOUT_DOCS)


def _test(session: nox.Session, *paths: str) -> None:
    parallel = ("-n", "3", "--dist", "loadfile", *paths)
    session.run("pytest", *(session.posargs or parallel), env=THREADS)


if __name__ == "__main__":
    nox.main()
