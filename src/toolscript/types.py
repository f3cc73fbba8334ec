"""The values that travel between the layers: immutable, and able to say what in them is secret."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Literal, cast

import msgspec

from toolscript.errors import InputError
from toolscript.text.redaction import (
    MAX_WORD,
    argument_secrets,
    is_harmless,
    named_secrets,
    redactable,
    url_secrets,
)

SEPARATOR = "__"
"""Between server and tool in an id, which splits at the first: no server's name contains it."""

MAX_DOCUMENT_CHARS = 16_384
"""Of a longer description only this much is searched; what is shown and called is never cut."""
MAX_PARAMETERS = 64
MAX_PARAMETER_CHARS = 200
"""So many parameters are searched, and so much of what the schema says about each."""
MAX_CHOICES = 20

SKILLS = "skills"
"""What stands where a tool has its server: grants and ids treat skills as this server's."""

OWN = "Vector"
"""And this for the tools that are toolscript's own."""

Transport = Literal["stdio", "http", "sse"]
Protocol = Literal["auto", "legacy"]


def tool_id(server: str, name: str) -> str:
    """The qualified id of a tool: ``server__tool``."""
    return f"{server}{SEPARATOR}{name}"


def skill_id(name: str) -> str:
    """The qualified id of a skill: ``skills__name``."""
    return tool_id(SKILLS, name)


def is_own(name: str) -> bool:
    """Whether a name is written as one of toolscript's own tools: ``Vector.SearchSkills``."""
    return name.startswith(f"{OWN}.")


def split_tool_id(identifier: str) -> tuple[str, str]:
    """The inverse of `tool_id`; raises `InputError` when there is nothing to split."""
    server, separator, name = identifier.partition(SEPARATOR)
    if not (server and separator and name):
        raise InputError(f"{identifier!r} is no tool id; expected server{SEPARATOR}tool")
    return server, name


def _sha256(value: Any) -> str:
    try:
        encoded = msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:  # an environment value that is no UTF-8
        encoded = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(encoded).hexdigest()


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """What a remote server's owner has registered for us, where it registers nobody by itself."""

    client_id: str
    client_secret: str = ""
    scope: str = ""
    callback_port: int = 0
    """Where the browser comes back to; 0 is any free one."""

    def __repr__(self) -> str:
        """Without the secret."""
        return f"OAuthClient({self.client_id!r})"


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a configuration, variables expanded, ready to be connected to."""

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    oauth: OAuthClient | None = None
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    pin_tools: tuple[str, ...] = ()
    """Those that models always see, by name or pattern."""
    disabled: bool = False
    protocol: Protocol = "auto"
    sse_fallback: bool = False
    """The type was not stated, so an HTTP server that refuses may still speak SSE."""
    start_timeout_s: float | None = None
    """Where not the settings' ``connect_timeout_s``."""
    call_timeout_s: float | None = None
    """Where not the settings' ``call_timeout_s``."""
    hidden: tuple[str, ...] = ()
    """What variables put into the other fields: most likely keys, or parts of them."""

    def offers(self, tool: str) -> bool:
        """Whether the configuration lets a tool of this name through."""
        wanted = self.include_tools is None or _matches(tool, self.include_tools)
        return wanted and not _matches(tool, self.exclude_tools)

    @property
    def digest(self) -> str:
        """SHA-256 over every field: the same digest means the same server."""
        return _sha256(msgspec.to_builtins(self))

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in a log or an error message."""
        stated = (*self.env.items(), *self.headers.items())
        values = [part for name, value in stated for part in named_secrets(name, value)]
        values += [
            value for value in self.hidden if len(value) > MAX_WORD or not is_harmless(value)
        ]
        values += [self.oauth.client_secret] if self.oauth else []
        values += [*url_secrets(self.url), *argument_secrets(self.args, self.command)]
        return redactable(values)

    def __repr__(self) -> str:
        """Without the environment, the headers and the arguments, which may hold secrets."""
        return f"ServerSpec({self.name!r}, {self.transport!r})"


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as its upstream advertises it."""

    server: str
    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        """``server__tool``."""
        return tool_id(self.server, self.name)

    @property
    def digest(self) -> str:
        """SHA-256 over everything advertised: a changed description or schema changes it."""
        return _sha256(msgspec.to_builtins(self))


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is searched: a tool seen as text.

    ``digest`` identifies the content, so that what was computed for a document
    is computed again only when the document changed.
    """

    id: str
    server: str
    name: str
    title: str = ""
    description: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    """Each parameter's name with what the schema says of it: its description, its choices."""
    digest: str = ""
    parent_id: str = ""
    """The id of what this is a passage of; its own where it is such a whole. Both are searched, and
    of one whole only the best is a hit."""

    @classmethod
    def of(cls, tool: ToolSpec) -> "Document":
        """The document of a tool."""
        properties: Any = tool.input_schema.get("properties")
        return cls(
            id=tool.id,
            server=tool.server,
            name=tool.name,
            title=tool.title,
            description=tool.description[:MAX_DOCUMENT_CHARS],
            parameters=tuple(_parameters(properties)),
            digest=tool.digest,
        )


