"""``toolscript eval``: measures whether tools are found, for those who write or choose servers.

The figures are those of `quality_metrics`, as ``benchmarks.quality`` has them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from toolscript.config.settings import MAX_QUERY_CHARS, OPTION
from toolscript.errors import InputError
from toolscript.retrieval.quality_metrics import DEPTH, LABELS, Scores, mean, score
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.gateway_client import Client
from toolscript.surfaces.cli.options import output_option, reading, refresh_option, settings_options
from toolscript.surfaces.cli.output import note, print_json, print_table, print_text
from toolscript.text.display import first_lines, printable
from toolscript.text.json_values import as_list, as_object
from toolscript.text.words import first_sentence
from toolscript.types import Document, ToolSpec

HIT_RANK = 5
"""A question is missed if none of its tools is among the first five."""
MAX_DESCRIBED = 2000
"""Maximum number of tools whose own descriptions are asked for them."""
_MAX_SHOWN = 20
"""Misses and tools that a table lists; JSON has all."""
_ROUNDING = 0.00005
_FORM = '{"question": "…", "relevant": ["server__tool"]}'
_PATH = click.Path(dir_okay=False, path_type=Path)
_Search = Callable[[str], list[str]]
"""Returns the ids of the tools that answer a question, best first."""
_Explain = Callable[[str, str], str]
"""Returns the place of a tool for a question, in a sentence."""
_Question = tuple[str, tuple[str, ...]]
"""A question, and the ids of the tools that answer it."""


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """A question that did not find its tool."""

    query: str
    relevant: tuple[str, ...]
    rank: int | None
    """The rank of the first right tool; None if it is not among the first ten."""
    found: tuple[str, ...]
    """The ids that came first instead."""
    why: str
    """The place of the right tool, in a sentence."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an evaluation."""

    questions: int
    figures: Scores
    servers: dict[str, Scores]
    """The figures of the questions about each server's tools."""
    misses: tuple[Miss, ...]
    unfindable: tuple[str, ...]
    """Tools that the first sentence of their own description does not find."""


@click.command("eval")
@click.argument("questions", type=_PATH)
@click.option(
    "--tools",
    "file",
    type=_PATH,
    metavar="FILE",
    help="Tools as tools/list answers, or JSON lines.",
)
@click.option(
    "--min-recall5",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 1 if fewer of the right tools are among the first five.",
)
@click.option(
    "--baseline", type=_PATH, metavar="FILE", help="Exit with 1 if worse than this JSON output."
)
@output_option
@refresh_option
@settings_options("model", "config", "data_dir")
def evaluate_command(
    questions: Path,
    file: Path | None,
    min_recall5: float | None,
    baseline: Path | None,
    output: str,
    refresh: bool,
    **flags: Any,
) -> int:
    """Measure whether the questions in a file find their tools.

    QUESTIONS has a JSON object on each line: {"question": "…", "relevant": ["server__tool"]}.
    The tools are those of your configuration, or of --tools.
    """
    former = _read_baseline(baseline) if baseline else {}
    asked = _read_questions(questions)
    if file is not None:
        known = _read_tools(file)
        result = _evaluate(asked, known, *_search_locally(known))
    else:
        with connected(flags, refresh=refresh, skills="off") as client:
            result = _evaluate(asked, _list_tools(client), *_search_by(client))
    if output == "json":
        print_json(msgspec.to_builtins(result))
    else:
        _print_table(result)
    floors = {} if min_recall5 is None else {"r5": min_recall5}
    shortfalls = [
        *_shortfalls(result.figures, floors, "--min-recall5"),
        *_shortfalls(result.figures, former, "the baseline's"),
    ]
    for line in shortfalls:
        note(line)
    return int(bool(shortfalls))


def _evaluate(
    questions: Sequence[_Question],
    known: Mapping[str, Document],
    search: _Search,
    explain: _Explain,
) -> Evaluation:
    """Asks every question, and the descriptions of the known tools."""
    scores: list[Scores] = []
    servers: dict[str, list[Scores]] = {}
    misses: list[Miss] = []
    for query, relevant in questions:
        for identifier in relevant:
            if identifier not in known:
                raise InputError(
                    f"{query[:60]!r} names {identifier!r}, which is no tool of this catalogue of "
                    f"{len(known)}"
                )
        found = search(query)
        scores.append(score(found, relevant))
        for server in {known[each].server for each in relevant}:
            servers.setdefault(server, []).append(scores[-1])
        rank = next((rank for rank, each in enumerate(found, 1) if each in relevant), None)
        if rank is None or rank > HIT_RANK:
            why, first = explain(query, relevant[0]), tuple(found[:3])
            misses.append(Miss(query=query, relevant=relevant, rank=rank, found=first, why=why))
    return Evaluation(
        questions=len(questions),
        figures=mean(scores),
        servers={server: mean(each) for server, each in sorted(servers.items())},
        misses=tuple(misses),
        unfindable=tuple(
            identifier
            for identifier, document in sorted(known.items())[:MAX_DESCRIBED]
            if (sentence := printable(first_sentence(document.description)))
            and identifier not in search(sentence)[:HIT_RANK]
        ),
    )


def _shortfalls(figures: Scores, floors: Scores, name: str) -> list[str]:
    """Returns a line for each figure below its floor; rounding in the fourth digit is forgiven."""
    return [
        f"{LABELS[key]} is {figures[key]:.4f}, below {name} {floor:.4f}"
        for key, floor in floors.items()
        if figures[key] < floor - _ROUNDING
    ]


