"""An HTTP front for MCP over pipes: the conformance suite speaks HTTP alone.

It starts a process for each session of the older protocols, and one for all requests of the newest.
Messages keep their content but for ids, which several clients of one process may have in common.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.clients.bare_names import served

NEWEST = "2026-07-28"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_LINE_BYTES = 64 * 2**20
_Raw: TypeAlias = dict[str, Any]


class Process:
    """A process, and the requests that it has not answered."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._streams: dict[int, tuple[Any, asyncio.Queue[_Raw]]] = {}
        """Each request's own id, and the messages for its client, by the id that is sent."""
        self._number = 0
        self.others: asyncio.Queue[_Raw] = asyncio.Queue()
        """The messages that belong to no request."""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout
        while line := await self._process.stdout.readline():
            self._deliver(json.loads(line))

    def _deliver(self, message: _Raw) -> None:
        params: _Raw = message.get("params") or {}
        meta = _meta(message)
        places: list[tuple[_Raw, str]] = [
            (message if "method" not in message else {}, "id"),
            (params, "progressToken"),
            (meta, _SUBSCRIPTION),
        ]
        for place, key in places:
            own, stream = self._streams.get(place.get(key, -1), (None, None))
            if stream is not None:
                place[key] = own
                stream.put_nowait(message)
                return
        newest = max(self._streams, default=None)
        is_question = "id" in message and newest is not None
        (self._streams[newest][1] if is_question and newest else self.others).put_nowait(message)

    def send(self, message: _Raw) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def ask(self, message: _Raw) -> AsyncGenerator[_Raw]:
        """Sends a request; yields the messages about it, its answer last."""
        self._number += 1
        number, stream = self._number, asyncio.Queue[_Raw]()
        self._streams[number] = message["id"], stream
        meta = _meta(message)
        if "progressToken" in meta:
            self._streams[number] = meta["progressToken"], stream
            meta["progressToken"] = number
        self.send({**message, "id": number})
        is_answered = False
        try:
            while not is_answered:
                got = await stream.get()
                is_answered = "method" not in got
                yield {**got, "id": message["id"]} if is_answered else got
        finally:
            del self._streams[number]
            if not is_answered:
                params = {"requestId": number}
                self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        await self._process.wait()
        self._reader.cancel()


class Front:
    """The HTTP side: see the module."""

    def __init__(self, command: list[str], env: Mapping[str, str], cwd: Path) -> None:
        self._command, self._env, self._cwd = command, env, cwd
        self._processes: dict[str, Process] = {}
        self._starting = asyncio.Lock()

    async def _process(self, name: str) -> Process:
        async with self._starting:
            if name not in self._processes:
                pipe = asyncio.subprocess.PIPE
                self._processes[name] = Process(
                    await asyncio.create_subprocess_exec(
                        *self._command,
                        stdin=pipe,
                        stdout=pipe,
                        env=self._env,
                        cwd=self._cwd,
                        limit=_LINE_BYTES,
                    )
                )
            return self._processes[name]

    async def post(self, request: Request) -> Response:
        message: _Raw = await request.json()
        meta = _meta(message)
        stated = meta.get("io.modelcontextprotocol/protocolVersion")
        is_newest = NEWEST in {stated, request.headers.get("mcp-protocol-version")}
        name = NEWEST if is_newest else request.headers.get("mcp-session-id", "")
        if message.get("method") == "initialize" or (is_newest and stated != NEWEST):
            # Decides about the protocol of the whole process.
            name = f"session-{len(self._processes)}"
        elif name not in self._processes and not is_newest:
            return Response(status_code=404 if name else 400)
        process = await self._process(name)
        if not {"id", "method"} <= message.keys():
            process.send(message)
            return Response(status_code=202)
        headers = {} if is_newest else {"mcp-session-id": name}
        answers = process.ask(message)
        first = await anext(answers)
        if "method" not in first:
            await answers.aclose()
            code = first.get("error", {}).get("code", 0)
            status = ERROR_CODE_HTTP_STATUS.get(code, 200) if is_newest else 200
            return JSONResponse(first, status, headers)
        return _stream(_after(first, answers), headers)

    async def get(self, request: Request) -> Response:
        process = self._processes.get(request.headers.get("mcp-session-id", ""))
        if process is None:
            return Response(status_code=405)

        async def others() -> AsyncGenerator[_Raw]:
            while True:
                yield await process.others.get()

        return _stream(others(), {})

    async def delete(self, request: Request) -> Response:
        process = self._processes.pop(request.headers.get("mcp-session-id", ""), None)
        if process is None:
            return Response(status_code=404)
        await process.end()
        return Response(status_code=204)

    async def end(self) -> None:
        for process in self._processes.values():
            await process.end()


def _meta(message: _Raw) -> _Raw:
    params: _Raw = message.get("params") or {}
    return params.get("_meta") or {}


async def _after(first: _Raw, rest: AsyncGenerator[_Raw]) -> AsyncGenerator[_Raw]:
    async with contextlib.aclosing(rest):
        yield first
        async for message in rest:
            yield message


def _stream(messages: AsyncGenerator[_Raw], headers: Mapping[str, str]) -> Response:
    async def events() -> AsyncGenerator[bytes]:
        async with contextlib.aclosing(messages):
            async for message in messages:
                yield b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"

    return StreamingResponse(events(), 200, headers, "text/event-stream")


@contextmanager
def stdio_front(command: list[str], env: Mapping[str, str], cwd: Path) -> Generator[str]:
    """Runs a front for processes of a command; yields its URL."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        front = app.state.front = Front(command, env, cwd)
        yield
        await front.end()

    async def answer(request: Request) -> Response:
        front: Front = request.app.state.front
        methods = {"POST": front.post, "GET": front.get, "DELETE": front.delete}
        return await methods[request.method](request)

    route = Route("/{path:path}", answer, methods=["GET", "POST", "DELETE"])
    with served(Starlette(routes=[route], lifespan=lifespan)) as url:
        yield url
