"""Serves documents over https from this machine, with a certificate of its own."""

import json
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeAlias

from tests.servers.certificates import make_pair
from tests.servers.in_thread import serve_in_thread

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
    documents = Documents("", pair.file)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            documents.requests.append(self.path)
            if self.path in documents.answers:
                documents.answers[self.path](self)
            else:
                self.send_error(404)

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.file, pair.key)
    with serve_in_thread(Handler, tls) as port:
        documents.url = f"https://localhost:{port}"
        yield documents
