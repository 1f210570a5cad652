"""The lab's server: loopback only, one token, bounded requests, and only its own files."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from threading import current_thread, main_thread
from typing import Any

import torch
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from threadpoolctl import threadpool_limits

from recombine.base.error import Refused
from recombine.lab import theory
from recombine.lab.code import command_of, python_of
from recombine.lab.export import export_page
from recombine.lab.session import Sessions, prepare
from recombine.lab.state import State, parse
from recombine.lab.upload import BYTES, columns_of, read_table
from recombine.lab.worlds import Table, World, absent, builtin, from_table

TOKEN = 24  # characters of a token at least
TABLES = 16  # of as many tabs
BODY = 64 * 1024  # bytes of an ordinary request
TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class Guard:
    """Refuses requests from other sites, with another host, or without the token."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: Callable[[], set[str]]) -> None:
        self.app, self.token, self.hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request before anything else sees it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        problem = self.problem(request)
        if problem:
            response: Response = JSONResponse({"error": problem[1]}, problem[0])
            if request.url.path == "/":
                response = HTMLResponse(
                    f"<!doctype html><title>recombine lab</title><p>{problem[1]}</p>", problem[0]
                )
            await response(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def problem(self, request: Request) -> tuple[int, str] | None:
        """Say why a request is refused."""
        hosts = self.hosts()
        host = request.headers.get("host", "")
        if host not in hosts:
            return 403, "This server answers only to its own address."
        origin = request.headers.get("origin", host).removeprefix("http://")
        site = request.headers.get("sec-fetch-site", "none")
        if origin not in hosts or site not in ("same-origin", "none"):
            return 403, "Pages of other sites cannot use the lab."
        if not request.url.path.startswith("/static/"):
            token = request.query_params.get("token", "")
            if not secrets.compare_digest(token.encode(), self.token.encode()):
                return 403, "Open the full address, with its token, that the terminal printed."
        return None


async def body_of(request: Request, most: int = BODY) -> bytes:
    """Read the body, or refuse it as soon as it is too long."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Refused(f"The request has more than {most} bytes.")
        parts.append(part)
    return b"".join(parts)


async def json_of(request: Request) -> dict[str, Any]:
    """Read a JSON object of a bounded size."""
    body = await body_of(request)
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise Refused("The request needs a JSON object.") from problem
    if not isinstance(plain, dict):
        raise Refused("The request needs a JSON object.")
    return plain


class Lab:
    """Everything that the routes share."""

    def __init__(self, table: Table | None = None) -> None:
        self.sessions = Sessions()
        self.worlds = builtin() | ({"table": from_table(table)} if table else {})
        self.tables: dict[str, World] = {}  # by tab, the oldest first

    def worlds_of(self, request: Request) -> dict[str, World]:
        """Return the worlds of a tab, with its own table or that of the command line."""
        table = self.tables.get(request.query_params.get("tab", ""))
        return self.worlds | ({"table": table} if table else {})

    def state(self, request: Request, plain: Any) -> tuple[State, World]:
        """Read a state and its world."""
        worlds = self.worlds_of(request)
        state = parse(plain, worlds)
        return state, worlds[state.world]

    async def list_worlds(self, request: Request) -> Response:
        """List the worlds and the default state."""
        self.worlds = builtin() | self.worlds  # images may have been downloaded since
        rows = [w.row() for w in self.worlds_of(request).values()]
        return JSONResponse({"worlds": rows, "absent": absent(), "state": asdict(State())})

    async def look(self, request: Request) -> Response:
        """Return the theory of a state."""
        state, world = self.state(request, await json_of(request))
        return JSONResponse(await run_in_threadpool(theory.look, world, state))

    async def pictures(self, request: Request) -> Response:
        """Return small pictures of every cell."""
        state, world = self.state(request, await json_of(request))
        return JSONResponse(await run_in_threadpool(theory.atlas, world, state.size))

    async def cell(self, request: Request) -> Response:
        """Return the theory of one cell."""
        plain = await json_of(request)
        state, world = self.state(request, plain.get("state"))
        at = cell_of(plain.get("cell"))
        return JSONResponse(await run_in_threadpool(theory.cell, world, state, at))

    async def code(self, request: Request) -> Response:
        """Write a state as a Python program and as a command."""
        state, world = self.state(request, await json_of(request))
        return JSONResponse(
            {"python": python_of(state, world), "command": command_of(state, world)}
        )

    async def upload(self, request: Request) -> Response:
        """Receive a table: describe its columns, or make a world of two of them."""
        text = await body_of(request, BYTES)
        query = request.query_params
        if "target" not in query:
            return JSONResponse(await run_in_threadpool(columns_of, text))
        factors = [query.get("a", ""), query.get("b", "")]
        fixed = {k[6:]: v for k, v in query.items() if k.startswith("fixed_")}
        source = query.get("source", "your.csv")[:200]
        table = await run_in_threadpool(read_table, text, factors, query["target"], fixed, source)
        world = from_table(table)
        tab = visitor_of(query.get("tab"))
        self.tables.pop(tab, None)
        while len(self.tables) >= TABLES:
            del self.tables[next(iter(self.tables))]
        self.tables[tab] = world
        return JSONResponse(world.row())

    async def train(self, request: Request) -> Response:
        """Start training the networks of a state."""
        plain = await json_of(request)
        state, world = self.state(request, plain.get("state"))
        await self.sessions.start(visitor_of(plain.get("visitor")), state, world.table)
        return JSONResponse({"started": True})

    async def control(self, request: Request) -> Response:
        """Pause, resume, step, slow down or stop, or set the hovered cell."""
        plain = await json_of(request)
        visitor = visitor_of(plain.get("visitor"))
        action = plain.get("action")
        if action not in ("pause", "resume", "step", "slow", "stop", "hover"):
            raise Refused("The action must be pause, resume, step, slow, stop or hover.")
        session = self.sessions.of.get(visitor)
        if action == "stop":
            await self.sessions.end(visitor)
        elif session:
            command: dict[str, Any] = {"action": action, "on": bool(plain.get("on"))}
            if "cell" in plain:
                command["cell"] = cell_of(plain["cell"])
            session.tell(command)
        return JSONResponse({"running": session is not None})

    async def events(self, request: Request) -> Response:
        """Stream the messages of a visitor's training."""
        visitor = visitor_of(request.query_params.get("visitor"))
        session = self.sessions.of.get(visitor)

        async def stream() -> AsyncIterator[str]:
            if session is None:
                yield "event: idle\ndata: {}\n\n"
                return
            async for message in session.events():
                if message is None:
                    yield ": still here\n\n"
                else:
                    yield f"data: {json.dumps(message, separators=(',', ':'))}\n\n"

        return StreamingResponse(
            stream(), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    async def export(self, request: Request) -> Response:
        """Write the recorded frames of a visitor's training as one page."""
        plain = await json_of(request)
        state, world = self.state(request, plain.get("state"))
        session = self.sessions.of.get(visitor_of(plain.get("visitor")))
        frames = session.frames if session else []
        page = await run_in_threadpool(export_page, state, world, frames)
        name = {"content-disposition": 'attachment; filename="recombine-lab.html"'}
        return HTMLResponse(page, headers=name)


def cell_of(plain: Any) -> tuple[int, int]:
    """Read a cell."""
    if (
        not isinstance(plain, list)
        or len(plain) != 2
        or not all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 64 for v in plain)
    ):
        raise Refused("A cell is a list of two whole numbers from 0 upwards.")
    return plain[0], plain[1]


def visitor_of(plain: Any) -> str:
    """Read the name of a visitor."""
    if not isinstance(plain, str) or not plain.isalnum() or not 8 <= len(plain) <= 64:
        raise Refused("A visitor is named by 8 to 64 letters and digits.")
    return plain


def error(status: int, sentence: str = "") -> Callable[[Request, Exception], Response]:
    """Build a handler that returns a sentence, by default the message of the exception."""
    return lambda request, problem: JSONResponse({"error": sentence or str(problem)}, status)


def create(token: str, hosts: Callable[[], set[str]], table: Table | None = None) -> Starlette:
    """Build the application."""
    lab, folder = Lab(table), files("recombine.lab") / "static"
    static = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}
    safe = {
        "cache-control": "no-store",
        "content-security-policy": POLICY,
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }

    async def page(request: Request) -> Response:
        return HTMLResponse(static["index.html"], headers=safe)

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static:
            return JSONResponse({"error": "There is no such file."}, 404)
        kind = TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        return Response(static[name], media_type=kind, headers=safe)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        prepare()
        watcher = asyncio.create_task(lab.sessions.watch())
        try:
            yield
        finally:
            watcher.cancel()
            lab.sessions.close()

    post = partial(Route, methods=["POST"])
    app = Starlette(
        routes=[
            Route("/", page),
            Route("/static/{name}", file),
            Route("/api/worlds", lab.list_worlds),
            Route("/api/events", lab.events),
            post("/api/look", lab.look),
            post("/api/cell", lab.cell),
            post("/api/pictures", lab.pictures),
            post("/api/code", lab.code),
            post("/api/table", lab.upload),
            post("/api/train", lab.train),
            post("/api/control", lab.control),
            post("/api/export", lab.export),
        ],
        exception_handlers={
            Refused: error(400),
            404: error(404, "There is no such page."),
            405: error(405, "This page does not take that method."),
        },
        lifespan=life,
    )
    app.add_middleware(Guard, token=token, hosts=hosts)
    app.state.lab = lab
    return app


