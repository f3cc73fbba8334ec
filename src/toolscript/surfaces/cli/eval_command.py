"""``toolscript eval``: measures whether tools are found, for those who write or choose servers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import click
import msgspec

from toolscript.config.settings import MAX_QUERY_CHARS, OPTION
from toolscript.errors import InputError
from toolscript.retrieval.evaluation import (
    FIGURES,
    Evaluation,
    Miss,
    check_questions,
    evaluate,
    parse_questions,
    shortfalls,
)
from toolscript.retrieval.quality_metrics import DEPTH
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.gateway_client import Client
from toolscript.surfaces.cli.options import output_choice, reading, refresh_option, settings_options
from toolscript.surfaces.cli.output import note, print_json, print_table, print_text
from toolscript.text.display import first_lines
from toolscript.types import Document, ToolSpec

_MAX_SHOWN = 20
"""Misses, confusions and tools that a table or Markdown lists; JSON has all."""
_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command("eval")
@click.argument("questions", required=False, type=_PATH)
@click.option(
    "--tools",
    "file",
    type=_PATH,
    metavar="FILE",
    help="Tools as tools/list answers, or JSON lines.",
)
@click.option("--template", is_flag=True, help="Print a file of questions to fill in, and stop.")
@click.option(
    "--min-recall5",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 1 if fewer of the right tools are among the first five.",
)
@click.option(
    "--baseline", type=_PATH, metavar="FILE", help="Exit with 1 if worse than this JSON output."
)
@output_choice(
    "A table for people; JSON, Markdown or JUnit's XML for programs.",
    *("table", "json", "markdown", "junit"),
)
@refresh_option
@settings_options("model", "config", "data_dir")
def evaluate_command(
    questions: Path | None,
    file: Path | None,
    template: bool,
    min_recall5: float | None,
    baseline: Path | None,
    output: str,
    refresh: bool,
    **flags: Any,
) -> None:
    """Measure whether the questions in a file find their tools.

    QUESTIONS has a JSON object on each line: {"question": "…", "relevant": ["server__tool"]}.
    The tools are those of your configuration, or of --tools.
    """
    if not (questions or template):
        raise InputError("name a file of questions, or print one to fill in with --template")
    former = _read_baseline(baseline) if baseline else {}
    if file is not None:
        known = _read_tools(file)
        if template:
            _print_template(known)
            return
        search, explain = _search_locally(known)
        result = _evaluate(questions or Path(), known, search, explain)
    else:
        with connected(flags, refresh=refresh, skills="off") as client:
            known = _list_tools(client)
            if template:
                _print_template(known)
                return
            result = _evaluate(questions or Path(), known, *_search_by(client))
    _PRINT[output](result)
    floors = {} if min_recall5 is None else {"r5": min_recall5}
    lines = [
        *shortfalls(result.figures, floors, "--min-recall5"),
        *shortfalls(result.figures, former, "the baseline's"),
    ]
    for line in lines:
        note(line)
    if lines:
        raise SystemExit(1)


def _evaluate(
    path: Path,
    known: Mapping[str, Document],
    search: Callable[[str], list[str]],
    explain: Callable[[str, str], str],
) -> Evaluation:
    questions = parse_questions(_read(path), str(path))
    check_questions(questions, known)
    return evaluate(questions, known, search, explain)


# The tools, and their search


class _Row(msgspec.Struct, frozen=True):
    """A tool in a file: of a ``tools/list`` answer, or of a benchmark's JSON lines."""

    name: str
    id: str = ""
    server: str = "tools"
    title: str | None = None
    description: str | None = None
    inputSchema: dict[str, Any] | None = None  # noqa: N815 - as MCP spells it
    input_schema: dict[str, Any] | None = None

    def document(self) -> Document:
        """Returns the tool as it is searched."""
        spec = ToolSpec(
            server=self.server,
            name=self.name,
            title=self.title or "",
            description=self.description or "",
            input_schema=self.inputSchema or self.input_schema or {},
        )
        return msgspec.structs.replace(Document.of(spec), id=self.id or spec.id)


class _Listing(msgspec.Struct, frozen=True):
    """A ``tools/list`` answer, whole or its result alone."""

    result: "_Listing | None" = None
    tools: list[_Row] | None = None


def _list_tools(client: Client) -> dict[str, Document]:
    """Returns the tools of an application, by id."""
    rows = (
        _Row(
            name=tool["toolName"],
            server=tool["serverName"],
            title=tool["title"],
            description=tool["description"],
            inputSchema=tool["inputSchema"],
        )
        for tool in client.get("/tools")["tools"]
    )
    return {document.id: document for document in map(_Row.document, rows)}


