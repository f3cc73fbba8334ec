"""The immutable values that the layers exchange: servers, tools, documents, requests, hits."""

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import Annotated, Any, Literal, TypeVar, cast, get_type_hints
from urllib.parse import quote

import msgspec
from msgspec import Meta

from toolscript.errors import InputError
from toolscript.text.secret_detection import (
    MAX_WORD,
    argument_secrets,
    is_harmless,
    named_secrets,
    redactable,
    url_secrets,
)
from toolscript.text.tool_class_guess import guess_class
from toolscript.text.wire_constants import TOOL_CLASSES, ToolClass

_T = TypeVar("_T")
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
SEPARATOR = "__"
"""Between server and tool in an id. No server's name contains it, so an id splits at the first."""

MAX_DOCUMENT_CHARS = 16_384
"""A longer description is cut for the search, but not where it is shown."""
MAX_PARAMETERS = 64
MAX_PARAMETER_CHARS = 200
"""Searched parameters of a tool, and characters of each one's description and choices."""
MAX_CHOICES = 20

SKILLS = "skills"
"""The server that skills belong to in ids and grants."""

BUILTIN = "Vector"
"""The server that built-in tools belong to in ids and grants."""

Trust = Literal["pinned", "new", "changed", "reordered"]
"""How a tool's definition came to be accepted: ``new`` and ``changed`` were, lately, unseen."""
ClassSource = Literal["config", "server", "guess"]
"""Who says of which class a tool is: the user, its server, or nobody, so that it is guessed."""
Decision = Literal["allow", "ask", "deny"]
DECISIONS: tuple[Decision, ...] = ("allow", "ask", "deny")
"""What a rule says of a call, the strictest last."""

Transport = Literal["stdio", "http", "sse"]
Protocol = Literal["auto", "legacy"]
Start = Literal["lazy", "eager"]
Instances = Literal["each", "one"]
OutputStep = Literal["strip", "redact"]
PROJECT = "${PROJECT}"
"""In an entry, stands for the folder that the caller works in."""


def tool_id(server: str, name: str) -> str:
    """Returns the id of a tool: ``server__tool``."""
    return f"{server}{SEPARATOR}{name}"


def skill_id(name: str) -> str:
    """Returns the id of a skill: ``skills__name``."""
    return tool_id(SKILLS, name)


def is_builtin(name: str) -> bool:
    """Whether a name has the form of a built-in tool's: ``Vector.SearchSkills``."""
    return name.startswith(f"{BUILTIN}.")


def as_id(name: str) -> str:
    """Returns ``server:tool``, or a pattern of that form, as an id; any other name as it is."""
    return name if SEPARATOR in name else name.replace(":", SEPARATOR, 1)


def split_tool_id(identifier: str) -> tuple[str, str]:
    """Returns the server and the name of a tool's id; raises `InputError` if it is no id."""
    server, separator, name = identifier.partition(SEPARATOR)
    if not (server and separator and name):
        raise InputError(f"{identifier!r} is no tool id; expected server{SEPARATOR}tool")
    return server, name


def sha256_of(value: Any) -> str:
    """Returns the SHA-256 of a value as JSON with sorted keys, in hex digits."""
    try:
        encoded = msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:  # an environment value that is no UTF-8
        encoded = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(encoded).hexdigest()


class PermissionRule(msgspec.Struct, frozen=True):
    """What is decided about the calls of some tools."""

    pattern: str
    """The id of a tool, or a pattern (``*``, ``?``) of ids."""
    decision: Decision
    tool_class: ToolClass | None = None
    """The class of the tools that it is about; None for all."""
    origin: str = ""
    """Where it was written, such as ``permissions``."""
    servers: tuple[str, ...] | None = None
    """The servers of whose tools it decides anything; None for all."""

    def covers(self, identifier: str, tool_class: ToolClass) -> bool:
        """Whether it is about a tool."""
        return self.tool_class in {None, tool_class} and _matches(identifier, (self.pattern,))

    def decides(self, identifier: str) -> bool:
        """Whether it decides anything about a tool that it covers."""
        return self.servers is None or identifier.partition(SEPARATOR)[0] in self.servers

    @property
    def specificity(self) -> tuple[bool, int, bool]:
        """Of two rules about a tool, the greater one counts: an id, a longer pattern, a class."""
        return *_specificity(self.pattern), self.tool_class is not None


