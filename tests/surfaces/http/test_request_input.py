"""Bodies of requests: what is counted of them is freed."""

from typing import Any

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from toolscript.surfaces.http import request_input
from toolscript.surfaces.http.request_input import BodyLimit

POST: Scope = {"type": "http", "method": "POST", "path": "/search", "headers": []}
PIECE = b"x" * 1000


async def read(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers with the body."""
    del scope
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def test_a_request_that_is_cancelled_while_its_body_arrives_counts_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where its token ends."""
    monkeypatch.setattr(request_input, "MAX_BODIES_BYTES", 2500)
    limit = BodyLimit(read)

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
