"""The steps of a login by OAuth, one by one, as a client and a gateway's owner take them."""

import base64
import hashlib
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, fetch, tool
from tests.surfaces.web.browser import Answer, Browser

CALLBACK = "https://app.example/callback"
VERIFIER = "v" * 64
CHALLENGE = (
    base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
)
DELETE = tool("delete_mail", "Delete a mail", annotations={"destructiveHint": True})
FORM = "application/x-www-form-urlencoded"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
LEAVE_OUT = None
"""In the place of a parameter: it is not sent."""


@dataclass
class Flow:
    """A client, and the browser in which the owner is logged in."""

    cli: Cli
    url: str
    owner: Browser
    stranger: Browser
    client_id: str = ""
    issuer: str = ""
    """The gateway's public address, if that is another than ``url``."""

    @property
    def resource(self) -> str:
        """The address of the gateway's door, as clients know it."""
        return f"{self.issuer or self.url}/mcp"

    def post(self, path: str, body: str | bytes, kind: str, **headers: str) -> tuple[int, Any]:
        """The answer to a request of a program."""
        sent = {"Content-Type": kind, **headers}
        raw = body.encode() if isinstance(body, str) else body
        return fetch(self.url, path, method="POST", headers=sent, body=raw)

    def register(self, **changes: Any) -> tuple[int, Any]:
        """The answer to a registration; an honest one with ``changes``."""
        metadata = {"client_name": "Notes", "redirect_uris": [CALLBACK], **changes}
        return self.post("/oauth/register", json.dumps(metadata), "application/json")

    def parameters(self, **changes: Any) -> dict[str, Any]:
        """The parameters of an honest request, with ``changes``."""
        honest = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": self.resource,
            "state": "s1",
        }
        return {name: value for name, value in {**honest, **changes}.items() if value is not None}

    def ask(self, browser: Browser | None = None, **changes: Any) -> Answer:
        """The page that asks the owner."""
        query = urlencode(self.parameters(**changes), doseq=True)
        return (browser or self.owner).open(f"/ui/authorize?{query}")

    def held(self, **changes: Any) -> str:
        """The sealed request of an honest page."""
        answer = self.ask(**changes)
        assert answer.status == 200, answer.body
        return answer.page.one("input", name="request").attributes["value"] or ""

    def decide(self, request: str, **fields: str) -> Answer:
        """What comes back once the owner has decided."""
        return self.owner.send(
            "/ui/authorize",
            **{"request": request, "answer": "allow", "profile": "", "days": "7", **fields},
        )

    def code(self, *, profile: str = "", **changes: Any) -> str:
        """A code, after the owner's consent."""
        return led(self.decide(self.held(**changes), profile=profile))["code"]

    def exchange(
        self, code: str, *, headers: dict[str, str] | None = None, **changes: Any
    ) -> tuple[int, Any]:
        """The answer to an honest exchange, with ``changes`` of its form and these ``headers``."""
        honest = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            "resource": self.resource,
        }
        sent = {name: value for name, value in {**honest, **changes}.items() if value is not None}
        body = urlencode(sent, doseq=True).encode()
        shown = headers or {"Content-Type": FORM}
        return fetch(self.url, "/oauth/token", method="POST", headers=shown, body=body)

    def opens(self, token: str, path: str = "/mcp") -> int:
        """The status with which a door of MCP answers the bearer of a token."""
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
        }
        return self.post(path, json.dumps(INITIALIZE), "application/json", **headers)[0]

    def tokens(self) -> list[dict[str, Any]]:
        """The tokens of the gateway."""
        return self.cli.json("token", "list")["tokens"]


def led(answer: Answer) -> dict[str, str]:
    """The parameters with which the browser is led to the client's address."""
    assert answer.status == 200, answer.body
    url = answer.headers["refresh"].removeprefix("0; url=")
    assert answer.page.one("section").one("a").attributes["href"] == url
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


@contextmanager
def oauth_gateway(home: Path, issuer: Any = None, **env: str) -> Generator[Flow]:
    """A gateway with clients that may log in, and one that has registered.

    ``issuer`` logs in people in the owner's place.
    """
    patience = {"TOOLSCRIPT_APPROVAL_TIMEOUT": "0.2"}
    cli, scripted = Cli(home, {**FUZZY, **patience, **env}), Scripted(home)
    path = cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL, DELETE))
    written = json.loads(path.read_text("utf-8"))
    written["profiles"] = {"reader": ["files"], "mailer": ["mail"]}
    path.write_text(json.dumps(written | ({"issuer": issuer} if issuer else {})), "utf-8")
    url = cli.start_gateway("--oauth")
    with cli:
        flow = Flow(cli, url, Browser(url).log_in(cli), Browser(url))
        status, registered = flow.register()
        assert status == 201, registered
        flow.client_id = registered["client_id"]
        yield flow
