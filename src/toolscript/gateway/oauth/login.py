"""Being logged in to a remote server: OAuth tokens, kept in a file and refreshed in time.

The library speaks the protocol. What it forgets with the process is kept here
beside the tokens: when they expire and where they are refreshed, without which a
new process could only have its user log in again.

Several processes may use one login. A refresh token may be used only once (RFC 9700:
a provider that sees it twice ends the login), so one process refreshes at a time, and
takes over what another has stored.
"""

import hashlib
import ipaddress
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from toolscript.storage.atomic_files import file_name, make_private, stamp, write_atomically
from toolscript.types import OAuthClient, ServerSpec

VERSION = 1
EARLY_S = 30.0
"""So long before it expires a token is refreshed: a request takes a while."""
REFRESH_TIMEOUT_S = 20.0
LOCK_TIMEOUT_S = 30.0
"""How long another process may take to refresh the login."""
_LOCK_POLL_S = 0.05
_UNAUTHORIZED = 401
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
        self.url = spec.url
        self._registered = spec.oauth
        self._provider: OAuthClientProvider | None = None
        self._draft: _State | None = None
        """What a user who is logging in has brought so far."""

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
        self._provider = _RefreshingProvider(self, self._metadata(_NOWHERE))
        return self._provider

    def interactive(self, redirect: Redirect) -> OAuthClientProvider:
        """Has the user log in. Replaces what was known only by `commit`."""
        self._draft = _State()
        self._provider = _InteractiveProvider(
            self.url, self._metadata(redirect.uri), self, redirect.send, redirect.back
        )
        return self._provider

    async def commit(self) -> bool:
        """Store what the user brought; whether there was anything."""
        draft, self._draft = self._draft, None
        if draft is None or draft.tokens is None:
            return False
        async with self.locked():
            self._write(draft)
        return True

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Only this process changes the file, and uses the refresh token, in the block."""
        import filelock  # noqa: PLC0415 - takes longer than most commands have

        make_private(self.path.parent)
        lock = filelock.FileLock(self.path.with_suffix(".lock"), mode=0o600, thread_local=False)
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except filelock.Timeout:
                if time.monotonic() > deadline:
                    raise httpx2.ReadTimeout("another process refreshes the login") from None
            await anyio.sleep(_LOCK_POLL_S)
        try:
            yield
        finally:
            lock.release()

    def load(self, context: OAuthContext) -> None:
        """Take over what the file says now."""
        state = self._read()
        context.token_expiry_time = state.expires_at
        context.current_tokens = OAuthToken.model_validate(state.tokens) if state.tokens else None
        context.client_info = self._client_info(state)
        if state.server:
            context.oauth_metadata = OAuthMetadata.model_validate(state.server)
        if state.resource:
            resource = ProtectedResourceMetadata.model_validate(state.resource)
            context.protected_resource_metadata = resource

    def drop_refresh_token(self) -> None:
        """The server has said that the refresh token is worth nothing: it is not sent again."""
        state = self._read()
        if state.tokens and state.tokens.pop("refresh_token", None):
            self._write(state)

    def _metadata(self, uri: str) -> OAuthClientMetadata:
        scope = self._registered.scope if self._registered else ""
        return OAuthClientMetadata(
            client_name="toolscript", redirect_uris=[AnyUrl(uri)], scope=scope or None
        )

    def _client_info(self, state: _State) -> OAuthClientInformationFull | None:
        if self._registered:
            return _client(self._registered)
        return OAuthClientInformationFull.model_validate(state.client) if state.client else None

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
        return self._client_info(self._read())

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """See `TokenStorage`."""
        state = self._read()
        state.client = _dumped(client_info)
        self._write(state)

    def _read(self) -> _State:
        """What the file says; a damaged one is as good as none."""
        if self._draft is not None:
            return self._draft
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_State)
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            return _State()

    def _write(self, state: _State) -> None:
        if self._draft is None:
            write_atomically(self.path, msgspec.json.encode(state))


class _RefreshingProvider(OAuthClientProvider):
    """Sends the stored token, and refreshes it where it has expired or is refused.

    The library would answer a refusal by asking the server, and whichever address the
    server names, how to log in. Nobody could follow that up here, so it is not asked.
    """

    def __init__(self, login: Login, metadata: OAuthClientMetadata) -> None:
        super().__init__(login.url, metadata, login)
        self._login = login

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See `OAuthClientProvider`."""
        refused: str | None = None
        while True:
            self._login.load(self.context)
            if self._is_stale(refused):
                await self._refresh(refused)
            token = self._access_token()
            if refused is not None and token in {refused, ""}:
                raise LoginNeededError
            self._add_auth_header(request)
            response = yield request
            if response.status_code != _UNAUTHORIZED:
                return
            if refused is not None:
                raise LoginNeededError
            refused = token

    def _is_stale(self, refused: str | None) -> bool:
        is_usable = self.context.is_token_valid() and self._access_token() != refused
        return self.context.can_refresh_token() and not is_usable

    def _access_token(self) -> str:
        tokens = self.context.current_tokens
        return tokens.access_token if tokens else ""

    async def _refresh(self, refused: str | None) -> None:
        """Refresh the token, unless another process has just done it.

        This is not cancelled with the request that needs it: an answer that is
        not stored would be a refresh token that is lost.
        """
        async with self.context.lock, self._login.locked():
            self._login.load(self.context)
            if not self._is_stale(refused):
                return
            with anyio.CancelScope(shield=True):
                async with httpx2.AsyncClient(timeout=REFRESH_TIMEOUT_S) as client:
                    response = await client.send(await self._refresh_token())
                if await self._handle_refresh_response(response):
                    return
                if b"invalid_grant" in response.content:
                    self._login.drop_refresh_token()


class _InteractiveProvider(OAuthClientProvider):
    """Asks only addresses that the server may name: see `may_be_asked`."""

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See `OAuthClientProvider`."""
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is not request and not await may_be_asked(request.url, outgoing.url):
                    raise OAuthFlowError(
                        f"the server sends us to {outgoing.url.copy_with(query=None)}, which a "
                        f"server at {request.url.host} may not; it needs https and a public address"
                    )
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


async def may_be_asked(server: httpx2.URL, target: httpx2.URL) -> bool:
    """Whether a server may have this machine send a request there.

    Its own origin always; elsewhere only by https if it is asked by https itself, and
    no address that is nearer than its own: a server of the internet may name servers
    of the internet, one of the local network also those of the network, one of this
    machine any. A name that cannot be resolved here (a proxy may) is taken for public.
    """
    if (server.scheme, server.host, server.port) == (target.scheme, target.host, target.port):
        return True
    if server.scheme == "https" != target.scheme:
        return False
    return await _distance(target.host) >= await _distance(server.host)


async def _distance(host: str) -> int:
    """How far away the nearest address of a host is: 0 for this machine, 2 for the internet."""
    try:
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return 2
    addresses = [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    return min((_address_distance(each) for each in addresses), default=2)


def _address_distance(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    # Link-local ones too: there a cloud hands out its machines' credentials.
    if address.is_loopback or address.is_link_local or address.is_unspecified:
        return 0
    return 2 if address.is_global else 1


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