RESULT_LIMIT = 24_000
"""Characters of a result that models get, unless the server's entry says otherwise."""


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """An OAuth client that is registered with a server by hand, not by toolscript."""

    client_id: str
    client_secret: str = ""
    scope: str = ""
    callback_port: int = 0
    """The port that the browser is redirected to; 0 picks a free one."""

    def __repr__(self) -> str:
        """Without the secret."""
        return f"OAuthClient({self.client_id!r})"


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A server of a configuration, its variables expanded."""

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
    """Names or patterns of the tools that models always see."""
    classes: dict[str, ToolClass] = {}
    """The classes of tools by their names or patterns of names."""
    auto_approve: bool = False
    """Whether changed definitions of its tools are accepted without a person."""
    hold_reordered: bool = False
    """Whether tools are held also when only lists without an order were written in another."""
    disabled: bool = False
    protocol: Protocol = "auto"
    start_timeout_s: float | None = None
    """Replaces the settings' ``connect_timeout_s``."""
    call_timeout_s: float | None = None
    """Replaces the settings' ``call_timeout_s``."""
    start: Start | None = None
    """Replaces the settings' ``start``."""
    idle_timeout_s: float | None = None
    """Replaces the settings' ``idle_timeout_s``."""
    is_shared: bool = True
    """Whether all sessions use the same instance."""
    instances: Instances = "each"
    """Whether every replica of a gateway runs it, or one replica for all."""
    max_concurrent: int = 0
    """How many requests it gets at a time; 0 for any number."""
    output: tuple[OutputStep, ...] = ()
    """What is done to the texts of its results."""
    result_limits: dict[str, int] = {}
    """Characters of a result that models get, by names of tools and patterns of them."""
    project: str = ""
    """The folder that `PROJECT` stands for in an instance's fields; empty in the entry itself."""
    entry_launch: tuple[str, ...] = ()
    """Command, arguments and address as in the entry, before a folder replaces `PROJECT`."""
    hidden: tuple[str, ...] = ()
    """Values of variables that are part of the other fields: most of them are keys."""

    def offers(self, tool: str) -> bool:
        """Whether the configuration includes the tool of this name."""
        included = self.include_tools is None or _matches(tool, self.include_tools)
        return included and not _matches(tool, self.exclude_tools)

    def result_limit(self, tool: str) -> int:
        """Returns how many characters of a tool's result a model gets."""
        limits = _matching_values(self.result_limits, tool)
        return max(limits, key=itemgetter(0))[1] if limits else RESULT_LIMIT

    def class_of(self, tool: str) -> ToolClass | None:
        """Returns the class that the configuration gives the tool of this name; None without one.

        The most specific pattern counts, and of equally specific ones the stricter class.
        """
        classes = _matching_values(self.classes, tool)
        strictness = [(specificity, TOOL_CLASSES.index(given)) for specificity, given in classes]
        return TOOL_CLASSES[max(strictness)[1]] if strictness else None

    @property
    def launch(self) -> tuple[str, ...]:
        """How it is started or reached: the same for all projects."""
        return self.entry_launch or (self.command, *self.args, self.url)

    @property
    def is_per_project(self) -> bool:
        """Whether the entry names the caller's project."""
        stated = (self.cwd or "", self.url, *self.args, *self.env.values(), *self.headers.values())
        return any(PROJECT in text for text in stated)

    @property
    def is_single(self) -> bool:
        """Whether one instance serves all callers."""
        return self.is_shared and not self.is_per_project

    def in_project(self, folder: str) -> "ServerSpec":
        """Returns the server as it is started for a project; itself if its entry names none."""
        if not self.is_per_project:
            return self
        return msgspec.structs.replace(
            self,
            project=folder,
            entry_launch=self.launch,
            cwd=self.cwd and self.cwd.replace(PROJECT, folder),
            url=self.url.replace(PROJECT, quote(folder)),
            args=tuple(text.replace(PROJECT, folder) for text in self.args),
            env={name: text.replace(PROJECT, folder) for name, text in self.env.items()},
            headers={name: text.replace(PROJECT, folder) for name, text in self.headers.items()},
        )

    @property
    def digest(self) -> str:
        """SHA-256 over every field: the same digest means the same server."""
        return sha256_of(msgspec.to_builtins(self))

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


