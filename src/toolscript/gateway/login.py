"""Being logged in to a remote server: OAuth tokens, kept in a file and refreshed in time.

The library speaks the protocol. What it forgets with the process is kept here
beside the tokens: when they expire and where they are refreshed, without which a
new process could only have its user log in again.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from toolscript.files import file_name, stamp, write_atomically
from toolscript.types import OAuthClient, ServerSpec

VERSION = 1
EARLY_S = 30.0
"""So long before it expires a token is refreshed: a request takes a while."""
_LONG_AGO = 1.0
"""Not 0, which the library takes for never."""
_NOWHERE = "http://127.0.0.1/callback"

_Json = dict[str, Any]


class LoginNeededError(Exception):
    """Only the user can go on, in a browser."""


class _State(msgspec.Struct, kw_only=True):
    version: int = VERSION
    tokens: _Json | None = None
    expires_at: float | None = None
    """Seconds since 1970."""
    client: _Json | None = None
    server: _Json | None = None
    resource: _Json | None = None


class Redirect(Protocol):
    """How a user logs in: is sent to an address, and comes back to another."""

    @property
    def uri(self) -> str:
        """Where the user comes back to."""
        ...

    async def send(self, url: str) -> None:
        """Send the user there."""
        ...

    async def back(self) -> AuthorizationCodeResult:
        """Wait for the user to come back."""
        ...


class Login:
    """What is known of one server's login: a `TokenStorage` in a file that only its owner reads."""

    def __init__(self, directory: Path, spec: ServerSpec) -> None:
        url = hashlib.sha256(spec.url.encode()).hexdigest()[:16]
        self.path = directory / f"{file_name(spec.name)}-{url}.json"
        self._url = spec.url
        self._registered = spec.oauth
        self._provider: OAuthClientProvider | None = None

    @property
    def exists(self) -> bool:
        """Whether there are tokens."""
        return self._read().tokens is not None

    @property
    def stamp(self) -> str:
        """See `files.stamp`: another one when somebody has logged in or out."""
        return stamp([self.path])

    @property
    def secrets(self) -> tuple[str, ...]:
        """Tokens, which must not be shown."""
        tokens, client = self._read().tokens or {}, self._read().client or {}
        named = [tokens.get("access_token"), tokens.get("refresh_token")]
        return tuple(str(each) for each in (*named, client.get("client_secret")) if each)

    def forget(self) -> bool:
        """Log out; whether there was anything to forget."""
        existed = self.path.exists()
        self.path.unlink(missing_ok=True)
        return existed

    def refreshing(self) -> OAuthClientProvider:
        """Adds the token to requests, refreshed where it has to be; nobody is asked to log in."""
        return self._made(_NOWHERE, self._refuse, _nobody_comes)

    def interactive(self, redirect: Redirect) -> OAuthClientProvider:
        """Has the user log in. What was known is forgotten: the way back is another each time."""
        self.forget()
        return self._made(redirect.uri, redirect.send, redirect.back)

    def _made(
        self,
        uri: str,
        send: Callable[[str], Awaitable[None]],
        back: Callable[[], Awaitable[AuthorizationCodeResult]],
    ) -> OAuthClientProvider:
        scope = self._registered.scope if self._registered else ""
        metadata = OAuthClientMetadata(
            client_name="toolscript", redirect_uris=[AnyUrl(uri)], scope=scope or None
        )
        provider = OAuthClientProvider(self._url, metadata, self, send, back)
        state, context = self._read(), provider.context
        context.token_expiry_time = state.expires_at
        if state.server:
            context.oauth_metadata = OAuthMetadata.model_validate(state.server)
        if state.resource:
            resource = ProtectedResourceMetadata.model_validate(state.resource)
            context.protected_resource_metadata = resource
        self._provider = provider
        return provider

    async def _refuse(self, url: str) -> None:
        """The server does not take the token: it is refreshed next time, if that can be done."""
        del url
        state = self._read()
        if state.expires_at != _LONG_AGO and (state.tokens or {}).get("refresh_token"):
            state.expires_at = _LONG_AGO
            self._write(state)
        raise LoginNeededError

    async def get_tokens(self) -> OAuthToken | None:
        """See `TokenStorage`."""
        tokens = self._read().tokens
        return OAuthToken.model_validate(tokens) if tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """See `TokenStorage`."""
        state = self._read()
        state.tokens = tokens.model_dump(mode="json", exclude_none=True)
        state.expires_at = None
        if tokens.expires_in is not None:
            state.expires_at = time.time() + max(1.0, tokens.expires_in - EARLY_S)
        if self._provider is not None:
            context = self._provider.context
            context.token_expiry_time = state.expires_at
            state.server = _dumped(context.oauth_metadata)
            state.resource = _dumped(context.protected_resource_metadata)
        self._write(state)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """See `TokenStorage`."""
        if self._registered:
            return _client(self._registered)
        client = self._read().client
        return OAuthClientInformationFull.model_validate(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """See `TokenStorage`."""
        state = self._read()
        state.client = _dumped(client_info)
        self._write(state)

    def _read(self) -> _State:
        """What the file says; a damaged one is as good as none."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_State)
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            return _State()

    def _write(self, state: _State) -> None:
        write_atomically(self.path, msgspec.json.encode(state))


async def _nobody_comes() -> AuthorizationCodeResult:
    raise LoginNeededError


def is_login_needed(error: BaseException) -> bool:
    """Whether a request failed because the user has to log in."""
    return isinstance(error, LoginNeededError | OAuthFlowError)


def _client(registered: OAuthClient) -> OAuthClientInformationFull:
    secret = registered.client_secret or None
    method = "client_secret_post" if secret else "none"
    return OAuthClientInformationFull(
        client_id=registered.client_id, client_secret=secret, token_endpoint_auth_method=method
    )


def _dumped(model: Any) -> _Json | None:
    return model.model_dump(mode="json", exclude_none=True) if model else None