def _read_tools(path: Path) -> dict[str, Document]:
    """Returns the tools of a file, by id: see ``--tools``."""
    content = _read(path)
    try:
        rows = _parse_tools(content)
    except msgspec.DecodeError as error:
        raise InputError(f"{path} has no tools as tools/list answers them: {error}") from None
    if not rows:
        raise InputError(
            f"{path} has no tools; expected a tools/list answer, or a tool on each line"
        )
    return {document.id: document for document in map(_Row.document, rows)}


def _parse_tools(content: bytes) -> list[_Row]:
    if content.lstrip().startswith(b"["):
        return msgspec.json.decode(content, type=list[_Row])
    try:
        listing = msgspec.json.decode(content, type=_Listing)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # several lines
        lines = content.splitlines()
        return [msgspec.json.decode(line, type=_Row) for line in lines if line.strip()]
    return (listing.result or listing).tools or [msgspec.json.decode(content, type=_Row)]


def _search_by(client: Client) -> tuple[Callable[[str], list[str]], Callable[[str, str], str]]:
    """Returns the search of an application, and its words about one tool."""

    def ask(query: str, **more: str) -> dict[str, Any]:
        parameters = {"q": query[:MAX_QUERY_CHARS], "limit": DEPTH, **more}
        return client.get("/search", list(parameters.items()))

    def search(query: str) -> list[str]:
        return [each["toolId"] for each in ask(query, threshold="0")["results"]]

    def explain(query: str, tool: str) -> str:
        return ask(query, why=tool)["why"]["verdict"]

    return search, explain


def _search_locally(
    known: Mapping[str, Document],
) -> tuple[Callable[[str], list[str]], Callable[[str, str], str]]:
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


# Files


def _read(path: Path) -> bytes:
    with reading(path):
        return path.read_bytes()


def _read_baseline(path: Path) -> dict[str, float]:
    try:
        figures = msgspec.json.decode(_read(path))["figures"]
        return {key: float(figures[key]) for key in FIGURES}
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} is no baseline; make one with: toolscript eval QUESTIONS --output json"
        ) from None


def _print_template(known: Mapping[str, Document]) -> None:
    for identifier in sorted(known):
        row = {"question": "", "relevant": [identifier]}
        print_text(msgspec.json.encode(row).decode())


# The result


def _print_table(result: Evaluation) -> None:
    rows = [[server, *_cells(figures)] for server, figures in result.servers.items()]
    rows.append([f"all {result.questions} questions", *_cells(result.figures)])
    print_table(["Server", *FIGURES.values()], rows, 0)
    for title, lines in _findings(result):
        print_text(f"\n{title}")
        for line in lines:
            print_text(f"  {line}")


def _print_markdown(result: Evaluation) -> None:
    print_text(f"| | {' | '.join(FIGURES.values())} |\n|---|{'--:|' * len(FIGURES)}")
    for server, figures in [*result.servers.items(), ("**all**", result.figures)]:
        print_text(f"| {server} | {' | '.join(_cells(figures))} |")
    for title, lines in _findings(result):
        print_text(f"\n**{title}**\n")
        for line in lines:
            print_text(f"- {line}")


def _print_junit(result: Evaluation) -> None:
    """Prints a suite with a failed case for each miss, as CI servers read it."""
    print_text(
        f'<testsuite name="toolscript eval" tests="{result.questions}" '
        f'failures="{len(result.misses)}">'
    )
    for miss in result.misses:
        name, why = quoteattr(miss.query), escape(_miss_line(miss))
        print_text(f"  <testcase name={name}><failure>{why}</failure></testcase>")
    print_text("</testsuite>")


_PRINT: dict[str, Callable[[Evaluation], None]] = {
    "table": _print_table,
    "json": lambda result: print_json(msgspec.to_builtins(result)),
    "markdown": _print_markdown,
    "junit": _print_junit,
}


def _cells(figures: Mapping[str, float]) -> list[str]:
    return [f"{figures[key]:.3f}" for key in FIGURES]


def _findings(result: Evaluation) -> list[tuple[str, list[str]]]:
    """Returns the shortcomings to mend: a title and lines for each kind."""
    kinds = [
        ("Not among the first five", [f"{m.query}: {_miss_line(m)}" for m in result.misses]),
        (
            "Taken for each other",
            [
                f"{each.instead} comes before {each.tool} ({each.questions}); only the latter "
                f"says: {', '.join(each.words) or 'nothing else'}"
                for each in result.confusions
            ],
        ),
        ("Not found by their own description", list(result.unfindable)),
    ]
    return [
        (title, first_lines(lines, _MAX_SHOWN, "and {} more; --output json has all"))
        for title, lines in kinds
        if lines
    ]


def _miss_line(miss: Miss) -> str:
    wanted, found = ", ".join(miss.relevant), ", ".join(miss.found) or "nothing"
    return f"wanted {wanted}, found {found}" + (f"; {miss.why}" if miss.why else "")
