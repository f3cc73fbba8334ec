"""Stores the OAuth login to a server, and sends and refreshes its tokens.

The SDK speaks the protocol. The facts that it forgets with the process are stored here beside the
tokens: when they expire and who refreshes them. Several processes may use one login.
A login belongs to the issuer that the server named then: nothing of it is sent to another one.
A refresh token may be used only once (RFC 9700: a provider that sees it twice ends the
login), so one process refreshes at a time, and the others take over the tokens that it has stored.
"""

import hashlib
import ipaddress
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
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

from toolscript.gateway.internet_addresses import Address, inner_address, is_of_internet
from toolscript.gateway.oauth.odd_answers import challenge, standard_answer
from toolscript.storage.atomic_files import file_name, make_private
from toolscript.storage.base import Records
from toolscript.storage.file_records import FileRecords
from toolscript.types import OAuthClient, ServerSpec

VERSION = 1
EARLY_S = 30.0
"""How long before it expires a token is refreshed: a request takes a while."""
REFRESH_TIMEOUT_S = 20.0
LOCK_TIMEOUT_S = 30.0
"""How long another process may take to refresh the login."""
_LOCK_POLL_S = 0.1
_UNAUTHORIZED = 401
_MEDIA_TYPE = "application/json"
_ENDED = (b"invalid_grant", b"bad_refresh_token")
"""Errors after which a refresh token is worth nothing; the second is GitHub's."""
_NOWHERE = "http://127.0.0.1/callback"

_Json = dict[str, Any]


class LoginNeededError(Exception):
    """The user has to log in, in a browser."""


class _StoredLogin(msgspec.Struct, kw_only=True):
    version: int = VERSION
    tokens: _Json | None = None
    expires_at: float | None = None
    """In seconds since 1970."""
    client: _Json | None = None
    server: _Json | None = None
    resource: _Json | None = None
    issuer: str = ""
    """The authorization server that the client and the tokens belong to."""


