"""An authorization server for the gateway's own doors: a client asks, the owner consents.

The owner's consent becomes a code, the code an ordinary token of the token store. Requests, codes
and the ids of clients that have registered are sealed values, so nothing is kept for those who
only ask; a code that was exchanged is remembered beside the tokens. No request has an effect, and
no answer leaves for a client's address, before the owner has decided.
"""

import hashlib
import hmac
import logging
import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import anyio.to_thread
import msgspec

from toolscript.config.access_tokens import TokenStore, grant_for
from toolscript.config.secret_key import SecretKey
from toolscript.config.settings import OPTION
from toolscript.errors import InputError, TokenFileError
from toolscript.surfaces.server.oauth_client_metadata import (
    ClientDescription,
    ClientDocuments,
    host_of,
    read_client,
)
from toolscript.surfaces.server.page_sessions import CONSENT
from toolscript.text.display import printable

if TYPE_CHECKING:
    from toolscript.surfaces.server.oidc_client import OidcClient

TOKEN, REGISTER = "/oauth/token", "/oauth/register"
RESOURCE = "/.well-known/oauth-protected-resource"
METADATA = "/.well-known/oauth-authorization-server"
SCOPE = "mcp"
"""The only one: the owner decides about rights, not the request."""
CODE_S = 60
REQUEST_S = 600
"""How long the owner may take to decide, in seconds."""
DAYS = (1, 7, 30, 90, 365)
"""The lifetimes between which the owner chooses."""
MAX_STATE_CHARS = 2_000
MAX_SEALED_CHARS = 8_000
_DOOR = re.compile(rf"/mcp(?:/p/[^/?#]+)?(?:/(?:{'|'.join(OPTION['exposure'].choices)}))?/?")
_PROFILE = re.compile(r"/mcp/p/([^/]+)")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_REGISTERED = "client-"
"""The beginning of the ids of clients that have registered."""
UNAVAILABLE = "temporarily_unavailable"
_T = TypeVar("_T")
log = logging.getLogger(__name__)


class OAuthError(Exception):
    """A refusal as RFC 6749 writes it: a code, and a line for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class AuthorizationRequest(msgspec.Struct, frozen=True, array_like=True):
    """A client's request that was checked, and waits for the owner, or for another person."""

    client_id: str
    name: str
    """The name that the client gives itself."""
    redirect_uri: str
    challenge: str
    resource: str
    state: str | None
    expires: int
    """In seconds since 1970."""
    log_in: str = ""
    """The state of the person's log-in; empty for the owner."""
    account: str = ""
    profiles: tuple[str, ...] = ()
    """The profiles of the person's groups."""

    @property
    def profile(self) -> str:
        """The profile that the requested address names; empty for none."""
        match = _PROFILE.match(urlsplit(self.resource).path)
        return unquote(match[1]) if match else ""

    @property
    def document_host(self) -> str:
        """The host that vouches for the client's description; empty if it has registered."""
        return "" if self.client_id.startswith(_REGISTERED) else urlsplit(self.client_id).netloc


class _Code(msgspec.Struct, frozen=True, array_like=True):
    id: str
    expires: int
    binding: str
    """Stands for the client, its address and its challenge."""
    resource: str
    name: str
    profiles: tuple[str, ...]
    days: int