SAME_AGE_S = 600
"""Tools that were accepted within so many seconds are equally old: servers of one first start."""


def is_older(accepted_at: int, other: int) -> bool:
    """Whether a tool was accepted before another one: Unix times, 0 for one that never was."""
    return accepted_at > 0 and (other == 0 or accepted_at + SAME_AGE_S < other)


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A tool as its server lists it. Its id and its digest are computed once."""

    server: str
    """The server's name in the configuration."""
    name: str
    """The name that its server calls it by."""
    title: str = ""
    """Its name for people."""
    description: str = ""
    """What it does, in words: most of what is searched."""
    input_schema: dict[str, Any] = {}
    """The JSON Schema of its arguments."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of its structured result, where it has one."""
    annotations: dict[str, Any] | None = None
    """The server's hints, such as ``readOnlyHint``."""
    config_class: ToolClass | None = None
    """The class that the configuration gives it; no part of its definition."""

    @classmethod
    def of(cls, source: Callable[..., Any] | Any, server: str = "tools") -> "ToolSpec":
        """Returns a function, or somebody's definition of a tool, as a tool of a server.

        Args:
            source: See `Document.of`.
            server: The server that it belongs to, unless it is a `ToolSpec`.

        Raises:
            InputError: It is no tool, or has no name.
        """
        return source if isinstance(source, cls) else _spec_of(source, server)

    @cached_property
    def id(self) -> str:
        """``server__tool``."""
        return tool_id(self.server, self.name)

    @property
    def class_source(self) -> ClassSource:
        """Who says of which class it is."""
        if self.config_class is not None:
            return "config"
        hints = self.annotations or {}
        stated = (hints.get("readOnlyHint"), hints.get("destructiveHint"))
        return "guess" if stated == (None, None) else "server"

    @cached_property
    def tool_class(self) -> ToolClass:
        """What a call may do at most, by the configuration, its server's hints, or its name.

        One hint without the other has the protocol's default: a tool that writes may destroy.
        """
        if self.class_source == "guess":
            return guess_class(self.server, self.name, self.input_schema)
        hints = self.annotations or {}
        stated = "write" if hints.get("destructiveHint") is False else "destructive"
        return self.config_class or ("read" if hints.get("readOnlyHint") is True else stated)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the definition: a changed description or schema changes it."""
        fields = msgspec.to_builtins(self)
        fields.pop("config_class", None)
        return sha256_of(fields)


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text that can be found: a tool, a skill or a passage of a skill."""

    id: str
    """Unlike every other document's; of a tool ``server__tool``."""
    server: str
    """The name of the server that a request may ask for, and a grant be of."""
    name: str
    """A question that spells it finds the document."""
    title: str = ""
    """Its name for people, or a passage's heading."""
    description: str = ""
    """What it does, in words: most of what is searched."""
    parameters: tuple[tuple[str, str], ...] = ()
    """The name of each parameter, and its description and choices as one text."""
    digest: str = ""
    """Identifies the content: a document with the same digest is not embedded again. It is
    computed from the other fields if it is left out."""
    parent_id: str = ""
    """The id of the skill that this is a passage of; a skill with passages has its own id here.
    Of a skill and its passages only the best is a hit."""

    def __post_init__(self) -> None:
        """Computes a digest that is left out."""
        if not self.digest:
            stated = (self.id, self.name, self.title, self.description, self.parameters)
            msgspec.structs.force_setattr(self, "digest", sha256_of(stated))

    @classmethod
    def of(cls, source: ToolSpec | Callable[..., Any] | Any, server: str = "tools") -> "Document":
        """Returns the document of a tool.

        Args:
            source: A `ToolSpec`, a function, or a definition as MCP, OpenAI or Anthropic has it: a
                mapping, or an object with a method ``model_dump``.
            server: The server that it belongs to, unless it is a `ToolSpec`.

        Raises:
            InputError: It is none of these, or has no name.
        """
        tool = ToolSpec.of(source, server)
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