class Login:
    """One server's login: a `TokenStorage`, by default in a file that only its owner may read.

    Args:
        directory: The folder of logins.
        spec: The server.
        records: The storage of logins instead.
    """

    def __init__(self, directory: Path, spec: ServerSpec, records: Records | None = None) -> None:
        url = hashlib.sha256(spec.url.encode()).hexdigest()[:16]
        self._name = f"{file_name(spec.name)}-{url}"
        files = FileRecords(directory)
        self.path = files.path(self._name)
        self._directory = directory
        self._records: Records = records or files
        self.url = spec.url
        self._registered = spec.oauth
        self._provider: OAuthClientProvider | None = None
        self._draft: _StoredLogin | None = None
        """The login that the user is in the middle of."""
        self.last_issuer = ""
        """The issuer of the login before that; empty if there was none."""

    @property
    def exists(self) -> bool:
        """Whether there are tokens."""
        return self._read().tokens is not None

    @property
    def stamp(self) -> str:
        """Changes when the user logs in or out, also by another process."""
        try:
            return self._records.stamp(self._name)
        except OSError:
            return ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The tokens and the client's secret, which must not be shown."""
        stored = self._read()
        tokens, client = stored.tokens or {}, stored.client or {}
        secrets = (
            tokens.get("access_token"),
            tokens.get("refresh_token"),
            client.get("client_secret"),
        )
        return tuple(str(secret) for secret in secrets if secret)

    def forget(self) -> bool:
        """Logs out; returns whether there was a login."""
        with self._records.locked(self._name):  # a refresh under way would store its tokens later
            return self._records.delete(self._name)

    def refreshing(self) -> OAuthClientProvider:
        """Returns a provider that adds and refreshes the token, and asks for no login."""
        self._provider = _RefreshingProvider(self, self._metadata(_NOWHERE))
        return self._provider

    def interactive(
        self,
        redirect_uri: str,
        send: Callable[[str], Awaitable[None]],
        wait: Callable[[], Awaitable[AuthorizationCodeResult]],
        document: str = "",
    ) -> "InteractiveProvider":
        """Returns a provider that has the user log in; `commit` then replaces the stored login.

        ``send`` sends the user to an address, ``wait`` waits until they come back to
        ``redirect_uri``. A server that reads the ``document`` about us needs no registration.
        """
        last = self._read()
        self.last_issuer = last.issuer or str((last.server or {}).get("issuer") or "")
        self._draft = _StoredLogin()
        self._provider = InteractiveProvider(
            self.url, self._metadata(redirect_uri), self, send, wait, document or None
        )
        self._provider.registered = self._registered
        return self._provider

    async def commit(self) -> bool:
        """Stores the login that the user has made; returns whether there is one."""
        draft = self._draft
        if draft is None or draft.tokens is None:
            return False
        self._draft = None
        async with self.locked():
            await self._write(draft)
        return True

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Lets only this process change the login, and use the refresh token, in the block.

        A change within it counts from its end at the latest. Raises `httpx2.ReadTimeout`, and
        `OSError` if the storage cannot be used.
        """
        make_private(self._directory)
        deadline = anyio.current_time() + LOCK_TIMEOUT_S
        while True:  # each time for a moment: a thread that waits cannot be cancelled
            lock = self._records.locked(self._name, _LOCK_POLL_S)
            try:
                await anyio.to_thread.run_sync(lock.__enter__)
                break
            except TimeoutError:
                if anyio.current_time() >= deadline:
                    raise httpx2.ReadTimeout("another process refreshes the login") from None
                await anyio.sleep(_LOCK_POLL_S)
        try:
            yield
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lock.__exit__, type(error), error, None)
            raise
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lock.__exit__, None, None, None)

    def load(self, context: OAuthContext) -> None:
        """Takes over the stored login."""
        state = self._read()
        context.token_expiry_time = state.expires_at
        context.current_tokens = OAuthToken.model_validate(state.tokens) if state.tokens else None
        context.client_info = self._client_info(state)
        if state.server:
            context.oauth_metadata = OAuthMetadata.model_validate(state.server)
        if state.resource:
            resource = ProtectedResourceMetadata.model_validate(state.resource)
            context.protected_resource_metadata = resource

    async def drop_refresh_token(self) -> None:
        """Forgets the refresh token, after the server has refused it."""
        state = self._read()
        if state.tokens and state.tokens.pop("refresh_token", None):
            await self._write(state)

    def _metadata(self, redirect_uri: str) -> OAuthClientMetadata:
        scope = (self._registered.scope if self._registered else "") or None
        return OAuthClientMetadata(
            client_name="toolscript", redirect_uris=[AnyUrl(redirect_uri)], scope=scope
        )

    def _client_info(self, state: _StoredLogin) -> OAuthClientInformationFull | None:
        if self._registered:
            methods = (state.server or {}).get("token_endpoint_auth_methods_supported")
            issuer = self.last_issuer if self._draft else state.issuer
            return _client_of(self._registered, methods, issuer)
        return OAuthClientInformationFull.model_validate(state.client) if state.client else None

    async def get_tokens(self) -> OAuthToken | None:
        """See `TokenStorage`."""
        tokens = self._read().tokens
        return OAuthToken.model_validate(tokens) if tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """See `TokenStorage`."""
        state = self._read()
        state.tokens = _dump(tokens)
        state.expires_at = None
        if tokens.expires_in is not None:
            state.expires_at = time.time() + max(1.0, tokens.expires_in - EARLY_S)
        if self._provider is not None:
            context = self._provider.context
            context.token_expiry_time = state.expires_at
            state.server = _dump(context.oauth_metadata)
            state.resource = _dump(context.protected_resource_metadata)
            if isinstance(self._provider, InteractiveProvider):
                state.issuer = self._provider.issuer
        await self._write(state)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """See `TokenStorage`."""
        return self._client_info(self._read())

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """See `TokenStorage`."""
        state = self._read()
        state.client = _dump(client_info)
        await self._write(state)

    def _read(self) -> _StoredLogin:
        """Returns the draft or the stored login; an empty one if the file is damaged."""
        if self._draft is not None:
            return self._draft
        try:
            content = self._records.read(self._name) or b"{}"
            return msgspec.json.decode(content, type=_StoredLogin)
        except (OSError, ValueError, RecursionError):
            return _StoredLogin()

    async def _write(self, state: _StoredLogin) -> None:
        if self._draft is None:
            content = msgspec.json.encode(state)
            await anyio.to_thread.run_sync(self._records.write, self._name, content)


def _client_of(
    client: OAuthClient, methods: list[str] | None, issuer: str
) -> OAuthClientInformationFull:
    """Returns a client that was registered by hand, which counts for one issuer if that is known.

    It shows its secret in one of the ``methods`` of its authorization server: see RFC 8414.
    """
    method = "client_secret_post"
    if method not in (methods or ()):
        method = "client_secret_basic"
    return OAuthClientInformationFull(
        client_id=client.client_id,
        client_secret=client.client_secret or None,
        token_endpoint_auth_method=method if client.client_secret else "none",
        issuer=issuer or None,
    )


class _RefreshingProvider(OAuthClientProvider):
    """Sends the stored token, and refreshes it if it has expired or is refused.

    The SDK would answer a refusal by asking the server, and whichever address the server
    names, how to log in. There is no user here, so it is not asked.
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
        """Refreshes the token, unless another process has just done so.

        A cancellation of the request does not reach it: an answer that is not stored
        would be a lost refresh token.
        """
        async with self.context.lock, self._login.locked():
            self._login.load(self.context)
            if not self._is_stale(refused):
                return
            with anyio.CancelScope(shield=True):
                request = await self._refresh_token()
                request.headers["Accept"] = _MEDIA_TYPE
                async with httpx2.AsyncClient(timeout=REFRESH_TIMEOUT_S) as client:
                    answer = await client.send(request)
                answer = await standard_answer(answer, "")
                if not await self._handle_refresh_response(answer) and any(
                    error in answer.content for error in _ENDED
                ):
                    await self._login.drop_refresh_token()
                self._login.load(self.context)


