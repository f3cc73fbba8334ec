"""What one replica seals for another is taken once, in time, and by that one alone."""

import time
from typing import Any

import anyio
import msgspec
import pytest

from toolscript.config.secret_key import SecretKey
from toolscript.errors import CallTimeoutError, RefusedError
from toolscript.gateway.raw_results import RawResult
from toolscript.postgres.forwarding import VALID_S, ForwardedRequest, ForwardedRequests

KEY = SecretKey("k" * 32)


def request(identifier: str = "1", until_s: float = VALID_S) -> ForwardedRequest:
    arguments = {"name": "read", "arguments": {"path": "ü"}}
    return ForwardedRequest(
        *(identifier, time.time() + until_s, "files", "d", "tools/call", arguments, "s", "/p")
    )


def sealed(sent: ForwardedRequest, replica: str = "two", key: SecretKey = KEY) -> bytes:
    return key.seal(msgspec.json.encode(sent), f"replica-request/{replica}".encode())


def test_a_request_is_opened_once_by_the_replica_that_it_is_for() -> None:
    sent, body = request(), sealed(request())
    assert ForwardedRequests("other", KEY).open(body) is None
    requests = ForwardedRequests("two", KEY)
    opened = requests.open(body)
    assert opened is not None
    assert opened.params == sent.params
    caller = requests.caller_of(opened)
    assert (caller.session_id, caller.project, caller.may_be_asked) == ("s", "/p", False)
    assert requests.open(body) is None, "what was taken once is not taken again"


@pytest.mark.parametrize("until_s", [-1.0, 3 * VALID_S])
def test_a_request_of_another_time_is_not_opened(until_s: float) -> None:
    assert ForwardedRequests("two", KEY).open(sealed(request(until_s=until_s))) is None


def test_a_forged_request_is_not_opened() -> None:
    requests = ForwardedRequests("two", KEY)
    assert requests.open(sealed(request(), key=SecretKey("x" * 32))) is None
    for body in (b"", b"x" * 11, b"x" * 100, sealed(request())[:-1]):
        assert requests.open(body) is None


@pytest.mark.parametrize(
    "outcome",
    [
        {"content": [{"type": "text", "text": "ü"}]},
        RawResult(b'{"content":[],"isError":false}'),
        RefusedError("files: no", -32000, {"why": 1}),
        CallTimeoutError("too late"),
    ],
)
def test_the_answer_is_the_servers_for_the_one_who_asked(outcome: Any) -> None:
    async def work() -> dict[str, Any]:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def answer() -> bytes:
        return await ForwardedRequests("two", KEY).answer(request(), work())

    body = anyio.run(answer)
    assert KEY.read(body, b"replica-answer/2") is None
    content = KEY.read(body, b"replica-answer/1")
    assert content is not None
    said = msgspec.json.decode(content)
    if isinstance(outcome, RawResult):
        assert said["result"] == msgspec.json.decode(outcome.text)
    elif isinstance(outcome, Exception):
        assert said["failure"]["kind"] == type(outcome).__name__
        assert said["failure"]["message"] == str(outcome)
    else:
        assert said["result"] == outcome
