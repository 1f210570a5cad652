"""Records of a moment's training, for the tests of the report."""

import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from recombine.claims.claim import CLAIMS, FAILS, HOLDS, MISSING, Verdict
from recombine.claims.judge import Judged
from recombine.claims.record import Record
from recombine.claims.store import Store
from recombine.report.page import page
from recombine.runs.discover import find
from recombine.runs.sweep import sweep

NAME = "liang2025.hidden_square"
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def texts():
    """Lists the words of a drawing."""
    return lambda svg: re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.fixture(scope="session")
def pictures():
    """Reads the pictures of a drawing, as arrays of bytes."""

    def read(svg):
        codes = re.findall(r'href="data:image/png;base64,([^"]*)"', svg)
        return [np.asarray(Image.open(io.BytesIO(base64.b64decode(code)))) for code in codes]

    return read


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """Three decoders, five seeds each, trained for a moment."""
    store, experiment = Store(tmp_path_factory.mktemp("records")), find("experiment", NAME)
    configs = [experiment.configure("smoke", decoder=d) for d in ("mlp", "cnn", "outer")]
    return store, sweep(experiment, configs, range(5), store=store, size="smoke")


@pytest.fixture(scope="session")
def judged():
    runs = {"the MLP": {"decoder": "mlp"}}
    claims = [replace(c, runs=lambda size: runs) for c in CLAIMS.values() if c.experiment == NAME][
        :3
    ]
    verdicts = [
        Verdict(HOLDS, 1.084, (1.02, 1.14), 5, "error, needed above 0.5", above=0.5),
        Verdict(FAILS, 0.00027, (0.0001, 0.0005), 5, "error, needed above 0.5", above=0.5),
        Verdict(MISSING, None, None, 2, "2 of 5 seeds finished"),
    ]
    return [Judged(c, "smoke", v) for c, v in zip(claims, verdicts, strict=True)]


@pytest.fixture(scope="session")
def rich(smoke):
    """What can go wrong as well: failures, warnings, an unknown experiment, hostile words."""
    store, records = smoke
    base = replace(records[0], arrays=[], notes=[f"a warning {EVIL}"])
    failed = replace(
        base,
        id="f" * 16,
        seed=7,
        status="failed",
        scores={},
        error='Traceback:\n  File "x.py", line 1\nValueError: it was <b>wrong</b>' + "g" * 300,
    )
    diverged = replace(
        base, id="d" * 16, seed=8, status="diverged", scores={}, error="The loss was not finite."
    )
    unknown = [
        Record(f"{i:016x}", "mine.own", "quick", {"kind": EVIL, "long": "w" * 200, "k": i}, seed=s)
        for i in range(2)
        for s in range(2)
    ]
    unknown = [replace(r, scores={"accuracy": 0.5 + 0.1 * r.seed}) for r in unknown]
    return store, [*records, failed, diverged, *unknown]


@pytest.fixture(scope="session")
def rich_page(rich, judged):
    return page(*rich, judged)
