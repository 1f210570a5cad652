"""The audit page in a browser: accessible, and no wider than the screen."""

import numpy as np
import pytest

from recombine import audit


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Images with every part of the page: groups, maps, examples, reasons and advice."""
    z = np.repeat(np.array([(a, b) for a in range(14) for b in range(14)]), 5, axis=0)
    at = np.arange(14)
    first, second = (np.exp(-((at - z[:, c, None]) ** 2) / 4) for c in range(2))
    images = first[:, :, None] * second[:, None, :]
    train = (z[:, 0] + z[:, 1]) % 3 > 0
    outputs = np.where((train | (z[:, 1] < 10))[:, None, None], images, 0.1 * images)
    columns = {"first": z[:, 0], "second": z[:, 1]}
    answer = audit(outputs, columns, targets=images, train=train, budget=0)
    assert any(g.worse for g in answer.groups)
    path = tmp_path_factory.mktemp("audit") / "audit.html"
    path.write_text(answer.to_html(), encoding="utf-8")
    return path


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
def test_the_page_is_accessible_and_fits(browser, accessibility, file, scheme, width):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(file.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert len(browser.find_elements("css selector", "main > section")) == 6
    assert accessibility() == []
