"""Reads the parameters and bodies of requests; cancels the work for clients that hang up."""

import logging
import math
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import unquote_to_bytes

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolscript.app.task_monitor import run_unless
from toolscript.config.settings import Option
from toolscript.errors import InputError, NotReadyError, ToolscriptError
from toolscript.surfaces.server.error_answers import error_response
from toolscript.surfaces.server.request_log import is_stream
from toolscript.text.display import printable

log = logging.getLogger(__name__)
SMALL_BODY_BYTES = 16 * 1024
"""A body of at most so many bytes is read however much others send; connections are bounded."""
_T = TypeVar("_T")
_S = TypeVar("_S", bound=msgspec.Struct)
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """The bounds of the bodies of requests."""

    body_bytes: int = 4 * 1024 * 1024
    all_bytes: int = 64 * 1024 * 1024
    """Bytes of all requests together that are under way."""
    brackets: int = 200_000
    """Each may begin an object or a list, which takes much more memory and time than its bytes."""
    line_s: float = 60.0
    """Seconds that a message of a stream may take, as the body of a request may."""


BODY_BOUNDS = BodyBounds()


class BodyLimit:
    """Reads the body of a POST before its route runs, and refuses one that exceeds a bound.

    The bounds are on the length and the brackets of one body, and on the length of all together.
    A stream of messages has bounds of its own. A path or a parameter with a NUL character, which a
    database takes in no text, is refused.
    """

    def __init__(self, app: ASGIApp, bounds: BodyBounds = BODY_BOUNDS) -> None:
        self.bounds = bounds
        self._app = app
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http" and (
            "\0" in scope["path"] or b"\0" in unquote_to_bytes(scope.get("query_string", b""))
        ):
            problem = InputError("a parameter has a NUL character (%00); ask without it")
            await error_response(problem)(scope, receive, send)
            return
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        if is_stream(scope["path"]):
            lines = _LineLimit(self, receive)
            try:
                await self._app(scope, lines.receive, send)
            finally:
                self.count(-lines.length)
            return
        data, app, length = bytearray(), self._app, 0
        # Everybody may send one to the routes of OAuth.
        limit = SMALL_BODY_BYTES if scope["path"].startswith("/oauth/") else self.bounds.body_bytes
        try:
            try:
                await self._read(data, receive, limit)
                receive = _replay(bytes(data), receive)
            except ClientDisconnect:
                return
            except ToolscriptError as problem:
                app = error_response(problem)
            finally:  # also if the request is cancelled
                length = len(data)
            data.clear()
            await app(scope, receive, send)
        finally:
            self._bytes -= length

    async def _read(self, data: bytearray, receive: Receive, limit: int) -> None:
        more, brackets = True, 0
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            data += piece
            self.count(len(piece))
            brackets += piece.count(b"[") + piece.count(b"{")
            self.check(len(data), brackets, limit)

    def count(self, length: int) -> None:
        """Adds to the bytes of all bodies together."""
        self._bytes += length

    def check(self, length: int, brackets: int, limit: int) -> None:
        """Raises `InputError` or `NotReadyError` for a body, or all together, beyond a bound."""
        bounds = self.bounds
        if length > limit:
            what = f"the body is too long; at most {limit} bytes are read"
            raise InputError(what)
        if brackets > bounds.brackets:
            what = f"the body has too many brackets; at most {bounds.brackets} are read"
            raise InputError(what)
        if self._bytes > bounds.all_bytes and length > SMALL_BODY_BYTES:
            what = "requests with much in them are under way already; try again in a moment"
            raise NotReadyError(what)


