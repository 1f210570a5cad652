"""A slow server: nothing on the page moves, and no value stands beside the name of another cell."""

import json

import pytest

HOLD = """
window.held = {};
const real = window.fetch, holding = new Set();
window.hold = (name) => { holding.add(name); held[name] = []; };
window.release = (name) => { holding.delete(name); held[name].splice(0).forEach((go) => go()); };
window.fetch = async (address, options) => {
  const name = new URL(address, location).pathname.split("/").pop();
  const answer = await real(address, options);
  if (holding.has(name)) await new Promise((go) => held[name].push(go));
  return answer;
};
for (const name of %s) hold(name);
"""
PLACES = """
const place = (e) => {
  const box = e.getBoundingClientRect(), inner = e.querySelector("[id]");
  return [e.id || (inner && inner.id) || e.tagName, box.left, box.top + scrollY];
};
const parts = document.querySelectorAll("h2, figure, canvas, fieldset, button, .room, #lower");
return [...parts].filter((e) => e.getClientRects().length).map(place);
"""
POINT = """
const grid = document.getElementById("paint"), box = grid.getBoundingClientRect();
const [x, y] = [...arguments].map((k) => (k + 0.5) / 8);
const at = { clientX: box.left + x * box.width, clientY: box.top + y * box.height };
grid.dispatchEvent(new PointerEvent("pointermove", at));
"""
ANSWERS = """
const text = (name) => document.getElementById(name).textContent;
const drawn = ["truth", "kernel", "network"].some((name) => {
  const image = document.getElementById(`cell-${name}`);
  const { data } = image.getContext("2d").getImageData(0, 0, image.width, image.height);
  return data.some(Boolean);
});
const values = ["truth", "kernel", "network"].map((name) => text(`value-${name}`));
return [text("cell-name"), ...values, text("cell-why"), drawn];
"""
WIDTHS = [1400, 1100, 600, 390, 360, 320]
HOLES = "&shown=ff818181818181ff"


@pytest.fixture
def slow(page):
    """A page that receives the answers of some requests only when the test releases them."""
    scripts = []

    def open_page(fragment, *names, width=1400):
        source = {"source": HOLD % json.dumps(names)}
        command = "Page.addScriptToEvaluateOnNewDocument"
        scripts.append(page.browser.execute_cdp_cmd(command, source))
        page.ready = lambda: page  # the test waits itself
        page.open(fragment, width=width)
        page.wait(lambda: page.js("return window.lab?.ready"))
        return page

    yield open_page
    for script in scripts:
        page.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def release(page, name):
    """Let the answers to one kind of request arrive."""
    page.wait(lambda: page.js("return held[arguments[0]].length", name))
    page.js("release(arguments[0])", name)


def places(page):
    """Where the parts of the page are, after the next frame."""
    page.browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")
    return page.js(PLACES)


def moved(before, page):
    """What is a pixel or more from where it was."""
    pairs = zip(before, places(page), strict=True)
    return [(a, b) for a, b in pairs if abs(a[1] - b[1]) >= 1 or abs(a[2] - b[2]) >= 1]


def answers(page):
    """What the page says of a cell: its name, values and reason, and whether anything is drawn."""
    return page.js(ANSWERS)


def point(page, i, j):
    """Move the pointer to a cell of the grid; return what the page says in the same moment."""
    return page.js(POINT + ANSWERS, i, j)


@pytest.mark.parametrize("world", ["sum", "twins"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_moves_when_a_late_answer_arrives(slow, width, world):
    page = slow(f"#world={world}&size=8{HOLES}", "look", "cell", "pictures", width=width)
    before = places(page)
    release(page, "look")
    page.wait(lambda: not page.lab("asking"))
    assert moved(before, page) == []
    release(page, "pictures")
    release(page, "cell")
    page.wait(lambda: page.text("cell-why"))
    assert moved(before, page) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_moves_while_a_network_trains_and_fails(slow, width):
    small = "&net.width=16&net.depth=1"
    page = slow(f"#world=sum&size=8{small}&net.lr=1&net.steps=10{HOLES}", width=width)
    page.wait(lambda: page.text("cell-why"))
    before = places(page)
    page.click("train")
    page.until("done")
    assert page.text("net-caption") == "did not learn: lower the learning rate"
    assert moved(before, page) == []
    page.choose("steps", 50000)
    page.choose("lr", 0.01)
    page.click("train")
    page.wait(lambda: page.lab("step"))
    assert moved(before, page) == []
    page.click("pause")
    page.wait(lambda: page.unchanged("lab.step"))
    assert moved(before, page) == []
    page.click("reset")


def test_the_values_of_a_cell_never_stand_beside_the_name_of_another(slow):
    page = slow(f"#world=sum&size=8&net.width=16&net.depth=1&net.steps=50&net.lr=0.01{HOLES}")
    page.click("train")
    page.until("done")
    point(page, 2, 3)
    page.wait(lambda: all(answers(page)))
    before = answers(page)
    assert before[0] == "a = 2, b = 3"
    page.js("hold('cell')")
    assert point(page, 4, 5) == ["a = 4, b = 5", "", "", "", "", False]
    page.wait(lambda: page.js("return held.cell.length"))  # the server answers: too late
    point(page, 6, 7)
    page.js("held.cell.shift()()")
    page.wait(lambda: page.js("return held.cell.length"))  # the next answer
    assert answers(page)[:3] == ["a = 6, b = 7", "", ""]
    release(page, "cell")
    truth = page.until_text("value-truth", ".")
    assert truth == answers(page)[1] != before[1]


def test_an_answer_about_another_painting_is_dropped(slow):
    page = slow(f"#world=sum&size=8{HOLES}", "cell")
    page.wait(lambda: page.js("return held.cell.length"))  # about the kernel of depth 1
    page.js("hold('look')")
    page.js(
        "const depth = document.getElementById('kernel_depth'); depth.value = 9;"
        "depth.dispatchEvent(new Event('input'))"
    )
    page.js("held.cell.shift()()")
    page.wait(lambda: page.js("return held.look.length"))
    assert answers(page)[1:] == ["", "", "", "", False]
    release(page, "look")
    release(page, "cell")
    page.until_text("value-kernel", ".")
