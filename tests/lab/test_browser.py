"""The lab in a real browser: painting, training, the address, the export, keys and failures."""

import json
import shlex
import signal
from ast import literal_eval

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import recombine as rc
from recombine.claims.store import Store
from recombine.cli.main import main

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
    assert "will generalize to the 4 held-out combinations" in page.text("sentence")
    assert "Connected rows and columns determine them" in page.text("sentence")
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


def test_keys_undo_and_fingers_paint(page):
    page.open("#world=sum&size=8", width=390)
    page.js("document.getElementById('paint').scrollIntoView({block: 'center'})")
    box = page.js("return document.getElementById('paint').getBoundingClientRect().toJSON()")
    x, y = (box[k] + box["width"] * 2.5 / 8 for k in ("left", "top"))
    for kind, points in (
        ("touchStart", [{"x": x, "y": y}]),
        ("touchMove", [{"x": x + box["width"] / 8, "y": y}]),
        ("touchEnd", []),
    ):
        event = {"type": kind, "touchPoints": points}
        page.browser.execute_cdp_cmd("Input.dispatchTouchEvent", event)
    page.ready()
    assert page.text("shown-count") == "62 shown, 2 held out"
    page.until_text("cell-why", "determine it")  # the witness stays after the finger is gone
    keys = ActionChains(page.browser).key_down(Keys.CONTROL)
    keys.send_keys("z").key_up(Keys.CONTROL).perform()
    page.ready()
    assert page.text("shown-count") == "64 shown, 0 held out"


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
    assert -1 <= page.lab("agreement") <= 1
    page.click("slow")
    page.wait(lambda: page.unchanged("lab.step", 0.1))  # four steps per second
    step = page.lab("step")
    page.wait(lambda: page.lab("step") > step)
    page.click("slow")
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
    page.js(
        "const s = document.getElementById('kernel_depth'); s.value = 9;"
        "s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'))"
    )
    page.ready()
    deep = page.lab("theoryError")
    assert deep > error  # a deeper kernel remembers single combinations more
    page.choose("view", "pieces")
    page.until_text("theory-caption", "36 of 36 held out determined")
    page.browser.back()
    page.browser.back()
    page.wait(lambda: page.lab("theoryError") == error)
    page.choose("view", "pieces")
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
    page.until_text("theory-caption", "49 of 49 held out determined")
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
    press.send_keys(Keys.HOME, Keys.ARROW_RIGHT, Keys.SPACE).perform()
    press.key_down(Keys.SHIFT).send_keys(Keys.ARROW_DOWN).key_up(Keys.SHIFT).perform()
    page.ready()
    assert page.text("shown-count") == "62 shown, 2 held out"
    assert page.text("cursor") == "a = 1, b = 1, held out"
    page.js("document.getElementById('train').focus()")
    press.send_keys(Keys.ENTER).perform()
    page.until("done")


@pytest.mark.parametrize("width", [1400, 390])
def test_nothing_moves_while_one_paints_and_trains(page, width):
    page.open(SMALL + "&shown=ff818181818181ff", width=width)

    def places():
        names = "['paint', 'theory', 'network', 'chart', 'width', 'export']"
        top = "document.getElementById(n).getBoundingClientRect().top + scrollY"
        return page.js(f"return {names}.map((n) => Math.round({top}))")

    before = places()
    page.click("train")
    page.until("done")
    page.wait(lambda: page.lab("agreement") is not None)
    assert places() == before
    for name in ("nothing", "two blocks", "everything"):
        page.choose("preset", name)
        page.ready()
        assert places() == before


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


SCENES = {
    "rendering": [None, (1.0, 3.0), (0.6, 1.0), (0.4, 2.0), (0.0, 0.25)],
    "kernels": [None, (0.07, 0.08), (0.02, 0.04), (0.0, 0.2), (1.0, 20.0)],
    "support": [(0.0, 0.0), (1.0, 1.0), (0.1, 1.0), (0.0, 0.1)],
    "modules": [(0.4, 0.62), (0.66, 1.0), (0.66, 1.0)],  # plain training mixes; noise, penalty sort
    "interaction": [(0.0, 0.01), (0.1, 1.0), (0.1, 1.0), (0.05, 1.0)],
}


