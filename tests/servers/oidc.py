"""An OpenID provider on this machine that gives the tokens a test asks for, honest or not."""

import base64
import hashlib
import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote_plus

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from tests.servers.in_thread import serve_in_thread

CLIENT, SECRET = "toolscript", "s3cret value/+%"
PEOPLE: dict[str, dict[str, Any]] = {
    "anna": {"email": "anna@corp.example", "email_verified": True, "groups": ["engineering"]},
    "otto": {"preferred_username": "otto", "groups": ["engineering", "support"]},
    "eve": {"email": "eve@corp.example", "email_verified": False, "groups": ["guests"]},
}


@dataclass
class Grant:
    """A code that was given: whom it stands for, and the changes of its token."""

    request: dict[str, str]
    claims: dict[str, Any]
    headers: dict[str, Any]
    algorithm: str = "RS256"
    key: Any = None
    raw: Any = None
    """The answer's ID token instead."""


@dataclass
class Provider:
    """The provider: its keys, the codes that it gave, and the changes of its answers."""

    url: str = ""
    key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    other: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    codes: dict[str, Grant] = field(default_factory=dict[str, Grant])
    fetches: list[str] = field(default_factory=list[str])
    """The paths that were asked."""

    def describe(self) -> dict[str, Any]:
        """The metadata."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/auth?tenant=1",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "scopes_supported": ["openid", "email", "groups"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }

    def keys(self) -> dict[str, Any]:
        """The public keys: one for signatures, another for encryption."""
        signing = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        other = json.loads(ECAlgorithm.to_jwk(self.other.public_key()))
        return {
            "keys": [
                {**signing, "kid": "one", "use": "sig", "alg": "RS256"},
                {**other, "kid": "sealing", "use": "enc"},
            ]
        }

    def grant(self, request: dict[str, str], person: str = "anna", **changes: Any) -> str:
        """Logs a person in; returns the code of the answer.

        ``claims`` and ``headers`` change those of an honest token; None leaves one out.
        """
        claims = {
            "iss": self.url,
            "sub": f"id-of-{person}",
            "aud": CLIENT,
            "exp": int(time.time()) + 300,
            "iat": int(time.time()),
            "nonce": request["nonce"],
            **PEOPLE[person],
            **changes.pop("claims", {}),
        }
        headers = {"kid": "one", **changes.pop("headers", {})}
        code = f"code-{len(self.codes)}"
        self.codes[code] = Grant(request, _present(claims), _present(headers), **changes)
        return code

    def exchange(self, form: dict[str, str], login: str) -> tuple[int, dict[str, Any]]:
        """The answer to a code: once, and to the client that it was given to."""
        given = base64.b64decode(login.removeprefix("Basic ")).decode()
        if [unquote_plus(part) for part in given.split(":")] != [CLIENT, SECRET]:
            return 401, {"error": "invalid_client", "error_description": f"not {SECRET}"}
        grant = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if grant is None or (form["redirect_uri"], challenge) != (
            grant.request["redirect_uri"],
            grant.request["code_challenge"],
        ):
            return 400, {"error": "invalid_grant"}
        if grant.raw is not None:
            return 200, {"access_token": "a", "id_token": grant.raw}
        key = self.key if grant.key is None else grant.key
        token = jwt.encode(grant.claims, key, grant.algorithm, headers=grant.headers)
        return 200, {"access_token": "a", "token_type": "Bearer", "id_token": token}


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def oidc_provider() -> Generator[Provider]:
    """Serves for as long as the block lasts."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.fetches.append(self.path)
            answers = {
                "/.well-known/openid-configuration": provider.describe,
                "/keys": provider.keys,
            }
            if self.path in answers:
                self.answer(200, answers[self.path]())
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self.answer(*provider.exchange(form, self.headers.get("authorization", "")))

        def answer(self, status: int, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serve_in_thread(Handler) as port:
        provider.url = f"http://127.0.0.1:{port}"
        yield provider
