"""The page in a real browser: nothing leaves it, nothing overflows, every control works."""

import json
import re
from dataclasses import replace

import pytest

from recombine.base.disk import write
from recombine.claims.claim import HOLDS
from recombine.report.page import page


@pytest.fixture(scope="module")
def file(rich_page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write(path, rich_page)
    return path


def visit(browser, path, width, scheme="light", place=""):
    """Open a file or an address; return the addresses it asked for and what the console says."""
    address = path if isinstance(path, str) else path.as_uri()
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    browser.get(address + place)
    messages = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    requests = [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
        and m["params"]["documentURL"].startswith(address)  # not the browser's own tab
    ]
    return requests, [e["message"] for e in browser.get_log("browser")]


def content_width(browser):
    return browser.execute_script("return document.documentElement.scrollWidth")


def open_all(browser):
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_in_a_browser(browser, file, judged, scheme, width):
    requests, console = visit(browser, file, width, scheme)
    assert requests
    assert not [url for url in requests if not url.startswith(("file:", "data:"))]
    assert not console
    assert content_width(browser) <= width
    open_all(browser)
    rows = browser.find_elements("css selector", ".claim > summary")
    assert len(rows) == len(judged)
    for row, j in zip(rows, judged, strict=True):
        assert row.is_displayed()
        assert j.verdict.outcome in row.text
        assert j.claim.sentence in row.text
    maps = browser.find_elements("css selector", ".cards svg")
    assert len(maps) >= 6
    for svg in maps:
        assert svg.is_displayed()
        assert svg.size["width"] > 200
    background, ink = browser.execute_script(
        "const s = getComputedStyle(document.body),"
        " t = getComputedStyle(document.querySelector('.cards svg text'));"
        "return [s.backgroundColor, t.fill]"
    )
    light = [sum(map(int, re.findall(r"\d+", color)[:3])) / 3 for color in (background, ink)]
    assert (light[0] > 128) == (scheme == "light")
    assert abs(light[0] - light[1]) > 60  # figures are written in the page's ink


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(browser, accessibility, file, scheme, width):
    visit(browser, file, width, scheme)
    open_all(browser)
    assert accessibility() == []


@pytest.mark.parametrize("width", [1400, 390])
def test_nothing_overflows_and_no_text_is_tiny_with_every_fold_open(browser, file, width):
    visit(browser, file, width)
    open_all(browser)
    assert content_width(browser) <= width
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('svg text')].map(t => {"
        " const svg = t.ownerSVGElement, box = svg.viewBox.baseVal;"
        " const scale = box && box.width ? svg.getBoundingClientRect().width / box.width : 1;"
        " return [t.textContent, scale * parseFloat(getComputedStyle(t).fontSize)] })"
    )
    assert sizes
    assert not [(text, size) for text, size in sizes if size < 9]


def shown(browser):
    return [
        e.get_attribute("id") for e in browser.find_elements("css selector", ".claim:not([hidden])")
    ]


def test_claims_are_filtered_and_sorted(browser, file, judged):
    from selenium.webdriver.support.ui import Select

    visit(browser, file, 1400)
    status = browser.find_element("css selector", ".filters [role=status]")
    assert status.text == f"{len(judged)} claims"
    everything = shown(browser)
    words = browser.find_element("name", "words")
    words.send_keys(judged[1].claim.name.partition(".")[2])
    assert len(shown(browser)) == 1
    assert status.text == f"1 of {len(judged)} claims"
    assert browser.find_element("css selector", f"#{shown(browser)[0]}").is_displayed()
    words.clear()
    words.send_keys("no claim says this")
    assert not shown(browser)
    words.clear()
    words.send_keys(" ")
    for name, value in (("verdict", "holds"), ("verdict", ""), ("order", "verdict")):
        Select(browser.find_element("name", name)).select_by_value(value)
        if value == "holds":
            assert len(shown(browser)) == sum(j.verdict.outcome == HOLDS for j in judged)
    assert sorted(shown(browser)) == sorted(everything)


def test_a_claim_judged_at_two_sizes_counts_once(browser, rich, judged, tmp_path):
    path = tmp_path / "report.html"
    write(path, page(*rich, [*judged, replace(judged[0], size="quick")]))
    visit(browser, path, 1400)
    assert len(shown(browser)) == len(judged) + 1
    status = browser.find_element("css selector", ".filters [role=status]")
    assert status.text == f"{len(judged)} claims"
    browser.find_element("name", "words").send_keys(judged[0].claim.name.partition(".")[2])
    assert len(shown(browser)) == 2
    assert status.text == f"1 of {len(judged)} claims"


def test_an_address_opens_the_claim_that_it_leads_to(browser, file, judged):
    visit(browser, file, 1400)
    last = shown(browser)[-1]
    assert not browser.find_element("id", last).is_displayed()
    visit(browser, file, 1400, place=f"#{last}")
    claim = browser.find_element("id", last)
    assert claim.is_displayed()
    top = browser.execute_script("return arguments[0].getBoundingClientRect().top", claim)
    assert 0 <= top < 400


def test_a_command_is_copied(browser, file):
    visit(browser, file, 1400)
    browser.execute_script(
        "window.copied = []; navigator.clipboard.writeText = async t => { copied.push(t) }"
    )
    button = browser.find_element("css selector", ".paper-card [data-copy]")
    button.click()
    assert browser.execute_script("return copied") == ["recombine reproduce liang2025"]


def test_the_browser_checks_see_violations(browser, accessibility, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(
        "<!doctype html><meta name=viewport content='width=device-width'>"
        "<div style='width: 900px'>wide</div><img src='http://127.0.0.1:9/x.png'>"
    )
    requests, console = visit(browser, path, 390)
    assert "http://127.0.0.1:9/x.png" in requests
    assert console
    assert content_width(browser) > 390
    assert "image-alt" in dict(accessibility())
