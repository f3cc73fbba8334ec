"""Serves documents over https from this machine, with a certificate of its own."""

import json
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

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


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Returns the files of a certificate for this machine, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


@contextmanager
def document_server(folder: Path) -> Generator[Documents]:
    """Serves for as long as the block lasts; 404 for a path without an answer."""
    certificate, key = make_certificate(folder)
    served = Documents("", certificate)

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
    tls.load_cert_chain(certificate, key)
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
