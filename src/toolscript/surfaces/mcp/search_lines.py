"""Writes the answer of a search for a model: a line for each hit, and a verdict about the best."""

import re
from collections.abc import Mapping, Sequence

from toolscript.app.argument_checks import short_signature
from toolscript.app.scoped_catalogue import KnownTool
from toolscript.app.searching import Found
from toolscript.retrieval.base import NOT_EMBEDDED
from toolscript.retrieval.lexical.name_matching import parse_selection
from toolscript.surfaces.mcp.meta_tools import marked
from toolscript.text.display import first_lines, held_line, printable
from toolscript.text.wire_constants import CALLS, READ
from toolscript.text.words import compact
from toolscript.types import Hit, SearchResult, ServerStatus, tool_id

_MAX_SIGNATURE, _MAX_SENTENCE, _MAX_PASSAGE = 120, 80, 240
_MAX_MISSING, _MAX_WHY = 5, 80
_MAX_READ = 1000
"""Characters of a description in which its first sentence is looked for."""
_PARAGRAPHS, _END = re.compile(r"\n\s*\n"), re.compile(r"[.!?](?= +[A-Z])|。")
_ADVICE = "Other words may help: the action and the object, in English."


def of_tools(query: str, found: Found, names: Mapping[str, str]) -> str:
    """Returns the answer of a search for tools, and for skills if the result has some.

    Args:
        query: The question.
        found: The hits, however sure they are.
        names: The names by which models call the tools, by id.
    """
    result, said = found.result, set[str]()
    lines: list[str] = []
    for hit in result.hits:
        document = hit.document
        if document.parent_id:
            lines.append(_skill(hit))
            continue
        twins = () if document.id in said else hit.twins
        said.update(tool_id(server, document.name) for server in twins)
        name = f"{names[document.id]} {_score(hit)}"
        lines.append(_tool(found.tools[document.id], name, twins))
    held = [held_line(result.held)] if result.held else []
    missing = _describe_missing(found.missing or (), is_brief=result.fit == "good")
    more = [*_unknown_names(query, result.hits), *missing, *held]
    return "\n".join(
        [_verdict(result, "tool", found.missing or ()), *lines, *_write_degraded(result), *more]
    )


def of_skills(result: SearchResult) -> str:
    """Returns the answer of a search for skills."""
    lines = [_skill(hit) for hit in result.hits]
    held = [held_line(result.held, "skill")] if result.held else []
    return "\n".join([_verdict(result, "skill"), *lines, *_write_degraded(result), *held])


def _verdict(result: SearchResult, noun: str, missing: Sequence[ServerStatus] = ()) -> str:
    """Returns the first line.

    While the tools of ``missing`` servers are not known, it says of none that it is not there: a
    model that believes so gives up.
    """
    if result.fit == "good":
        return "fit: good"
    starts = result.fit == "none" and any(each.state == "connecting" for each in missing)
    if starts or any(each.endswith(NOT_EMBEDDED) for each in result.degraded):
        return "fit: not known yet. Search again in a moment."
    if result.fit == "weak":
        return f"fit: weak. {_ADVICE}"
    nearest = " Nearest:" if result.hits else ""
    if missing:
        return f"fit: none so far: not every server was searched. {_ADVICE}{nearest}"
    return f"fit: none. No {noun} here surely does that. {_ADVICE}{nearest}"


def _score(hit: Hit) -> str:
    """Returns a score as models read it: ``.82``, ``1.00``."""
    return f"{hit.score:.2f}".removeprefix("0")


def _tool(tool: KnownTool, name: str, twins: Sequence[str]) -> str:
    """Returns the line of a tool; ``name`` is its name and score."""
    spec = tool.spec
    marks = [*marked(spec.name).values(), *["changed"] * (tool.trust == "changed")]
    warning = "".join(f" ({text})" for text in marks)
    signature = short_signature(spec.input_schema, _MAX_SIGNATURE)
    call = CALLS[spec.tool_class]
    line = f"{name} {signature} [{call}]{warning} {_sentence(spec.description)}".rstrip()
    if not twins:
        return line
    end = "" if line.endswith((".", "!", "?", "]", "…")) else "."
    return f"{line}{end} Also in: {printable(', '.join(twins), _MAX_WHY)}."


def _sentence(text: str) -> str:
    """Returns the first sentence of a description, on one line; a paragraph's lines are joined."""
    [paragraph, *_] = _PARAGRAPHS.split(text[:_MAX_READ].strip(), 1)
    line = " ".join(paragraph.split())
    end = _END.search(line)
    return printable(line[: end.end()] if end else line, _MAX_SENTENCE)


def _skill(hit: Hit) -> str:
    passage = hit.document
    heading = f"{passage.title}: " if passage.title else ""
    text = printable(f"{heading}{passage.description}", _MAX_PASSAGE)
    return f"{passage.parent_id} {_score(hit)} [{READ}] {text}"


def _write_degraded(result: SearchResult) -> list[str]:
    return [f"degraded: {printable('; '.join(result.degraded), 200)}"] if result.degraded else []


def _unknown_names(query: str, hits: Sequence[Hit]) -> list[str]:
    """Returns the line about the names that a question selects and no hit has."""
    shown = tuple({compact(hit.document.name) for hit in hits})
    names = [name for name in parse_selection(query) if " " not in name]
    unknown = [printable(name, _MAX_WHY) for name in names if not compact(name).endswith(shown)]
    return [f"no tool is called {', '.join(first_lines(unknown, _MAX_MISSING))}"] if unknown else []


def _describe_missing(missing: Sequence[ServerStatus], *, is_brief: bool) -> list[str]:
    """Returns the line about the servers that were not searched; none without any.

    Only an answer that is not good says why: a model with a good tool need not read it.
    """
    rows = [
        s.name if is_brief else f"{s.name} ({printable(s.obstacle, _MAX_WHY)})" for s in missing
    ]
    shown = f"not searched: {', '.join(first_lines(rows, _MAX_MISSING, '{} more'))}"
    advice = "" if is_brief else "; the user sees more with: toolscript doctor"
    return [shown + advice] if rows else []
