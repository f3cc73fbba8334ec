"""The bridge: carries a client's messages between its pipes and the gateway, and back.

The session survives the gateway: when that ends, the bridge connects to the next one, opens the
session again, and repeats requests that are safe to do twice. While the first one starts, the
bridge answers the opening requests as the last gateway did. It has two threads, and reads no more
of the messages than that takes.
"""

import codecs
import json
import logging
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeAlias, cast

from toolscript.errors import AccessError, GatewayError, NotReadyError, ToolscriptError
from toolscript.surfaces.cli.gateway_client import RemoteClient, error_named
from toolscript.surfaces.cli.handshake_cache import METHODS, HandshakeCache
from toolscript.surfaces.cli.http_exchange import Exchange
from toolscript.surfaces.cli.stdio_messages import UnreadableLineError, read_line
from toolscript.text.json_values import as_object
from toolscript.text.wire_constants import SAFE_META_TOOLS

log = logging.getLogger(__name__)
_Id: TypeAlias = str | int
_TIMEOUT_S = 30.0
"""How long a gateway may take to accept the session."""
_OK = 200
_UNANSWERED = -32000
_ATTEMPTS = 3
"""How often a session is opened again at once: the next gateway may end, too."""
_RESULT = re.compile(rb'\{"jsonrpc":"2\.0","id":("[^"\\]*"|-?\d+),"(?:result|error)":')
_CONNECTION_ERRORS = (OSError, ValueError)


def open_stream(gateway: RemoteClient, path: str) -> Exchange:
    """Returns a connection to a gateway: a request and its response, both open until the end."""
    stream = gateway.begin("POST", path, None, _TIMEOUT_S, "application/x-ndjson")
    if (status := stream.status()) != _OK:
        raise _refusal(status, stream.read())
    stream.socket.settimeout(None)
    return stream


def _receive(stream: Exchange) -> bytes:
    """Returns the next line, or nothing at the end."""
    try:
        line = stream.read_line()
    except _CONNECTION_ERRORS:
        return b""
    return line if line.endswith(b"\n") else b""


def _refusal(status: int, body: bytes) -> ToolscriptError:
    try:
        answer = cast("dict[str, Any]", json.loads(body))
        return error_named(str(answer["type"]), str(answer["error"]))
    except (ValueError, KeyError, TypeError):
        return GatewayError(f"the gateway refused the session with HTTP {status}")


@dataclass(eq=False, slots=True)
class _Request:
    """A request of the client that is not answered."""

    line: bytes
    name: str
    """The tool or the method."""
    is_safe: bool
    """Whether it may be sent twice."""
    is_sent: bool = False
    message: dict[str, Any] | None = None
    """The message, if its answer is kept for the next session."""


@dataclass(eq=False, slots=True)
class _Opening:
    """The requests that opened the client's session, in the protocols that open one."""

    initialize: dict[str, Any] | None = None
    initialized: bytes = b""
    answered: bool = False
    listed: dict[str, Any] | None = None
    """The client's request for the list of tools: it wants to hear of changes."""


