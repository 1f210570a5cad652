"""Load the columns of a file: CSV, TSV, Parquet or JSON lines, gzipped or not."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from recombine.base.error import Refused

if TYPE_CHECKING:
    import polars

FORMATS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet"}
FORMATS |= {".jsonl": "JSON lines", ".ndjson": "JSON lines"}
FOREIGN = dict.fromkeys([".xlsx", ".xls", ".xlsm", ".ods"], "a spreadsheet")
FOREIGN |= {".json": "JSON, not JSON lines", ".zip": "an archive", ".npy": "a NumPy array"}
FOREIGN |= {".npz": "an archive of arrays", ".feather": "Feather", ".db": "a database"}
MARKS = {b"PK\x03\x04": "a spreadsheet or a ZIP archive", b"\x1f\x8b": "gzipped"}
MARKS |= {
    b"PAR1": "a Parquet file",
    b"\x93NUMPY": "a NumPy array",
    b"\xd0\xcf\x11": "a spreadsheet",
}
BYTES = 2**31  # most bytes of an unpacked gzipped file
MOST_NAMES = 10_000  # files of a folder that suggestions are searched in
MISSING = ("", "NA", "NaN", "nan")  # fields of a text file that are missing values
COLUMNS = 50_000  # most columns of a CSV file


def load_file(path: Path, separator: str, encoding: str) -> polars.DataFrame:
    """Load the columns of a file, or refuse it with one sentence."""
    suffixes = [s.lower() for s in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    suffix = suffixes[-1 - packed] if len(suffixes) > packed else ""
    content = _content(path, packed, suffix)
    return parse(path.name, content, suffix, separator, encoding)


def parse(
    name: str, content: bytes, suffix: str, separator: str, encoding: str = "utf-8"
) -> polars.DataFrame:
    """Parse the content of a file, whose suffix names its format."""
    import polars as pl  # here, because it loads slowly

    if not content.strip():
        raise Refused(f"{name} is empty; a table needs a header and rows.")
    try:
        if FORMATS[suffix] == "parquet":
            return pl.read_parquet(io.BytesIO(content))
        for start, kind in MARKS.items():
            if content.startswith(start):
                raise Refused(
                    f"{name} is {kind} although its name ends in {suffix}; save it as CSV, or "
                    "give it the right suffix."
                )
        text = _decode(name, content, encoding)
        if FORMATS[suffix] == "JSON lines":
            return pl.read_ndjson(io.BytesIO(text), infer_schema_length=None)
        mark = "\t" if suffix == ".tsv" and separator == "," else separator
        if len(mark.encode()) != 1:
            raise Refused(f"--separator needs one character; got {mark!r}.")
        return _csv(text, mark)
    except (pl.exceptions.PolarsError, csv.Error) as problem:
        advice = {
            "csv": "Check the separator, and that every row has as many fields as the header.",
            "JSON lines": 'Write one object per line, as in {"shape": "cup", "y": 1}.',
            "parquet": "Is it a Parquet file, and complete?",
        }
        raise Refused(
            f"{name} cannot be read as {FORMATS[suffix]}: {str(problem).splitlines()[0]}. "
            f"{advice[FORMATS[suffix]]}"
        ) from problem


def _content(path: Path, packed: bool, suffix: str) -> bytes:
    """Read a file of a known format, unpacked; refuse everything else."""
    try:
        if not path.exists():
            raise _absent_file(path)
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise Refused(
                f"{path} is {kind}; a table is read from one file. Name a .csv, .tsv, .parquet or "
                f".jsonl file{' in it' if path.is_dir() else ''}.{_tables_in(path)}"
            )
        if suffix not in FORMATS:
            raise Refused(
                f"{path} is {FOREIGN.get(suffix, 'of unknown format')}; a table is read from .csv, "
                ".tsv, .parquet or .jsonl, gzipped or not. Save it as CSV."
            )
        if not packed:
            return path.read_bytes()
        with gzip.open(path) as file:
            content = file.read(BYTES + 1)
    except Refused:
        raise
    except (OSError, EOFError, zlib.error, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        advice = "Check its permissions, or copy it to where you may read it."
        if packed:
            advice = "It is damaged or not gzipped; pack it again."
        raise Refused(f"{path} cannot be read ({why}). {advice}") from problem
    if len(content) > BYTES:
        raise Refused(
            f"{path} holds more than {BYTES:,} bytes, the limit for gzipped files. Unpack it "
            "yourself, or save it as Parquet."
        )
    return content


def _absent_file(path: Path) -> Refused:
    """Build the error for a missing file, with files of similar names in the same folder."""
    folder = path.parent
    if path.is_symlink():
        return Refused(
            f"{path} is a link to {str(path.readlink())!r}, which does not exist; name the file."
        )
    if not folder.is_dir():
        return Refused(
            f"There is no file {str(path)!r}, since there is no folder {str(folder)!r}. Name the "
            "file relative to the current folder, or by its full path."
        )
    with suppress(OSError):
        names = [p.name for p in islice(folder.iterdir(), MOST_NAMES) if p.is_file()]
        if close := get_close_matches(path.name, names, n=3, cutoff=0.75):
            meant = " or ".join(repr(str(folder / name)) for name in close)
            return Refused(f"There is no file {str(path)!r}. Did you mean {meant}?")
    return Refused(
        f"There is no file {str(path)!r}, nor one with a similar name in {str(folder)!r}."
        f"{_tables_in(folder)} Name the file relative to the current folder, or by its full path."
    )


def _tables_in(folder: Path) -> str:
    """Name some tables of a folder; '' if there are none."""
    names = []
    with suppress(OSError):
        for path in islice(folder.iterdir(), MOST_NAMES):
            ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
            if f".{ending}" in FORMATS and path.is_file():
                names.append(path.name)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f" It holds {', '.join(sorted(names)[:5])}{more}." if names else ""


def _decode(name: str, content: bytes, encoding: str) -> bytes:
    """Return the content as UTF-8; refuse it if it is not text in this encoding."""
    try:
        text = content.decode(encoding)
    except (UnicodeDecodeError, LookupError) as problem:
        guess = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
        raise Refused(
            f"{name} is not text in {encoding} ({problem}). Save it as UTF-8, or name its encoding "
            f"as in --encoding {guess}."
        ) from problem
    return content if encoding.lower() in ("utf-8", "utf8") else text.encode()


def _csv(text: bytes, separator: str) -> polars.DataFrame:
    """Read CSV: a column is numeric if all of its fields are, else text as written."""
    import polars as pl  # here, because it loads slowly

    if b"\n" not in text:
        text = text.replace(b"\r", b"\n")
    lines = csv.reader(io.TextIOWrapper(io.BytesIO(text), "utf-8-sig"), delimiter=separator)
    header = [name.strip() for name in next((row for row in lines if row), [])]
    check_names(header)
    if len(header) > COLUMNS:
        raise Refused(
            f"The header has {len(header):,} columns; at most {COLUMNS:,} are read. Keep the "
            "factors and the target, or transpose the table if each row is a variable."
        )
    frame = pl.read_csv(
        io.BytesIO(text), separator=separator, infer_schema=False, raise_if_empty=False
    )
    if len(header) != frame.width:
        header = frame.columns
    return pl.DataFrame(
        [typed_column(s.alias(name)) for name, s in zip(header, frame, strict=True) if name]
    )


def typed_column(s: polars.Series) -> polars.Series:
    """Convert text to numbers or truth values if all fields are; codes such as 007 stay text."""
    import polars as pl  # here, because it loads slowly

    text = s.str.strip_chars()
    text = text.set(text.is_in(MISSING), None)
    for kind in (pl.Int64, pl.Float64):
        numbers = text.cast(kind, strict=False)
        if numbers.null_count() == text.null_count():
            codes = text.str.contains(r"^[+-]?(0[0-9]|[0-9]{17,}$)")
            return text if codes.any() else numbers
    if text.drop_nulls().is_in(["true", "false"]).all():
        return (text == "true").alias(s.name)
    return text


def check_names(names: Sequence[str]) -> None:
    """Refuse two columns of the same name."""
    if twice := sorted(n for n, count in Counter(names).items() if n and count > 1):
        raise Refused(f"Two columns are called {twice[0]!r}; give each column its own name.")
