"""What the commands about a person's own data can be told; field docstrings are the help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Auditing:
    """What is audited, and where the audit goes."""

    target: tuple[str, ...] = ()
    """Target column: numbers, or text for classes; several columns are one vector."""
    prediction: tuple[str, ...] = ()
    """Column of the model's predictions; as many as there are target columns."""
    factors: tuple[str, ...] = ()
    """Factor columns; a continuous one with a rule, as in pose=quantile:8. All others by
    default."""
    train: str | None = None
    """Column whose value train (or true, or 1) marks training rows, a file of a mask (.npy, or one
    column), or a table of training rows."""
    classes: bool = False
    """Take a numeric target for class labels."""
    score: str | None = None
    """absolute, squared or zero_one; by default absolute for numbers, zero_one for classes."""
    tolerance: str = "0.5sd"
    """How far off an answer may be: in standard deviations of the target, or in its units."""
    budget: int = 10
    """Combinations that the advice may ask for; 0 makes no plan."""
    cells: Path | None = None
    """Write one line per combination to this CSV file, the worst first."""
    html: Path | None = None
    """Write a page to this file."""
    json: bool = False
    """Print one JSON document for programs."""
    separator: str = ","
    """Separator of a CSV file."""
    encoding: str = "utf-8"
    """Encoding of a text file."""
    seed: int = 0
    """Seed of everything that is drawn."""


@dataclass(frozen=True)
class Reading:
    """How the table is read."""

    factors: tuple[str, ...] = ()
    """Factor columns; a continuous one with a rule, as in pose=quantile:8, pose=width:5 or
    pose=edges:0,10,20. All columns but target and weights by default."""
    target: tuple[str, ...] = ()
    """Target column: numbers, or text for classes; several columns are one vector."""
    weights: str | None = None
    """Column of counts: how many measurements a row stands for."""
    log: float | None = None
    """Take the logarithm of the target plus this number."""
    separator: str = ","
    """Separator of a CSV file."""
    encoding: str = "utf-8"
    """Encoding of a text file."""


@dataclass(frozen=True)
class Asking(Reading):
    """What is asked, and where the answers go."""

    order: int = 1
    """How many factors may meet in one term of the law that determines values."""
    wanted: Path | None = None
    """File of the combinations to ask about; all unmeasured ones by default."""
    cells: Path | None = None
    """Write one line per asked combination to this CSV file."""
    html: Path | None = None
    """Write a page to this file."""
    json: bool = False
    """Print one JSON document for programs."""
    seed: int = 0
    """Seed of everything that is drawn."""


@dataclass(frozen=True)
class Certifying(Asking):
    """Options of certify."""


@dataclass(frozen=True)
class Forecasting(Asking):
    """Options of forecast."""

    tolerance: str = "0.5sd"
    """How far off an answer may be: in standard deviations of the target, or in its units; the
    chance of a wrong class for classes."""
    network: str = "relu3"
    """Kind of untrained network whose answers are forecast (activation and depth), or measured:
    the kind that answers most like the predictions."""
    predictions: Path | None = None
    """File of a trained model's predictions: the factor columns and one column more."""


@dataclass(frozen=True)
class Planning(Asking):
    """Options of plan."""

    budget: int = 10
    """How many combinations to measure, or how much to spend where --cost is given."""
    objective: Literal["auto", "determined", "error", "best"] = "auto"
    """Determine the most combinations, lower the expected error, or find a high target; auto
    determines what is not determined yet, and lowers the error where all is."""
    cost: Path | None = None
    """File of costs: the factor columns and one column more; combinations without cost 1."""
    forbid: Path | None = None
    """File of combinations that cannot be measured; with some factor columns only, all that have
    these levels."""


@dataclass(frozen=True)
class Splitting(Reading):
    """Options of split."""

    share: float = 0.3
    """Share of the measured combinations that is held out."""
    keep_determined: int = 1
    """Order at which every held-out combination stays determined."""
    margin: float = 6.0
    """Largest noise amplification of a held-out combination."""
    undetermined: int | None = None
    """Instead, hold out whole conjunctions of this many levels."""
    ladder: bool = False
    """Write one split per number of levels held out together: from easy to hard."""
    out: Path = Path("split")
    """Folder of the files train.csv, test.csv and certificate.json."""
    json: bool = False
    """Print one JSON document for programs."""
    seed: int = 0
    """Seed of everything that is drawn."""


@dataclass(frozen=True)
class LabOptions:
    """Where the lab is served, and what it shows."""

    port: int = 0
    """Port on the loopback address; 0 takes a free one."""
    no_open: bool = False
    """Print the address without opening a browser."""
    factors: tuple[str, ...] = ()
    """Two factor columns of the table."""
    target: str = ""
    """Its column of numbers."""
    address: str = ""
    """Start from the state in this address of a lab (the part after #); one that holds its token
    is served at the same port with the same token, so that an open page reconnects."""
    export: Path | None = None
    """Train what the address says and write it as one page that plays without a server."""
