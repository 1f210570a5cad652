"""The state of the lab: masks and JSON, and nothing that is out of bounds."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recombine.base.error import Refused
from recombine.lab.state import LARGEST, SMALLEST, Net, State, pack, parse, unpack

WORLDS = {"bumps": None, "sum": None}


@given(st.integers(SMALLEST, LARGEST), st.integers(SMALLEST, LARGEST), st.integers(0, 2**32 - 1))
def test_a_mask_survives_its_digits(n, m, seed):
    mask = np.random.default_rng(seed).random((n, m)) < 0.5
    assert (unpack(pack(mask), (n, m)) == mask).all()


def test_a_state_survives_json():
    state = State(world="sum", size=9, salience=0.2, net=Net(model="mlp", seeds=3, lr=0.01))
    state = state.with_mask(np.eye(9, dtype=bool))
    assert parse(json.loads(json.dumps(asdict(state))), WORLDS) == state


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ([], "A state is an object"),
        ({"world": "moon"}, "There is no world 'moon'"),
        ({"size": 3}, "size needs a number from 4 to 32; got 3"),
        ({"size": 1e9}, "size needs a number"),
        ({"size": "14"}, "size needs a number"),
        ({"size": True}, "size needs a number"),
        ({"net": {"lr": float("nan")}}, "lr needs a number"),
        ({"net": {"model": "gpt"}}, "There is no model 'gpt'"),
        ({"net": {"penalty": "x"}}, "There is no penalty 'x'"),
        ({"net": 3}, "Net needs an object"),
        ({"shown": "f" * 2000}, "short text"),
        ({"color": "red"}, "There is no field 'color'"),
    ],
)
def test_bad_states_are_refused(plain, words):
    with pytest.raises(Refused, match=words):
        parse(plain, WORLDS)


@pytest.mark.parametrize("text", ["zz", "ff", "f" * 51])
def test_a_mask_of_another_size_is_refused(text):
    with pytest.raises(Refused, match=r"mask"):
        unpack(text, (14, 14))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_subnormal=False)
    | st.integers()
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
names = st.sampled_from([*State.__dataclass_fields__, *Net.__dataclass_fields__])


@given(st.dictionaries(names, json_values) | json_values)
def test_any_json_is_a_state_or_a_refusal(plain):
    try:
        state = parse(plain, WORLDS)
    except Refused:
        return
    assert SMALLEST <= state.size <= LARGEST
