"""A TLS connection to a gateway, for two threads: one reads while the other writes.

OpenSSL lets only one thread at a time use a connection, so each use is short and has a lock.
"""

import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from toolscript.errors import GatewayError

_T = TypeVar("_T")


class Pin(NamedTuple):
    """The only certificate that counts, that of a gateway which left a record."""

    certificate: str
    """In PEM."""
    name: str
    """A name that the certificate has."""


class TlsSocket:
    """Makes the handshake; then as a `socket.socket`, of which it has the methods that are needed.

    Args:
        connection: Is connected; its timeout holds.
        host: The name that the certificate must have, unless there is a ``pin``.
        pin: The certificate to trust; None for those that the system trusts, or SSL_CERT_FILE.

    Raises:
        GatewayError: The certificate is not to be trusted.
        OSError: The handshake fails otherwise.
    """

    def __init__(self, connection: socket.socket, host: str, pin: Pin | None) -> None:
        context = ssl.create_default_context(cadata=pin.certificate if pin else None)
        if pin:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # its issuer need not be known
        try:
            self._socket = context.wrap_socket(
                connection, server_hostname=pin.name if pin else host
            )
        except ssl.SSLCertVerificationError as error:
            raise GatewayError(
                f"the certificate of {host} is not trusted: {error.verify_message}; if its issuer "
                "is your own, set SSL_CERT_FILE to the issuer's certificate"
            ) from None
        self._timeout_s = connection.gettimeout()
        self._lock = threading.Lock()
        self._socket.settimeout(0)

    def settimeout(self, timeout_s: float | None) -> None:
        """See `socket.socket`."""
        self._timeout_s = timeout_s

    def fileno(self) -> int:
        """See `socket.socket`."""
        return self._socket.fileno()

    def recv(self, size: int) -> bytes:
        """See `socket.socket`."""
        return self._repeat(lambda: self._socket.recv(size))

    def sendall(self, data: bytes) -> None:
        """See `socket.socket`."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._repeat(lambda rest=rest: self._socket.send(rest)) :]

    def close(self) -> None:
        """See `socket.socket`."""
        with suppress(OSError):  # wakes a thread that waits; the method of SSLSocket ends the TLS
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._socket.close()

    def _repeat(self, act: Callable[[], _T]) -> _T:
        """Returns the result of ``act`` once the connection is ready for it."""
        while True:
            event = selectors.EVENT_READ
            with self._lock:
                try:
                    return act()
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLWantWriteError:
                    event = selectors.EVENT_WRITE
            with selectors.DefaultSelector() as selector:
                selector.register(self._socket, event)
                if not selector.select(self._timeout_s):
                    raise TimeoutError("timed out")
