"""The lab's server: who may ask, what it refuses, what it survives, and what it leaves behind."""

import http.client
import json
import random
import signal
import socket
import string
import time
from contextlib import suppress
from dataclasses import asdict

import psutil
import pytest
import uvicorn
from tests.lab.conftest import alive, wait

from recombine.lab.server import serve
from recombine.lab.state import Net, State

PATHS = ["look", "cell", "code", "table", "train", "control", "export", "worlds", "events"]


def ask(server, method, path, body=None, token=None, **headers):
    """Send one request; return its status and body."""
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    mark = "&" if "?" in path else "?"
    token = server.token if token is None else token
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        link.request(method, f"{path}{mark}token={token}", body, headers)
        answer = link.getresponse()
        return answer.status, answer.read()
    finally:
        link.close()


def post(server, path, value, **headers):
    status, body = ask(server, "POST", f"/api/{path}", json.dumps(value), **headers)
    return status, json.loads(body)


@pytest.mark.parametrize(
    ("headers", "token", "words"),
    [
        ({}, "", "full address, with its token"),
        ({}, "guess", "full address, with its token"),
        ({"host": "evil.example"}, None, "only to its own address"),
        ({"host": "127.0.0.1:1"}, None, "only to its own address"),
        ({"origin": "http://evil.example"}, None, "other sites"),
        ({"origin": "null"}, None, "other sites"),
        ({"sec_fetch_site": "cross-site"}, None, "other sites"),
    ],
)
def test_other_sites_and_strangers_are_refused(server, headers, token, words):
    for method, path in (("GET", "/"), ("GET", "/api/worlds"), ("POST", "/api/look")):
        status, body = ask(server, method, path, token=token, **headers)
        assert status == 403
        assert words in body.decode()


def test_the_pages_own_origin_is_accepted(server):
    here = f"http://127.0.0.1:{server.port}"
    assert post(server, "look", asdict(State()), origin=here)[0] == 200


@pytest.mark.parametrize(
    "path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "/etc"]
)
def test_no_other_file_is_served(server, path):
    status, body = ask(server, "GET", path)
    assert status == 404
    assert b"import" not in body