def _parameters(properties: Any) -> Iterator[tuple[str, str]]:
    """Names and texts out of a third party's JSON, whatever it holds."""
    if not isinstance(properties, dict):
        return
    properties = cast("dict[Any, Any]", properties)
    for name, schema in islice(properties.items(), MAX_PARAMETERS):
        said: list[Any] = []
        if isinstance(schema, dict):
            schema = cast("dict[str, Any]", schema)
            choices = schema.get("enum")
            said = [schema.get("description"), *(choices if isinstance(choices, list) else ())]
        texts = [text for text in said[: MAX_CHOICES + 1] if isinstance(text, str)]
        yield str(name), " ".join(texts)[:MAX_PARAMETER_CHARS]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may find, list and call. One that grants nothing is empty.

    Both are names or patterns (``*``, ``?``) and add to each other: a whole
    server, or single tools by their ids.
    """

    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    anonymous: bool = False
    """Whether the caller has shown neither the gateway's key nor a token."""

    @property
    def is_owner(self) -> bool:
        """Whether the caller may read what only the owner may: what servers write for people."""
        return self.is_everything and not self.anonymous

    @property
    def is_everything(self) -> bool:
        """Whether nothing is kept from the caller."""
        return "*" in self.servers

    def allows(self, identifier: str) -> bool:
        """Whether the caller may know and call the tool of this id."""
        server = identifier.partition(SEPARATOR)[0]
        return _matches(server, self.servers) or _matches(identifier, self.tools)

    def shows(self, server: str) -> bool:
        """Whether the caller may know that there is this server: some tool of it may be theirs."""
        partly = (pattern.partition(SEPARATOR)[0] for pattern in self.tools)
        return _matches(server, self.servers) or _matches(server, partly)


EVERYTHING = Grant(servers=("*",))
"""The grant of whoever runs toolscript."""

ANYBODY = Grant(servers=("*",), anonymous=True)
"""The grant of other programs on this machine while no token is asked for."""


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A question, with what the caller wants different from the profile, and what is theirs."""

    text: str
    limit: int | None = None
    threshold: float | None = None
    servers: tuple[str, ...] = ()
    grant: Grant = EVERYTHING
    context: tuple[str, ...] = ()
    """Ids of tools that were used before, the last one last: what goes with them ranks higher."""
    needed: bool = False
    """Whether what the best tools need is to be ranked among them."""
    explain: bool = False
    """Whether every hit is to say how its score came about."""
    why: str = ""
    """A tool, by its id or its name, of which to say where it ended up and why."""
    skills: bool = False
    """Whether skills are to stand among the tools."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one signal says of one document."""

    signal: str
    score: float
    weight: float
    """Its part in the weighted mean: all the shares' weights sum to 1."""
    evidence: tuple[str, ...] = ()


class ScoreChange(msgspec.Struct, frozen=True, kw_only=True):
    """What changed a score after the weighted mean, and the score after it."""

    name: str
    score: float
    evidence: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """How a document's score came about: shares make the weighted mean, steps change it."""

    fused: float
    shares: tuple[Share, ...]
    steps: tuple[ScoreChange, ...] = ()


class Related(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that goes with another, and what says so."""

    tool: str
    score: float
    """From 0 to 1; only the order among the same kind of relation means something."""
    evidence: str


class Relations(msgspec.Struct, frozen=True, kw_only=True):
    """What goes with a tool: used before it, used after it, needed by it; best first."""

    before: tuple[Related, ...] = ()
    after: tuple[Related, ...] = ()
    needs: tuple[Related, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.before or self.after or self.needs)


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A document that answers: its score in [0, 1], each signal's own score, and why."""

    document: Document
    score: float
    reason: str
    signals: dict[str, float]
    """``graph`` among them where that had something to say."""
    own: float | None = None
    """The search's own score, where the graph moved it."""
    explanation: Explanation | None = None
    related: Relations | None = None
    """What goes with it, where anything is known."""


class MissExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tool that was asked after ended up, and why."""

    id: str
    verdict: str
    """One sentence: shown, below the threshold, beyond the limit, hidden, its server down."""
    rank: int | None = None
    """Its place among all tools that were searched, from 1; none where it was not searched."""
    hit: Hit | None = None


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """All the hits, best first.

    ``below`` is the best hit that the threshold kept out, when nothing passed;
    ``degraded`` says which signals did not answer, and why.
    """

    hits: tuple[Hit, ...]
    limit: int
    threshold: float
    below: Hit | None = None
    degraded: tuple[str, ...] = ()
    why: MissExplanation | None = None
    alpha: float = 1.0
    """What the search's own scores weighed; the rest is the graph's. 1 where that was silent."""
    edges: int = 0
    """Of the graph."""


ServerState = Literal["connecting", "ready", "failed", "disabled", "invalid"]
"""How a configured server is doing; ``invalid`` is a mistake in its configuration."""


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How one configured server is doing, for people and programs to read."""

    name: str
    state: ServerState
    transport: str = ""
    tools: int = 0
    error: str = ""
    """What is wrong, or was before the last retry began."""
    since: str = ""
    """When the tools were last listed or the server last failed: ISO 8601, UTC."""
    version: str = ""
    """What the server calls itself, with its version."""
    rejected: tuple[str, ...] = ()
    """What of the server's list cannot be used, one line each."""
    snapshot: bool = False
    """What is said here was remembered: this process has not connected to the server (yet)."""
    retry: str = ""
    """When a server that failed is tried again: ISO 8601, UTC."""