@pytest.mark.parametrize("name", SCENES)
def test_a_guided_scene_reaches_its_end_with_its_numbers(page, name):
    page.open(SMALL)
    page.browser.find_element("css selector", f"[data-scene={name}]").click()
    for k, bounds in enumerate(SCENES[name]):
        if k:
            page.click("story-next")
        assert page.js("return document.getElementById('story').hidden") is False
        page.ready()
        if page.js("return lab.trains()"):
            page.until("done")
        if bounds:
            headline = page.wait(lambda: page.js("return [lab.headline()]"))[0]
            assert bounds[0] <= headline <= bounds[1]
    assert page.text("story-next") == "Done: play freely"
    page.click("story-next")
    assert page.js("return document.getElementById('story').hidden")
    assert not page.problems()


def test_an_export_plays_from_disk_without_a_network(page, tmp_path):
    page.open(SMALL.replace("steps=200", "steps=100") + "&shown=ff818181818181ff")
    page.click("train")
    page.until("done")
    error = page.lab("heldOut")
    page.click("export")
    page.wait(lambda: page.lab("exported"))
    file = tmp_path / "scene.html"
    file.write_text(page.lab("exported"), "utf-8")
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    page.browser.execute_cdp_cmd("Network.enable", {})
    page.browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    try:
        page.browser.get(file.as_uri())
        assert page.text("step-count") == "step 100 of 100"
        assert f"held-out error {error:.2f}" in page.text("net-caption")
        scrub = "const s = document.getElementById('scrub'); s.value = {}; s.oninput({{target: s}})"
        page.js(scrub.format(0))
        assert page.text("step-count") == "step 0 of 100"
        page.js(scrub.format("s.max - 4"))
        page.click("play")
        assert page.text("play") == "Pause"
        page.until_text("step-count", "step 100 of 100")
        page.until_text("play", "Play")
    finally:
        page.browser.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {**offline, "offline": False, "downloadThroughput": -1, "uploadThroughput": -1},
        )
    assert not page.problems()


def test_copied_code_gives_the_numbers_of_the_page(page, tmp_path, monkeypatch, capsys):
    page.open(SMALL + "&shown=ff818181818181ff&net.seeds=2")
    page.click("train")
    page.until("done")
    shown, held_out = page.lab("shown"), page.lab("heldOut")
    page.js("navigator.clipboard.writeText = async () => {}")
    page.click("copy-python")
    program = page.wait(lambda: page.lab("copied"))
    exec(compile(program, "copied.py", "exec"), {})
    printed = capsys.readouterr().out
    assert page.text("sentence") in printed
    numbers = literal_eval(printed.rpartition("network: ")[2])
    assert numbers["shown"] == pytest.approx(shown, rel=1e-3, abs=1e-6)
    assert numbers["held_out"] == pytest.approx(held_out, rel=1e-3, abs=1e-6)
    page.click("copy-command")
    command = page.wait(lambda: page.lab("copied") != program and page.lab("copied"))
    monkeypatch.chdir(tmp_path)
    assert main([*shlex.split(command)[1:], "--workers", "1"]) == 0
    scores = [r.scores for r in Store(tmp_path / "runs").records()]
    assert len(scores) == 2
    mean = sum(s["error_ood"] for s in scores) / 2
    assert mean == pytest.approx(held_out, rel=1e-3, abs=1e-6)


def test_two_tabs_train_side_by_side_and_a_closed_one_ends_its_training(page, new_server):
    page.server = new_server()
    page.open(LONG)
    page.click("train")
    page.wait(lambda: page.lab("step"))
    first = page.browser.current_window_handle
    page.browser.switch_to.new_window("tab")
    try:
        page.open(LONG)
        page.click("train")
        page.wait(lambda: page.lab("step"))
        page.wait(lambda: len(page.server.trainers()) == 2)
    finally:
        page.browser.close()
        page.browser.switch_to.window(first)
    page.wait(lambda: len(page.server.trainers()) == 1)
    assert page.lab("training") == "running"
    page.click("reset")