@dataclass(eq=False)
class Bridge:
    """One client's session.

    Args:
        connect: Opens a stream to the gateway, and starts one if there is none.
        source: The client's messages, one per line.
        sink: Takes the messages for the client.
        answers: The answers of earlier gateways; none by default.
    """

    connect: Callable[[], Exchange]
    source: BinaryIO
    sink: BinaryIO
    answers: HandshakeCache = field(default_factory=lambda: HandshakeCache(None))
    _stream: Exchange | None = None
    _number: int = 0
    """How many streams there have been."""
    _pending: dict[_Id, _Request] = field(default_factory=dict[_Id, _Request])
    _questions: dict[str, _Id] = field(default_factory=dict[str, _Id])
    """The gateway's open requests, by the ids that the client sees."""
    _opening: _Opening = field(default_factory=_Opening)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _output: threading.Lock = field(default_factory=threading.Lock)
    _reopened: threading.Event = field(default_factory=threading.Event)
    _reader: threading.Thread | None = None
    _has_opened: bool = False
    """Whether there has been a stream."""
    _waiting: list[tuple[bytes, _Id | None]] = field(default_factory=list[tuple[bytes, _Id | None]])
    """The lines that the client has sent before that, with the ids of requests."""
    _output_problem: OSError | None = None
    """Why nothing can be written to the client any more."""
    _input_problem: Exception | None = None
    """The error that ended the reading of the client's messages."""

    def run(self) -> None:
        """Carry messages until the client ends its input.

        Raises the error for which no gateway can be connected to at the start, and `OSError`
        at the end if the client no longer reads.
        """
        client = threading.Thread(target=self._read_client, daemon=True)
        client.start()
        self._open_first()
        client.join()
        if self._input_problem is not None:
            raise self._input_problem
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None and self._reader is not None:
            with suppress(OSError):
                stream.finish()
                self._reader.join(_TIMEOUT_S)
                stream.close()
        if self._output_problem is not None:
            raise self._output_problem

    # From the client

    def _read_client(self) -> None:
        try:
            while line := self.source.readline().removeprefix(codecs.BOM_UTF8):
                if line.strip():
                    self._from_client(line)
        except Exception as error:  # noqa: BLE001 - raised by `run`
            self._input_problem = error

    def _from_client(self, line: bytes) -> None:
        try:
            line, message = read_line(line)
        except UnreadableLineError as error:
            log.warning("a line of the client cannot be read: %s", error)
            if error.answer is not None:
                self._tell(_line(error.answer))
            return
        with self._lock:
            if "method" in message and "id" in message:
                self._note_request(message, line)
                if not self._has_opened and self._answer_early(message):
                    return
            elif "method" in message:
                self._note_notification(message, line)
            elif "id" in message:
                identifier = self._questions.pop(str(message["id"]), None)
                if identifier is None:
                    return  # the gateway that asked is gone
                line = _line({**message, "id": identifier})
            self._send(line, message)

    def _note_request(self, message: dict[str, Any], line: bytes) -> None:
        method, name = str(message["method"]), str(as_object(message.get("params")).get("name"))
        is_call = method == "tools/call"
        is_safe = not is_call or name in SAFE_META_TOOLS
        kept = message if method in METHODS else None
        request = _Request(line, name if is_call else method, is_safe, message=kept)
        self._pending[message["id"]] = request
        if method == "initialize":
            self._opening.initialize = message
            self.answers.begin(message)
        elif method == "tools/list":
            self._opening.listed = message

    def _answer_early(self, message: dict[str, Any]) -> bool:
        """Answers a request as the last gateway has; returns whether that is known."""
        result = self.answers.get(message)
        if result is None:
            return False
        del self._pending[message["id"]]
        self._opening.answered |= message["method"] == "initialize"
        self._tell(_line({"id": message["id"], "result": result}))
        return True

    def _note_notification(self, message: dict[str, Any], line: bytes) -> None:
        if message["method"] == "notifications/initialized":
            self._opening.initialized = line
        elif message["method"] == "notifications/cancelled":
            cancelled: Any = as_object(message.get("params")).get("requestId")
            if isinstance(cancelled, str | int):
                self._pending.pop(cancelled, None)

    def _send(self, line: bytes, message: dict[str, Any]) -> None:
        """Sends a line, over a new stream if the old one has ended."""
        is_request = {"id", "method"} <= message.keys() and message["id"] in self._pending
        if not self._has_opened:
            is_known = line == self._opening.initialized and self._opening.answered
            if not is_known:  # else it is sent where the session is opened again
                self._waiting.append((line, message["id"] if is_request else None))
            return
        if self._stream is None:
            if self._reopen() and not is_request:  # requests are sent with the other pending ones
                self._write(line)
            return
        if is_request:
            self._pending[message["id"]].is_sent = True
        self._write(line)

    def _write(self, line: bytes) -> None:
        if self._stream is not None:
            try:
                self._stream.send(line)
            except OSError:  # the reader sees the end, too
                self._drop_stream(self._number)

    # From the gateway

    def _read(self, stream: Exchange, number: int) -> None:
        while line := _receive(stream):
            self._from_gateway(line, number)
        with self._lock:
            if self._stream is stream:
                self._drop_stream(number)

    def _from_gateway(self, line: bytes, number: int) -> None:
        found = _RESULT.match(line)
        message = {"id": json.loads(found[1])} if found else _parse(line)
        if "method" not in message:
            if message.get("id") == _reopening(number):
                self._keep(self._opening.initialize, line)
                self._reopened.set()
                return
            if message.get("id") == _listing(number):
                if self._keep(self._opening.listed, line):
                    self._tell(_line({"method": "notifications/tools/list_changed"}))
                return
            with self._lock:
                request = self._pending.pop(message.get("id", ""), None)
            if request is not None:
                self._opening.answered |= request.name == "initialize"
                self._keep(request.message, line)
        elif "id" in message:
            shown = f"{number}-{json.dumps(message['id'])}"
            with self._lock:
                self._questions[shown] = message["id"]
            line = _line({**message, "id": shown})
        elif message["method"] == "notifications/cancelled":
            params = as_object(message.get("params"))
            shown = f"{number}-{json.dumps(params.get('requestId'))}"
            with self._lock:
                self._questions.pop(shown, None)
            line = _line({**message, "params": {**params, "requestId": shown}})
        self._tell(line)

    def _keep(self, message: dict[str, Any] | None, line: bytes) -> bool:
        """Keeps the result of a request that is asked at a session's beginning.

        Returns whether it was another one until now.
        """
        result = _parse(line).get("result") if message is not None else None
        return message is not None and result is not None and self.answers.differs(message, result)

    def _tell(self, line: bytes) -> None:
        with self._output:
            if self._output_problem is None:
                try:
                    self.sink.write(line)
                    self.sink.flush()
                except OSError as error:
                    self._output_problem = error

    # Losing and finding the gateway

    def _drop_stream(self, number: int) -> None:
        """Tells the client which requests a stream has lost; opens another if some are pending."""
        if self._stream is None or number != self._number:
            return
        self._stream = None
        for shown in self._questions:
            params = {"requestId": shown, "reason": "the gateway has ended"}
            self._tell(_line({"method": "notifications/cancelled", "params": params}))
        self._questions.clear()
        self._refuse_unsafe()
        if self._pending:
            threading.Thread(target=self._reopen_safely, daemon=True).start()

    def _reopen_safely(self) -> None:
        with self._lock:
            if self._stream is None:
                self._reopen()

    def _reopen(self) -> bool:
        """Opens a stream with the client's session, and sends the pending requests."""
        problem = ""
        for _ in range(_ATTEMPTS):
            try:
                self._install(self.connect())
                self._resume()
            except (ToolscriptError, *_CONNECTION_ERRORS) as error:
                self._stream, problem = None, str(error)
            else:
                return True
        pending, self._pending = self._pending, {}
        for identifier, request in pending.items():
            self._refuse(identifier, request, f"no gateway can be reached: {problem}")
        return False

    def _open_first(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                stream = self.connect()
                with self._lock:
                    self._install(stream)
                    self._has_opened = True
                    self._resume()
            except (NotReadyError, AccessError, *_CONNECTION_ERRORS) as error:
                if attempt == _ATTEMPTS:
                    raise GatewayError(f"no gateway can be reached: {error}") from None
            else:
                return

    def _install(self, stream: Exchange) -> None:
        self._number += 1
        self._stream = stream
        self._reopened.clear()
        self._reader = threading.Thread(target=self._read, args=(stream, self._number), daemon=True)
        self._reader.start()

    def _resume(self) -> None:
        opening, stream = self._opening, self._stream
        if stream is None:
            return
        if opening.answered and opening.initialize:
            stream.send(_line({**opening.initialize, "id": _reopening(self._number)}))
            if not self._reopened.wait(_TIMEOUT_S):
                raise GatewayError("the gateway did not open the session")
            if opening.initialized:
                stream.send(opening.initialized)
        if not self._send_waiting(stream):
            self._refuse_unsafe()  # those that an attempt before this one has sent
            for request in self._pending.values():
                request.is_sent = True
                stream.send(request.line)
        if opening.listed is not None and opening.listed["id"] not in self._pending:
            stream.send(_line({**opening.listed, "id": _listing(self._number)}))

    def _send_waiting(self, stream: Exchange) -> bool:
        """Sends the lines that waited for the first stream; returns whether there were any."""
        waiting, self._waiting = self._waiting, []
        for line, identifier in waiting:
            if identifier is None:
                stream.send(line)
            elif identifier in self._pending:  # else it was cancelled meanwhile
                self._pending[identifier].is_sent = True
                stream.send(line)
        return bool(waiting)

    def _refuse_unsafe(self) -> None:
        """Refuses the requests that were sent and may not be sent twice."""
        for identifier, request in list(self._pending.items()):
            if request.is_sent and not request.is_safe:
                del self._pending[identifier]
                self._refuse(identifier, request)

    def _refuse(self, identifier: _Id, request: _Request, reason: str = "") -> None:
        if request.is_sent and not request.is_safe:
            reason = (
                f"the gateway ended while {request.name} was under way; whether it was done is "
                "unknown, so look before you call it again"
            )
        error = {"code": _UNANSWERED, "message": reason}
        self._tell(_line({"id": identifier, "error": error}))


def _reopening(number: int) -> str:
    """Returns the id of the request that opens the session again on a stream."""
    return f"toolscript-{number}"


def _listing(number: int) -> str:
    """Returns the id of the request by which the list of tools is read again on a stream."""
    return f"toolscript-list-{number}"


def _parse(line: bytes) -> dict[str, Any]:
    """Returns a message; an empty one if the gateway has to refuse the line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    message = cast("dict[str, Any]", value)
    return {} if isinstance(message.get("id"), dict | list) else message


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
