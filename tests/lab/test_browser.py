"""The lab in a real browser: painting, training, the address, the export, keys and failures."""

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

SMALL = "#world=sum&size=8&net.width=16&net.depth=1&net.steps=200&net.lr=0.01"  # trains in a moment
LONG = "#world=sum&size=8&shown=ff818181818181ff&net.steps=50000"  # until somebody ends it


def over(page, cell, size):
    """Move a mouse over a cell of the grid."""
    grid = page.find("paint")
    side = grid.size["width"] / size
    at = [round((c + 0.5 - size / 2) * side) for c in cell]
    return ActionChains(page.browser, duration=20).move_to_element_with_offset(grid, *at)


def test_painting_by_mouse_changes_what_theory_says(page):
    page.open("#world=sum&size=8")
    assert "Every combination is shown" in page.text("sentence")
    page.js("document.getElementById('paint').scrollIntoView({block: 'center'})")
    over(page, (2, 3), 8).click_and_hold().perform()
    over(page, (5, 3), 8).release().perform()  # a stroke over four cells
    page.ready()
    assert page.text("shown-count") == "60 shown, 4 held out"
    assert "determine all 4 held-out combinations" in page.text("sentence")
    assert 0 < page.lab("theoryError") < 0.1
    page.click("undo")
    page.ready()
    assert page.text("shown-count") == "64 shown, 0 held out"
    page.click("redo")
    page.ready()
    assert page.text("shown-count") == "60 shown, 4 held out"
    over(page, (3, 3), 8).perform()
    page.until_text("cell-why", "3 shown combinations determine it")
    page.choose("preset", "two blocks")
    page.ready()
    assert page.lab("determined") == 0
    assert not page.problems()


def test_train_pause_step_resume_and_reset(page):
    page.open(LONG)
    page.click("train")
    page.until("running")
    page.wait(lambda: page.lab("step"))
    page.click("pause")
    page.until("paused")
    page.wait(lambda: page.unchanged("lab.step"))
    step = page.lab("step")
    page.click("step")
    page.wait(lambda: page.lab("step") == step + 1)
    assert page.unchanged("lab.step")
    page.click("pause")  # which now says Resume
    page.wait(lambda: page.lab("step") > step + 2)
    page.click("reset")
    page.until("idle")
    assert page.text("net-caption") == "not trained yet"
    assert page.lab("heldOut") is None


def test_a_hovered_cell_shows_the_network_during_and_after_training(page):
    page.open(SMALL)
    page.click("train")
    page.until("done")
    page.js("document.getElementById('paint').scrollIntoView({block: 'center'})")
    over(page, (6, 7), 8).perform()
    truth = page.until_text("value-truth", ".")
    network = page.until_text("value-network", ".")
    assert abs(float(truth) - float(network)) < 0.3


def test_the_address_restores_everything(page):
    page.open("#world=product&size=8&shown=ff818181818181ff&kernel_depth=3&net.lr=0.01")
    assert page.text("shown-count") == "28 shown, 36 held out"
    assert page.js("return document.getElementById('lr').value") == "0.01"
    error = page.lab("theoryError")
    page.choose("preset", "cross")
    page.ready()
    assert page.lab("theoryError") != error
    page.browser.back()
    page.wait(lambda: page.lab("theoryError") == error)
    page.browser.forward()
    page.wait(lambda: page.lab("theoryError") != error)
    page.browser.refresh()
    page.ready()
    assert page.text("shown-count") == "15 shown, 49 held out"
    assert page.js("return document.getElementById('world').value") == "product"


def test_every_control_is_reached_by_keyboard_and_the_grid_is_painted_by_it(page):
    page.open(SMALL)
    press = ActionChains(page.browser)
    reached = set()
    for _ in range(60):
        press.send_keys(Keys.TAB).perform()
        reached.add(page.js("return document.activeElement.id"))
    assert {"paint", "preset", "view", "train", "world", "file", "model", "export"} <= reached
    page.js("document.getElementById('paint').focus()")
    press.send_keys(Keys.ARROW_RIGHT, Keys.SPACE).perform()
    press.key_down(Keys.SHIFT).send_keys(Keys.ARROW_DOWN).key_up(Keys.SHIFT).perform()
    page.ready()
    assert page.text("shown-count") == "62 shown, 2 held out"
    assert page.text("cursor") == "a = 1, b = 1, held out"
    page.js("document.getElementById('train').focus()")
    press.send_keys(Keys.ENTER).perform()
    page.until("done")


def test_a_phone_shows_everything_without_scrolling_sideways(page):
    page.open("#world=sum&size=8&scene=kernels&step=0", width=390)
    assert page.js("return document.documentElement.scrollWidth") <= 390
    for name in ("paint", "theory", "network", "chart"):
        assert page.find(name).size["width"] > 250


def test_no_request_leaves_the_machine(page):
    page.open(SMALL)
    page.click("train")
    page.until("done")
    urls = page.requests()
    assert len(urls) > 5
    assert not [url for url in urls if not url.startswith(("http://127.0.0.1:", "data:"))]


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible(page, accessibility, scheme, width):
    page.open("#world=twins&size=8&scene=rendering&step=0", width=width, scheme=scheme)
    assert accessibility() == []
