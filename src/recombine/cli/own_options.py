"""Options of the commands on your own data; field docstrings are the help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Auditing:
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
    classes: bool = False
    """Treat a numeric target as class labels."""
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
class Reading:
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
class Asking(Reading):
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
class Forecasting(Asking):
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
class Planning(Asking):
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
class Splitting(Reading):
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
