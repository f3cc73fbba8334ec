"""Serves documents over https from this machine, with a certificate of its own."""

import json
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

from tests.servers.certificates import make_pair

Answer: TypeAlias = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Documents:
    """The server: its address, its certificate, and its answers by path."""

    url: str
    certificate: Path
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    requests: list[str] = field(default_factory=list[str])

    def put(self, path: str, **changes: Any) -> str:
        """Serves an honest document at a path, with ``changes``; returns its address."""
        url = self.url + path
        document = {
            "client_id": url,
            "client_name": "Documented",
            "redirect_uris": ["http://127.0.0.1/callback", "https://app.example/callback"],
            "token_endpoint_auth_method": "none",
            **changes,
        }
        self.put_bytes(path, json.dumps(document).encode())
        return url

    def put_bytes(self, path: str, body: bytes, status: int = 200, **headers: str) -> str:
        """Serves these bytes at a path; returns the address."""

        def answer(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                request.send_header(name, value)
            request.send_header("content-length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)

        self.answers[path] = answer
        return self.url + path


@contextmanager
def document_server(folder: Path) -> Generator[Documents]:
    """Serves for as long as the block lasts; 404 for a path without an answer."""
    pair = make_pair(folder, "documents", "localhost", "127.0.0.1")
    served = Documents("", pair.file)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append(self.path)
            if self.path in served.answers:
                served.answers[self.path](self)
            else:
                self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the same
            pass

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.file, pair.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        served.url = f"https://localhost:{server.server_port}"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