class _LineLimit:
    """Receives one stream, and ends it for a line that is too long or does not arrive in time.

    Args:
        limit: Has the bounds.
        receive: Receives the stream.
    """

    def __init__(self, limit: BodyLimit, receive: Receive) -> None:
        self._limit = limit
        self._receive = receive
        self._deadline = math.inf
        self._brackets = 0
        self.length = 0
        """Bytes of the line that is not complete yet."""

    async def receive(self) -> Message:
        """Returns the next message of ASGI: a disconnect when a bound is exceeded."""
        with anyio.CancelScope(deadline=self._deadline):
            message = await self._receive()
            try:
                self._count(message.get("body", b""))
            except ToolscriptError as problem:
                return _disconnect(str(problem))
            return message
        return _disconnect(f"a message did not arrive within {self._limit.bounds.line_s:g} s")

    def _count(self, piece: bytes) -> None:
        self._brackets += piece.count(b"[") + piece.count(b"{")
        begun = len(piece) - piece.rfind(b"\n") - 1
        is_new = b"\n" in piece
        before = 0 if is_new else self.length
        self._limit.count(before + begun - self.length)
        self.length = before + begun
        self._limit.check(self.length, self._brackets, self._limit.bounds.body_bytes)
        if is_new:
            self._brackets = piece.count(b"[", -begun) + piece.count(b"{", -begun) if begun else 0
        if not self.length:
            self._deadline = math.inf
        elif is_new or self._deadline == math.inf:
            self._deadline = anyio.current_time() + self._limit.bounds.line_s


def _disconnect(problem: str) -> Message:
    log.warning("a client's stream ends: %s", problem)
    return {"type": "http.disconnect"}


def _replay(data: bytes, receive: Receive) -> Receive:
    """Returns a `Receive` that gives the body that was read, then what comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def required(request: Request, name: str, example: str, kind: type[InputError] = InputError) -> str:
    """Returns a parameter; raises an error of this ``kind`` where it is not given."""
    value = request.query_params.get(name)
    if value is None:
        ask = f"{request.url.path}?{name}={example}"
        raise kind(f"the parameter {name} is missing; ask for {ask}")
    return value


def parsed(request: Request, option: Option, default: Any = None) -> Any:
    """Returns the parameter of an option's name in its type and range, or the default."""
    given = request.query_params.get(option.name)
    return default if given is None else option.parse(given, option.name)


def flag(request: Request, name: str) -> bool:
    """Returns whether a parameter is given and true."""
    return parsed(request, Option(name, bool, default=False, help=""), default=False)


async def json_object(request: Request) -> dict[str, Any]:
    """Returns the JSON object in the body; an empty one for no body."""
    data = await request.body()
    value: Any = _decode(data) if data else {}
    if not isinstance(value, dict):
        raise InputError(f"the body is {_name_kind(value)}; expected a JSON object of arguments")
    return cast("dict[str, Any]", value)


async def json_value(request: Request) -> Any:
    """Returns the JSON value in the body."""
    return _decode(await request.body())


async def json_struct(request: Request, kind: type[_S]) -> _S:
    """Returns the JSON in the body as a struct; raises `InputError` if it does not fit."""
    try:
        return msgspec.convert(await json_value(request), kind)
    except msgspec.ValidationError as error:
        fields = ", ".join(each.encode_name for each in msgspec.structs.fields(kind))
        problem = f"the body does not fit: {printable(str(error), 200)}; its fields are: {fields}"
        raise InputError(problem) from None


def check_content_type(request: Request, *, lenient: bool = False) -> None:
    """Raise `InputError` for a POST whose content type is not JSON, even without a body.

    A page in a browser may send other content types to any address without a preflight request.
    With ``lenient`` the content type matters only in requests that browsers send.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json" and not (lenient and not _is_browser(request)):
        raise InputError(f"the content-type is {kind[:60]!r}; send application/json")


def _is_browser(request: Request) -> bool:
    named = any(name in request.headers for name in ("origin", "referer", "sec-fetch-site"))
    return named or request.headers.get("user-agent", "").startswith("Mozilla/")


async def while_connected(request: Request, work: Awaitable[_T]) -> _T:
    """Returns the result of ``work``; cancels it and raises `ClientDisconnect` on a hang-up."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return await run_unless(disconnected, work, ClientDisconnect)


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = "it is compressed; send it as it is" if data.startswith(_GZIP) else str(error)
        raise InputError(f"the body is not JSON: {why}") from None


def _name_kind(value: object) -> str:
    kinds: dict[type, str] = {list: "a list", str: "a string", type(None): "null"}
    return kinds.get(type(value), "no object")