def test_a_refusal_is_a_sentence_on_the_page(page):
    page.open("#world=sum&size=8&net.penalty=stripes")
    page.click("train")
    page.until("refused")
    assert page.text("problem") == "The penalty stripes belongs to the model low_rank."
    assert page.text("step-count") == ""  # nothing was trained, and nothing is drawn


def test_a_network_that_does_not_learn_is_told(page):
    page.open(SMALL.replace("lr=0.01", "lr=1").replace("steps=200", "steps=10"))
    page.click("train")
    page.until("done")
    assert "lower the learning rate" in page.text("net-caption")


def test_a_page_whose_server_does_not_answer_starts_once_it_does(page):
    page.open("#world=sum&size=8")
    page.browser.execute_cdp_cmd("Network.enable", {})
    page.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/api/worlds*"]})
    try:
        page.browser.refresh()
        page.wait(lambda: page.find("offline").is_displayed())
        assert page.text("verdict") == "The lab could not start."
    finally:
        page.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    page.ready()
    assert page.text("shown-count") == "64 shown, 0 held out"
    assert not page.find("offline").is_displayed()


def test_a_table_becomes_a_world(page, tmp_path):
    file = tmp_path / "cups.csv"
    rows = [
        f"{a},{b},{pose},{i + j}"
        for i, a in enumerate("uvw")
        for j, b in enumerate("xy")
        for pose in ("left", "right")
        if (a, b) != ("w", "y")
    ]
    file.write_text("\n".join(["shape,color,pose,size", *rows]))
    page.open("#world=sum&size=8")
    page.find("file").send_keys(str(file))
    page.wait(lambda: page.find("columns").is_displayed())
    page.browser.find_element("css selector", "#columns button").click()
    page.wait(lambda: page.js("return document.getElementById('world').value") == "table")
    page.ready()
    assert page.text("shown-count") == "5 shown, 0 held out"
    assert "shape →" in page.text("axes")
    page.browser.refresh()
    page.ready()
    assert page.text("shown-count") == "5 shown, 0 held out"
    page.click("copy-command")
    command = page.wait(lambda: page.lab("copied"))
    assert "--table cups.csv --factor-a shape --factor-b color --target size" in command


def test_the_widget_paints_and_sends_what_is_painted(page, tmp_path):
    task = rc.Task(
        rc.grid(a=4, b=4), inputs=rc.join(rc.one_hot(4), rc.one_hot(4)), targets=lambda z: z[:1]
    )
    widget = rc.lab(task)
    values = {name: getattr(widget, name) for name in ("shown", "theory", "frame", "training")}
    model = "{get: (k) => values[k], set: (k, v) => { values[k] = v; }, save_changes() {}, on() {}}"
    file = tmp_path / "widget.html"
    file.write_text(
        f"<div id=widget></div><script type=module>"
        f"{widget._esm.replace('export default', 'const widget =')}\n"
        f"const values = window.values = {json.dumps(values)};"
        f"widget.render({{model: {model}, el: document.getElementById('widget')}})</script>",
        "utf-8",
    )
    page.browser.get(file.as_uri())
    grid = page.browser.find_element("css selector", "canvas[tabindex]")
    ActionChains(page.browser, duration=20).move_to_element_with_offset(
        grid, 1, 1
    ).click().perform()
    painted = page.wait(lambda: page.js("return window.values && values.shown.flat()"))
    assert painted == [1] * 10 + [0] + [1] * 5
    assert "Every combination is shown" in page.js("return document.body.textContent")
    assert not page.problems()


def test_a_killed_server_is_told_and_a_new_one_is_found(page, new_server):
    page.server = new_server()
    page.open(LONG)
    page.click("train")
    page.wait(lambda: page.lab("step"))
    page.server.end(signal.SIGKILL)
    page.until("lost")
    assert page.find("offline").is_displayed()
    painted = page.text("shown-count")
    assert page.js("return location.href") in page.text("offline-command")
    page.server = new_server("--address", page.js("return location.href"))
    page.until("idle")
    assert not page.find("offline").is_displayed()
    assert page.text("shown-count") == painted
    page.click("train")
    page.wait(lambda: page.lab("step"))
    page.click("reset")
