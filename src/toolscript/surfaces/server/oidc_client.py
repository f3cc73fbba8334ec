"""Logs people in at a company's OpenID provider, and finds the profiles of their groups.

Nothing is kept for those who only ask: the browser carries its log-in, sealed. Its state, its
nonce and PKCE bind the provider's answer, and the ID token, to that browser.
"""

import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote_plus, urlencode

import anyio.to_thread
import httpx2
import jwt
import msgspec

from toolscript.config.issuer import Issuer
from toolscript.config.permission_rules import check_profile
from toolscript.config.secret_store import SecretStore
from toolscript.errors import ConfigError, DeniedError
from toolscript.surfaces.server.oauth_client_metadata import is_loopback
from toolscript.surfaces.server.page_sessions import LOG_IN_S, RETURN, PendingLogIn
from toolscript.text.display import printable
from toolscript.types import SECRET_VARIABLE

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
"""Signatures by a private key: never ``none``, nor one by a secret that others may know."""
_LEEWAY_S, _TIMEOUT_S = 60, 10
_LIMITS = httpx2.Limits(max_connections=8)
_T = TypeVar("_T")


class _Metadata(msgspec.Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    scopes_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _TokenAnswer(msgspec.Struct, frozen=True):
    id_token: str = ""
    error: str = "no ID token"


class OidcClient:
    """Asks a company's provider who a person is, and in which groups.

    Args:
        issuer: The provider.
        data_dir: The folder that has the stored secrets.
        gateway: The gateway's address for others, without a slash at its end.
        profiles: The names of the configuration's profiles.

    Raises:
        ConfigError: The provider's address or secret cannot be used.
        UnknownNameError: A group has a profile that the configuration lacks.
    """

    def __init__(
        self, issuer: Issuer, data_dir: Path, gateway: str, profiles: Collection[str]
    ) -> None:
        self._issuer, self._client_id, self._claim = issuer.url, issuer.client_id, issuer.claim
        if not _is_safe(issuer.url):
            raise ConfigError(f"issuer.url {issuer.url} is not safe; it needs https")
        self._profiles = {group: issuer.profiles_of(group) for group in issuer.profiles}
        for profile in chain.from_iterable(self._profiles.values()):
            check_profile(profile, profiles)
        self._secret = _read_secret(issuer.client_secret, data_dir)
        self._redirect_uri = gateway + RETURN
        self._http = httpx2.AsyncClient(timeout=_TIMEOUT_S, limits=_LIMITS)
        self._metadata: tuple[_Metadata, jwt.PyJWKClient] | None = None

    async def begin(self, query: str) -> tuple[str, PendingLogIn]:
        """Returns the address that logs a person in who has made this request, and the log-in."""
        metadata, _ = await self._describe()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        digest = hashlib.sha256(verifier.encode()).digest()
        scopes = {self._claim} & {*metadata.scopes_supported} - {"email"}
        parameters = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(("openid", "email", "profile", *scopes)),
            "state": state,
            "nonce": nonce,
            "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        separator = "&" if "?" in metadata.authorization_endpoint else "?"
        url = f"{metadata.authorization_endpoint}{separator}{urlencode(parameters)}"
        return url, PendingLogIn(state, nonce, verifier, query, time.time() + LOG_IN_S)

    async def finish(
        self, log_in: PendingLogIn, pairs: list[tuple[str, str]]
    ) -> tuple[str, tuple[str, ...]]:
        """Returns a person's account, and the profiles of its groups.

        ``pairs`` are the provider's answer to a log-in. Raises `DeniedError` if it does not count.
        """
        given, now = dict(pairs), time.time()
        is_same = secrets.compare_digest(given.get("state", "").encode(), log_in.state.encode())
        if not is_same or log_in.expires < now or len(given) != len(pairs):
            raise DeniedError("this log-in is too old, or another one; let the program ask again")
        metadata, keys = await self._describe()
        self._check_answer(given, metadata)
        token = await self._exchange(given["code"], log_in, metadata)
        return self._read_person(await self._verify(token, log_in, keys))

    def _check_answer(self, given: dict[str, str], metadata: _Metadata) -> None:
        """Raises `DeniedError` for an answer that is another issuer's, or has no code."""
        is_named = metadata.authorization_response_iss_parameter_supported
        if given.get("iss", "" if is_named else self._issuer) != self._issuer:
            raise DeniedError(f"this answer does not come from {self._issuer}")
        if "code" not in given or "error" in given:
            texts = given.get("error", "no code"), given.get("error_description", "")
            why = ": ".join(printable(text, 200) for text in texts if text)
            raise DeniedError(f"{self._issuer} does not let you in: {why}")

    def _read_person(self, claims: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Returns the account of a person, and the profiles of its groups."""
        is_verified = claims.get("email_verified") is True
        address = claims.get("email") if is_verified else None
        account = str(address or claims.get("preferred_username") or claims["sub"])
        groups = claims.get(self._claim) if is_verified or self._claim != "email" else None
        names = cast("list[Any]", groups) if isinstance(groups, list) else [groups]
        found = (own for group, own in self._profiles.items() if group in names)
        return printable(account, 100), tuple(dict.fromkeys(chain.from_iterable(found)))

    async def _describe(self) -> tuple[_Metadata, jwt.PyJWKClient]:
        """Returns the provider's metadata, and its keys, which fetch themselves again."""
        if self._metadata is None:
            url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
            new = await self._send("GET", url, _Metadata)
            addresses = (new.authorization_endpoint, new.token_endpoint, new.jwks_uri)
            if new.issuer != self._issuer or not all(map(_is_safe, addresses)):
                raise DeniedError(f"{url} is about another issuer, or names one without https")
            self._metadata = new, jwt.PyJWKClient(new.jwks_uri, timeout=_TIMEOUT_S)
        return self._metadata

    async def _exchange(self, code: str, log_in: PendingLogIn, metadata: _Metadata) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "client_id": self._client_id,
            "code_verifier": log_in.verifier,
        }
        login = None
        if self._secret and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            login = quote_plus(self._client_id), quote_plus(self._secret)
        elif self._secret:
            form["client_secret"] = self._secret
        url = metadata.token_endpoint
        answer = await self._send("POST", url, _TokenAnswer, data=form, auth=login)
        if not answer.id_token:  # without a description, which may quote the secret
            raise DeniedError(f"{url} answers: {printable(answer.error, 60)}")
        return answer.id_token

    async def _verify(
        self, token: str, log_in: PendingLogIn, keys: jwt.PyJWKClient
    ) -> dict[str, Any]:
        """Returns the claims of an ID token that is the issuer's, for this log-in, and valid."""
        own = self._client_id
        try:
            key = await anyio.to_thread.run_sync(keys.get_signing_key_from_jwt, token)
            claims = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=own,
                issuer=self._issuer,
                leeway=_LEEWAY_S,
                options={"require": ["iss", "sub", "aud", "exp", "iat", "nonce"]},
            )
        except (jwt.PyJWTError, ValueError) as error:
            raise DeniedError(f"the ID token is refused: {printable(str(error), 200)}") from None
        is_shared = claims["aud"] not in (own, [own])
        if claims["nonce"] != log_in.nonce or claims.get("azp", "" if is_shared else own) != own:
            raise DeniedError("the ID token is for another log-in, or another client")
        return claims

    async def _send(self, method: str, url: str, kind: type[_T], **more: Any) -> _T:
        try:
            response = await self._http.request(method, url, **more)
            return msgspec.json.decode(response.content, type=kind)
        except (OSError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            why = printable(str(error), 100) or type(error).__name__
        except (msgspec.MsgspecError, ValueError, RecursionError):
            why = "its answer is none of OpenID"
        raise DeniedError(f"{url} cannot be asked: {why}")


def _read_secret(stated: str, data_dir: Path) -> str:
    """Returns a client secret; if that names a stored one, the stored one."""
    variable = SECRET_VARIABLE.fullmatch(stated)
    if variable is None:
        return stated
    secret = SecretStore(data_dir).get(variable["name"])
    if not secret:
        raise ConfigError(f"store it with: toolscript secret set {variable['name']}")
    return secret


def _is_safe(url: str) -> bool:
    return url.startswith("https://") or is_loopback(url)