# The search


def _search_by(client: Client) -> tuple[_Search, _Explain]:
    """Returns the search of an application, and its words about one tool."""

    def ask(query: str, **more: str) -> dict[str, Any]:
        parameters = {"q": query[:MAX_QUERY_CHARS], "limit": DEPTH, **more}
        return client.get("/search", list(parameters.items()))

    def search(query: str) -> list[str]:
        return [each["toolId"] for each in ask(query, threshold="0")["results"]]

    def explain(query: str, tool: str) -> str:
        return ask(query, why=tool)["why"]["verdict"]

    return search, explain


def _search_locally(known: Mapping[str, Document]) -> tuple[_Search, _Explain]:
    """Returns the same for tools of a file."""
    from toolscript.retrieval.ranker import make_engine  # noqa: PLC0415 - loads numpy
    from toolscript.types import SearchRequest  # noqa: PLC0415

    engine = make_engine(limit=DEPTH, threshold=0.0)
    engine.update(known.values())

    def search(query: str) -> list[str]:
        hits = engine.search(SearchRequest(text=query[:MAX_QUERY_CHARS])).hits
        return [hit.document.id for hit in hits]

    def explain(query: str, tool: str) -> str:
        text, usual = query[:MAX_QUERY_CHARS], OPTION["threshold"].default
        miss = engine.search(SearchRequest(text=text, threshold=usual, why=tool)).why
        return "" if miss is None else miss.verdict

    return search, explain


# Tools and files


def _list_tools(client: Client) -> dict[str, Document]:
    """Returns the tools of an application, by id."""
    tools = client.get("/tools")["tools"]
    return _documents(
        tool | {"id": tool["toolId"], "server": tool["serverName"], "name": tool["toolName"]}
        for tool in tools
    )


def _read_tools(path: Path) -> dict[str, Document]:
    """Returns the tools of a file, by id: see ``--tools``."""
    content = _read(path)
    try:
        if documents := _documents(_parse_tools(content)):
            return documents
        error = "it is empty"
    except (msgspec.DecodeError, InputError) as problem:
        error = str(problem)
    raise InputError(f"{path} has no tools, as tools/list answers them or in JSON lines: {error}")


def _parse_tools(content: bytes) -> list[Any]:
    try:
        value = _decode(content)
    except msgspec.DecodeError:  # several lines
        return [_decode(line) for line in content.splitlines() if line.strip()]
    answer = as_object(value)
    listing = as_object(answer.get("result")) or answer
    return as_list(listing.get("tools")) or as_list(value) or [value]


def _documents(rows: Iterable[Any]) -> dict[str, Document]:
    """Returns tools as they are searched: MCP's definitions, or a benchmark's with their ids."""
    documents: dict[str, Document] = {}
    for row in map(as_object, rows):
        spec = ToolSpec.of(row, str(row.get("server") or "tools"))
        spec = msgspec.structs.replace(spec, title=str(row.get("title") or ""))
        identifier = str(row.get("id") or spec.id)
        documents[identifier] = msgspec.structs.replace(Document.of(spec), id=identifier)
    return documents


def _read_questions(path: Path) -> list[_Question]:
    """Returns the questions of a file; ``query`` is read for ``question``, an id for a list."""
    questions: list[_Question] = []
    for number, line in enumerate(_read(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            stated = as_object(_decode(line))
        except msgspec.DecodeError as error:
            raise InputError(f"{path}:{number}: this is no JSON: {error}") from None
        query, relevant = stated.get("question", stated.get("query")), stated.get("relevant")
        ids = [relevant] if isinstance(relevant, str) else as_list(relevant)
        if not (isinstance(query, str) and query.strip() and ids) or not all(
            isinstance(each, str) for each in ids
        ):
            raise InputError(f"{path}:{number}: expected {_FORM}")
        questions.append((query.strip(), tuple(dict.fromkeys(ids))))
    if not questions:
        raise InputError(f"{path} has no question; write {_FORM} on a line")
    return questions


def _read_baseline(path: Path) -> Scores:
    try:
        figures = _decode(_read(path))["figures"]
        return {key: float(figures[key]) for key in LABELS}
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} is no baseline; make one with: toolscript eval QUESTIONS --output json"
        ) from None


def _read(path: Path) -> bytes:
    with reading(path):
        return path.read_bytes()


# The result


def _print_table(result: Evaluation) -> None:
    rows = [[server, *_cells(figures)] for server, figures in result.servers.items()]
    rows.append([f"all {result.questions} questions", *_cells(result.figures)])
    print_table(["Server", *LABELS.values()], rows, 0)
    for title, lines in (
        ("Not among the first five", list(map(_describe, result.misses))),
        ("Not found by their own description", list(result.unfindable)),
    ):
        if lines:
            print_text(f"\n{title}")
        for line in first_lines(lines, _MAX_SHOWN, "and {} more; --output json has all"):
            print_text(f"  {line}")


def _cells(figures: Scores) -> list[str]:
    return [f"{figures[key]:.3f}" for key in LABELS]


def _describe(miss: Miss) -> str:
    wanted, found = ", ".join(miss.relevant), ", ".join(miss.found) or "nothing"
    return f"{miss.query}: wanted {wanted}, found {found}; {miss.why}"


def _decode(content: bytes) -> Any:
    """Returns a JSON text's value; raises `msgspec.DecodeError`."""
    try:
        return msgspec.json.decode(content)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