def serve(
    *,
    port: int = 0,
    token: str = "",
    table: Table | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the lab on the loopback address until interrupted.

    - port: 0 takes a free one
    - token: that of an earlier lab whose page is still open; by default a new one is drawn
    - table: the world "table"
    - ready: called with the full address once connections are accepted
    """
    if token and len(token) < TOKEN:
        raise Refused(f"A token needs {TOKEN} characters or more; leave it out for a new one.")
    import uvicorn

    # With a named protocol, asyncio disables Nagle's algorithm, which delayed every body by 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)  # a browser that connects before the server is up waits
    except (OSError, OverflowError) as problem:
        raise Refused(
            f"Port {port} cannot be used ({problem}); choose another, or leave --port out."
        ) from problem
    port = listener.getsockname()[1]
    token = token or secrets.token_urlsafe(24)
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
    config = uvicorn.Config(
        create(token, lambda: hosts, table),
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=100,
    )
    torch.set_num_threads(1)
    ready(f"http://127.0.0.1:{port}/?token={token}")
    with threadpool_limits(1):  # more threads slow down small products on a busy machine
        _run(uvicorn.Server(config), listener)


def _run(server: Any, listener: Any) -> None:
    """Run until a signal; SIGHUP, which uvicorn leaves alone, ends it like the others."""
    # Streams that are still open are cancelled then, which is no error.
    logging.getLogger("uvicorn.error").addFilter(lambda record: not server.should_exit)
    before = signal.getsignal(signal.SIGHUP)
    if current_thread() is not main_thread() or before in (signal.SIG_IGN, None):
        server.run(sockets=[listener])
        return
    hung_up: list[int] = []

    def end(number: int, frame: Any) -> None:
        hung_up.append(number)
        server.should_exit = True

    signal.signal(signal.SIGHUP, end)
    try:
        server.run(sockets=[listener])
    finally:
        signal.signal(signal.SIGHUP, before)
    if hung_up:
        signal.raise_signal(signal.SIGHUP)