def _spec_of(source: Any, server: str) -> ToolSpec:
    """Returns a function or somebody's definition of a tool as a tool of a server."""
    stated: Any = source
    if callable(source):
        stated = {
            "name": getattr(source, "__name__", ""),
            "description": inspect.getdoc(source),
            "input_schema": _arguments_schema(cast("Callable[..., Any]", source)),
        }
    elif hasattr(source, "model_dump"):
        stated = source.model_dump(by_alias=True)
    fields: dict[str, Any] = _object(stated)
    fields = _object(fields.get("function")) or fields  # OpenAI's chat completions nest it
    stated_schemas = (fields.get(key) for key in ("inputSchema", "input_schema", "parameters"))
    schema = next((found for each in stated_schemas if (found := _object(each))), dict[str, Any]())
    name, description = fields.get("name"), fields.get("description") or ""
    if not (isinstance(name, str) and name and isinstance(description, str)):
        raise InputError(
            f"{type(source).__name__} is no tool; give a function, or a definition with a name, as "
            "MCP, OpenAI or Anthropic has it"
        )
    annotations = _object(fields.get("annotations"))
    return ToolSpec(
        server=server,
        name=name,
        description=description,
        input_schema=schema,
        annotations=annotations or None,
    )


def _arguments_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the JSON Schema of a function's arguments; of unusual types the names alone."""
    parameters = inspect.signature(function).parameters
    names = [name for name, each in parameters.items() if each.kind not in _VARIADIC]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: dict[str, Any]() for name in names},
        "required": [name for name in names if parameters[name].default is inspect.Parameter.empty],
    }
    try:
        hints = get_type_hints(function)
        components, defined = msgspec.json.schema_components(
            [hints.get(name, Any) for name in names], ref_template="#/$defs/{name}"
        )
    except (TypeError, NameError, ValueError):  # a type that is no JSON, or that is not there
        return schema
    schema["properties"] = dict(zip(names, components, strict=True))
    return schema | ({"$defs": defined} if defined else {})


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _parameters(properties: Any) -> Iterator[tuple[str, str]]:
    """Yields names and texts from a third party's schema, which may hold anything."""
    if not isinstance(properties, dict):
        return
    properties = cast("dict[Any, Any]", properties)
    for name, schema in islice(properties.items(), MAX_PARAMETERS):
        values: list[Any] = []
        if isinstance(schema, dict):
            schema = cast("dict[str, Any]", schema)
            choices = schema.get("enum")
            values = [schema.get("description"), *(choices if isinstance(choices, list) else ())]
        texts = [text for text in values[: MAX_CHOICES + 1] if isinstance(text, str)]
        yield str(name), " ".join(texts)[:MAX_PARAMETER_CHARS]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The servers and tools that a caller may find, list and call. An empty one grants nothing."""

    servers: tuple[str, ...] = ()
    """Names or patterns (``*``, ``?``) of servers, all of whose tools are granted."""
    tools: tuple[str, ...] = ()
    """Ids or patterns of further tools."""
    anonymous: bool = False
    """Whether the caller sent neither the gateway's key nor a token."""
    permissions: tuple[PermissionRule, ...] = ()
    """Rules of its own; of all that say something about a call, the strictest counts."""
    profiles: tuple[str, ...] = ()
    """The profiles of the configuration whose rules hold as well."""
    holder: str = "owner"
    """Whose it is: the id of a token, ``owner``, or ``anyone`` where there are no tokens."""

    @property
    def is_owner(self) -> bool:
        """Whether the caller may decide about tools, and read what servers write for people."""
        is_limited = self.anonymous or self.permissions or self.profiles
        return self.is_everything and not is_limited

    @property
    def is_whole(self) -> bool:
        """Whether the caller may know of all there is: neither its token nor a profile limits it.

        A profile of the owner's limits what may be called, and hides nothing from the owner.
        """
        is_limited = self.holder != "owner" and (self.permissions or self.profiles)
        return self.is_everything and not is_limited

    @property
    def is_everything(self) -> bool:
        """Whether every server is granted, however rules and profiles limit that."""
        return "*" in self.servers

    def allows(self, identifier: str) -> bool:
        """Whether the caller may find and call the tool of this id."""
        server = identifier.partition(SEPARATOR)[0]
        return _matches(server, self.servers) or _matches(identifier, self.tools)

    def allows_server(self, server: str) -> bool:
        """Whether the caller may find and call every tool of this server, whatever its name."""
        split = (pattern.partition(SEPARATOR) for pattern in self.tools)
        every = (name for name, _, tool in split if tool == "*" or (not tool and name[-1:] == "*"))
        return _matches(server, self.servers) or _matches(server, every)

    def shows(self, server: str) -> bool:
        """Whether the caller may know of this server, because some of its tools may be granted."""
        partly = (pattern.partition(SEPARATOR)[0] for pattern in self.tools)
        return _matches(server, self.servers) or _matches(server, partly)


