"""The site, built offline and opened in a browser: no request leaves, no link is broken."""

import re
import sys
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest
from tests.report.test_browser import content_width, visit

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def website():
    spec = spec_from_file_location("website", ROOT / "docs" / "website.py")
    module = module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture(scope="session")
def site(website, tmp_path_factory):
    """Build the site once."""
    target = tmp_path_factory.mktemp("docs")
    website.build(target)
    return target / "site"


@pytest.fixture(scope="session")
def address(site):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class Links(HTMLParser):
    """What a page links to, what it loads, and the places that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.places = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.places |= {values[k] for k in ("id", "name") if values.get(k)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        self.loads += [values[k] for k in ("src",) if values.get(k)]
        if tag == "link" and values.get("rel") not in ("canonical", "alternate"):
            self.loads.append(values.get("href", ""))


def test_every_page_of_the_navigation_that_exists_is_built(site, website):
    names = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    papers = {f"papers/{path.stem}.html" for path in (ROOT / "docs/papers").glob("*.md")}
    assert {"index.html", "tutorial.html", "api/spaces.html", "claims.html"} | papers <= names
    listed = (ROOT / "mkdocs.yml").read_text()
    assert {n for n, _ in website.reference()} == set(re.findall(r"api/\w+\.md", listed))


def test_no_link_is_broken_and_nothing_is_loaded_from_elsewhere(site):
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) > 25
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        assert not [url for url in page.loads if urlsplit(url).scheme in ("http", "https")], path
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name} links to {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].places, f"{path.name}: {link}"


@pytest.mark.parametrize(
    ("page", "width", "scheme"),
    [
        ("index.html", 1400, "light"),
        ("index.html", 390, "dark"),
        ("papers/liang2025.html", 390, "dark"),
        ("claims.html", 390, "light"),
        ("api/spaces.html", 1400, "dark"),
    ],
)
def test_pages_in_a_browser(browser, accessibility, address, page, width, scheme):
    browser.execute_cdp_cmd(
        "Storage.clearDataForOrigin", {"origin": address, "storageTypes": "all"}
    )
    requests, console = visit(browser, f"{address}/{page}", width, scheme)
    assert requests
    assert not [url for url in requests if not url.startswith((address, "data:", "blob:"))]
    assert not console
    assert content_width(browser) <= width
    color = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, re.findall(r"\d+", color)[:3])) / 3
    assert (light > 128) == (scheme == "light")
    assert accessibility() == []


def test_figures_fit_a_wide_page_and_stay_sharp(browser, address):
    visit(browser, f"{address}/papers/liang2025.html", 1400)
    wide, smooth, small = browser.execute_script(
        "const boxes = [...document.querySelectorAll('figure.drawing .scroll')];"
        "const images = [...document.querySelectorAll('figure.drawing image')];"
        "const texts = [...document.querySelectorAll('figure.drawing text')];"
        "const size = t => parseFloat(getComputedStyle(t).fontSize)"
        " * t.ownerSVGElement.clientWidth / t.ownerSVGElement.viewBox.baseVal.width;"
        "return [boxes.filter(b => b.scrollWidth > b.clientWidth + 1).length,"
        " images.filter(i => getComputedStyle(i).imageRendering !== 'pixelated').length,"
        " Math.min(...texts.map(size))]"
    )
    assert (wide, smooth) == (0, 0)
    assert small >= 9


def test_the_picture_of_the_readme_can_be_read_on_a_phone_and_in_the_dark():
    picture = (ROOT / "docs" / "picture.svg").read_text()
    (width,) = re.findall(r'viewBox="0 0 (\d+) ', picture)
    sizes = [float(size) for size in re.findall(r"font-size:([\d.]+)px", picture)]
    assert min(sizes) * 358 / int(width) >= 9
    light, dark = re.findall(r"background: #(\w+); color: #(\w+)", picture)
    assert light[0] > light[1]
    assert dark[0] < dark[1]
    assert "prefers-color-scheme: dark" in picture


def test_a_paper_has_its_verdicts_figures_and_mathematics(site):
    text = (site / "papers" / "liang2025.html").read_text()
    assert "Compositional Generalization via Forced Rendering" in text
    assert "<strong>holds</strong>" in text
    assert text.count("<figure") >= 4
    assert "<math" in text
    assert "filled in" not in text


def test_the_table_of_claims_fits_and_loses_nothing(website):
    text = (ROOT / "docs" / "claims.md").read_text()
    narrow = website.narrow(text)
    rows = [line for line in narrow.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}
    assert len(rows) == len([line for line in text.splitlines() if line.startswith("| ")])
    row = (
        "| A. | control | 1 | Fig. 2 | 1.1 | [1, 2] | 5 from 9 | quick | **holds** | why | chosen |"
    )
    words = website.narrow(row)
    for word in (
        "A.",
        "control",
        "oracle: chosen",
        "Fig. 2",
        ">1.1<",
        ">[1, 2]<",
        "5 seeds from 9",
    ):
        assert word in words


def test_pages_that_do_not_exist_are_left_out_of_the_navigation(website):
    nav = ["a.md", {"Part": ["b.md", {"C": "c.md"}]}, {"Empty": [{"D": "d.md"}]}]
    assert website.present(nav, {"a.md", "c.md"}.__contains__) == [
        "a.md",
        {"Part": [{"C": "c.md"}]},
    ]
