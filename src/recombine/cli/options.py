"""Options of the commands; field docstrings are the help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Size = Literal["smoke", "quick", "paper"]


@dataclass(frozen=True)
class ListOptions:
    """Options of list."""

    plugin: tuple[str, ...] = ()
    """Python files (mine.py) or installed modules that add experiments, claims or figures."""
    cost: bool = False
    """With `list experiments`: the number of runs that the claims need and their time on one CPU
    core at quick size, measured on the published records."""
    json: bool = False
    """Print one JSON document, for scripts."""


@dataclass(frozen=True)
class DataOptions:
    """Options of data."""

    cache: Path | None = None
    """Folder for downloaded images; by default `recombine` in your cache folder. Images come from
    npm or apt packages; digits need no download."""
    json: bool = False
    """Print one JSON document, for scripts."""


@dataclass(frozen=True)
class RunOptions:
    """How to run the experiment, and where its record goes."""

    seed: int = 0
    """Seed of the weights, the order of examples and every random draw."""
    size: Size = "quick"
    """smoke takes seconds and only tests the code; quick is a reduced version for two CPU cores;
    paper uses the paper's own settings."""
    device: str = "cpu"
    """Where models train, such as cuda or cuda:1; not part of a run's id."""
    records: Path = Path("runs")
    """Folder of records; a run that has a record there is not repeated."""
    all: bool = False
    """Show every score with its meaning."""
    plugin: tuple[str, ...] = ()
    """Python files (mine.py) or installed modules that add experiments, claims or figures."""
    json: bool = False
    """Print the record as one JSON document, for scripts."""


@dataclass(frozen=True)
class ManyRunsOptions:
    """Options of commands with many runs."""

    seeds: int = 5
    """Number of seeds: 5 runs seeds 0 to 4."""
    size: Size = "quick"
    """smoke takes seconds and only tests the code; quick is a reduced version for two CPU cores;
    paper uses the paper's own settings."""
    device: str = "cpu"
    """Where models train, such as cuda or cuda:1; not part of a run's id."""
    records: Path = Path("runs")
    """Folder of records; runs that have a record there are not repeated."""
    workers: int = 0
    """Number of processes, each with one thread; 0 uses one per CPU core."""
    dask: str = ""
    """Run on a dask cluster: the address of its scheduler, such as tcp://host:8786."""
    plugin: tuple[str, ...] = ()
    """Python files (mine.py) or installed modules that add experiments, claims or figures."""
    json: bool = False
    """Print one JSON document, for scripts."""


@dataclass(frozen=True)
class SweepOptions(ManyRunsOptions):
    """How to run the sweep: on this machine, or on a cluster."""

    part: str = ""
    """Run one part of the sweep: 2/8 is the second of eight parts. Parts can run on any machine
    that shares the records folder."""
    slurm: str | None = None
    """Submit the sweep as a Slurm job array with these sbatch options, such as
    --slurm="--partition=short --time=60" (the equals sign is needed)."""
    tasks: int = 4
    """Number of tasks in the Slurm array; each runs one part of the sweep."""
    wait: bool = False
    """Wait for the Slurm array and show its progress."""


@dataclass(frozen=True)
class ReproduceOptions(ManyRunsOptions):
    """Options of reproduce."""

    seeds: int = 0
    """Number of seeds; 0 runs as many as each claim needs. With 20 or more, the first 5 decide; if
    they are inconclusive, the next 15 decide alone."""
    arrays: bool = True
    """Store the arrays (error maps, sample outputs) that the report's figures need."""
    page: Path | None = None
    """File of the report; by default report.html in the records folder."""
    markdown: Path | None = None
    """Also write the table of claims to this Markdown file."""
    open: bool = False
    """Open the report in a browser."""


@dataclass(frozen=True)
class ReportOptions:
    """Options of report."""

    records: Path = Path("runs")
    """Folder of records."""
    published: bool = False
    """Report the records behind the published verdicts, which are part of the package."""
    page: Path | None = None
    """File of the report; by default report.html in the records folder."""
    markdown: Path | None = None
    """Also write the table of claims to this Markdown file."""
    open: bool = False
    """Open the report in a browser."""
    plugin: tuple[str, ...] = ()
    """Python files (mine.py) or installed modules that add experiments, claims or figures."""
    json: bool = False
    """Print the claims with their verdicts as one JSON document, for scripts."""


