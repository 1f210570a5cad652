"""Networks of the lab: what a state builds, and frames that any page can read."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from recombine.base.error import Refused
from recombine.cli.main import main
from recombine.lab.code import command_of, python_of
from recombine.lab.network import build, errors, frame, measured, problem, record
from recombine.lab.painted import Painted
from recombine.lab.painted_training import state_of
from recombine.lab.state import Net, State, from_address
from recombine.lab.upload import open_table
from recombine.lab.worlds import builtin, from_table

WORLDS = builtin()
CORNER = np.ones((6, 6), dtype=bool)
CORNER[3:, 3:] = False
TINY = Net(width=8, depth=1, steps=10, batch=8)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("model", ["mlp", "cnn", "transformer", "factored", "low_rank"])
def test_every_model_answers_in_every_world_or_is_refused(world, model):
    mask = np.ones(WORLDS[world].shape(6), dtype=bool)
    mask[3:, 3:] = False
    state = State(world=world, size=6, net=replace(TINY, model=model)).with_mask(mask)
    p = problem(WORLDS[world], state)
    image = WORLDS[world].kind == "image"
    for_images = model in ("cnn", "transformer", "low_rank") and not image
    if for_images or (model == "low_rank" and world != "bumps"):
        with pytest.raises(Refused, match=r"draws gray images|two codes of length"):
            build(state.net, p, 0)
        return
    assert errors(p, [build(state.net, p, 0).eval()]).shape == (1, mask.size)


def test_a_factored_model_splits_the_inputs_of_an_uneven_table(tmp_path):
    rows = "".join(f"{a},{b},{a + b}\n" for a in range(3) for b in range(5))
    (tmp_path / "t.csv").write_text("a,b,y\n" + rows)
    world = from_table(open_table(tmp_path / "t.csv", ["a", "b"], "y"))
    state = State(world="table", net=replace(TINY, model="factored"))
    assert build(state.net, problem(world, state), 0).first == 3


def test_a_frame_of_a_network_that_diverged_is_json():
    state = State(world="twins", size=6, net=replace(TINY, depth=2)).with_mask(CORNER)
    p = problem(WORLDS["twins"], state)
    model = build(state.net, p, 0).eval()
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    plain = json.loads(json.dumps(frame(p, [model], 3, 10), allow_nan=False))
    assert plain["shown"] == [None]
    assert plain["error"][0][0] is None


def test_a_recording_has_frames_from_the_first_step_to_the_last():
    state = State(world="sum", size=6, net=TINY).with_mask(CORNER)
    frames = record(WORLDS["sum"], state)
    assert [f["step"] for f in frames] == list(range(11))
    assert frames[-1]["held_out"][0] == pytest.approx(
        measured(WORLDS["sum"], state)["held_out"], abs=1e-5
    )


def test_the_command_line_exports_a_page_of_a_table(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,1,1\n1,2,2\n2,1,4\n2,2,9\n")
    page = tmp_path / "page.html"
    address = "#world=table&shown=e0&net.steps=10&net.width=8&view=pieces"
    words = ["--factors", "a", "b", "--target", "y", "--address", address, "--export", str(page)]
    assert main(["lab", str(tmp_path / "t.csv"), "--no-open", *words]) == 0
    text = (
        page.read_text("utf-8").partition('type="application/json">')[2].partition("</script>")[0]
    )
    data = json.loads(text)
    assert data["mask"] == [[1, 1], [1, 0]]
    assert [frame["step"] for frame in data["frames"]] == list(range(11))


def test_a_command_describes_the_state_that_it_came_from():
    state = State(world="sum", size=6, salience=0.25, net=Net(lr=0.01, seeds=2)).with_mask(CORNER)
    assert command_of(state, WORLDS["sum"]) == (
        f"recombine sweep lab.painted --world sum --levels 6 --shown {state.shown} "
        "--salience 0.25 --lr 0.01 --seeds 2"
    )
    cfg = Painted(world="sum", levels=6, shown=state.shown, salience=0.25, lr=0.01)
    assert state_of(cfg)[0] == replace(state, net=Net(lr=0.01))


def test_a_command_and_a_program_name_the_table(tmp_path):
    path = tmp_path / "my table.csv"
    path.write_text("a,b,pose,y\n1,1,l,1\n1,2,l,2\n2,1,l,4\n2,2,r,9\n")
    world = from_table(open_table(path, ["a", "b"], "y", {"pose": "l"}))
    state = State(world="table")
    command = command_of(state, world)
    assert f"--table '{path}' --factor-a a --factor-b b --target y --fixed pose=l" in command
    assert f"open_table(Path({str(path)!r}), ('a', 'b'), 'y', {{'pose': 'l'}})" in python_of(
        state, world
    )
    cfg = Painted(world="table", table=str(path), factor_a="a", factor_b="b", target="y")
    assert state_of(replace(cfg, fixed="pose=l"))[1].measured.sum() == 3
    with pytest.raises(Refused, match="needs a CSV file"):
        state_of(replace(cfg, table=""))


def test_an_address_is_a_state():
    address = "http://127.0.0.1:1/?token=x#world=sum&size=9&net.lr=0.01&scene=kernels&step=2"
    assert from_address(address, WORLDS) == State(world="sum", size=9, net=Net(lr=0.01))
    with pytest.raises(Refused, match="size needs a number; got 'large'"):
        from_address("#size=large", WORLDS)
    assert from_address("http://127.0.0.1:1/?token=t", WORLDS) == State()
    with pytest.raises(Refused, match="There is no field 'sice'"):
        from_address("#sice=8", WORLDS)
