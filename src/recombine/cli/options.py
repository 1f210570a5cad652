"""Options of the commands that run experiments; field docstrings are the help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Size = Literal["smoke", "quick", "paper"]


@dataclass(frozen=True)
class Listing:
    """Options of list."""

    plugin: tuple[str, ...] = ()
    """Python files (mine.py) or installed modules that add experiments, claims or figures."""
    cost: bool = False
    """With `list experiments`: the number of runs that the claims need and their time on one CPU
    core at quick size, measured on the published records."""
    json: bool = False
    """Print one JSON document, for scripts."""


@dataclass(frozen=True)
class Keeping:
    """Options of data."""

    cache: Path | None = None
    """Folder for downloaded images; by default `recombine` in your cache folder. Images come from
    npm or apt packages; digits need no download."""
    json: bool = False
    """Print one JSON document, for scripts."""


@dataclass(frozen=True)
class Running:
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
class Sweeping:
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
class Spreading(Sweeping):
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
class Reproducing(Sweeping):
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
class Reporting:
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
