"""Bodies of requests: what is counted of them is freed."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from toolscript.app.bytes_under_way import BytesUnderWay
from toolscript.surfaces.http.request_input import BODY_BOUNDS, BodyBounds, BodyLimit
from toolscript.surfaces.server.authentication import ACCESS, OWNERS, Access
from toolscript.types import Grant

POST: Scope = {"type": "http", "method": "POST", "path": "/search", "headers": [], ACCESS: OWNERS}
PIECE = b"x" * 20_000


async def read(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers with the body."""
    del scope
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def test_a_request_that_is_cancelled_while_its_body_arrives_counts_no_more() -> None:
    """As where its token ends."""
    limit = BodyLimit(read, BytesUnderWay(most_of_holder=50_000))

    async def begin(seconds: float) -> list[Message]:
        waiting: list[Message] = [{"type": "http.request", "body": PIECE, "more_body": True}]
        sent: list[Message] = []

        async def receive() -> Message:
            if not waiting:
                if seconds:
                    await anyio.sleep_forever()
                return {"type": "http.request", "body": b"", "more_body": False}
            return waiting.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        with anyio.move_on_after(seconds or 10):
            await limit(POST, receive, send)
        return sent

    async def scene() -> list[Message]:
        for _ in range(5):
            assert await begin(0.01) == []
        return await begin(0)

    head, body = anyio.run(scene)
    assert (head["status"], body["body"]) == (200, PIECE)


STREAM: Scope = {**POST, "path": "/mcp/stream"}


Check: TypeAlias = Callable[..., bool]


class Receiving:
    """An application that receives a stream to its end."""

    def __init__(self) -> None:
        self.last = ""
        """The type of the last message."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, send
        self.last = "http.request"
        while self.last == "http.request":
            self.last = (await receive())["type"]


def ends(limit: BodyLimit, application: Receiving, *pieces: bytes) -> bool:
    """Whether a stream is ended whose client says this, and then nothing more."""

    async def scene() -> None:
        waiting = list(pieces)

        async def receive() -> Message:
            if not waiting:
                await anyio.sleep_forever()
            return {"type": "http.request", "body": waiting.pop(0), "more_body": True}

        async def send(message: Any) -> None:
            raise AssertionError(message)

        with anyio.move_on_after(0.2):
            await limit(STREAM, receive, send)

    anyio.run(scene)
    return application.last == "http.disconnect"


def check_of(bounds: BodyBounds, under_way: BytesUnderWay | None = None) -> Check:
    application, under_way = Receiving(), under_way or BytesUnderWay()
    return partial(ends, BodyLimit(application, under_way, bounds), application)


def test_a_line_of_a_stream_has_the_bounds_of_a_body() -> None:
    """Lines that are complete do not add up."""
    check = check_of(BodyBounds(body_bytes=50_000, values=30))
    assert not check(*[PIECE + b"\n"] * 9)
    assert not check(PIECE, PIECE, b"\n" + PIECE, PIECE)
    assert check(PIECE, PIECE, PIECE)
    assert not check(*[b"[" * 20 + b"\n"] * 5)
    assert check(b"[" * 20, b"{" * 20)
    assert check(b"\n" + b"[" * 20, b"{" * 20)


def test_unfinished_lines_count_with_all_bodies() -> None:
    """And no more once their streams have ended."""
    check = check_of(BODY_BOUNDS, BytesUnderWay(most=50_000))
    for _ in range(5):
        assert not check(PIECE, PIECE)
    assert check(PIECE, PIECE, PIECE)
    assert not check(PIECE, PIECE)


@pytest.mark.parametrize(("length", "status"), [(16, 200), (17, 429)])
def test_a_small_request_is_served_while_large_ones_fill_the_room(length: int, status: int) -> None:
    limit = BodyLimit(read, BytesUnderWay(most_of_holder=50_000))
    limit.under_way.add("owner", 50_000)
    assert asked(limit, POST, [b"x" * length * 1024]) == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" + b"1," * 30 + b"1]", 400),
        (b'{"a": "' + b"[{," * 30 + b'"}', 200),
        (b'{"a\\\\": "\\\\", "' + b'\\",[' * 30 + b'": 1}', 200),
        (b'"' * 60 + b"," * 31, 400),
    ],
)
@pytest.mark.parametrize("piece", [1, 2, 3, 5, 10_000])
def test_b6_values_count_and_what_texts_hold_does_not(body: bytes, status: int, piece: int) -> None:
    pieces = [body[start : start + piece] for start in range(0, len(body), piece)]
    limit = BodyLimit(read, BytesUnderWay(), BodyBounds(values=30))
    assert asked(limit, POST, pieces) == status


def test_b10_of_somebody_unknown_only_a_small_body_is_read() -> None:
    """Whatever the path is, except that other replicas send."""
    limit = BodyLimit(read, BytesUnderWay())
    unknown = {**POST, ACCESS: Access(Grant(), ""), "path": "/ui/link/waiting"}
    assert asked(limit, unknown, [b"x" * 16_384]) == 200
    assert asked(limit, unknown, [b"x" * 16_385]) == 400


def asked(limit: BodyLimit, scope: Scope, pieces: list[bytes]) -> int:
    """The status of the answer to a request with such a body."""
    sent, left = list[Any](), list(pieces)

    async def receive() -> Message:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: Any) -> None:
        sent.append(message)

    anyio.run(limit, scope, receive, send)
    return sent[0]["status"]


@pytest.mark.parametrize("begun", [[PIECE], []])
def test_a_body_has_to_arrive_in_time(begun: list[bytes]) -> None:
    limit = BodyLimit(read, BytesUnderWay(), BodyBounds(seconds=0.01))
    sent: list[Any] = []

    async def receive() -> Message:
        if not begun:
            await anyio.sleep_forever()
        return {"type": "http.request", "body": begun.pop(), "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    anyio.run(limit, POST, receive, send)
    assert sent[0]["status"] == 400
    assert b"did not arrive within" in sent[1]["body"]
    assert limit.under_way.total == 0


def test_a_line_has_to_arrive_in_time() -> None:
    """A stream without an unfinished line may be silent for as long as it likes."""
    check = check_of(BodyBounds(seconds=0.01))
    assert check(PIECE)
    assert check(PIECE + b"\n" + PIECE)
    assert not check(PIECE + b"\n")
    assert not check()
