"""The protocols of upstreams, their callers, and the state that replicas of a gateway share."""

import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from toolscript.errors import RefusedError
from toolscript.gateway.catalogue import Catalogue, ServerContents, ServerEntry
from toolscript.types import ServerSpec

IMPORTING = threading.Lock()
"""Held by a thread that imports the SDK: two such imports at once can deadlock."""

LAST_WORDS = "; its last words: "
"""In an error, the text behind this is a server's standard error, only for the owner."""

CANNOT_BE_ASKED = -32600
"""The code with which clients that know no elicitation answer it: an invalid request."""


def without_last_words(error: str) -> str:
    """Returns a server's error without its standard error."""
    reason, words, _ = error.partition(LAST_WORDS)
    return f"{reason})" if words and reason.count("(") > reason.count(")") else reason


class Ready(ServerContents, frozen=True, kw_only=True):
    """The server is connected and has these tools. Reported again whenever they change."""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A connection or an attempt to connect has ended, and another attempt follows."""

    error: str
    retry_s: float = 0.0
    """In how many seconds."""
    retrying: bool = False
    """Whether it had worked and may well work again at once, so that its tools still count."""


Report = Ready | Failed


class Caller(Protocol):
    """Waits for the answer to a request. It hears of progress and may be asked questions.

    A subclass that overrides nothing ignores progress and answers no questions.
    """

    session_key: object = None
    """The same object for all requests of one user."""
    session_id: str = ""
    """A session that lasts for several requests; empty for a request by itself."""
    project: str = ""
    """The folder that the caller works in; empty if that is not known."""
    accepts_input_required: bool = False
    """Whether it takes a result that asks for input, and then repeats its request with it."""
    may_be_asked: bool = False
    """Whether its user can be asked a question: ``elicitation/create`` with a form."""
    may_log_in: bool = False
    """Whether a login may be begun for it, whose address its user opens on this machine."""
    opens_addresses: bool = False
    """Whether it can show its user an address: ``elicitation/create`` with the mode ``url``."""

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Takes a notice of progress."""

    async def elicit(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answers a server's request, such as ``elicitation/create``.

        Raises `RefusedError` if it does not.
        """
        del params
        raise RefusedError(f"the caller cannot be asked ({method})", CANNOT_BE_ASKED)


class SilentCaller(Caller):
    """A caller that ignores progress and answers no questions, such as a script."""

    def __init__(self, project: str = "", session_id: str = "") -> None:
        self.project, self.session_id = project, session_id


SILENT_CALLER = SilentCaller()


class Upstream(Protocol):
    """One server's connection."""

    @property
    def pid(self) -> int | None:
        """The id of the server's process while that runs; None for a remote server.

        It is None on Windows, too: there the id is not known.
        """
        ...

    async def run(self) -> None:
        """Connects, reports and reconnects until cancelled. Raises for no fault of a server."""
        ...

    def list_again(self) -> None:
        """Has the tools listed once more, if the server is connected."""
        ...

    async def send(self, method: str, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Passes a request on, and returns the server's result as it is on the wire.

        Waits for a connection that is being made, and a call for a listing that is. Raises
        `HeldError`, `NotConnectedError`, `RefusedError`, `CallTimeoutError`, and
        `UpstreamError` for an answer that cannot be used. Cancelling it cancels the request on
        the server.
        """
        ...


class Connect(Protocol):
    """Makes upstreams and owns their shared state."""

    def __call__(self, spec: ServerSpec, report: Callable[[Report], None]) -> Upstream:
        """Returns the upstream of a server, which sends its reports to ``report``."""
        ...

    def close(self) -> None:
        """Frees the shared state of the upstreams, once all have ended. Blocks for a moment."""
        ...


class CatalogueStore(Protocol):
    """Keeps the entries of servers for the next start. Methods block for a moment."""

    def load(self, specs: Iterable[ServerSpec]) -> Catalogue:
        """Returns the stored entries of these servers, unless their configuration has changed."""
        ...

    def save(self, catalogue: Catalogue) -> None:
        """Stores the settled entries; a failure is logged.

        A server that is connecting keeps the entry that was stored.
        """
        ...


class CatalogueNews(msgspec.Struct, frozen=True):
    """The changes of servers by other replicas."""

    entries: tuple[ServerEntry, ...] = ()
    """The entries that the owners of servers have stored."""
    reviewed: frozenset[str] | None = frozenset()
    """The `file_name` of servers of which definitions were approved or rejected; None for any."""
    stale: frozenset[str] = frozenset()
    """Servers whose tools, as another replica saw them, differ from the stored ones."""


FORWARDED = "/replicas/request"
"""The path at which a replica takes requests that others pass on."""


class DatabaseState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the database that several gateways share is doing, as this one sees it."""

    answers: Annotated[bool, Meta(description="Whether it answered the last time.")]
    problem: Annotated[str, Meta(description="Why it does not, or cannot be used; else empty.")]
    fits: Annotated[bool, Meta(description="Whether this release works with its tables.")]
    lag_s: Annotated[float, Meta(description="Seconds since other gateways were heard of.")]
    leases: Annotated[int, Meta(description="Servers that this gateway lists for all.")]
    replicas: Annotated[int, Meta(description="Gateways that there are.")]
    connections: Annotated[int, Meta(description="Connections in use.")]
    max_connections: Annotated[int, Meta(description="Connections that this gateway may open.")]
    former_data: Annotated[str, Meta(description="SQL that removes the data that nothing reads.")]


Serve = Callable[[str, str, str, dict[str, Any], Caller], Awaitable[dict[str, Any]]]
"""Answers a request as the owner of its server: name, digest, method, parameters, caller."""


class Replication(CatalogueStore, Protocol):
    """The replicas of a gateway: which owns a server, what they have listed, and the way to them.

    As a `CatalogueStore` it is shared: each replica stores the entries of the servers it owns.
    """

    replica: str
    """Stands for this process."""

    def follow(self, specs: Iterable[ServerSpec]) -> None:
        """Replaces the servers whose owners are agreed on with the others. Returns at once."""
        ...

    def owns(self, spec: ServerSpec) -> bool:
        """Whether this replica owns the server now. Returns at once."""
        ...

    async def changed(self) -> None:
        """Returns once the servers that this replica owns may have changed since the last call."""
        ...

    def state(self) -> DatabaseState:
        """Returns how the database is doing that the replicas share. Asks it nothing."""
        ...

    async def news(self) -> CatalogueNews:
        """Waits for changes of other replicas, and returns those since the last call."""
        ...

    def report_stale(self, server: str) -> None:
        """Has the owner of a server list its tools again. Returns at once."""
        ...

    async def forward(
        self, spec: ServerSpec, method: str, params: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """Passes a request on to the replica that runs a server, and returns its result.

        Raises what `Upstream.send` raises, and `NotOwnerError` if no replica has taken the
        request, which may be tried again. A request that may have been executed is not sent
        again: it ends with an `UpstreamError` that says so.
        """
        ...

    def accept(self, serve: Serve) -> None:
        """Has ``serve`` answer the requests that other replicas pass on."""
        ...

    async def answer(self, body: bytes) -> bytes | None:
        """Answers a request that another replica has passed on, once `accept` was called.

        Returns the body of the answer; None if ``body`` is no request of a replica for this one.
        """
        ...
