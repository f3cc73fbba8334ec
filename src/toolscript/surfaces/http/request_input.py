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

from toolscript.app.bytes_under_way import BytesUnderWay
from toolscript.app.task_monitor import run_unless
from toolscript.config.settings import Option
from toolscript.errors import InputError, OverloadError, ToolscriptError
from toolscript.gateway.base import FORWARDED
from toolscript.gateway.raw_results import ValueCount
from toolscript.surfaces.server.authentication import ACCESS
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
    """The bounds of the bodies of requests, and of each message of a stream."""

    body_bytes: int = 4 * 1024 * 1024
    values: int = 200_000
    """Each takes much more memory and time than its bytes."""
    seconds: float = 60.0
    """How long one may take to arrive."""


BODY_BOUNDS = BodyBounds()


class BodyLimit:
    """Reads the body of a POST before its route runs, and refuses one that exceeds a bound.

    Of a stream of messages it bounds each message. A path or a parameter with a NUL character,
    which a database takes in no text, is refused.
    """

    def __init__(
        self, app: ASGIApp, under_way: BytesUnderWay, bounds: BodyBounds = BODY_BOUNDS
    ) -> None:
        self.bounds = bounds
        self.under_way = under_way
        """Counts all bodies, and all messages of streams that are not complete yet."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        app = self._app
        if scope["type"] == "http" and (
            "\0" in scope["path"] or b"\0" in unquote_to_bytes(scope.get("query_string", b""))
        ):
            app = error_response(
                InputError("a parameter has a NUL character (%00); ask without it")
            )
        elif scope["type"] == "http" and scope["method"] == "POST":
            app = self._answer_post
        await app(scope, receive, send)

    async def _answer_post(self, scope: Scope, receive: Receive, send: Send) -> None:
        app, holder = self._app, scope[ACCESS].holder
        is_known = holder or scope["path"] == FORWARDED
        limit = self.bounds.body_bytes if is_known else SMALL_BODY_BYTES
        body = _ArrivingBody(self, receive, holder, limit)
        try:
            if is_stream(scope["path"]):
                await app(scope, body.receive_line, send)
                return
            try:
                receive = _replay(await body.read(), receive)
            except ClientDisconnect:
                return
            except ToolscriptError as problem:
                app = error_response(problem)
            await app(scope, receive, send)
        finally:  # also if the request is cancelled
            body.forget()


class _ArrivingBody:
    """Receives the body of a request, or the messages of a stream, a line each.

    Args:
        owner: Has the bounds, and counts the bytes of all.
        receive: Receives the request.
        holder: Whose they are.
        limit: The most bytes of the body, or of a line.
    """

    def __init__(self, owner: BodyLimit, receive: Receive, holder: str, limit: int) -> None:
        self._owner = owner
        self._receive = receive
        self._holder = holder
        self._limit = limit
        self._deadline = math.inf
        self._length, self._values = 0, ValueCount()

    async def read(self) -> bytes:
        """Returns the whole body; raises `InputError` or `OverloadError` beyond a bound."""
        data, more = bytearray(), True
        with anyio.move_on_after(self._owner.bounds.seconds):
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                piece: bytes = message.get("body", b"")
                more = message.get("more_body", False)
                self._count(piece)
                data += piece
            return bytes(data)
        raise self._late()

    async def receive_line(self) -> Message:
        """Returns the next message of ASGI: a disconnect if a line exceeds a bound."""
        try:
            with anyio.CancelScope(deadline=self._deadline):
                message = await self._receive()
                complete, newline, begun = message.get("body", b"").rpartition(b"\n")
                self._count(complete)
                if newline:
                    self.forget()
                self._count(begun)
                return message
            raise self._late()
        except ToolscriptError as problem:
            log.warning("a client's stream ends: %s", problem)
            return {"type": "http.disconnect"}

    def forget(self) -> None:
        """Counts the bytes that have arrived no more."""
        self._owner.under_way.add(self._holder, -self._length)
        self._length, self._values = 0, ValueCount()
        self._deadline = math.inf

    def _count(self, piece: bytes) -> None:
        bounds = self._owner.bounds
        if piece and not self._length:
            self._deadline = anyio.current_time() + bounds.seconds
        self._length += len(piece)
        has_room = self._owner.under_way.add(self._holder, len(piece))
        if self._length > self._limit:
            raise InputError(f"the body is too long; at most {self._limit} bytes are read")
        if self._values.add(piece) > bounds.values:
            raise InputError(f"the body has too many values; at most {bounds.values} are read")
        if not has_room and self._length > SMALL_BODY_BYTES:
            what = "requests with much in them are under way already; try again in a moment"
            raise OverloadError(what)

    def _late(self) -> InputError:
        return InputError(f"the body did not arrive within {self._owner.bounds.seconds:g} s")


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


def parsed(request: Request, option: Option) -> Any:
    """Returns the parameter of an option's name in its type and range, or the default."""
    given = request.query_params.get(option.name)
    return option.default if given is None else option.parse(given, option.name)


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
