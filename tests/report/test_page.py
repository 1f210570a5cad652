"""Figures have known answers; the page is one file that shows everything and loads nothing."""

import json
import re
import shutil
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from recombine.core.claim import CLAIMS, FAILS, HOLDS, MISSING, Verdict
from recombine.core.error import Refused
from recombine.core.registry import find
from recombine.report import page as report
from recombine.report import plot as figures
from recombine.runs.judge import Judged
from recombine.runs.record import Record
from recombine.runs.store import Store
from recombine.runs.sweep import sweep

NAME = "liang2025.hidden_square"
EVIL = "<script>alert(1)</script>"
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Three decoders, five seeds each, trained for a moment."""
    store, experiment = Store(tmp_path_factory.mktemp("records")), find("experiment", NAME)
    configs = [experiment.configure("smoke", decoder=d) for d in ("mlp", "cnn", "outer")]
    return store, sweep(experiment, configs, range(5), store=store, size="smoke")


@pytest.fixture(scope="module")
def judged():
    claims = [c for c in CLAIMS.values() if c.experiment == NAME][:3]
    verdicts = [
        Verdict(HOLDS, 1.084, (1.02, 1.14), 5, "error, needed above 0.5"),
        Verdict(FAILS, 0.00027, (0.0001, 0.0005), 5, "error, needed above 0.5"),
        Verdict(MISSING, None, None, 2, "2 of 5 seeds finished"),
    ]
    return [Judged(c, "smoke", v) for c, v in zip(claims, verdicts, strict=True)]


@pytest.fixture(scope="module")
def rich(smoke):
    """What goes wrong as well: failures, warnings, an unknown experiment, hostile words."""
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
    own = [
        Record(f"{i:016x}", "mine.own", "quick", {"kind": EVIL, "long": "w" * 200, "k": i}, seed=s)
        for i in range(2)
        for s in range(2)
    ]
    own = [replace(r, scores={"accuracy": 0.5 + 0.1 * r.seed}) for r in own]
    return store, [*records, failed, diverged, *own]


@pytest.fixture(scope="module")
def rich_page(rich, judged):
    return report.page(*rich, judged)


# ---------------------------------------------------------------------------------- figures


def corner(shape, rows, cols):
    support = np.ones(shape, dtype=bool)
    support[rows, cols] = False
    return support


@pytest.mark.parametrize(
    ("support", "segments"),
    {
        "square": (
            corner((4, 5), slice(1, 3), slice(2, 4)),
            {
                ((0.5, 1.5), (0.5, 3.5)),
                ((2.5, 1.5), (2.5, 3.5)),
                ((0.5, 1.5), (2.5, 1.5)),
                ((0.5, 3.5), (2.5, 3.5)),
            },
        ),
        "column to the edge": (
            corner((2, 3), slice(1, 2), slice(0, 3)),
            {
                ((0.5, -0.5), (0.5, 2.5)),
                ((1.5, -0.5), (1.5, 2.5)),
                ((0.5, -0.5), (1.5, -0.5)),
                ((0.5, 2.5), (1.5, 2.5)),
            },
        ),
        "L": (
            np.array([[1, 1, 1], [1, 0, 0], [1, 0, 1]], dtype=bool),
            {
                ((0.5, 0.5), (0.5, 2.5)),
                ((1.5, 1.5), (1.5, 2.5)),
                ((2.5, 0.5), (2.5, 1.5)),
                ((0.5, 0.5), (2.5, 0.5)),
                ((1.5, 1.5), (2.5, 1.5)),
                ((0.5, 2.5), (1.5, 2.5)),
            },
        ),
        "nothing hidden": (np.ones((3, 3), dtype=bool), set()),
    }.values(),
    ids=["square", "column to the edge", "L", "nothing hidden"],
)
def test_outline_follows_the_hidden_cells(support, segments):
    assert set(figures.outline(support)) == segments
    assert len(figures.outline(support)) == len(segments)


def test_outline_is_as_long_as_the_edges_between_shown_and_hidden(rng):
    for _ in range(20):
        support = rng.random((6, 4)) < 0.6
        padded = np.pad(support, 1, constant_values=True)
        edges = sum((padded != np.roll(padded, 1, axis)).sum() for axis in (0, 1))
        lengths = [abs(c - a) + abs(d - b) for (a, b), (c, d) in figures.outline(support)]
        assert sum(lengths) == edges


def test_heat_map_draws_x_to_the_right_and_y_downwards():
    error = np.zeros((5, 3))
    error[4, 0] = 1.0
    axes = figures.heat_map(error, corner((5, 3), slice(4, 5), slice(0, 1))).axes[0]
    image = np.asarray(axes.images[0].get_array())
    assert image.shape == (3, 5)
    assert image[0, 4] == 1.0
    low, high = axes.get_ylim()
    assert low > high  # the first row is on top
    hole = axes.collections[0].get_segments()
    assert {tuple(map(tuple, s)) for s in hole} == {
        ((3.5, -0.5), (3.5, 0.5)),
        ((4.5, -0.5), (4.5, 0.5)),
        ((3.5, -0.5), (4.5, -0.5)),
        ((3.5, 0.5), (4.5, 0.5)),
    }


def test_maps_side_by_side_share_one_scale():
    shown = np.ones((4, 4), dtype=bool)
    partly = np.stack([shown, ~shown], axis=2)
    figure = figures.heat_maps(
        {"right": (np.zeros((4, 4)), shown), "wrong": (np.full((4, 4, 2), 9.0), partly)}
    )
    *maps, bar = figure.axes
    assert [a.get_title(loc="left") for a in maps] == ["right", "wrong"]
    assert {a.images[0].get_clim() for a in maps} == {(0.0, figures.TOP)}
    assert not maps[0].collections[0].get_segments()
    assert len(maps[1].collections[0].get_segments()) == 4  # every cell hides something
    assert [t.get_text() for t in bar.get_yticklabels()] == ["0 perfect", "1 blank", "≥ 2"]


def test_tables_of_other_dimensions():
    error, support = np.arange(24.0).reshape(2, 3, 4), np.ones((2, 3, 4), dtype=bool)
    support[1, 2, 3] = False
    mean, shown, said = figures.plane(error, support)
    np.testing.assert_array_equal(mean, error.mean(axis=2))
    assert (~shown).nonzero() == (np.array([1]), np.array([2]))
    assert said == "mean over the third factor"
    line = figures.heat_map(np.array([0.1, 0.9, 0.2]), np.array([True, False, True])).axes[0]
    np.testing.assert_array_equal(line.lines[0].get_ydata(), [0.1, 0.9, 0.2])
    with pytest.raises(Refused, match="must be equal"):
        figures.plane(np.ones((2, 2)), np.ones((2, 3), dtype=bool))


def test_a_cell_that_was_never_asked_is_drawn_apart():
    error = np.array([[np.nan, 0.0], [0.5, 2.0]])
    image = figures.heat_map(error, np.ones((2, 2), dtype=bool)).axes[0].images[0]
    colors = image.to_rgba(image.get_array())
    assert colors[0, 0, 3] < 1 == colors[1, 1, 3]


@pytest.mark.parametrize("shape", [(4, 6, 5), (4, 3, 6, 5)], ids=["gray", "color"])
def test_samples_put_truth_above_drawn_and_seen_before_held_out(shape):
    truth = np.linspace(0, 1, np.prod(shape)).reshape(shape)
    drawn = 1 - truth
    inside = np.array([False, True, False, True])
    where = np.arange(8.0).reshape(4, 2)
    figure = figures.samples(truth, drawn, where, inside)
    assert len(figure.axes) == 8
    left = [a.get_position().x0 for a in figure.axes]
    order = [1, 3, 0, 2]
    assert left[::2] == sorted(left[::2])
    for at, top, below in zip(order, figure.axes[::2], figure.axes[1::2], strict=True):
        expected = truth[at] if truth.ndim == 3 else np.moveaxis(truth[at], 0, -1)
        np.testing.assert_allclose(top.images[0].get_array(), expected)
        np.testing.assert_allclose(below.images[0].get_array(), 1 - expected)
        assert top.get_position().y0 > below.get_position().y0
    words = [t.get_text() for t in figure.texts]
    assert words == ["truth", "drawn", "seen", "2, 3", "6, 7", "held out", "0, 1", "4, 5"]


def test_dots_know_seeds_means_and_the_floor():
    axes = figures.dots({"a": ([0.01, 0.03], [1.0, 2.0]), "b": ([0.0], [1e-9])}).axes[0]
    data = [line.get_xdata() for line in axes.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(np.concatenate(data), [0.01, 0.03, 1.0, 2.0, 1e-4, 1e-4])
    means = [line.get_xdata() for line in axes.lines if line.get_marker() == "|"]
    np.testing.assert_allclose(np.concatenate(means), [0.02, 1.5, 1e-4, 1e-4])
    assert axes.get_xscale() == "log"
    assert figures.dots({"a": ([0.5], [0.9])}).axes[0].get_xscale() == "linear"


def test_curves_average_logarithms_at_common_steps():
    axes = figures.curves(
        {"a": [([1, 2, 3], [1.0, 1e-2, 0.0]), ([1, 2], [100.0, 1e-4])], "b": [([1], [1.0])]}
    ).axes[0]
    thick = [line for line in axes.lines if line.get_linewidth() > 1]
    np.testing.assert_allclose(thick[0].get_ydata(), [10.0, 1e-3])
    assert len(axes.lines) == 4  # two seeds, two means


def test_svg_leaves_the_inks_to_the_page():
    figure = figures.curves({"a $x_1$ <b>": [([1, 2], [1.0, 0.5])], "b": [([1, 2], [1.0, 0.1])]})
    text = figures.svg(figure, "one", alt='said "so"')
    assert "currentColor" in text
    assert "var(--muted" in text
    assert "var(--line-1" in text
    assert not [ink for ink in figures.INKS if ink in text]
    assert "a $x_1$ &lt;b&gt;" in text
    assert 'aria-label="said &quot;so&quot;"' in text
    assert "<metadata" not in text
    assert "<style" not in text
    assert text.startswith("<svg ")


def test_svg_is_the_same_twice_and_its_ids_are_its_own():
    def draw(name):
        return figures.svg(figures.heat_map(np.eye(3), np.eye(3) < 1), name)

    assert draw("one") == draw("one")
    ids = [set(re.findall(r'\bid="([^"]*)"', draw(name))) for name in ("one", "two")]
    assert ids[0]
    assert not ids[0] & ids[1]
    used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', draw("one")))
    assert used <= ids[0]


def test_a_script_that_the_figure_font_lacks_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "組合" in figures.svg(figures.dots({"組合": ([0.1], [0.9])}))


# ---------------------------------------------------------------------------------- numbers


def test_numbers():
    values = (float("nan"), float("inf"), 0.0, -0.5, 9.999e-4, 123456.0, 99.96)
    words = ["–", "∞", "0", "-0.500", "1.0e-03", "1.2e+05", "100"]
    assert [report.number(v) for v in values] == words
    assert report.span((float("-inf"), 2.0)) == "[-∞, 2.00]"


# --------------------------------------------------------------------------------- the page


class Tags(HTMLParser):
    """Collect the tags of a page and refuse one that is not closed."""

    VOID = ("meta", "link", "br", "hr", "img", "path", "rect", "use", "image")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id"]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def loads(text):
    """List everything that a page would fetch from elsewhere."""
    wanted = [
        value
        for tag, attrs in Tags(text).tags
        for key, value in attrs.items()
        if key in ("src", "href", "xlink:href", "srcset", "data", "poster", "action")
        and not re.match(r"#|data:", value or "#")
    ]
    styled = re.findall(r"@import|url\((?!#|[\"']?data:)[^)]*\)", text)
    return wanted + styled


def test_same_records_in_any_order_give_the_same_page(rich, rich_page, judged):
    store, records = rich
    assert report.page(store, records[::-1], judged) == rich_page


def test_page_is_whole_and_self_contained(rich_page):
    parsed = Tags(rich_page)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert not loads(rich_page)
    assert not [tag for tag, _ in parsed.tags if tag in ("script", "iframe", "object")]
    assert all(a.get("aria-label") for tag, a in parsed.tags if tag == "svg")


def test_the_check_of_loads_sees_a_violation():
    assert loads('<img src="http://a/b.png"><a style="background: url(x.png)" href="#ok"></a>') == [
        "http://a/b.png",
        "url(x.png)",
    ]


def test_page_shows_claims_conditions_and_size(smoke, rich_page, judged):
    (_, records), text = smoke, rich_page
    for j in judged:
        assert j.claim.sentence in text
        assert f"</span>{j.verdict.outcome}</span>" in text
    assert "<b>1.08</b>" in text
    assert "[1.02, 1.14]" in text
    assert "smoke size" in text
    assert find("experiment", NAME).sentence in text
    assert re.findall(r"<article.*?<h3>(.*?)</h3>", text, re.DOTALL) == ["mlp", "cnn", "outer"]
    assert text.count('<figure class="map">') == text.count('<figure class="samples">') == 3
    assert records[0].versions["torch"] in text
    assert records[0].id in text


def test_page_shows_what_went_wrong_and_escapes_it(rich_page):
    text = rich_page
    assert EVIL not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2
    assert "ValueError: it was &lt;b&gt;wrong&lt;/b&gt;" in text
    assert "seed 8: <b>diverged</b>. The loss was not finite." in text
    assert "2 of them without a result" in text
    assert "(2 runs: mlp)" in text
    assert "mine.own" in text
    assert "0.550" in text  # the mean of an unknown experiment's score


def test_error_is_divided_by_the_blank_of_its_side():
    support = corner((2, 2), slice(1, 2), slice(1, 2))
    scores = {"blank_id": 2.0, "blank_ood": 4.0}
    record = Record("a" * 16, "mine.own", "quick", {}, 0, scores=scores)
    held = [(record, {"error_map": np.full((2, 2), 2.0), "support": support})] * 2
    found = report._map(held)
    assert found.blank
    np.testing.assert_allclose(found.relative, [[1.0, 1.0], [1.0, 0.5]])
    bare = [(replace(record, scores={}), held[0][1])]
    assert not report._map(bare).blank


def test_missing_and_damaged_arrays_leave_a_sentence(smoke, judged, tmp_path):
    source, records = smoke
    store, records = Store(tmp_path), records[::5]
    for r in records:
        store.write(r)
    text = report.page(store, records, judged)
    assert "No arrays were kept for any condition" in text
    assert "<article" not in text
    assert "Who composes" in text
    for r in records[1:]:
        store.write(r, source.arrays(r))
    store.path(records[0]).with_suffix(".npz").write_bytes(b"PK\x03\x04 cut")
    text = report.page(store, records, judged)
    assert "No arrays were kept for mlp, so" in text
    assert "seed 0, were left out" in text
    assert text.count('<figure class="map">') == 2


def test_only_failures_still_make_a_page(smoke):
    store, records = smoke
    failed = [replace(r, status="failed", scores={}, history={}, error="no") for r in records]
    text = report.page(store, failed, [])
    assert "Runs without a result" in text
    assert "<svg" not in text


def test_sizes_are_kept_apart(smoke, judged):
    store, records = smoke
    text = report.page(store, [records[0], replace(records[0], size="paper")], judged)
    assert text.count("<section id=") == 2
    assert text.index("smoke size</span></h2>") < text.index("paper size</span></h2>")


def test_conditions_are_named_by_what_sets_them_apart():
    def name(*configs):
        records = [Record(str(i), "mine.own", "quick", c, 0) for i, c in enumerate(configs)]
        split, also = report.conditions(records)
        return [c.label for c in split], also

    a, b = {"model": "a", "code": "x", "steps": 10}, {"model": "b", "code": "x", "steps": 5}
    assert name(a, b) == (["a", "b"], ["steps"])
    assert name(a, {**a, "steps": 9}) == (["steps=9", "steps=10"], [])
    assert name(a, b, {**b, "code": "y"})[0] == ["x · a", "x · b", "y · b"]
    assert name(a) == (["own"], [])
    assert name({**a, "deep": True}, {**a, "deep": False})[0] == ["deep=False", "deep=True"]


def test_no_records_are_refused(tmp_path):
    with pytest.raises(Refused, match=r"There are no records in .*recombine reproduce"):
        report.page(Store(tmp_path), [], [])


def test_many_conditions_are_listed_and_the_first_are_drawn(tmp_path):
    records = [
        Record(f"{i:016x}", "mine.own", "quick", {"k": i}, 0, scores={"risk_id": 0.1 + i})
        for i in range(report.MOST + 3)
    ]
    text = report.page(Store(tmp_path), records, [])
    assert f"The first {report.MOST} conditions are drawn" in text
    assert f"k={report.MOST + 2}" in text


# ------------------------------------------------------------------------- tables and files


def test_markdown(judged):
    text = report.markdown(judged)
    assert text.splitlines()[0].startswith("<!-- Generated by `make claims`")
    assert text == report.markdown(judged)
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 3
    cells = [cell.strip() for cell in rows[0].strip("|").split(" | ")]
    reference = judged[0].claim.paper or "–"
    assert cells[:2] == [judged[0].claim.sentence, reference]
    assert cells[2:7] == ["1.08", "[1.02, 1.14]", "5", "smoke", "**holds**"]
    assert cells[7:] == ["error, needed above 0.5"]
    assert "| 2.7e-04 |" in rows[1]
    assert "| **not enough data** | 2 of 5 seeds finished" in rows[2]
    piped = replace(judged[0], claim=replace(judged[0].claim, paper="|x|"))
    assert "\\|x\\|" in report.markdown([piped])


def test_write_replaces_at_once_and_refuses_clearly(tmp_path):
    path = tmp_path / "new" / "page.html"
    report.write(path, "one ✓")
    report.write(path, "two ✓")
    assert path.read_text(encoding="utf-8") == "two ✓"
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]
    with pytest.raises(Refused, match="cannot be written"):
        report.write(path / "below a file.html", "no")
    with pytest.raises(Refused, match="is a folder, not a regular file"):
        report.write(path.parent, "onto a folder")
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]
    assert [p.name for p in tmp_path.iterdir()] == ["new"]


# -------------------------------------------------------------------------------- a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("no chromium with chromedriver on PATH; Debian has both as packages")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def file(rich_page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.write(path, rich_page)
    return path


def visit(browser, path, width, scheme="light"):
    """Open a file and return the addresses that it asked for and what the console says."""
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    messages = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    asked = [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
        and m["params"]["documentURL"] == path.as_uri()  # not what the browser's own tab asks for
    ]
    return asked, [e["message"] for e in browser.get_log("browser")]


def content_width(browser):
    return browser.execute_script("return document.documentElement.scrollWidth")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_in_a_browser(browser, file, judged, scheme, width):
    asked, console = visit(browser, file, width, scheme)
    assert asked
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]
    assert not console
    assert content_width(browser) <= width
    rows = browser.find_elements("css selector", "#claims tbody tr")
    assert len(rows) == len(judged)
    for row, j in zip(rows, judged, strict=True):
        assert row.is_displayed()
        assert j.verdict.outcome in row.text
        assert j.claim.sentence in row.text
    maps = browser.find_elements("css selector", "figure.map svg")
    assert len(maps) == 3
    for svg in maps:
        assert svg.is_displayed()
        assert min(svg.size["width"], svg.size["height"]) > 200
    paper, ink = browser.execute_script(
        "const s = getComputedStyle(document.body),"
        " t = getComputedStyle(document.querySelector('.plots svg text'));"
        "return [s.backgroundColor, t.fill]"
    )
    light = [sum(map(int, re.findall(r"\d+", color)[:3])) / 3 for color in (paper, ink)]
    assert (light[0] > 128) == (scheme == "light")
    assert abs(light[0] - light[1]) > 60  # figures are written in the page's ink


def test_nothing_overflows_with_every_fold_open(browser, file):
    visit(browser, file, 390)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert content_width(browser) <= 390


def test_the_browser_checks_see_violations(browser, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(
        "<!doctype html><meta name=viewport content='width=device-width'>"
        "<div style='width: 900px'>wide</div><img src='http://127.0.0.1:9/x.png'>"
    )
    asked, console = visit(browser, path, 390)
    assert "http://127.0.0.1:9/x.png" in asked
    assert console
    assert content_width(browser) > 390
