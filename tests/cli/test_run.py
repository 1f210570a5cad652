"""What `run` says, and what it runs when a claim is named."""

import json

import pytest
from tests.cli.test_main import SQUARE, call

from recombine.cli.describe import command, sentence
from recombine.core.claim import CLAIMS
from recombine.core.registry import find
from recombine.runs.record import Record, identify
from recombine.runs.store import Store

CURE = "liang2025.stripes_cure_the_cnn"
FAST = ("--size", "smoke", "--steps", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


def test_the_first_line_says_the_errors_and_the_verdict_and_the_last_one_what_is_next(
    capsys, folder
):
    code, out, err = call(capsys, "run", SQUARE, *FAST, "--records", folder)
    assert code == 0
    first, second = out.splitlines()
    assert first.startswith("Held-in error ")
    assert "held-out error" in first
    assert "(0 is perfect, 1 a constant answer): it " in first
    assert second.startswith(f"{SQUARE} · smoke size · seed 0")
    assert "risk_ood" not in out
    last = " ".join(err.split()).partition("Next: ")[2]
    assert last.startswith(f"recombine sweep {SQUARE} --size smoke --steps 2 --records {folder}")


def test_all_scores_are_shown_in_groups_when_asked(capsys, folder):
    _, out, _ = call(capsys, "run", SQUARE, *FAST, "--records", folder, "--all")
    lines = [line.split() for line in out.splitlines()]
    titles = [lines.index([word]) for word in ("held-in", "held-out", "other")]
    assert titles == sorted(titles)
    assert "risk_ood" in {line[0] for line in lines[titles[1] : titles[2]] if line}


def test_a_claim_runs_what_it_is_decided_by(capsys, folder):
    code, out, _ = call(capsys, "run", CURE, "--size", "smoke", "--records", folder, "--json")
    (record,) = json.loads(out)
    experiment, claim = find("experiment", SQUARE), CLAIMS[CURE]
    (changes,) = claim.runs("smoke").values()
    assert code == 0
    assert record["id"] == identify(
        experiment, experiment.configure("smoke", **changes), 0, "smoke"
    )
    assert record["config"]["stripes"] == 0.5
    _, _, err = call(capsys, "run", CURE, "--size", "smoke", "--records", folder)
    assert f"Next: recombine reproduce {CURE}" in " ".join(err.split())


def test_a_field_changes_every_run_of_a_claim(capsys, folder):
    name = "liang2025.decoders_fail_in_the_hole"
    _, out, _ = call(capsys, "run", name, *FAST, "--records", folder, "--json")
    records = json.loads(out)
    assert [r["config"]["decoder"] for r in records] == ["mlp", "cnn"]
    assert {r["config"]["steps"] for r in records} == {2}
    _, _, err = call(capsys, "run", name, *FAST, "--records", folder)
    commands = " ".join(err.split()).partition("Next: ")[2].partition("   (")[0].split(" && ")
    both = [c for c in commands if c.startswith(f"recombine sweep {SQUARE} --size smoke")]
    assert len(both) == 2  # one per model
    assert ["--decoder cnn" in c for c in both] == [False, True]
    assert all("--steps 2" in c for c in both)
    _, _, err = call(capsys, "run", name, "--size", "smoke", "--records", folder)
    assert f"Next: recombine reproduce {name} --size smoke" in " ".join(err.split())


def test_a_failing_experiment_shows_its_last_frames_and_its_record(capsys, tmp_path):
    file = tmp_path / "divides_by_nothing.py"
    file.write_text(
        "from dataclasses import dataclass\nimport recombine as rc\n\n"
        "@dataclass(frozen=True)\nclass Cfg:\n    n: int = 0\n\n"
        "def divide(n):\n    return 1 / n\n\n"
        "@rc.experiment(smoke={})\ndef ratio(cfg: Cfg, seeds):\n"
        '    """Divide by nothing."""\n    return [divide(cfg.n)]\n'
    )
    code, out, err = call(capsys, "run", f"{file}:ratio", "--records", tmp_path / "runs")
    assert code == 2
    assert not out
    assert "in divide" in err
    assert "return 1 / n" in err
    (record,) = (tmp_path / "runs").glob("*/*.json")
    assert f"Record: {record}" in " ".join(err.split())
    assert Store(tmp_path / "runs").read(record).status == "failed"


def test_a_typo_suggests_claims_as_well(capsys):
    code, _, err = call(capsys, "run", CURE[:-1])
    assert code == 2
    assert f"There is no experiment or claim '{CURE[:-1]}'. Did you mean '{CURE}'" in err


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ({"risk_id": 0.01, "risk_ood": 0.02}, "it generalizes to the held-out combinations"),
        ({"risk_id": 0.01, "risk_ood": 0.3}, "it generalizes in part"),
        ({"risk_id": 0.01, "risk_ood": 0.8}, "fits the training combinations and fails"),
        ({"risk_id": 0.01, "risk_ood": 1.8}, "does worse than a constant answer"),
        ({"r2_id": 0.99, "r2_ood": -0.5}, "held-out error 1.50"),
        ({"risk_id": 0.01}, "Held-in error 0.0100 (0 is perfect, 1 a constant answer): it fits."),
        ({"slope": 0.5, "offset": 0.1}, "slope 0.500"),
    ],
)
def test_scores_in_words(scores, words):
    assert words in sentence(Record("0" * 16, "lippl2025.addition", "quick", {}, 0, scores=scores))


def test_a_config_can_be_written_as_flags():
    experiment = find("experiment", SQUARE)
    cfg = experiment.configure("quick", decoder="cnn", stripes=0.5)
    assert command(experiment, cfg, "quick") == ["--decoder", "cnn", "--stripes", "0.5"]
