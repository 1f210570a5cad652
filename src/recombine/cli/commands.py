"""The commands: the module of each, and one sentence for the help, which imports none of them."""

from typing import NamedTuple


class Command(NamedTuple):
    """Where a command is, and what it does."""

    module: str
    function: str
    sentence: str


COMMANDS = {
    "list": Command(
        "recombine.cli.list",
        "command",
        "List papers and experiments, or all tasks, models, diagnostics, claims or figures.",
    ),
    "run": Command(
        "recombine.cli.run",
        "command",
        "Run an experiment, or the runs of a claim, with one seed: `run NAME --field value`.",
    ),
    "sweep": Command(
        "recombine.cli.sweep",
        "command",
        "Run every combination of field values with several seeds: `NAME --field a b --seeds 5`.",
    ),
    "reproduce": Command(
        "recombine.cli.reproduce",
        "command",
        "Run all that the claims of a paper, or single claims, need; judge them and write a "
        "report.",
    ),
    "report": Command(
        "recombine.cli.report",
        "command",
        "Judge every claim by the stored records and write the report as one HTML file.",
    ),
    "audit": Command(
        "recombine.cli.audit",
        "command",
        "Audit a file of predictions: where the model fails, why, and what would help.",
    ),
    "data": Command(
        "recombine.cli.data",
        "command",
        "List image datasets (`data list`), or download and verify one (`data get mnist`).",
    ),
    "certify": Command(
        "recombine.cli.tables",
        "certify",
        "Show which unmeasured combinations a table determines, with proof and noise margin.",
    ),
    "forecast": Command(
        "recombine.cli.tables",
        "forecast",
        "Predict unmeasured combinations: values, how certain they are, where a model will fail.",
    ),
    "plan": Command(
        "recombine.cli.tables",
        "plan",
        "Suggest what to measure next, with the expected gain of each measurement.",
    ),
    "split": Command(
        "recombine.cli.tables",
        "split",
        "Split a table into training and test combinations of certified difficulty.",
    ),
    "lab": Command(
        "recombine.cli.lab",
        "command",
        "Open the browser lab: paint training combinations, compare theory with a trained network.",
    ),
}
RECORDING = ("run", "sweep", "reproduce")  # commands that write records


def sentence(name: str) -> str:
    """Return what a command does, for its help."""
    return COMMANDS[name].sentence
