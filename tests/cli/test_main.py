import json
import os
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from threading import Timer

import pytest

from recombine.claims.claim import CLAIMS
from recombine.claims.experiment import RESERVED
from recombine.claims.record import Record
from recombine.claims.store import Store
from recombine.cli.commands import COMMANDS
from recombine.cli.main import main
from recombine.cli.options import ManyRunsOptions, ReportOptions, ReproduceOptions, RunOptions
from recombine.cli.reproduce import _plan
from recombine.cli.show import show_sweep
from recombine.runs.discover import find
from recombine.runs.listing import KINDS

SQUARE = "liang2025.hidden_square"


def call(capsys, *words):
    """Run a command in this process: exit code, standard output, standard error."""
    try:
        code = main([*map(str, words)])
    except SystemExit as stop:
        code = stop.code
    said = capsys.readouterr()
    return code, said.out, said.err


def shell(*words, **kwargs):
    """Run the command as users do, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "recombine.cli", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        **kwargs,
    )


def test_help_teaches_and_does_not_load_torch():
    code = (
        "import sys, recombine.cli.main\n"
        "assert recombine.cli.main.main(['--help']) == 0\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(capsys, command):
    code, out, err = call(capsys, command, "--help")
    assert code == 0
    assert f"recombine {command}" in out
    assert not err


def test_help_of_an_experiment_lists_its_fields(capsys):
    code, out, _ = call(capsys, "run", SQUARE, "--size", "paper", "--help")
    assert code == 0
    assert "--decoder {mlp,cnn,transformer," in out
    assert "default: 28" in out  # the paper's image size, because --size sets the defaults


def test_a_flag_that_is_on_is_shown_with_its_opposite(capsys):
    """The help of a flag describes the flag itself, not its negation."""
    _, out, _ = call(capsys, "run", SQUARE, "--help")
    assert "--anneal, --no-anneal" in out
    _, out, _ = call(capsys, "reproduce", "--help")
    assert "--arrays, --no-arrays" in out
    assert "--no-json" not in out


def test_the_help_of_a_sweep_explains_its_fields_without_empty_defaults(capsys):
    code, out, _ = call(capsys, "sweep", SQUARE, "--help")
    text = " ".join(out.replace("│", " ").split())
    assert code == 0
    assert "Each field takes one or more values." in text
    assert "Learning rate. (default: 0.001)" in text
    assert not re.findall(r"default: (?:None)?\)|{None}", text)


def test_no_field_of_a_config_can_be_called_like_an_option():
    options = {
        f.name
        for kind in (RunOptions, ManyRunsOptions, ReproduceOptions, ReportOptions)
        for f in fields(kind)
    }
    assert options <= RESERVED


def test_list_is_for_programs_too(capsys):
    code, out, _ = call(capsys, "list", "claims", "--json")
    claims = json.loads(out)
    assert code == 0
    assert len(claims) >= 4
    assert all({"paper", "name", "sentence", "experiment"} <= set(c) for c in claims)
    _, out, _ = call(capsys, "list", "--json")
    assert set(json.loads(out)) == {"papers", *KINDS}


def test_papers_are_listed_with_what_identifies_them(capsys):
    code, out, _ = call(capsys, "list", "papers")
    assert code == 0
    assert "Compositional Generalization from First Principles" in out
    assert "https://arxiv.org/abs/2307.05596" in out
    assert "recombine reproduce wiedemer2023   about" in out
    (paper, *_) = json.loads(call(capsys, "list", "papers", "--json")[1])
    assert paper["bibtex"].startswith("@inproceedings{liang2025,")


def test_experiments_are_listed_by_paper_with_the_time_they_take(capsys):
    _, out, _ = call(capsys, "list", "experiments")
    lines = out.splitlines()
    head = next(i for i, line in enumerate(lines) if "Liang et al. 2025" in line)
    assert re.search(r"\d+ min to reproduce", lines[head])
    assert any("liang2025.hidden_square" in line for line in lines[head : head + 8])


def test_experiments_are_listed_with_what_their_claims_cost(capsys):
    _, out, _ = call(capsys, "list", "experiments", "--cost")
    line = r"rotation +\d+ runs of [\d.]+ s: (under a minute|\d+ min); at paper size 9.33 times"
    assert re.search(line, out)
    rows = json.loads(call(capsys, "list", "experiments", "--cost", "--json")[1])
    assert [row["seconds"] for row in rows] == sorted((r["seconds"] for r in rows), reverse=True)
    assert {row["name"]: row["runs"] for row in rows}["liang2025.rotation"] >= 15
    assert call(capsys, "list", "--cost")[0] == 2


def test_reproduce_plans_the_seeds_of_each_claim(tmp_path):
    claim = find("claim", "liang2025.stripes_cure_the_cnn")
    twice = replace(claim, runs=lambda size: {"mlp": {"decoder": "mlp"}}, second=True)
    fresh = replace(claim, start=1000)

    def seeds(*claims, **fields):
        options = ReproduceOptions(**fields)
        _, jobs = _plan(claims, options, Store(tmp_path), 1, pytest.fail)
        by_decoder = {}
        for job in jobs:
            by_decoder.setdefault(job.cfg.decoder, []).extend(job.seeds)
        return {decoder: sorted(set(chosen)) for decoder, chosen in by_decoder.items()}

    both = [*range(5), *range(1000, 1005)]
    assert seeds(twice, claim, fresh) == {"mlp": [*range(20)], "cnn": both}
    assert seeds(twice, size="paper")["mlp"] == [*range(5)]
    assert seeds(twice, fresh, seeds=2) == {"mlp": [0, 1], "cnn": [1000, 1001]}


def test_list_needs_neither_torch_nor_numpy():
    code = (
        "import sys, recombine.cli.main\n"
        "assert recombine.cli.main.main(['list']) == 0\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_list_names_everything(capsys):
    _, out, _ = call(capsys, "list")
    for name in ("bumps", "mlp", "risk", SQUARE):
        assert name in out


def test_run_leaves_a_record_and_a_second_call_keeps_it(capsys, tmp_path):
    words = ("run", SQUARE, "--size", "smoke", "--steps", "5", "--records", tmp_path, "--json")
    code, out, _ = call(capsys, *words)
    record = json.loads(out)
    assert code == 0
    assert record["config"]["steps"] == 5
    assert record["scores"]["risk_ood"] > 0
    (path,) = tmp_path.glob("*/*.json")
    before = path.stat().st_mtime_ns
    _, again, _ = call(capsys, *words)
    assert json.loads(again) == record
    assert path.stat().st_mtime_ns == before


def test_a_split_that_hides_values_says_so_before_training(tmp_path):
    """The warning must come first: the run never ends here, because training would take hours."""
    words = ["run", SQUARE, "--hole", "0:14,3:6", "--steps", "100000000", "--records", tmp_path]
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "recombine.cli", *map(str, words)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as running:
        assert running.stderr is not None
        give_up = Timer(60, running.kill)
        give_up.start()
        line = running.stderr.readline()
        give_up.cancel()
        running.kill()
    assert "not compositional" in line
    assert "3 values of y" in line


def test_sweep_crosses_fields_with_seeds(capsys, tmp_path):
    words = ("sweep", SQUARE, "--size", "smoke", "--decoder", "mlp", "outer", "--seeds", "2")
    code, out, _ = call(capsys, *words, "--workers", "1", "--records", tmp_path)
    assert code == 0
    assert "decoder" in out
    assert len(list(Store(tmp_path).records())) == 4


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_sweep_shows_every_score_that_any_run_has(capsys, order):
    """Whichever record comes first; a score that a config lacks is shown as undefined."""
    both, one = {"risk_id": 0.1, "risk_ood": 0.5}, {"risk_id": 0.1}
    rows = [("mlp", 0, one), ("mlp", 1, one), ("cnn", 0, one), ("cnn", 1, both), ("cnn", 2, both)]
    runs = [
        Record(f"{d}{s}", SQUARE, "quick", {"decoder": d}, s, scores=scores)
        for d, s, scores in rows
    ]
    show_sweep([runs[i] for i in (*order, *{*range(5)} - {*order})])
    head, columns, *table = capsys.readouterr().out.splitlines()
    assert head.endswith("mean, 95 % interval over seeds; –: undefined")
    assert columns.split() == ["decoder", "seeds", "risk_id", "risk_ood"]
    assert sorted(" ".join(line.split()) for line in table) == [
        "cnn 3 0.100 [0.100, 0.100] 0.500 [0.500, 0.500] in 2 of 3 runs",
        "mlp 2 0.100 [0.100, 0.100] –",
    ]
    show_sweep(runs[3:])
    assert "undefined" not in capsys.readouterr().out


def test_reproduce_judges_and_reports(capsys, tmp_path):
    page, table = tmp_path / "page.html", tmp_path / "claims.md"
    where = ("--records", tmp_path, "--page", page, "--markdown", table)
    name = "liang2025.reading"
    code, out, _ = call(
        capsys, "reproduce", name, "--size", "smoke", "--workers", "2", "--json", *where
    )
    answer = json.loads(out)
    assert code == 0
    keys = {"paper", "name", "sentence", "experiment", "verdict", "value", "interval", "seeds"}
    assert all(keys | {"size"} <= set(c) for c in answer["claims"])
    assert {c["size"] for c in answer["claims"]} == {"smoke"}
    assert {c["seeds"] for c in answer["claims"]} == {5}
    assert "<html" in page.read_text()
    assert answer["claims"][0]["sentence"] in table.read_text()
    code, out, _ = call(capsys, "report", "--records", tmp_path)
    assert code == 0
    assert "not enough data" in out  # smoke runs decide nothing
    assert (tmp_path / "report.html").exists()


def test_a_report_prints_claims_with_runs_and_counts_the_others(capsys, tmp_path, monkeypatch):
    from recombine.cli import show

    call(capsys, "run", "lippl2025.addition", "--records", tmp_path)
    _, out, _ = call(capsys, "report", "--records", tmp_path)
    table = " ".join(out.replace("│", " ").split())
    assert "shrunk to the slope" not in table  # needs five records, of which one is there
    assert "0 of" not in table
    number = len([c for c in CLAIMS.values() if c.experiment == "lippl2025.addition"])
    everything = len([c for c in CLAIMS.values() if c.family == "lippl2025"])
    assert f"{everything} of {everything} claims lack finished runs" in table
    call(capsys, "reproduce", "lippl2025.addition", "--records", tmp_path, "--workers", "1")
    monkeypatch.setattr(show, "MANY_CLAIMS", 0)
    _, out, _ = call(capsys, "report", "--records", tmp_path)
    counts = f"{number} hold, {everything - number} without enough data"
    assert f"Lippl & Stachenfeld 2025: {everything} claims: {counts}" in out
    assert "No verdict differs from the published one." in out
    assert f"{everything - number} of {everything} claims lack finished runs" in out
    # The list and the page, of one command or of both, have the same number of claims.
    page = (tmp_path / "report.html").read_text()
    assert page.count(f"{everything} claims<") == 2
    call(capsys, "reproduce", "lippl2025.addition", "--records", tmp_path, "--workers", "1")
    assert (tmp_path / "report.html").read_text() == page
    _, out, _ = call(capsys, "list")
    assert f"\n{everything} claims: " in out


BAD = {
    "unknown command": (["rnu"], "Did you mean 'run'"),
    "unknown kind": (["list", "modles"], "Did you mean 'models'"),
    "unknown experiment": (["run", "liang2025.hidden_sqare"], "Did you mean"),
    "no experiment": (["run"], "needs an experiment first"),
    "unknown paper": (["reproduce", "liang2052"], "Did you mean 'liang2025'"),
    "zero seeds": (["sweep", SQUARE, "--seeds", "0"], "--seeds needs n >= 1"),
    "negative workers": (["sweep", SQUARE, "--workers", "-1"], "got -1"),
    "negative image": (["run", SQUARE, "--side", "-3"], "-3"),
    "negative striped image": (["run", SQUARE, "--side", "-3", "--stripes", "1"], "-3"),
    "negative stripes": (["run", SQUARE, "--stripes", "-1"], "-1"),
    "negative steps": (["run", SQUARE, "--size", "smoke", "--steps", "-3"], "-3"),
    "flat bump": (["run", SQUARE, "--size", "smoke", "--sigma", "0"], "sigma"),
    "hole of another image": (
        ["run", SQUARE, "--size", "smoke", "--hole", "0:9,0:3"],
        "must lie within",
    ),
    "hole that is none": (["run", SQUARE, "--size", "smoke", "--hole", "middle"], "'middle'"),
    "nothing shown": (["run", SQUARE, "--size", "smoke", "--hole", "0:7,0:7"], "No point"),
    "too shallow": (["run", SQUARE, "--decoder", "cnn", "--depth", "0"], "increase depth"),
    "no dask": (["sweep", SQUARE, "--dask", "tcp://127.0.0.1:1"], "No dask scheduler"),
    "no records": (["report", "--records", "nothing-here"], "no records"),
}


@pytest.mark.parametrize(("words", "sentence"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence(capsys, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *words)
    assert code == 2
    assert "error:" in err
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err + out
    assert not out


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["run", SQUARE, "--steps", "many"], "--steps"),
        (["run", SQUARE, "--decoder", "mpl"], "mpl"),
        (["run", SQUARE, "--stepz", "3"], "--steps"),
        (["run", SQUARE, "--size", "huge"], "huge"),
    ],
)
def test_options_of_the_wrong_kind_are_explained(capsys, words, needed):
    code, _, err = call(capsys, *words)
    assert code == 2
    assert needed in err
    assert "Traceback" not in err


def test_records_folder_that_cannot_be_written(capsys, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    code, _, err = call(capsys, "run", SQUARE, "--size", "smoke", "--records", blocked / "runs")
    assert code == 2
    assert "--records" in err
    assert blocked.read_text() == "not a folder"


def test_damaged_record_is_refused_by_the_report_and_repeated_by_the_run(capsys, tmp_path):
    words = ("run", SQUARE, "--size", "smoke", "--steps", "5", "--records", tmp_path, "--json")
    _, first, _ = call(capsys, *words)
    (path,) = tmp_path.glob("*/*.json")
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    call(capsys, *words, "--seed", "1")
    code, out, err = call(capsys, "report", "--records", tmp_path, "--json")
    assert code == 1
    assert path.name in err
    assert json.loads(out)["records"] == 1  # the other one is still reported
    code, again, err = call(capsys, *words)
    assert code == 0
    assert "set aside" in " ".join(err.split())
    assert json.loads(again)["scores"] == json.loads(first)["scores"]
    (aside,) = tmp_path.glob("*/*.damaged")
    assert aside.read_text() == whole[: len(whole) // 2]


def test_odd_files_among_the_records_hide_no_other(capsys, tmp_path):
    words = ("run", "lippl2025.phases", "--size", "smoke", "--records", tmp_path)
    call(capsys, *words)
    (path,) = tmp_path.glob("*/*.json")
    (path.parent / "folder.json").mkdir()
    (path.parent / "link.json").symlink_to("nowhere")
    (path.parent / "deep.json").write_text("[" * 10**5)
    os.mkfifo(path.parent / "pipe.json")
    (tmp_path / "file.json").write_text("{}")
    code, out, err = call(capsys, "report", "--records", tmp_path, "--json")
    assert code == 1
    assert json.loads(out)["records"] == 1
    assert err.count("cannot be trusted") == 4
    assert call(capsys, *words)[0] == 0


def test_installed_command_refuses_without_traceback(tmp_path):
    done = shell("run", SQUARE, "--hole", "nowhere", "--size", "smoke", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_every_command_of_the_docs_exists():
    """Examples in help and documents name real commands and experiments."""
    root = Path(__file__).parents[2]
    texts = [p.read_text() for p in [root / "README.md", *(root / "docs").glob("*.md")]]
    used = {
        line.split()[1]
        for text in texts
        for line in text.splitlines()
        if line.startswith("recombine ")
    }
    assert used
    assert used <= {*COMMANDS, "--help"}
