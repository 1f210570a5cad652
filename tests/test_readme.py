"""Every command of the README does what the README says."""

import re
from pathlib import Path

import pytest
from tests.cli.test_main import call

from recombine.claims.claim import CLAIMS, HOLDS
from recombine.claims.published import published
from recombine.claims.record import identify
from recombine.claims.store import Store
from recombine.cli.describe import errors, sentence, verdict
from recombine.cli.names import claims_of
from recombine.runs.discover import find

ROOT = Path(__file__).parents[1]
SMALL = ("--size", "smoke", "--steps", "2", "--seeds", "1", "--workers", "1")


def words_of(record):
    return verdict(*errors(record.scores))


def measured(name):
    """Read the committed record of seed 0 of every run of a claim: what `run` repeats."""
    claim = CLAIMS[name]
    experiment = find("experiment", claim.experiment)
    configs = [experiment.configure("quick", **run) for run in claim.runs("quick").values()]
    records = [
        Store(ROOT / "papers" / "results").find(experiment.name, identify(experiment, cfg, 0))
        for cfg in configs
    ]
    assert None not in records
    assert published().claims[name]["outcome"] == HOLDS
    return records


def the_decoders_fail(words, capsys, tmp_path):
    records = measured(words[1])
    assert [r.config["decoder"] for r in records] == ["mlp", "cnn"]
    for record in records:
        assert words_of(record).startswith("it fits the training combinations and ")
        assert words_of(record).endswith("on the held-out ones")


def test_the_tutorial_quotes_the_committed_record():
    (_, cnn) = measured("liang2025.decoders_fail_in_the_hole")
    assert sentence(cnn) in (ROOT / "docs" / "tutorial.md").read_text()


def the_cnn_is_cured(words, capsys, tmp_path):
    (record,) = measured(words[1])
    (_, cnn) = measured("liang2025.decoders_fail_in_the_hole")
    assert words_of(record) == "it generalizes to the held-out combinations"
    differing = {k for k, v in record.config.items() if v != cnn.config[k]}
    assert differing == {"stripes"}


def ten_digits_rotate(words, capsys, tmp_path):
    (record,) = measured(words[1])
    assert record.config["classes"] == "all"
    assert record.scores["to_fade"] < record.scores["to_truth"]


def experiments_are_listed(words, capsys, tmp_path):
    _, out, _ = call(capsys, *words)
    assert "liang2025.hidden_square" in out


def codes_are_swept(words, capsys, tmp_path):
    code, out, _ = call(capsys, *words[:-2], *SMALL, "--records", tmp_path)
    assert code == 0
    assert {r.config["encoding"] for r in Store(tmp_path).records()} == set(words[3:6])
    assert all(code in out for code in words[3:6])


def claims_are_judged(words, capsys, tmp_path):
    claims = claims_of(words[1:], lambda text: None)
    assert claims
    for claim in claims:
        assert claim.name in published().claims


def a_report_opens(words, capsys, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    call(capsys, "run", "lippl2025.addition", "--size", "smoke", "--records", tmp_path)
    code, _, _ = call(capsys, *words, "--records", tmp_path)
    assert code == 0
    assert opened == [(tmp_path / "report.html").as_uri()]


def all_claims_are_shown(words, capsys, tmp_path, monkeypatch):
    from recombine.cli import report

    monkeypatch.chdir(tmp_path)
    options = []
    monkeypatch.setattr(report, "write_report", lambda how, names: options.append(how) or 0)
    assert call(capsys, *words)[0] == 0
    assert options[0].records == ROOT / "papers" / "results"
    assert options[0].page == Path("runs/published.html")
    assert options[0].open


def write_the_table():
    """Write the table that the README writes with printf."""
    text, name = re.search(r"printf '(.*)' > (\S+)", (ROOT / "README.md").read_text()).groups()
    Path(name).write_text(text.replace("\\n", "\n"))
    return name


def a_table_is_certified(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert write_the_table() == words[1]
    code, out, _ = call(capsys, *words)
    assert code == 0
    assert "(B, y) = " in out
    assert "(C, y) = " in out
    assert "(D, " not in out


def a_plan_is_made(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert write_the_table() == words[1]
    code, out, _ = call(capsys, *words)
    assert code == 0
    assert len(re.findall(r"(?m)^ +\d+\. ", out.partition("Measure next")[2])) == 1
    assert "determines 7 of 7 at order 1" in " ".join(out.split())


def the_lab_is_served(words, capsys, tmp_path, monkeypatch):
    from recombine.lab import command

    started = []
    monkeypatch.setattr(command, "serve", lambda *args, **kwargs: started.append(kwargs or args))
    call(capsys, *words)
    assert started


OUTCOMES = {
    "run liang2025.decoders_fail_in_the_hole": the_decoders_fail,
    "run liang2025.stripes_cure_the_cnn": the_cnn_is_cured,
    "run liang2025.ten_digits_are_cross_faded": ten_digits_rotate,
    "list experiments": experiments_are_listed,
    "sweep liang2025.hidden_square --encoding population one_hot ramp --seeds 5": codes_are_swept,
    "reproduce lippl2025": claims_are_judged,
    "report --open": a_report_opens,
    "report --published --open": all_claims_are_shown,
    "certify yields.csv --target yield": a_table_is_certified,
    "plan yields.csv --target yield --budget 3": a_plan_is_made,
    "lab": the_lab_is_served,
}


def commands_of(page):
    """List the commands in the blocks of a page, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    matches = (re.fullmatch(r"(?:\.venv/bin/)?recombine (.*)", line) for line in lines)
    return [match[1] for match in matches if match]


def test_every_command_of_the_readme_has_an_outcome():
    assert set(commands_of("README.md")) == set(OUTCOMES)


@pytest.mark.parametrize("command", OUTCOMES)
def test_command_of_the_readme(command, capsys, tmp_path, request):
    check = OUTCOMES[command]
    names = check.__code__.co_varnames[: check.__code__.co_argcount]
    more = {"monkeypatch": request.getfixturevalue("monkeypatch")} if "monkeypatch" in names else {}
    check(command.split(), capsys=capsys, tmp_path=tmp_path, **more)


def test_reproduce_takes_the_papers_of_the_table():
    table = re.findall(r"`recombine reproduce (\w+)`", (ROOT / "README.md").read_text())
    assert len(table) == 6  # five papers, and what is ours
    for paper in table:
        assert claims_of([paper], lambda text: None)


def test_the_claims_of_the_demo_exist():
    text = (ROOT / "Makefile").read_text().partition("DEMO := ")[2].partition("\n\n")[0]
    names = [f"liang2025.{n}" for n in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", text)]
    assert len(names) == 7
    assert set(names) <= set(CLAIMS)


def test_published_records_name_their_own_folder(capsys):
    code, _, err = call(capsys, "report", "--published", "--records", "mine")
    assert code == 2
    assert "leave out --records" in err
