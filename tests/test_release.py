"""A release is checked before anything is changed, and tagged on request."""

import subprocess
from datetime import date
from pathlib import Path

import pytest
from tools import release

ROOT = Path(__file__).parents[1]
TODAY = date(2026, 12, 24)
FILES = {
    "src/recombine/__init__.py": '"""About."""\n\n__version__ = "0.3.0"\n',
    "CHANGELOG.md": "# Log\n\n## 0.3.0 (2026-12-24)\n\n### Added\n\n- All.\n\n## 0.2.0\n",
    "CITATION.cff": "cff-version: 1.2.0\nversion: 0.3.0\n",
    "codemeta.json": '{"version": "0.3.0"}\n',
    "conda/recipe.yaml": 'context:\n  version: "0.3.0"\n',
}


@pytest.fixture
def checkout(tmp_path):
    """A repository that is ready to release 0.3.0."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for words in (
        ["init", "--quiet"],
        ["config", "user.name", "Tester"],
        ["config", "user.email", "tester@example.org"],
        ["add", "."],
        ["commit", "--quiet", "-m", "First"],
        ["tag", "v0.2.0"],
        ["tag", "latest"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def commit(checkout, name, text):
    (checkout / name).write_text(text)
    subprocess.run(["git", "commit", "--quiet", "-am", "Change"], cwd=checkout, check=True)


def test_a_dry_run_changes_nothing_and_tag_makes_one_tag_with_the_notes(checkout, capsys):
    assert release.release(checkout, "0.3.0", tag=False, today=TODAY) == 0
    out = capsys.readouterr().out
    assert "NO" not in out
    assert out.endswith("Nothing was changed; --tag makes the tag v0.3.0.\n")
    assert release.git(checkout, "tag").split() == ["latest", "v0.2.0"]

    assert release.release(checkout, "0.3.0", tag=True, today=TODAY) == 0
    assert "v0.3.0" in release.git(checkout, "tag").split()
    notes = release.git(checkout, "tag", "-l", "--format=%(contents)", "v0.3.0")
    assert notes == "v0.3.0\n\n### Added\n\n- All."

    assert release.release(checkout, "0.3.0", tag=True, today=TODAY) == 1
    assert "Release a version above v0.3.0." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("src/recombine/__init__.py", '__version__ = "0.3.0.dev0"\n', "Set __version__"),
        ("CHANGELOG.md", "# Changelog\n\n## 0.3.0 (unreleased)\n\n- All.\n", "Begin it with"),
        ("CHANGELOG.md", "# Changelog\n\n## 0.3.0 (2026-12-24)\n\n## 0.2.0\n", "Write what users"),
        ("CHANGELOG.md", "", "Begin it with"),
        ("CITATION.cff", "cff-version: 0.3.0\nversion: 0.2.0\n", "python -m tools.metadata"),
        ("codemeta.json", '{"version": "0.3.0.dev0"}\n', "python -m tools.metadata"),
        ("conda/recipe.yaml", 'context:\n  version: "0.2.0"\n', "python -m tools.metadata"),
    ],
)
def test_what_is_not_ready_is_named_with_its_remedy(checkout, capsys, name, text, remedy):
    commit(checkout, name, text)
    assert release.release(checkout, "0.3.0", tag=True, today=TODAY) == 1
    assert remedy in capsys.readouterr().out
    assert "v0.3.0" not in release.git(checkout, "tag").split()


def test_uncommitted_files_and_odd_versions_are_refused(checkout, capsys):
    (checkout / "forgotten.py").write_text("")
    assert release.release(checkout, "0.3.0", tag=True, today=TODAY) == 1
    assert "forgotten.py" in capsys.readouterr().out
    assert release.release(checkout, "soon", tag=True, today=TODAY) == 1
    assert "Give one such as 0.3.0." in capsys.readouterr().out


def test_the_changelog_of_this_project_can_be_read():
    version, when, text = release.notes((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert release.order(version) >= (0, 3, 0)
    assert when == "unreleased" or date.fromisoformat(when)
    assert text.startswith("### ")
