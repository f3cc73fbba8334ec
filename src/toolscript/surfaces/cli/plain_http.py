"""A client of HTTP/1.1 without TLS, for the short requests of commands to a gateway.

Importing ``http.client`` takes longer than everything else that such a command does: it brings
the mail parser and OpenSSL.
"""

import socket
from collections.abc import Mapping
from typing import BinaryIO

MAX_LINE_BYTES = 65_536
"""Of the status, a header or the size of a chunk."""
MAX_HEADERS = 100


class PlainConnection:
    """A connection that is kept for the next request where the server allows that.

    Args:
        host: The name or address of the server.
        port: Its port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._socket: socket.socket | None = None
        self._answers: BinaryIO | None = None

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        if self._answers is not None:
            self._answers.close()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._answers = None

    def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> tuple[int, bytes]:
        """Returns the status and the body of the answer.

        A ``GET`` is sent again if the server has closed a kept connection meanwhile. Raises
        `OSError`, also where ``timeout_s`` seconds pass without a byte, and `ValueError` for an
        answer that is not HTTP/1.1.

        Args:
            method: Such as ``GET``.
            target: Path and query, encoded.
            headers: Further headers than ``Host`` and ``Content-Length``.
            body: What is sent, with any method but ``GET``.
            timeout_s: In seconds; None waits for ever.
        """
        message = self._message(method, target, headers, body)
        if self._socket is not None and method != "GET":
            self.close()
        was_kept = self._socket is not None
        try:
            return self._answered(message, timeout_s)
        except ConnectionError:
            self.close()
            if not was_kept:
                raise
        except BaseException:
            self.close()
            raise
        return self._answered(message, timeout_s)

    def _message(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        host = f"[{self._host}]" if ":" in self._host else self._host
        fields = {"Host": f"{host}:{self._port}", **headers}
        if body is not None:
            fields["Content-Length"] = str(len(body))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {fields[name]}" for name in fields)]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header has a line break")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")

    def _answered(self, message: bytes, timeout_s: float | None) -> tuple[int, bytes]:
        if self._socket is None:
            self._socket = socket.create_connection((self._host, self._port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._answers = self._socket.makefile("rb")
        self._socket.settimeout(timeout_s)
        self._socket.sendall(message)
        status, headers = self._head()
        while 100 <= status < 200:  # noqa: PLR2004 - an interim answer
            status, headers = self._head()
        body, is_kept = self._body(status, headers)
        if not is_kept or headers.get("connection", "").lower() == "close":
            self.close()
        return status, body

    def _head(self) -> tuple[int, dict[str, str]]:
        version, _, rest = self._line().partition(" ")
        if not version:
            raise ConnectionResetError("the connection was closed without an answer")
        status = rest.partition(" ")[0]
        if not version.startswith("HTTP/1.") or not (status.isdecimal() and len(status) == 3):  # noqa: PLR2004
            raise ValueError("the answer is not HTTP")
        headers: dict[str, str] = {}
        for _ in range(MAX_HEADERS):
            line = self._line()
            if not line:
                return int(status), headers
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        raise ValueError(f"the answer has more than {MAX_HEADERS} headers")

    def _body(self, status: int, headers: Mapping[str, str]) -> tuple[bytes, bool]:
        """Returns the body, and whether its end could be told without the connection's."""
        if status in {204, 304}:
            return b"", True
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks(), True
        length = headers.get("content-length", "")
        if length:
            if not (length.isascii() and length.isdecimal()):
                raise ValueError(f"the answer has the length {length[:20]!r}")
            return self._bytes(int(length)), True
        return self._file.read(), False

    def _chunks(self) -> bytes:
        body = bytearray()
        while size := int(self._line().partition(";")[0], 16):
            if size < 0:
                raise ValueError("a chunk has a negative size")
            body += self._bytes(size)
            self._line()
        while self._line():
            pass  # a trailer
        return bytes(body)

    def _bytes(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise ConnectionResetError("the connection was closed in the middle of an answer")
        return data

    def _line(self) -> str:
        line = self._file.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise ValueError("a line of the answer is too long")
        return line.decode("latin-1").rstrip("\r\n")

    @property
    def _file(self) -> BinaryIO:
        if self._answers is None:
            raise ConnectionResetError("the connection is closed")
        return self._answers
