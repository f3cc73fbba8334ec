"""Types of a search's response: the tools and skills found, and what could not be searched."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolscript.app.scoped_catalogue import KnownTool
from toolscript.app.searching import Found
from toolscript.codegen.api_definitions import Format, define_tools
from toolscript.surfaces.http.field_types import SCHEMA_REF, Count, Json, Ratio, about
from toolscript.text.names import name_warning
from toolscript.text.wire_constants import META_TOOLS, REPAIRED
from toolscript.types import (
    ClassSource,
    Explanation,
    Fit,
    Hit,
    MissExplanation,
    Relations,
    ToolClass,
    Trust,
    split_tool_id,
)

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
    class_source: Annotated[
        ClassSource | UnsetType, about("Who says so; `guess`: nobody, but its name does.")
    ] = UNSET
    trust: Annotated[
        Trust | UnsetType, about("Whether its definition is new or has changed lately.")
    ] = UNSET
    warning: Annotated[str | UnsetType, about("What is unusual about the tool's name.")] = UNSET
    own_name: Annotated[
        str | UnsetType, about("If the configuration repairs it: what its server calls it.")
    ] = UNSET
    confidence: Ratio
    fused: Annotated[Ratio, about("The formula: α · semantic + (1 − α) · fuzzy.")]
    reason: str
    description: str
    signals: Annotated[dict[str, Ratio], about("The score of each signal that has one.")]
    explanation: Annotated[Explanation | UnsetType, about("With `explain`: why.")] = UNSET
    related: Annotated[Relations | UnsetType, about("Tools that go with it, if any.")] = UNSET
    twins: Annotated[
        tuple[str, ...] | UnsetType,
        about("Servers that have a tool of the same name and meaning, if any."),
    ] = UNSET


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
    fused: Annotated[Ratio, about("The formula: α · semantic + (1 − α) · fuzzy.")]
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
    fit: Annotated[Fit, about("The verdict about the best result, as models read it.")]
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
    held: Annotated[
        tuple[str, ...] | UnsetType,
        about("The server of each held tool that would be a result, if any."),
    ] = UNSET
    why: Annotated[MissAnswer | UnsetType, about("With `why`: where that tool is.")] = UNSET
    tools: Annotated[
        list[dict[str, Any]] | UnsetType,
        about("With `format`: the definitions of the tools; `openai` groups them by server."),
    ] = UNSET


def search_answer(
    query: str, found: Found, *, mark: bool = False, form: Format | None = None
) -> SearchAnswer:
    """Returns the answer to a search.

    Args:
        query: The question.
        found: The result.
        mark: Whether every hit says that it is a tool or a skill.
        form: The form of the tools' definitions; None leaves them out.
    """
    result, known = found.result, found.tools
    nearest = next(iter(result.nearest), None)
    specs = [known[hit.document.id].spec for hit in result.hits if hit.document.id in known]
    return SearchAnswer(
        query=query,
        results=[_hit(hit, known, mark=mark) for hit in result.hits],
        total_results=len(result.hits),
        fit=result.fit,
        threshold=result.threshold,
        limit=result.limit,
        below=_hit(nearest, known, mark=mark) if nearest and not result.hits else None,
        degraded=result.degraded,
        not_searched=UNSET
        if found.missing is None
        else tuple(
            MissingServer(server=server.name, why=server.obstacle, snapshot=server.snapshot)
            for server in found.missing
        ),
        held=result.held or UNSET,
        why=_miss(result.why, known) if result.why else UNSET,
        tools=define_tools(specs, form) if form else UNSET,
    )


def _miss(miss: MissExplanation, known: Mapping[str, KnownTool]) -> MissAnswer:
    hit = _tool_hit(miss.hit, known) if miss.hit else None
    repaired = f"; {REPAIRED} {hit.own_name}" if hit and hit.own_name is not UNSET else ""
    verdict = f"{miss.verdict}{repaired}"
    return MissAnswer(tool_id=miss.id, verdict=verdict, rank=miss.rank, hit=hit)


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
        class_source=tool.spec.class_source if tool else UNSET,
        trust=tool.trust if tool else UNSET,
        warning=name_warning(hit.document.name, META_TOOLS) or UNSET,
        own_name=tool.spec.own.name if tool and tool.spec.own else UNSET,
        confidence=hit.score,
        fused=hit.fused,
        reason=hit.reason,
        description=hit.document.description,
        signals=hit.signals,
        explanation=hit.explanation or UNSET,
        related=hit.related or UNSET,
        twins=hit.twins or UNSET,
    )


def _skill_hit(hit: Hit, *, mark: bool) -> SkillHit:
    return SkillHit(
        kind="skill" if mark else UNSET,
        skill_id=hit.document.parent_id,
        name=split_tool_id(hit.document.parent_id)[1],
        confidence=hit.score,
        fused=hit.fused,
        reason=hit.reason,
        passage=SkillPassage(heading=hit.document.title, text=hit.document.description),
        signals=hit.signals,
        explanation=hit.explanation or UNSET,
    )
