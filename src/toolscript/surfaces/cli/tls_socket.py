"""A TLS connection to a gateway, for two threads: one reads while the other writes.

OpenSSL lets only one thread at a time use a connection, so each use is short and has a lock.
"""

import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from toolscript.errors import GatewayError

_T = TypeVar("_T")


class TlsSocket:
    """Makes the handshake with a host; then like a `socket.socket`, of which it has a few methods.

    A ``certificate``, in PEM, is the only one that counts, for any host; without one those count
    whose issuers the system trusts, or SSL_CERT_FILE. Raises `GatewayError` for another one, and
    `OSError` if the handshake fails otherwise.
    """

    def __init__(self, connection: socket.socket, host: str, certificate: str) -> None:
        context = ssl.create_default_context(cadata=certificate or None)
        if certificate:
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # no issuer's counts
        try:
            self._socket = context.wrap_socket(connection, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise GatewayError(
                f"the certificate of {host} is not trusted: {error.verify_message}; if its issuer "
                "is your own, set SSL_CERT_FILE to the issuer's certificate"
            ) from None
        self.settimeout(connection.gettimeout())
        self.fileno, self.close = self._socket.fileno, self._socket.close
        self._lock = threading.Lock()
        self._socket.settimeout(0)

    def settimeout(self, timeout_s: float | None) -> None:
        """See `socket.socket`."""
        self._timeout_s = timeout_s

    def recv(self, size: int) -> bytes:
        """See `socket.socket`."""
        return self._repeat(self._socket.recv, size)

    def sendall(self, data: bytes) -> None:
        """See `socket.socket`."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._repeat(self._socket.send, rest) :]

    def _repeat(self, act: Callable[[Any], _T], argument: object) -> _T:
        """Returns the result of an act once the connection is ready for it."""
        while True:
            with self._lock:
                try:
                    return act(argument)
                except ssl.SSLWantReadError:
                    event = selectors.EVENT_READ
                except ssl.SSLWantWriteError:
                    event = selectors.EVENT_WRITE
            with selectors.DefaultSelector() as selector:
                selector.register(self._socket, event)
                if not selector.select(self._timeout_s):
                    raise TimeoutError("timed out")
