"""The answers of the HTTP routes as types: a struct per JSON object.

The JSON, the schemas of the OpenAPI document and the tables of ``docs/reference/http.md`` come
from these. A client, such as the command line, can decode the answers into them.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from toolscript.app.health import DownloadState, Health
from toolscript.app.scoped_catalogue import KnownTool
from toolscript.gateway.base import DatabaseState
from toolscript.graph.base import Edge, Stats
from toolscript.storage.activity_log import RecordedCall
from toolscript.surfaces.http.field_types import Count, Json, Ratio, about
from toolscript.text.names import name_warning
from toolscript.text.wire_constants import META_TOOLS
from toolscript.types import (
    ClassSource,
    Related,
    ServerResources,
    ServerStatus,
    ToolClass,
    Trust,
)
from toolscript.version import __version__


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool as its server lists it."""

    tool_id: str
    server_name: str
    tool_name: str
    tool_class: Annotated[ToolClass, about("What it may do: read, write or destroy.")]
    class_source: Annotated[ClassSource, about("Who says so; `guess`: nobody, but its name does.")]
    trust: Annotated[Trust, about("Whether its definition is new or has changed lately.")]
    warning: str | UnsetType = UNSET
    own_name: Annotated[
        str | UnsetType, about("If the configuration repairs it: what its server calls it.")
    ] = UNSET
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any] | None


class ToolsAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every tool, by id."""

    tools: list[ToolAnswer]
    total_tools: Count


class CallAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The server's result as MCP has it, passed on unchanged."""

    content: list[dict[str, Any]]
    structured_content: Any | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(name="_meta", default=UNSET)


class ServerAnswer(ServerStatus, frozen=True, kw_only=True):
    """A configured server."""

    instances: Annotated[Count | UnsetType, about("With `resources`: how many run.")] = UNSET
    processes: Annotated[
        Count | UnsetType, about("With `resources`: those of its instances, and all below them.")
    ] = UNSET
    memory_mib: Annotated[
        float | UnsetType, about("With `resources`: the sum of the processes' resident sets.")
    ] = msgspec.field(name="memoryMiB", default=UNSET)
    cpu_seconds: Annotated[
        float | UnsetType, about("With `resources`: what the processes have computed so far.")
    ] = msgspec.field(name="cpuSeconds", default=UNSET)


class ServersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Every configured server, by name."""

    servers: list[ServerAnswer]


class SkillAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A skill."""

    skill_id: str
    name: str
    description: str
    passages: Count
    for_models: Annotated[bool, about("Whether models may find and read it.")]
    file: Annotated[str | UnsetType, about("For callers who may see everything.")] = UNSET


class SkillsAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every skill, by name."""

    skills: list[SkillAnswer]
    total_skills: Count
    folders: list[str]
    problems: Annotated[list[str], about("What was left out, and why.")]
    warnings: Annotated[list[str], about("Mistakes in skills that were read all the same.")]
    ready: Annotated[bool, about("Whether everything that was found is indexed.")]
    stats: dict[str, Count] | UnsetType = UNSET


class SkillFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole text of a file of a skill."""

    skill_id: str
    name: str
    file: str
    text: str


class StatsAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is indexed, and by what. A token that does not grant everything sees a part of it."""

    tools_indexed: Count
    tools_waiting: Count | UnsetType = UNSET
    embeddings_cached: Count | UnsetType = UNSET
    model: str | None
    model_loaded: bool
    device: str | None
    signals: list[str]
    degraded: str | None
    documents_embedded: Count | UnsetType = UNSET
    documents_from_cache: Count | UnsetType = UNSET
    cache_hit_rate: Ratio | UnsetType | None = UNSET
    query_cache_hit_rate: Ratio | UnsetType | None = UNSET


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether everything is ready. A caller who is granted nothing sees the first three fields."""

    error: Annotated[str | UnsetType, about("Which background task has died, if one has.")] = UNSET
    type: Annotated[str | UnsetType, about("That error's type.")] = UNSET
    status: Literal["ready", "starting", "failed"]
    version: str | UnsetType = UNSET
    pid: Count | UnsetType = UNSET
    tools: Count | UnsetType = UNSET
    tools_waiting: Annotated[Count | UnsetType, about("Tools not fully indexed yet.")] = UNSET
    passages_waiting: Annotated[Count | UnsetType, about("The same of skills' passages.")] = UNSET
    waiting_for: Annotated[tuple[str, ...] | UnsetType, about("Servers still connecting.")] = UNSET
    download: Annotated[DownloadState | UnsetType | None, about("A model's download.")] = UNSET
    configuration: Annotated[str | UnsetType, about("Changes with the files served.")] = UNSET
    configuration_problem: Annotated[str | UnsetType, about("Why newer ones are not.")] = UNSET
    folder: Annotated[str | UnsetType, about("Where servers start that name no folder.")] = UNSET
    tasks: Annotated[Mapping[str, str] | UnsetType, about("Each background task's state.")] = UNSET
    database: Annotated[DatabaseState | UnsetType | None, about("If gateways share one.")] = UNSET


class LiveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """That the process answers."""

    status: Literal["live"] = "live"


class ReadyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """That a search can be answered."""

    status: Literal["ready"] = "ready"
    database: Annotated[
        bool | UnsetType,
        about("Whether the database that gateways share answers; false: from memory meanwhile."),
    ] = UNSET


class GraphAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is used together."""

    stats: Annotated[Stats | None, about("For callers who may see everything.")]
    edges: Annotated[list[Edge], about("The strongest ones.")]


class RelatedAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tools that go with one tool."""

    tool_id: str
    before: tuple[Related, ...]
    after: tuple[Related, ...]
    needs: tuple[Related, ...]


class GraphImported(msgspec.Struct, frozen=True, kw_only=True):
    """What came of templates, dependencies and logs that were sent."""

    calls: Annotated[Count, about("Calls that were learned.")]
    edges: Annotated[int, about("Edges that are new.")]
    total: Annotated[Count, about("Edges that there are now.")]


class GraphCleared(msgspec.Struct, frozen=True, kw_only=True):
    """How much was forgotten."""

    edges: Count
    calls: Count


class RefusalsAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The callers who were refused for lack of a valid token."""

    total: Annotated[Count, about("Since the gateway began.")]
    last_time: Annotated[str, about("When the last one came (UTC); empty for none.")]
    last_address: str


class ServerLogAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a server has written on standard error."""

    server_name: str
    file: str
    lines: Annotated[list[str], about("The newest last; without the secrets of its entry.")]


class ActivityAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of tools."""

    calls: Annotated[list[RecordedCall], about("The newest first.")]
    next: Annotated[int | None, about("What `before` is for the next page; null on the last.")]
    dropped: Annotated[Count | UnsetType, about("Calls that could not be recorded.")] = UNSET
    refusals: Annotated[RefusalsAnswer | UnsetType, about("Requests without a valid token.")] = (
        UNSET
    )


class ModuleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A typed client as JSON."""

    module: Annotated[str, about("The module's text.")]
    usage: Annotated[str, about("A call of the first tool that was asked for.")]


class JsonRpcRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of MCP."""

    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: str | float | UnsetType | None = UNSET
    method: str
    params: dict[str, Any] | UnsetType = UNSET


class JsonRpcError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request of MCP has no result."""

    code: int
    message: str
    data: Any | UnsetType = UNSET


class JsonRpcAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request of MCP: a result or an error."""

    jsonrpc: Literal["2.0"]
    id: str | float | None
    result: Any | UnsetType = UNSET
    error: JsonRpcError | UnsetType = UNSET


def health_answer(health: Health, *, is_public: bool) -> HealthAnswer:
    """Returns the answer of ``/health``, which for the public is the state alone."""
    problem = health.failure
    error: Json = {"error": str(problem), "type": type(problem).__name__} if problem else {}
    if is_public:
        return HealthAnswer(status=health.status, **error)
    known = msgspec.convert(health, HealthAnswer, from_attributes=True)
    known = replace(known, database=known.database or UNSET)
    return replace(known, version=__version__, pid=os.getpid(), **error)


def server_answer(status: ServerStatus, used: ServerResources | None) -> ServerAnswer:
    """Returns a server as ``/servers`` lists it; ``used`` is None if that is not to be said."""
    answer = ServerAnswer(**msgspec.structs.asdict(status))
    if used is None:
        return answer
    return replace(
        answer,
        instances=used.instances,
        processes=used.processes,
        memory_mib=round(used.memory_bytes / 2**20, 1),
        cpu_seconds=round(used.cpu_s, 2),
    )


def tool_answer(tool: KnownTool) -> ToolAnswer:
    """Returns a tool as ``/tools`` lists it."""
    spec = tool.spec
    return ToolAnswer(
        tool_id=spec.id,
        server_name=spec.server,
        tool_name=spec.name,
        tool_class=spec.tool_class,
        class_source=spec.class_source,
        trust=tool.trust,
        warning=name_warning(spec.name, META_TOOLS) or UNSET,
        own_name=spec.own.name if spec.own else UNSET,
        title=spec.title,
        description=spec.description,
        input_schema=spec.input_schema,
        output_schema=spec.output_schema,
        annotations=spec.annotations,
    )
