"""Rewrites answers of authorization servers that other clients read and the SDK refuses.

Google writes its issuer once with a slash and once without; GitHub answers with a form, and with
status 200 if it gives no token; others list the scopes, or ask for a login with 403.
"""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qsl

import httpx2
import msgspec
from mcp.client.auth.utils import issuers_match

from toolscript.text.json_values import as_object

_FORM = "application/x-www-form-urlencoded"
_UNAUTHORIZED, _FORBIDDEN = 401, 403


async def standard_answer(response: httpx2.Response, issuer: str) -> httpx2.Response:
    """Returns an authorization server's answer in the form of RFC 6749 and RFC 8414.

    Args:
        response: The answer to a request for metadata, a registration or a token.
        issuer: The issuer that metadata has to name. A root with and without its slash are one
            (RFC 3986, section 6.2.3); any other difference stays.
    """
    value = _mapping(await response.aread())
    if response.request.headers.get("Content-Type") == _FORM:
        return _token_answer(response, value)
    name = value.get("issuer")
    if isinstance(name, str) and name != issuer and issuers_match(name, issuer):
        return _rewrite(response, response.status_code, {**value, "issuer": issuer})
    return response


def challenge(response: httpx2.Response) -> httpx2.Response:
    """Returns a server's answer, as a 401 if it is a 403 that names the resource's metadata."""
    asks = response.headers.get("WWW-Authenticate", "")
    is_challenge = "resource_metadata" in asks and "insufficient_scope" not in asks
    if response.status_code != _FORBIDDEN or not is_challenge:
        return response
    return httpx2.Response(
        _UNAUTHORIZED, headers={"WWW-Authenticate": asks}, request=response.request
    )


def _token_answer(response: httpx2.Response, value: Mapping[str, Any]) -> httpx2.Response:
    """Keeps the fields of a token that can be read; a success without a token is an error."""
    if not response.is_success:
        return response
    token, scope, life = value.get("access_token"), value.get("scope"), value.get("expires_in")
    if not isinstance(token, str) or not token:
        error = value.get("error") or "invalid_response"
        why = value.get("error_description") or "the answer has no access_token"
        return _rewrite(response, 400, {"error": str(error), "error_description": str(why)})
    answer: dict[str, Any] = {"access_token": token}
    if isinstance(scope, list):
        scope = " ".join(map(str, cast("list[object]", scope)))
    if isinstance(scope, str) and scope:
        answer["scope"] = scope
    if str(life).partition(".")[0].isdecimal():
        answer["expires_in"] = int(float(str(life)))
    if isinstance(refresh := value.get("refresh_token"), str):
        answer["refresh_token"] = refresh
    return _rewrite(response, 200, answer)


def _mapping(content: bytes) -> dict[str, Any]:
    """Returns the fields of an object in JSON, or of a form."""
    try:
        return as_object(msgspec.json.decode(content))
    except ValueError:
        return dict(parse_qsl(content.decode("utf-8", "replace")))


def _rewrite(response: httpx2.Response, status: int, value: Mapping[str, Any]) -> httpx2.Response:
    return httpx2.Response(status, content=msgspec.json.encode(value), request=response.request)