class InteractiveProvider(OAuthClientProvider):
    """Asks only addresses that the server may name, see `may_be_asked`, and no other issuer.

    The SDK forgets a client that belongs to another issuer; one that a person has registered is
    not replaced. It would also forget the scope that the person wants.
    """

    registered: OAuthClient | None = None
    """The client that was registered by hand."""

    @property
    def issuer(self) -> str:
        """The authorization server that the server has named, or the server's own origin."""
        return self._expected_issuer()

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        """See `OAuthClientProvider`."""
        if self.registered is not None:
            metadata = self.context.oauth_metadata
            methods = metadata.token_endpoint_auth_methods_supported if metadata else None
            self.context.client_info = _client_of(self.registered, methods, self.issuer)
            if self.registered.scope:
                self.context.client_metadata.scope = self.registered.scope
        return await super()._perform_authorization_code_grant()

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
                if outgoing is not request and self.registered and not self.context.client_info:
                    raise OAuthFlowError(
                        f"it names {self.issuer} for logins now, and oauth.clientId belongs to "
                        "another one, so nothing was sent; if that is right, log out with "
                        "--logout first"
                    )
                if outgoing is request:
                    response = challenge((yield outgoing))
                else:
                    outgoing.headers["Accept"] = _MEDIA_TYPE
                    response = await standard_answer((yield outgoing), self.issuer)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


async def may_be_asked(server: httpx2.URL, target: httpx2.URL) -> bool:
    """Returns whether a server may have this machine send a request to the target.

    Its own origin always. Any other only over https if the server itself is asked over
    https, and no address nearer than its own: a server on the internet may name servers
    on the internet, one on the local network also those there, one on this machine any.
    A name that cannot be resolved here (a proxy may) counts as public.
    """
    if (server.scheme, server.host, server.port) == (target.scheme, target.host, target.port):
        return True
    if server.scheme == "https" != target.scheme:
        return False
    return await _distance(target.host) >= await _distance(server.host)


async def _distance(host: str) -> int:
    """Returns how far a host's nearest address is: 0 for this machine, 2 for the internet."""
    try:
        rows = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return 2
    addresses = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
    return min((_address_distance(address) for address in addresses), default=2)


def _address_distance(address: Address) -> int:
    inner = inner_address(address) if isinstance(address, ipaddress.IPv6Address) else None
    for each in filter(None, (address, inner)):
        # Link-local ones too: there a cloud hands out its machines' credentials.
        if each.is_loopback or each.is_link_local or each.is_unspecified:
            return 0
    return 2 if is_of_internet(address) else 1


def _dump(model: Any) -> _Json | None:
    return model.model_dump(mode="json", exclude_none=True) if model else None
