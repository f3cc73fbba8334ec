"""The answers of the HTTP routes as types: a struct per JSON object.

The JSON, the schemas of the OpenAPI document and the tables of ``docs/reference/http.md`` come
from these. A client, such as the command line, can decode the answers into them.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from toolscript import __version__
from toolscript.app.call_approvals import PendingApproval, PersonsAnswer, RememberedAnswer
from toolscript.app.health import Health
from toolscript.app.scoped_catalogue import KnownTool
from toolscript.gateway.definitions.comparison import HoldReason
from toolscript.gateway.definitions.review_notes import Note
from toolscript.gateway.definitions.word_diff import Change
from toolscript.graph.base import Edge, Stats
from toolscript.storage.activity_log import RecordedCall
from toolscript.surfaces.mcp.meta_tools import OWN_NAMES
from toolscript.surfaces.server.error_answers import ErrorAnswer
from toolscript.text.names import name_warning
from toolscript.types import (
    Decision,
    Explanation,
    Hit,
    MissExplanation,
    PermissionRule,
    Related,
    Relations,
    SearchResult,
    ServerResources,
    ServerStatus,
    ToolClass,
    Trust,
    split_tool_id,
)

Json: TypeAlias = dict[str, Any]


def about(description: str) -> Meta:
    """Returns what describes a field in schemas and in the reference."""
    return Meta(description=description)


Count = Annotated[int, Meta(ge=0)]
Ratio = Annotated[float, Meta(ge=0, le=1)]
MAX_TOOLS = 20_000
"""Tools about which one request may decide: as many as a server may have."""
SCHEMA_REF = "#/components/schemas/{name}"
_HIT: Json = {"anyOf": [{"$ref": SCHEMA_REF.format(name=name)} for name in ("ToolHit", "SkillHit")]}


class ToolHit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool that a search found."""

    kind: Annotated[Literal["tool"] | UnsetType, about("With `skills`: what it is.")] = UNSET
    tool_id: str
    server_name: str
    tool_name: str
    tool_class: Annotated[
        ToolClass | UnsetType, about("What it may do: read, write or destroy.")
    ] = UNSET
    trust: Annotated[
        Trust | UnsetType, about("Whether its definition is new or has changed lately.")
    ] = UNSET
    warning: Annotated[str | UnsetType, about("What is unusual about the tool's name.")] = UNSET
    confidence: Ratio
    reason: str
    description: str
    signals: Annotated[dict[str, Ratio], about("The score of each signal that has one.")]
    explanation: Annotated[Explanation | UnsetType, about("With `explain`: why.")] = UNSET
    related: Annotated[Relations | UnsetType, about("Tools that go with it, if any.")] = UNSET


class SkillPassage(msgspec.Struct, frozen=True, kw_only=True):
    """The best passage of a skill."""

    heading: str
    text: str


class SkillHit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A skill that a search found."""

    kind: Annotated[Literal["skill"] | UnsetType, about("With `skills`: what it is.")] = UNSET
    skill_id: str
    name: str
    confidence: Ratio
    reason: str
    passage: SkillPassage
    signals: dict[str, Ratio]
    explanation: Explanation | UnsetType = UNSET


class MissAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a tool ended up in a search, and why."""

    tool_id: str
    verdict: Annotated[str, about("One sentence.")]
    rank: Annotated[Count | None, about("The tool's place among all tools that were searched.")]
    hit: Annotated[ToolHit | None, about("The tool as a result, if it was searched.")]


class MissingServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server whose tools a search could not find."""

    server: str
    why: Annotated[str, about("With what to do.")]
    snapshot: Annotated[bool, about("Whether it failed earlier, and has not been tried again.")]


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of a search."""

    query: str
    results: Annotated[
        list[Any],
        about("By falling confidence, equal ones by id."),
        Meta(extra_json_schema={"items": _HIT}),
    ]
    total_results: Count
    threshold: Ratio
    limit: Count
    below: Annotated[
        Any,
        about("The best result below the threshold, if there is no other."),
        Meta(extra_json_schema={"anyOf": [_HIT, {"type": "null"}]}),
    ]
    degraded: Annotated[tuple[str, ...], about("A line per signal that did not answer in full.")]
    not_searched: Annotated[
        tuple[MissingServer, ...] | UnsetType,
        about("The servers whose tools are not known; not in a search of skills alone."),
    ] = UNSET
    why: Annotated[MissAnswer | UnsetType, about("With `why`: where that tool is.")] = UNSET


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool as its server lists it."""

    tool_id: str
    server_name: str
    tool_name: str
    tool_class: Annotated[ToolClass, about("What it may do: read, write or destroy.")]
    trust: Annotated[Trust, about("Whether its definition is new or has changed lately.")]
    warning: str | UnsetType = UNSET
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any] | None
    notes: Annotated[
        tuple[Note, ...] | UnsetType, about("With `notes`: what is unusual in the definition.")
    ] = UNSET


class RuleAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rule about calls."""

    pattern: Annotated[str, about("Ids of tools.")]
    decision: Decision
    tool_class: Annotated[ToolClass | None, about("The class that it is about; null for all.")]
    origin: Annotated[str, about("Where it is written.")]

    @classmethod
    def of(cls, rule: PermissionRule) -> "RuleAnswer":
        """Returns a rule as an answer."""
        return cls(
            pattern=rule.pattern,
            decision=rule.decision,
            tool_class=rule.tool_class,
            origin=rule.origin,
        )


class PermissionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided about calls without asking anybody."""

    rules: list[RuleAnswer]
    profiles: dict[str, list[RuleAnswer]]
    remembered: Annotated[list[RememberedAnswer], about("What was allowed for always.")]


class RevokedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer for always that does not count any more."""

    revoked: RememberedAnswer


class PendingCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that wait for an answer."""

    pending: list[PendingApproval]


class PendingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How a call that waited was answered."""

    call: PendingApproval
    answer: PersonsAnswer


class HeldAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool whose definition waits for approval."""

    tool_id: str
    server_name: str
    reason: HoldReason
    why: Annotated[str, about("The reason as a clause.")]
    rejected: Annotated[bool, about("Whether somebody has rejected this definition.")]
    launch_before: Annotated[str, about("How its server was started when it was accepted.")]
    launch: Annotated[str, about("How it is started now, where that has changed.")]
    changes: Annotated[list[Change], about("What differs from the definition accepted.")]
    notes: Annotated[list[Note], about("What is unusual in the definition.")]


class ReviewAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tools that wait for approval, by id."""

    held: list[HeldAnswer]
    total_held: Count


class ReviewDone(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided, by tools' ids."""

    approved: list[str]
    rejected: list[str]


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
    file: Annotated[str | UnsetType, about("For callers who may see everything.")] = UNSET


class SkillsAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every skill, by name."""

    skills: list[SkillAnswer]
    total_skills: Count
    folders: list[str]
    problems: Annotated[list[str], about("What was left out, and why.")]
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


class DownloadAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far the download of a model is."""

    model: str
    done_bytes: Count
    total_bytes: Annotated[Count, about("0 as long as it is not known.")]


class DatabaseAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The database that several gateways share, as this one sees it."""

    answers: Annotated[bool, about("Whether it answered the last time.")]
    problem: Annotated[str, about("Why it does not, or cannot be used; else empty.")]
    lag_s: Annotated[float, about("Seconds since anything was heard of other gateways' changes.")]
    leases: Annotated[Count, about("Servers that this gateway lists for all.")]
    replicas: Annotated[Count, about("Gateways that there are.")]
    connections: Annotated[Count, about("Connections in use.")]
    max_connections: Annotated[Count, about("Connections that this gateway may open.")]


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
    download: Annotated[DownloadAnswer | UnsetType | None, about("A model's download.")] = UNSET
    configuration: Annotated[str | UnsetType, about("Changes with the files served.")] = UNSET
    configuration_problem: Annotated[str | UnsetType, about("Why newer ones are not.")] = UNSET
    tasks: Annotated[Mapping[str, str] | UnsetType, about("Each background task's state.")] = UNSET
    database: Annotated[DatabaseAnswer | UnsetType | None, about("If gateways share one.")] = UNSET


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
    """The callers who were refused for want of a valid token."""

    total: Annotated[Count, about("Since the gateway began.")]
    last_time: Annotated[str, about("When the last one came (UTC); empty for none.")]
    last_address: str


class ActivityAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of tools."""

    calls: Annotated[list[RecordedCall], about("The newest first.")]
    next: Annotated[int | None, about("What `before` is for the next page; null on the last.")]
    dropped: Annotated[Count | UnsetType, about("Calls that could not be recorded.")] = UNSET
    refusals: Annotated[RefusalsAnswer | UnsetType, about("Requests without a valid token.")] = (
        UNSET
    )


class ResultCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the results of one tool cost the models that read them."""

    tool: str
    calls: Count
    tokens: Annotated[Count, about("Of all its results together.")]
    largest: Annotated[Count, about("Of its largest result.")]


class CostAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What tools cost a model in tokens: estimates, four bytes of JSON each."""

    tools: Count
    list_all: Annotated[Count, about("Listing every tool at the beginning of a session.")]
    list_search: Annotated[Count, about("Listing the tools of the search instead.")]
    search: Annotated[Count, about("One answer of the search: the mean over `asked`.")]
    asked: Annotated[list[str], about("The questions that were asked to measure that.")]
    break_even: Annotated[
        Count | None, about("As many searches in a session cost as much as listing every tool.")
    ]
    results: Annotated[list[ResultCost], about("Of the calls on record, the most tokens first.")]


class ModuleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A typed client as JSON."""

    module: Annotated[str, about("The module's text.")]
    usage: Annotated[str, about("A call of the first tool that was asked for.")]
    tools: Annotated[tuple[str, ...], about("The ids of the tools in it.")]


class ReviewDecision(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """What is decided about tools that wait for approval, by their ids."""

    approve: Annotated[list[str], Meta(max_length=MAX_TOOLS)] = []
    reject: Annotated[list[str], Meta(max_length=MAX_TOOLS)] = []
    approve_server: Annotated[str | UnsetType, about("Approve all held tools of this server.")] = (
        UNSET
    )


class CallDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a call that waits."""

    answer: PersonsAnswer


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """Which answer for always is taken back."""

    id: Annotated[str, about("See `GET /permissions`.")]


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


ANSWERS = (
    *(SearchAnswer, ToolHit, SkillHit, ToolsAnswer, CallAnswer, ServersAnswer, SkillsAnswer),
    *(SkillFile, StatsAnswer, HealthAnswer, LiveAnswer, ReadyAnswer),
    *(GraphAnswer, RelatedAnswer, GraphImported),
    *(GraphCleared, ActivityAnswer, ModuleAnswer, JsonRpcRequest, JsonRpcAnswer, ErrorAnswer),
    *(ReviewAnswer, ReviewDone, PendingCalls, PendingAnswer, PermissionsAnswer, RevokedAnswer),
    *(ReviewDecision, CallDecision, Revocation, CostAnswer),
)


def schemas() -> Json:
    """Returns each answer's JSON schema, by the name under which the others refer to it."""
    _, components = msgspec.json.schema_components(ANSWERS, ref_template=SCHEMA_REF)
    return msgspec.json.decode(msgspec.json.encode(components))  # defaults are tuples, not lists


def search_answer(
    query: str,
    result: SearchResult,
    missing: Sequence[ServerStatus] | None = None,
    tools: Mapping[str, KnownTool] | None = None,
    *,
    mark: bool = False,
) -> SearchAnswer:
    """Returns the answer to a search; with ``mark`` every hit says whether it is a tool.

    ``missing`` are the servers that were not searched; None where skills are searched alone.
    ``tools`` are what is known of the tools that were found, by id.
    """
    known = tools or {}
    return SearchAnswer(
        query=query,
        results=[_hit(hit, known, mark=mark) for hit in result.hits],
        total_results=len(result.hits),
        threshold=result.threshold,
        limit=result.limit,
        below=_hit(result.below, known, mark=mark) if result.below else None,
        degraded=result.degraded,
        not_searched=UNSET
        if missing is None
        else tuple(
            MissingServer(server=each.name, why=each.obstacle, snapshot=each.snapshot)
            for each in missing
        ),
        why=_miss(result.why, known) if result.why else UNSET,
    )


def _miss(miss: MissExplanation, known: Mapping[str, KnownTool]) -> MissAnswer:
    hit = _tool_hit(miss.hit, known) if miss.hit else None
    return MissAnswer(tool_id=miss.id, verdict=miss.verdict, rank=miss.rank, hit=hit)


def _hit(hit: Hit, known: Mapping[str, KnownTool], *, mark: bool) -> ToolHit | SkillHit:
    if hit.document.parent_id:
        return _skill_hit(hit, mark=mark)
    return _tool_hit(hit, known, mark=mark)


def _tool_hit(hit: Hit, known: Mapping[str, KnownTool], *, mark: bool = False) -> ToolHit:
    tool = known.get(hit.document.id)
    return ToolHit(
        kind="tool" if mark else UNSET,
        tool_id=hit.document.id,
        server_name=hit.document.server,
        tool_name=hit.document.name,
        tool_class=tool.spec.tool_class if tool else UNSET,
        trust=tool.trust if tool else UNSET,
        warning=name_warning(hit.document.name, OWN_NAMES) or UNSET,
        confidence=hit.score,
        reason=hit.reason,
        description=hit.document.description,
        signals=hit.signals,
        explanation=hit.explanation or UNSET,
        related=hit.related or UNSET,
    )


def _skill_hit(hit: Hit, *, mark: bool) -> SkillHit:
    return SkillHit(
        kind="skill" if mark else UNSET,
        skill_id=hit.document.parent_id,
        name=split_tool_id(hit.document.parent_id)[1],
        confidence=hit.score,
        reason=hit.reason,
        passage=SkillPassage(heading=hit.document.title, text=hit.document.description),
        signals=hit.signals,
        explanation=hit.explanation or UNSET,
    )


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
    """Returns a server as ``/servers`` lists it; ``used`` is None where that is not to be said."""
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


def tool_answer(tool: KnownTool, notes: Mapping[str, tuple[Note, ...]] | None) -> ToolAnswer:
    """Returns a tool as ``/tools`` lists it; ``notes`` are by id, None where not asked for."""
    spec = tool.spec
    return ToolAnswer(
        tool_id=spec.id,
        server_name=spec.server,
        tool_name=spec.name,
        tool_class=spec.tool_class,
        trust=tool.trust,
        warning=name_warning(spec.name, OWN_NAMES) or UNSET,
        title=spec.title,
        description=spec.description,
        input_schema=spec.input_schema,
        output_schema=spec.output_schema,
        annotations=spec.annotations,
        notes=UNSET if notes is None else notes.get(spec.id, ()),
    )