class OAuthServer:
    """Checks requests, and turns consent into tokens.

    If it has a ``provider``, that logs in people, who consent instead of the owner.

    Args:
        issuer: The gateway's address for others, without a slash at its end.
        key: Seals values; replicas share it.
        tokens: Stores the tokens.
        documents: Fetches how clients describe themselves.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self,
        issuer: str,
        key: SecretKey,
        tokens: TokenStore,
        documents: ClientDocuments,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = issuer
        self._key = key
        self._tokens = tokens
        self._documents = documents
        self._clock = clock
        self.provider: OidcClient | None = None

    def is_open(self, path: str) -> bool:
        """Returns whether a path is answered to everybody alike, whatever token they send."""
        return path in {TOKEN, REGISTER, METADATA, RESOURCE} or path.startswith(f"{RESOURCE}/")

    def challenge(self, path: str, *, has_token: bool) -> str:
        """Returns the header that tells a client that was refused at this path how to log in."""
        door = quote(path) if _DOOR.fullmatch(path) else ""
        error = 'error="invalid_token", ' if has_token else ""
        return f'Bearer {error}resource_metadata="{self.issuer}{RESOURCE}{door}", scope="{SCOPE}"'

    def describe(self) -> dict[str, Any]:
        """Returns the metadata of the authorization server (RFC 8414)."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": self.issuer + CONSENT,
            "token_endpoint": self.issuer + TOKEN,
            "registration_endpoint": self.issuer + REGISTER,
            "scopes_supported": [SCOPE],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code"],
            "token_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
        }

    def describe_resource(self, path: str) -> dict[str, Any] | None:
        """Returns the metadata of a door of MCP (RFC 9728); None if nothing is at its path."""
        if path and _DOOR.fullmatch(path) is None:
            return None
        return {
            "resource": self.issuer + quote(path),
            "authorization_servers": [self.issuer],
            "scopes_supported": [SCOPE],
            "bearer_methods_supported": ["header"],
            "resource_name": "toolscript",
        }

    def register(self, content: bytes) -> dict[str, Any]:
        """Returns a new client's registration (RFC 7591); nothing is kept of it.

        Raises `InputError` for a description that cannot be used.
        """
        client = read_client(content)
        sealed = self.seal("client", ClientDescription(client.redirect_uris, client.name))
        return {
            "client_id": _REGISTERED + sealed,
            "client_id_issued_at": int(self._clock()),
            "client_name": client.name,
            "redirect_uris": client.redirect_uris,
            "grant_types": ["authorization_code"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": SCOPE,
        }

    async def check(self, parameters: Iterable[tuple[str, str]]) -> AuthorizationRequest:
        """Returns a client's request; raises `InputError` for one that may not be asked for."""
        pairs = list(parameters)
        given = dict(pairs)
        if len(given) != len(pairs):
            raise InputError("the client's request has a parameter twice")
        if given.get("response_type") != "code":
            raise InputError("the client's request has no response_type=code")
        if given.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(
            given.get("code_challenge", "")
        ):
            raise InputError("the client's request has no code_challenge of the method S256 (PKCE)")
        resource = given.get("resource", self.issuer)
        if not self._is_own(resource):
            raise InputError(
                f"the client asks for access to {printable(resource, 100)!r}, "
                f"which is not this gateway ({self.issuer})"
            )
        state = given.get("state")
        if len(state or "") > MAX_STATE_CHARS:
            raise InputError(f"state is longer than {MAX_STATE_CHARS} characters")
        client_id, redirect_uri = given.get("client_id", ""), given.get("redirect_uri", "")
        client = await self._client(client_id)
        if not client.accepts(redirect_uri):
            raise InputError(
                f"the redirect_uri {printable(redirect_uri, 100)!r} is none of the client's own"
            )
        return AuthorizationRequest(
            client_id,
            client.name,
            redirect_uri,
            given["code_challenge"],
            resource,
            state,
            int(self._clock()) + REQUEST_S,
        )

    async def _client(self, client_id: str) -> ClientDescription:
        if not client_id.startswith(_REGISTERED):
            return await self._documents.fetch(client_id)
        client = self._read_client(client_id)
        if client is None:
            raise InputError("this client is not registered here; remove it there, and add it anew")
        return client

    def _read_client(self, client_id: str) -> ClientDescription | None:
        return self.read("client", client_id.removeprefix(_REGISTERED), ClientDescription)

    def _is_own(self, resource: str) -> bool:
        path = resource.removeprefix(self.issuer)
        return path != resource and (path in {"", "/"} or _DOOR.fullmatch(path) is not None)

    def seal_request(self, request: AuthorizationRequest) -> str:
        """Returns a request sealed, for the form in which the owner decides."""
        return self.seal("request", request)

    def read_request(self, sealed: str) -> AuthorizationRequest:
        """Returns the request of a form; raises `InputError` for one that is forged or too old."""
        request = self.read("request", sealed, AuthorizationRequest)
        if request is None or request.expires < self._clock():
            raise InputError("the question is too old; let the program ask once more")
        return request

    def allow(self, request: AuthorizationRequest, profile: str, days: int) -> str:
        """Returns the address to which the browser takes the code.

        Args:
            request: The client's request.
            profile: The profile whose rules hold for the token; empty for none.
            days: How long the token is valid.
        """
        program = f"{request.name} ({request.document_host or host_of(request.redirect_uri)})"
        code = _Code(
            secrets.token_urlsafe(16),
            int(self._clock()) + CODE_S,
            _bind(request.client_id, request.redirect_uri, request.challenge),
            request.resource,
            f"{program} for {request.account}".removesuffix(" for ").strip(),
            tuple({*filter(None, (profile, request.profile))}),
            days,
        )
        return self._answer(request, code=self.seal("code", code))

    def deny(self, request: AuthorizationRequest) -> str:
        """Returns the address to which the browser takes the owner's refusal."""
        return self._answer(request, error="access_denied")

    def _answer(self, request: AuthorizationRequest, **answer: str) -> str:
        state = {} if request.state is None else {"state": request.state}
        added = urlencode({**answer, **state, "iss": self.issuer})
        separator = "&" if "?" in request.redirect_uri else "?"
        return f"{request.redirect_uri}{separator}{added}"

    async def exchange(self, parameters: list[tuple[str, str]]) -> dict[str, Any]:
        """Returns the token for a code (RFC 6749); raises `OAuthError`."""
        given = dict(parameters)
        if len(given) != len(parameters):
            raise OAuthError("invalid_request", "a parameter comes twice")
        code = self._read_code(given)
        is_valid = self._fits(code, given)
        if is_valid and given.get("resource", code.resource) != code.resource:
            raise OAuthError("invalid_target", "the code was given for another resource")
        rules = () if code.profiles else ("destructive=ask",)
        grant = grant_for((), (), rules, code.profiles) if is_valid else None
        try:
            token = await anyio.to_thread.run_sync(
                self._tokens.exchange, code.id, grant, code.name, code.days
            )
        except (OSError, TokenFileError) as error:
            log.error("no token was made: %s", error)  # noqa: TRY400 - for its owner, in one line
            raise OAuthError(UNAVAILABLE, "the tokens cannot be read or written now") from None
        if token is None:
            raise OAuthError("invalid_grant", "the code is too old, was used, or is not for this")
        lasts = {"expires_in": code.days * 86_400, "scope": SCOPE}
        return {"access_token": token, "token_type": "Bearer", **lasts}

    def _read_code(self, given: dict[str, str]) -> _Code:
        """Returns the code of a request; raises `OAuthError` for a request of another kind."""
        if given.get("grant_type") != "authorization_code":
            raise OAuthError("unsupported_grant_type", "only authorization_code is supported")
        client_id = given.get("client_id", "")
        if client_id.startswith(_REGISTERED) and self._read_client(client_id) is None:
            raise OAuthError("invalid_client", "the client is not registered here")
        code = self.read("code", given.get("code", ""), _Code)
        if code is None:
            raise OAuthError("invalid_grant", "the code is not known")
        return code

    def _fits(self, code: _Code, given: dict[str, str]) -> bool:
        verifier = given.get("code_verifier", "")
        if code.expires < self._clock() or not _VERIFIER.fullmatch(verifier):
            return False
        challenge = _encode(hashlib.sha256(verifier.encode()).digest())
        binding = _bind(given.get("client_id", ""), given.get("redirect_uri", ""), challenge)
        return hmac.compare_digest(code.binding, binding)

    def seal(self, purpose: str, value: object) -> str:
        """Returns a value as a text that only this gateway, or a replica, can make or read."""
        return self._key.seal_value(value, self._purpose(purpose))

    def read(self, purpose: str, sealed: str, kind: type[_T]) -> _T | None:
        """Returns a value that was sealed for the same purpose; None for anything else."""
        return self._key.read_value(sealed, self._purpose(purpose), kind, MAX_SEALED_CHARS)

    def _purpose(self, name: str) -> bytes:
        """Another gateway with the same key can read nothing of this one."""
        return f"oauth-{name} {self.issuer}".encode()


def _encode(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _bind(*values: str) -> str:
    return hashlib.sha256(msgspec.json.encode(values)).hexdigest()
