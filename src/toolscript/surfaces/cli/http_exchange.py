"""Sends one request to a gateway over HTTP/1.1 and reads its answer.

Importing ``http.client`` takes a sixth of a command's time: it brings the mail parser and OpenSSL.
httptools, which parses requests in the gateway, parses the answers.
"""

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

if TYPE_CHECKING:
    from toolscript.surfaces.cli.tls_socket import TlsSocket

_PORTS = {"http": 80, "https": 443}
_PIECE_BYTES = 65_536
_FINAL = 200
"""Answers with a lower status are interim ones."""
_LENGTHS = {b"content-length", b"transfer-encoding"}
"""Headers that tell the end of the body; without them it ends with the connection."""


class Exchange:
    """One request and its answer, on a connection of its own.

    Every method raises `OSError` for a connection that cannot be made, breaks off or is silent for
    too long, and `ValueError` for an answer that is not HTTP/1.1 or a header with a line break.

    Args:
        method: Such as ``GET``.
        url: The whole address, with path and query, encoded.
        headers: Further headers than ``Host`` and those about the body and the connection.
        body: The body; None if `send` sends it in pieces.
        timeout_s: How long the gateway may be silent, in seconds; None waits for ever.
        certificate: See `TlsSocket`, which may raise `GatewayError`, too.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a request's parts, and the connection's
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = b"",
        timeout_s: float | None = None,
        certificate: str = "",
    ) -> None:
        parts = urlsplit(url)
        framing = "Transfer-Encoding: chunked" if body is None else f"Content-Length: {len(body)}"
        head = _head(
            f"{method} {parts.path}{parts.query and '?'}{parts.query} HTTP/1.1",
            f"Host: {parts.netloc.rpartition('@')[2]}",
            "Connection: close",
            framing,
            *(f"{name}: {value}" for name, value in headers.items()),
        )
        address = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 80)
        self._parser = HttpResponseParser(self)
        self._status = 0
        self._unread = bytearray()
        self._has_length = self._is_complete = False
        plain = socket.create_connection(address, timeout_s)
        self.socket: socket.socket | TlsSocket = plain
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if parts.scheme == "https":
                from toolscript.surfaces.cli import tls_socket  # noqa: PLC0415 - imports ssl

                self.socket = tls_socket.TlsSocket(plain, address[0], certificate)
            self.socket.sendall(head + (body or b""))
        except BaseException:
            self.close()
            raise

    def send(self, piece: bytes) -> None:
        """Sends a piece of the body, which may not be empty."""
        self.socket.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))

    def finish(self) -> None:
        """Ends a body that was sent in pieces."""
        self.socket.sendall(b"0\r\n\r\n")

    def close(self) -> None:
        """Closes the connection."""
        self.socket.close()

    def status(self) -> int:
        """Returns the answer's status once its head has arrived."""
        while not self._status:
            self._receive()
        return self._status

    def read(self) -> bytes:
        """Returns the rest of the answer's body."""
        while not self._is_complete:
            self._receive()
        return bytes(self._unread)

    def read_line(self) -> bytes:
        """Returns the next line of the body, with its end; at the end of the body the rest."""
        searched = 0
        while not (end := self._unread.find(b"\n", searched) + 1) and not self._is_complete:
            searched = len(self._unread)
            self._receive()
        line = bytes(self._unread[: end or None])
        del self._unread[: len(line)]
        return line

    def _receive(self) -> None:
        data = self.socket.recv(_PIECE_BYTES)
        if data:
            try:
                self._parser.feed_data(data)
            except (HttpParserError, HttpParserUpgrade):
                raise ValueError("the answer is not HTTP") from None
        elif not self._status:
            raise ConnectionResetError("the connection was closed without an answer")
        elif self._has_length:
            raise ConnectionResetError("the connection was closed in the middle of an answer")
        else:
            self._is_complete = True

    # Called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        """See `httptools.HTTPProtocol`."""
        del value
        self._has_length |= name.lower() in _LENGTHS

    def on_headers_complete(self) -> None:
        """See `httptools.HTTPProtocol`."""
        status = self._parser.get_status_code()
        self._status = status if status >= _FINAL else 0

    def on_body(self, body: bytes) -> None:
        """See `httptools.HTTPProtocol`."""
        self._unread += body

    def on_message_complete(self) -> None:
        """See `httptools.HTTPProtocol`."""
        self._is_complete = self._status > 0


def _head(*lines: str) -> bytes:
    """Returns the head of a request; raises `ValueError` for a line break in a line."""
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header has a line break")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
