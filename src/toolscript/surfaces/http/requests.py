"""Reading a request's body, and noticing that nobody waits for the answer any more."""

from collections.abc import Awaitable
from typing import Any, TypeVar, cast

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request

from toolscript.errors import InputError

MAX_BODY_BYTES = 4 * 1024 * 1024
_T = TypeVar("_T")


async def body(request: Request) -> dict[str, Any]:
    """The JSON object that was sent; nothing at all is an empty one."""
    data = await _read(request)
    value: Any = _decoded(data) if data else {}
    if not isinstance(value, dict):
        raise InputError(f"the body is {_named(value)}; expected a JSON object of arguments")
    return cast("dict[str, Any]", value)


async def message(request: Request) -> Any:
    """The JSON value that was sent."""
    return _decoded(await _read(request))


def check_kind(request: Request, *, lenient: bool = False) -> None:
    """Raise `InputError` for a POST that does not say that it is JSON, with a body or without.

    A page in a browser may send any other kind of content to any address
    without being asked; JSON it may not. With ``lenient`` the kind does not
    matter where no browser has sent it.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json" and not (lenient and not _is_browser(request)):
        raise InputError(f"the content-type is {kind[:60]!r}; send application/json")


def _is_browser(request: Request) -> bool:
    named = any(name in request.headers for name in ("origin", "referer", "sec-fetch-site"))
    return named or request.headers.get("user-agent", "").startswith("Mozilla/")


async def while_heard(request: Request, work: Awaitable[_T]) -> _T:
    """What ``work`` comes to; it is cancelled, and `ClientDisconnect` raised, on a hang-up."""
    outcome: list[_T] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_on_hang_up, request, tasks.cancel_scope)
        try:
            outcome.append(await work)
        except Exception as error:  # noqa: BLE001 - raised again, without the task group's wrapping
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not outcome:
        raise ClientDisconnect
    return outcome[0]


async def _cancel_on_hang_up(request: Request, scope: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _read(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise InputError(f"the body is too long; at most {MAX_BODY_BYTES} bytes are read")
    return bytes(data)


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the body is not JSON: {error}") from None


def _named(value: object) -> str:
    kinds: dict[type, str] = {list: "a list", str: "a string", type(None): "null"}
    return kinds.get(type(value), "no object")