EVERYTHING = Grant(servers=("*",))
"""The grant of the user who runs toolscript."""


def owned(profile: str | None) -> Grant:
    """Returns the grant of the user who runs toolscript, as a profile narrows it."""
    if not profile:
        return EVERYTHING
    return msgspec.structs.replace(EVERYTHING, profiles=(profile,))


ANONYMOUS = Grant(servers=("*",), anonymous=True, holder="anyone")
"""The grant of other programs on this machine while no token is required."""


def _specificity(pattern: str) -> tuple[bool, int]:
    """Of two patterns of names that match, the greater one counts: a name, a longer pattern."""
    plain = pattern.replace("*", "").replace("?", "")
    return plain == pattern, len(plain)


def _matching_values(stated: Mapping[str, _T], name: str) -> list[tuple[tuple[bool, int], _T]]:
    """Returns the values of the patterns that match a name, each with its pattern's specificity."""
    return [(_specificity(key), value) for key, value in stated.items() if _matches(name, (key,))]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a search, and what its caller wants otherwise than the profile has it."""

    text: str
    """The question, in words, or the name of a tool."""
    limit: int | None = None
    """Maximum number of hits; None for the profile's."""
    threshold: float | None = None
    """Minimum score of a hit, 0 to 1; None for the profile's."""
    alpha: float | None = None
    """Weight of the semantic score, 0 to 1; the rest is the lexical score's. None for the
    profile's."""
    words_only: bool = False
    """Whether to search as if there were no embedding model; ``alpha`` then has no effect."""
    servers: tuple[str, ...] = ()
    """Names of the servers whose tools are searched; all for none."""
    grant: Grant = EVERYTHING
    """What the caller may find."""
    hidden: frozenset[str] = frozenset()
    """Ids of granted tools that may not be found all the same."""
    context: tuple[str, ...] = ()
    """Ids of the tools that were used before, the last one last; related tools rank higher."""
    needed: bool = False
    """Whether to add tools that the best tools need first."""
    explain: bool = False
    """Whether each hit gets an `Explanation` of its score."""
    evidence: tuple[str, ...] | None = None
    """Ids of the hits whose explanations say what each signal found, which takes much longer than
    the search; all for None."""
    why: str = ""
    """The id or name of a tool whose rank, or absence, the result is to explain."""
    skills: bool = False
    """Whether to search skills as well as tools."""

    def shows(self, identifier: str) -> bool:
        """Whether the document with the id ``identifier`` may be found."""
        return identifier not in self.hidden and self.grant.allows(identifier)


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
    """What was found; of a skill its best passage."""
    score: float
    """From 0 to 1; 1 only if the question is exactly its name."""
    reason: str
    """One line that says why, such as ``Semantic similarity (file operations)``."""
    signals: dict[str, float]
    """Each signal's own score, by name; ``graph`` among them where that had something to say."""
    own: float | None = None
    """The search's own score, where the graph moved it."""
    explanation: Explanation | None = None
    """How the score came about, where the request asks for that."""
    related: Relations | None = None
    """What goes with it, where anything is known."""


class MissExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tool that was asked after ended up, and why."""

    id: str
    verdict: str
    """One sentence: shown, below the threshold, beyond the limit, hidden, its server down."""
    rank: int | None = None
    """Its place among all tools that were searched, from 1; none if it was not searched."""
    hit: Hit | None = None


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found."""

    hits: tuple[Hit, ...]
    """Best first; at most ``limit``, each with at least the score ``threshold``."""
    limit: int
    threshold: float
    below: Hit | None = None
    """The best hit that the threshold kept out, where none passed."""
    degraded: tuple[str, ...] = ()
    """Which signals did not answer, and why."""
    why: MissExplanation | None = None
    """Where the tool ended up that ``SearchRequest.why`` asked after."""
    held: tuple[str, ...] = ()
    """The server of each held tool that would have been among the best, by its pinned text."""
    alpha: float = 1.0
    """What the search's own scores weighed; the rest is the graph's. 1 where that was silent."""
    edges: int = 0
    """Of the graph."""


ServerState = Literal["connecting", "ready", "resting", "failed", "disabled", "invalid"]
"""The state of a configured server; ``invalid`` means a mistake in its configuration.

A ``resting`` server is not connected: its tools are known, and it is started when it is needed.
"""


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a configured server, as commands and routes report it."""

    name: str
    state: Annotated[ServerState, Meta(description="How it is doing.")]
    transport: str = ""
    tools: int = 0
    error: Annotated[
        str, Meta(description="The last error; kept while the server is tried again.")
    ] = ""
    since: Annotated[str, Meta(description="When it last listed its tools or failed (UTC).")] = ""
    version: Annotated[str, Meta(description="The name and version that it reports.")] = ""
    rejected: Annotated[
        tuple[str, ...], Meta(description="One line for each tool that cannot be used.")
    ] = ()
    snapshot: Annotated[
        bool, Meta(description="Whether this comes from the snapshot: it is not connected yet.")
    ] = False
    unread: Annotated[
        tuple[str, ...], Meta(description="Keys of other clients in its entry that do nothing.")
    ] = ()
    held: Annotated[int, Meta(description="How many of its tools wait for approval.")] = 0
    reordered: Annotated[
        int, Meta(description="How many were accepted with their lists in another order.")
    ] = 0
    retry: Annotated[str, Meta(description="When a failed server is tried again (UTC).")] = ""

    @property
    def obstacle(self) -> str:
        """Why its tools are not known, with what to do; "" if nothing is wrong."""
        if self.state == "connecting":
            return self.error or "it is connecting; search again in a moment"
        return "" if self.works else self.error or self.state

    @property
    def works(self) -> bool:
        """Whether its tools can be called: it is ready, or is started when that is done."""
        return self.state in {"ready", "resting"}


class ServerResources(msgspec.Struct, frozen=True, kw_only=True):
    """What the processes of one server use: all its instances, and every process below them."""

    instances: int
    """How many instances run."""
    processes: int
    """How many processes they are."""
    memory_bytes: int
    """The sum of the processes' resident sets: a page that several share counts for each."""
    cpu_s: float
    """The seconds of processor time that the processes have used since they began."""