@dataclass(frozen=True)
class AuditOptions:
    """Options of audit."""

    target: tuple[str, ...] = ()
    """Target column: numbers, or text for classes; several columns form one vector."""
    prediction: tuple[str, ...] = ()
    """Column of the model's predictions; one per target column."""
    factors: tuple[str, ...] = ()
    """Factor columns; by default all others. A continuous one needs bins, as in pose=quantile:8."""
    train: str | None = None
    """Which rows the model was trained on: a column with the value train (or true, or 1), a mask
    (.npy, or a file with one column), or a file of training rows."""
    classes: tuple[str, ...] | None = None
    """Treat a numeric target as class labels; with names, those that predictions 0, 1, … mean."""
    score: str | None = None
    """Error of a row: absolute (the default for numbers), squared, or zero_one (for classes)."""
    tolerance: str = "0.5sd"
    """Largest acceptable error: in standard deviations of the target (0.5sd) or in its units."""
    budget: int = 10
    """Number of combinations to suggest for measurement; 0 suggests none."""
    cells: Path | None = None
    """Write one row per combination to this CSV file, worst first."""
    html: Path | None = None
    """Write the audit as a page to this HTML file."""
    json: bool = False
    """Print one JSON document, for scripts."""
    separator: str = ","
    """Column separator of a CSV file."""
    encoding: str = "utf-8"
    """Encoding of a text file."""
    seed: int = 0
    """Seed of every random draw."""


@dataclass(frozen=True)
class TableOptions:
    """How a table is read."""

    factors: tuple[str, ...] = ()
    """Factor columns; by default all but target and weights. A continuous one needs bins, as in
    pose=quantile:8, pose=width:5 or pose=edges:0,10,20."""
    target: tuple[str, ...] = ()
    """Target column: numbers, or text for classes; several columns form one vector."""
    weights: str | None = None
    """Column with the number of measurements that each row summarizes."""
    log: float | None = None
    """Use log(target + this number) as the target."""
    separator: str = ","
    """Column separator of a CSV file."""
    encoding: str = "utf-8"
    """Encoding of a text file."""


@dataclass(frozen=True)
class CertifyOptions(TableOptions):
    """Options of certify."""

    order: int = 1
    """Number of factors that may interact in one term; 1 assumes a sum over factors."""
    wanted: Path | None = None
    """File of the combinations of interest; by default all unmeasured ones."""
    cells: Path | None = None
    """Write one row per combination of interest to this CSV file."""
    html: Path | None = None
    """Write the results as a page to this HTML file."""
    json: bool = False
    """Print one JSON document, for scripts."""
    seed: int = 0
    """Seed of every random draw."""


@dataclass(frozen=True)
class ForecastOptions(CertifyOptions):
    """Options of forecast."""

    tolerance: str = "0.5sd"
    """Largest acceptable error: in standard deviations of the target (0.5sd) or in its units; for
    classes, the probability of a wrong class."""
    network: str = "relu3"
    """Network whose predictions are forecast: activation and depth, as in relu3; or `measured`, the
    one closest to --predictions."""
    predictions: Path | None = None
    """File of a trained model's predictions: the factor columns and one more column."""


@dataclass(frozen=True)
class PlanOptions(CertifyOptions):
    """Options of plan."""

    budget: int = 10
    """Number of combinations to measure, or the amount to spend if --cost is given."""
    objective: Literal["auto", "determined", "error", "best"] = "auto"
    """Determine as many combinations as possible, lower the expected error, or find a high target;
    auto is `determined` until all combinations are, then `error`."""
    cost: Path | None = None
    """File of costs: the factor columns and one more column; unlisted combinations cost 1."""
    forbid: Path | None = None
    """File of combinations that cannot be measured; with only some of the factor columns, it
    excludes every combination with these levels."""


@dataclass(frozen=True)
class SplitOptions(TableOptions):
    """Options of split."""

    share: float = 0.3
    """Share of the measured combinations to hold out."""
    keep_determined: int = 1
    """Order at which every held-out combination stays determined (see certify --order)."""
    margin: float = 6.0
    """Largest noise amplification of a held-out combination."""
    undetermined: int | None = None
    """Instead, hold out all combinations that share certain levels of this many factors: none of
    them is determined at this order."""
    ladder: bool = False
    """Write one split per value of --undetermined, from easy (all factors) to hard (two)."""
    out: Path = Path("split")
    """Folder for train.csv, test.csv and certificate.json."""
    json: bool = False
    """Print one JSON document, for scripts."""
    seed: int = 0
    """Seed of every random draw."""


@dataclass(frozen=True)
class LabOptions:
    """Options of lab."""

    port: int = 0
    """Port on this machine (127.0.0.1); 0 chooses a free one."""
    no_open: bool = False
    """Print the address without opening a browser."""
    factors: tuple[str, ...] = ()
    """The two factor columns of your table."""
    target: str = ""
    """The column of numbers to predict."""
    address: str = ""
    """Restore the state in this address of a lab (the part after #). If it contains a token, the
    same port and token are used, so that an open page reconnects."""
    export: Path | None = None
    """Train what --address describes and write a self-contained page that replays the training."""
