"""The client of a gateway that adapters use: its token goes to the gateway and nowhere else."""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler

import pytest

from tests.servers.in_thread import serve_in_thread
from toolscript.errors import GatewayError
from toolscript.integrations.remote_tools import RemoteTools

Serve = Callable[[int, str, str], tuple[str, list[str]]]


@pytest.fixture
def serve() -> Generator[Serve]:
    """Starts servers that answer everything alike; gives the address, and the tokens that came."""
    with ExitStack() as stack:

        def start(status: int, body: str, location: str) -> tuple[str, list[str]]:
            tokens: list[str] = []

            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    tokens.append(self.headers["Authorization"])
                    self.send_response(status)
                    self.send_header("Location", location)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body.encode())

            return f"http://127.0.0.1:{stack.enter_context(serve_in_thread(Handler))}", tokens

        yield start


def test_no_proxy_of_the_environment_gets_the_token(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, stolen = serve(200, '{"tools": []}', "")
    url, tokens = serve(200, '{"tools": []}', "")
    monkeypatch.setenv("http_proxy", proxy)
    assert RemoteTools(f"{url}/", "tok").tools == []
    assert (tokens, stolen) == (["Bearer tok"], [])


def test_a_redirection_is_not_followed(serve: Serve) -> None:
    other, stolen = serve(200, '{"tools": []}', "")
    url, _ = serve(302, "", f"{other}/tools")
    with pytest.raises(GatewayError, match="status 302"):
        _ = RemoteTools(url, "tok").tools
    assert stolen == []


def test_a_refusal_is_told_as_the_gateway_says_it(serve: Serve) -> None:
    url, _ = serve(401, '{"error": "show a token", "type": "AuthenticationError"}', "")
    with pytest.raises(GatewayError, match=r"^show a token$"):
        _ = RemoteTools(url).tools
    with pytest.raises(GatewayError, match="does not answer"):
        _ = RemoteTools("http://127.0.0.1:70000").tools
