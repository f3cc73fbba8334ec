"""Serves HTTP on this machine from a thread of the tests."""

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@contextmanager
def serve_in_thread(
    handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None
) -> Generator[int]:
    """Serves for as long as the block lasts, and logs nothing; yields the port."""
    quiet = type(handler.__name__, (handler,), {"log_message": _log_nothing})
    with ThreadingHTTPServer(("127.0.0.1", 0), quiet) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def _log_nothing(*_: Any) -> None:
    """Takes the place of `BaseHTTPRequestHandler.log_message`."""
