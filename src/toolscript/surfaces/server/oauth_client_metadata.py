"""Reads how a client of OAuth describes itself: in a document at its address, or to register.

Both have the same members (RFC 7591). The text is a client's own: nothing of it is checked but the
host of its document and the addresses to which an answer may go.
"""

import ipaddress
import re
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import anyio
import msgspec

from toolscript.errors import InputError
from toolscript.gateway.internet_addresses import Address, is_of_internet
from toolscript.text.display import printable

if TYPE_CHECKING:
    import ssl

    import httpx2

MAX_URI_CHARS = 500
MAX_REDIRECTS = 10
MAX_NAME_CHARS = 80
MAX_DOCUMENT_BYTES = 10 * 1024
DOCUMENT_TIMEOUT_S = 5.0
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_EDITORS = frozenset({"cursor", "vscode", "vscode-insiders", "windsurf"})
"""Schemes of programs that have no domain in their scheme's name, as RFC 8252 asks for."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9._~:/?\[\]!$&'()*+,;=%-]+")
"""An address without fragment and user information, in characters that need no escape."""
_OK = 200


class ClientDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client as it describes itself; other members count for nothing."""

    redirect_uris: tuple[str, ...]
    """The addresses to which answers may go."""
    client_name: str | None = None
    client_id: str | None = None
    token_endpoint_auth_method: str | None = None
    client_secret: Any = None

    @property
    def name(self) -> str:
        """The name that the client gives itself."""
        return printable(self.client_name or "", MAX_NAME_CHARS)

    def accepts(self, uri: str) -> bool:
        """Returns whether an answer may go to this address.

        It has to be one of the client's, character by character. Only the port of an address of
        the client's own machine may differ (RFC 8252).
        """
        if uri in self.redirect_uris or not is_redirect(uri):
            return uri in self.redirect_uris
        return is_loopback(uri) and _portless(uri) in map(_portless, self.redirect_uris)


class RedirectError(InputError):
    """A client has no address to which an answer may go, or another one, or too many."""


def read_client(content: bytes) -> ClientDescription:
    """Returns a client; raises `InputError` for no description or unusable addresses."""
    try:
        client = msgspec.json.decode(content, type=ClientDescription)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = printable(str(error), 200)
        raise InputError(f"the client's description cannot be read: {why}") from None
    uris = client.redirect_uris
    if not 0 < len(uris) <= MAX_REDIRECTS:
        raise RedirectError(
            f"redirect_uris has {len(uris)} addresses; expected 1 to {MAX_REDIRECTS}"
        )
    if unusable := [uri for uri in uris if not is_redirect(uri)]:
        raise RedirectError(
            f"the redirect_uri {printable(unusable[0], 100)!r} cannot be used; expected https, "
            "http to 127.0.0.1, [::1] or localhost, or a scheme with a domain, and no fragment"
        )
    return client


def is_redirect(uri: str) -> bool:
    """Returns whether an answer may go to such an address, if it is one of the client's."""
    parts = _split(uri)
    if parts is None:
        return False
    if parts.scheme == "http":
        return parts.hostname in _LOOPBACK
    return parts.scheme == "https" or "." in parts.scheme or parts.scheme in _EDITORS


def is_loopback(uri: str) -> bool:
    """Returns whether an address is one of the machine of the browser."""
    parts = urlsplit(uri)
    return parts.scheme == "http" and parts.hostname in _LOOPBACK


def host_of(uri: str) -> str:
    """Returns the host of an address for people; its scheme if a program has that to itself."""
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme in {"http", "https"} else f"{parts.scheme}:"


def _split(uri: str) -> SplitResult | None:
    """Returns the parts of an address; None for one that is not written as such."""
    if len(uri) > MAX_URI_CHARS or _URI.fullmatch(uri) is None:
        return None
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return None
    return parts if parts.hostname and port != 0 else None


def _portless(uri: str) -> tuple[str, ...]:
    parts = urlsplit(uri)
    return parts.scheme, parts.hostname or "", parts.path, parts.query


class ClientDocuments:
    """Fetches the documents of clients, from the internet only.

    Args:
        may_ask: Whether a document may be fetched from an address.
        tls: Which certificates count; None for those of the system.
    """

    def __init__(
        self,
        may_ask: Callable[[Address], bool] = is_of_internet,
        tls: "ssl.SSLContext | None" = None,
    ) -> None:
        self._may_ask = may_ask
        self._tls = tls

    async def fetch(self, client_id: str) -> ClientDescription:
        """Returns the client whose id is the address of its document.

        Raises `InputError` if there is no such document, or none that may be fetched or believed.
        """
        import httpx2  # noqa: PLC0415 - only a consent needs it

        url = _document_url(client_id)
        try:
            with anyio.fail_after(DOCUMENT_TIMEOUT_S):
                async with httpx2.AsyncClient(verify=self._tls or True, trust_env=False) as http:
                    content = await self._get(http, url)
        except (TimeoutError, OSError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            why = printable(str(error), 100) or type(error).__name__
            raise InputError(f"{client_id} cannot be fetched: {why}") from None
        client = read_client(content)
        if client.client_id != client_id:
            raise InputError(f"the document at {client_id} is not about that client_id")
        if client.token_endpoint_auth_method not in {None, "none"} or client.client_secret:
            raise InputError(f"{client_id} asks for a client secret or key; only none is supported")
        return client

    async def _get(self, http: "httpx2.AsyncClient", url: SplitResult) -> bytes:
        """Returns the document; the address that was checked is the one that is asked."""
        host, port = url.hostname or "", url.port or 443
        rows = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
        if not addresses or not all(map(self._may_ask, addresses)):
            raise InputError(f"{host} is no host of the internet, so its document is not fetched")
        literal = f"[{addresses[0]}]" if addresses[0].version == 6 else str(addresses[0])  # noqa: PLR2004
        target = url._replace(netloc=f"{literal}:{port}").geturl()
        headers = {"Host": url.netloc, "Accept": "application/json", "Accept-Encoding": "identity"}
        named = {"sni_hostname": host}
        async with http.stream("GET", target, headers=headers, extensions=named) as response:
            if response.status_code != _OK:
                raise InputError(f"{url.geturl()} answers with status {response.status_code}")
            content = bytearray()
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > MAX_DOCUMENT_BYTES:
                    raise InputError(f"{url.geturl()} has more than {MAX_DOCUMENT_BYTES} bytes")
        return bytes(content)


def _document_url(client_id: str) -> SplitResult:
    parts = _split(client_id)
    segments = {*parts.path.casefold().replace("%2e", ".").split("/")} if parts else {""}
    if parts is None or parts.scheme != "https" or segments == {""} or {".", ".."} & segments:
        raise InputError(
            f"the client_id {printable(client_id, 100)!r} is not known; clients register, or give "
            "the https address of a document about themselves"
        )
    return parts