def test_the_page_may_load_nothing_from_elsewhere(server):
    link = http.client.HTTPConnection("127.0.0.1", server.port)
    link.request("GET", f"/?token={server.token}")
    policy = link.getresponse().headers["content-security-policy"]
    link.close()
    assert "default-src 'none'" in policy
    assert "http" not in policy


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("look", [], "JSON object"),
        ("look", {"size": 1000}, "size needs a number from 4 to 32"),
        ("cell", {"state": {}, "cell": [0, 99]}, "A cell is a list"),
        ("cell", {"state": {}, "cell": [0, 40]}, "no cell"),
        ("train", {"state": {}, "visitor": "../../x"}, "8 to 64 letters"),
        ("control", {"visitor": "abcdefgh", "action": "explode"}, "must be pause"),
        ("train", {"state": {"net": {"steps": 1e12}}, "visitor": "abcdefgh"}, "steps needs"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(server, path, value, words):
    status, answer = post(server, path, value)
    assert status == 400
    assert words in answer["error"]


def test_large_requests_are_refused(server):
    status, body = ask(server, "POST", "/api/look", b"x" * 100_000)
    assert status == 400
    assert b"more than 65536 bytes" in body
    with suppress(BrokenPipeError, ConnectionResetError):  # refused while it is still sent
        assert ask(server, "POST", "/api/table", b"x" * (9 * 1024 * 1024))[0] == 400
    assert ask(server, "GET", "/api/worlds")[0] == 200


def test_every_tab_has_a_table_of_its_own(server):
    def upload(tab, *values):
        text = "a,b,y\n" + "".join(f"{k // 2},{k % 2},{v}\n" for k, v in enumerate(values))
        return ask(server, "POST", f"/api/table?a=a&b=b&target=y&tab={tab}", text)

    def look(tab):
        status, body = ask(server, "POST", f"/api/look?tab={tab}", '{"world": "table"}')
        return json.loads(body)["additive"] if status == 200 else status

    first, second = "f" * 8, "s" * 8
    assert look(first) == 400
    assert upload("x", 1, 2, 3, 4)[0] == 400
    assert upload(first, 1, 2, 3, 4)[0] == upload(second, 0, 1, 1, 0)[0] == 200
    assert (look(first), look(second), look("t" * 8)) == (1, 0, 400)
    rows = json.loads(ask(server, "GET", f"/api/worlds?tab={first}")[1])["worlds"]
    assert rows[-1]["name"] == "table"
    for k in range(20):  # as many as there is room for, the newest
        upload(f"other{k:03}", 1, 2, 3, 5)
    assert look(first) == 400
    assert look("other019") < 1


def strange(rng, depth=0):
    """Draw a random JSON value, often with the lab's own field names."""
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return rng.choice([None, True, False, 0, -1, 1e308, 10**30, 0.5, 14])
    if kind == 1:
        return rng.choice(["", "bumps", "mlp", "f" * 50, "table", "a" * 12, "../..", "\u0000"])
    if kind == 2:
        return "".join(rng.choices(string.printable, k=rng.randrange(30)))
    if kind in (3, 4):
        return rng.randrange(-5, 60)
    if kind == 5:
        return [strange(rng, depth + 1) for _ in range(rng.randrange(4))]
    names = [*State.__dataclass_fields__, *Net.__dataclass_fields__]
    names += ["state", "cell", "visitor", "action", "on", "x"]
    return {rng.choice(names): strange(rng, depth + 1) for _ in range(rng.randrange(5))}


def test_a_thousand_strange_requests_neither_break_nor_fill_it(server):
    rng = random.Random(0)
    process = psutil.Process(server.process.pid)
    ask(server, "GET", "/api/worlds")
    before = process.memory_info().rss
    statuses = set()
    for _ in range(1000):
        path = f"/api/{rng.choice(PATHS)}"
        kind = rng.randrange(4)
        body = json.dumps(strange(rng)).encode()
        if kind == 0:
            body = bytes(rng.randrange(256) for _ in range(rng.randrange(60)))
        elif kind == 1:
            size = rng.choice([4, 5, 8])
            state = {"size": size, "world": rng.choice(["sum", "xor", "twins", "bumps"])}
            body = json.dumps({"state": state, "cell": strange(rng), **state}).encode()
        if path.endswith("table") and kind > 1:
            path += f"?a=a&b=b&target=y&tab=fuzzfuzz&fixed_{rng.randrange(9)}=1"
            body = b"a,b,y\n" + bytes(rng.choices(b"123,\n\"'x", k=rng.randrange(60)))
        if path.endswith("events"):
            path += f"?visitor={'v' * rng.randrange(20)}"
        method = "GET" if path.startswith(("/api/worlds", "/api/events")) else "POST"
        method = rng.choice(["PUT", "GET", "HEAD"]) if rng.random() < 0.05 else method
        statuses.add(ask(server, method, path, body)[0])
    assert statuses <= {200, 400, 404, 405}
    assert {200, 400, 405} <= statuses
    assert process.memory_info().rss - before < 300e6
    assert ask(server, "GET", "/api/worlds")[0] == 200


LONG = {"world": "sum", "size": 8, "shown": "ff818181818181ff", "net": {"steps": 50_000}}


class Training:
    """A training of a visitor that is surely under way, and its stream of messages."""

    def __init__(self, server, visitor, state=LONG, kind="frame"):
        assert post(server, "train", {"visitor": visitor, "state": state})[0] == 200
        self.link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.link.request("GET", f"/api/events?token={server.token}&visitor={visitor}")
        self.stream = self.link.getresponse()
        if kind == "frame":
            self.process = psutil.Process(self.until("started")["process"])
        self.until(kind)

    def until(self, kind):
        """Read until a message of some kind comes; a silent line fails after a minute."""
        while line := self.stream.readline():
            if line.startswith(b"data:") and json.loads(line[5:])["type"] == kind:
                return json.loads(line[5:])
        raise AssertionError(f"the stream ended before {kind!r}")

    def leave(self):
        """Close the line, as a closed page does."""
        self.stream.close()
        self.link.close()

    @property
    def ended(self):
        return not alive(self.process)


def test_a_stopped_training_leaves_no_process(server):
    training = Training(server, "a" * 8)
    assert not training.ended
    post(server, "control", {"visitor": "a" * 8, "action": "stop"})
    wait(lambda: training.ended)
    training.leave()


def test_the_newest_training_of_a_visitor_wins_and_others_go_on(server):
    other, first = Training(server, "b" * 8), Training(server, "c" * 8)
    second = Training(server, "c" * 8)
    wait(lambda: first.ended)
    other.until("frame")
    second.until("frame")
    wait(lambda: len(server.trainers()) == 2)
    for training in (first, second, other):  # pages that are closed
        training.leave()
    wait(lambda: second.ended and other.ended)
    wait(lambda: not server.trainers())


def test_a_process_whose_training_is_over_takes_the_visitors_next_one(server):
    short = {**LONG, "net": {"steps": 10, "width": 8, "depth": 1}}
    first = Training(server, "e" * 8, short)
    first.until("done")
    refused = Training(server, "e" * 8, {**short, "net": {"model": "cnn"}}, kind="refused")
    second = Training(server, "e" * 8, short)
    assert not (first.stream.read() + refused.stream.read()).strip()  # their streams end
    assert second.process == first.process
    second.until("done")
    for training in (first, refused, second):
        training.leave()


def test_answers_are_not_held_back_for_an_acknowledgement(monkeypatch):
    listeners = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: listeners.extend(sockets))
    serve()
    assert listeners[0].proto == socket.IPPROTO_TCP  # or asyncio leaves Nagle's algorithm on
    listeners[0].close()


def test_ctrl_c_while_torch_loads_is_silent(new_server):
    server = new_server()
    wait(lambda: any("forkserver" in "".join(p.cmdline()) for p in server.children()))
    time.sleep(0.1)
    children = server.children()
    for process in [*children, psutil.Process(server.process.pid)]:
        process.send_signal(signal.SIGINT)  # as a terminal does
    assert server.process.wait(60) == 0
    wait(lambda: not any(map(alive, children)))
    assert "Traceback" not in server.process.stderr.read()
    server.process.stderr.close()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
def test_an_ended_server_leaves_no_process(new_server, number, code):
    server = new_server()
    training = Training(server, "d" * 8)
    assert server.trainers()
    children = server.children()
    assert server.end(number) == code
    wait(lambda: not any(map(alive, children)))
    training.leave()
