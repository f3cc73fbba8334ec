"""Forwards a request to the one gateway that runs a server.

A request goes over HTTP, sealed with the secret key that the replicas share: for one replica, for
ten seconds, and once. What its caller may do was decided by the replica that forwards it.
"""

import time
from collections.abc import Awaitable, Mapping
from typing import Any
from uuid import uuid4

import anyio
import httpx2
import msgspec

from toolscript.config.secret_key import SecretKey
from toolscript.errors import (
    CallTimeoutError,
    HeldError,
    NotConnectedError,
    NotOwnerError,
    NotPermittedError,
    RefusedError,
    UpstreamError,
)
from toolscript.gateway.base import FORWARDED, Caller, SilentCaller
from toolscript.gateway.raw_results import RawResult, is_moderate
from toolscript.postgres.leases import Leases
from toolscript.types import ServerSpec

VALID_S = 10.0
"""How long a sealed request may be on its way, the difference of the clocks included."""
CONNECT_S = 2.0
_OWNER_POLL_S = 0.5
_CLOSING = 503
_KINDS: Mapping[str, type[UpstreamError | NotPermittedError]] = {
    kind.__name__: kind
    for kind in (NotOwnerError, NotConnectedError, CallTimeoutError, HeldError, UpstreamError)
}


class ForwardedRequest(msgspec.Struct, frozen=True):
    """A request to a server, as it is sealed."""

    id: str
    until: float
    """Seconds since 1970."""
    server: str
    digest: str
    """Digest of the server's entry; the owner refuses a request with a different one."""
    method: str
    params: dict[str, Any]
    session: str
    project: str


class _Failure(msgspec.Struct, frozen=True):
    kind: str
    message: str
    code: int = 0
    data: Any = None

    @classmethod
    def of(cls, error: Exception) -> "_Failure":
        if isinstance(error, RefusedError):
            return cls(RefusedError.__name__, str(error), error.code, error.data)
        return cls(type(error).__name__, str(error))

    def error(self) -> Exception:
        if self.kind == RefusedError.__name__:
            return RefusedError(self.message, self.code, self.data)
        return _KINDS.get(self.kind, UpstreamError)(self.message)


class _Answer(msgspec.Struct, frozen=True):
    result: msgspec.Raw = msgspec.Raw(b"null")
    failure: _Failure | None = None


class Forwarder:
    """Passes requests on to the replica that runs a server; see `Replication.forward`.

    Args:
        leases: Say which replica owns a server.
        key: Seals requests.
    """

    def __init__(self, leases: Leases, key: SecretKey) -> None:
        self._leases = leases
        self._key = key
        # A connection that is used again may have been lost before the request was sent on it.
        limits = httpx2.Limits(max_keepalive_connections=0)
        timeout = httpx2.Timeout(None, connect=CONNECT_S)
        # No certificate has the address of a replica; request and answer are sealed anyway.
        self._client = httpx2.AsyncClient(limits=limits, timeout=timeout, verify=False)

    async def forward(
        self, spec: ServerSpec, method: str, params: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """See `Replication`."""
        owner = self._leases.owner_of(spec)
        if owner is None or owner[0] == self._leases.replica:
            raise NotOwnerError(f"{spec.name} is run by one replica, and none runs it yet")
        replica, url = owner
        request = ForwardedRequest(
            uuid4().hex,
            time.time() + VALID_S,
            spec.name,
            spec.digest,
            method,
            params,
            caller.session_id,
            caller.project,
        )
        body = self._key.seal(msgspec.json.encode(request), _request_to(replica))
        lost = f"{spec.name}: the replica that runs it was lost; whether it was done is unknown"
        response: httpx2.Response | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, spec, replica, tasks.cancel_scope)
                response = await self._client.post(f"{url.rstrip('/')}{FORWARDED}", content=body)
                tasks.cancel_scope.cancel()
        except* (httpx2.ConnectError, httpx2.ConnectTimeout):
            error: Exception = NotOwnerError(f"{spec.name}: the replica that runs it is gone")
        except* httpx2.HTTPError:
            error = UpstreamError(lost)
        else:
            error = UpstreamError(lost)
        if response is None:
            raise error
        return self._result(spec.name, request.id, response)

    async def _watch(self, spec: ServerSpec, replica: str, scope: anyio.CancelScope) -> None:
        """Gives up once another replica owns the server: the one that was asked hangs."""
        while True:
            await anyio.sleep(_OWNER_POLL_S)
            owner = self._leases.owner_of(spec)
            if owner is None or owner[0] != replica:
                scope.cancel()

    def _result(self, server: str, request: str, response: httpx2.Response) -> dict[str, Any]:
        if response.status_code == _CLOSING:
            raise NotOwnerError(f"{server}: the replica that runs it is closing down")
        content = self._key.read(response.content, _answer_to(request))
        if not response.is_success or content is None:
            raise NotConnectedError(
                f"{server}: the replica that runs it answers {response.status_code}; "
                "give every gateway the same TOOLSCRIPT_SECRET_KEY and release"
            )
        answer = msgspec.json.decode(content, type=_Answer)
        if answer.failure is not None:
            raise answer.failure.error()
        text = bytes(answer.result)
        return msgspec.json.decode(text) if is_moderate(text) else RawResult(text)


class ForwardedRequests:
    """Opens the requests that other replicas pass on to this one, each once, and seals answers.

    Args:
        replica: Stands for this process.
        key: Seals them.
    """

    def __init__(self, replica: str, key: SecretKey) -> None:
        self._replica = replica
        self._key = key
        self._seen: dict[str, float] = {}
        """When a request that was taken is no longer valid, by its id, the oldest first."""

    def open(self, body: bytes) -> ForwardedRequest | None:
        """Returns a request; None for one that is forged, not for this replica, late or known."""
        content = self._key.read(body, _request_to(self._replica))
        if content is None:
            return None
        request, now = msgspec.json.decode(content, type=ForwardedRequest), time.time()
        self._seen = {known: until for known, until in self._seen.items() if until > now}
        if request.id in self._seen or not now < request.until < now + 2 * VALID_S:
            return None
        self._seen[request.id] = request.until
        return request

    @staticmethod
    def caller_of(request: ForwardedRequest) -> Caller:
        """Returns the caller of a request."""
        return SilentCaller(request.project, request.session)

    async def answer(self, request: ForwardedRequest, work: Awaitable[dict[str, Any]]) -> bytes:
        """Returns what ``work`` returns or raises, sealed."""
        try:
            result = await work
            text = result.text if isinstance(result, RawResult) else msgspec.json.encode(result)
            answer = _Answer(msgspec.Raw(text))
        except (UpstreamError, NotPermittedError) as error:
            answer = _Answer(failure=_Failure.of(error))
        return self._key.seal(msgspec.json.encode(answer), _answer_to(request.id))


def _request_to(replica: str) -> bytes:
    return f"replica-request/{replica}".encode()


def _answer_to(request: str) -> bytes:
    return f"replica-answer/{request}".encode()
