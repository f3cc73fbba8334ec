"""Notes on real tools: how many honest definitions get one.

    python -m benchmarks.notes --data DIR [--servers 50] [--examples 3] [--json FILE]

The tools of a catalogue are taken as honest, so every note on them counts as a false alarm
until somebody has looked at it. Whoever configures servers has tens of them and not the
catalogue's 1,595, among which names such as "search" and "time" are bound to occur in other
servers' texts. So the servers are shuffled and dealt into configurations of ``--servers``
each, every tool is looked at once, beside the others of its configuration, and a name is
written as people write it in a configuration: ``@owner/Brave-Search-MCP Server`` becomes
``brave-search``, which occurs in texts more often than the whole.
"""

import argparse
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from benchmarks import report
from benchmarks.arguments import Parser
from benchmarks.quality import datasets
from benchmarks.quality.datasets import DataError
from toolscript.gateway.definitions.review_notes import Note, definition_notes, imitations
from toolscript.gateway.definitions.text_checks import FindingKind
from toolscript.types import ToolSpec

KINDS = (*get_args(FindingKind), "imitates")
SEED = 0
_LEFT_OUT = {"mcp", "server", "servers", "integration", "the", "api"}
"""Words that people leave out where they name a server."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Look at every tool, print, write; the exit code."""
    parser = Parser(prog="python -m benchmarks.notes", description="Notes on real tools.")
    options = _options(parser, arguments)
    try:
        catalogue = list(_tools(options.data / options.dataset))
    except DataError as error:
        parser.error(str(error))
    begun = time.perf_counter()
    noted = dict(_noted(catalogue, options.servers))
    elapsed = time.perf_counter() - begun
    counts = {kind: len(_of(noted, kind)) for kind in KINDS}
    counts["in total"] = len(noted)
    most = max(1, len(catalogue))
    rows = [[kind, f"{count:,}", f"{count / most:.2%}"] for kind, count in counts.items()]
    report.table(["kind", "tools", "share"], rows)
    each = 1e3 * elapsed / most
    print(f"\n{len(catalogue):,} tools, {options.servers} servers at a time, {each:.1f} ms a tool")
    for kind in KINDS:
        for identifier, note in _of(noted, kind)[: options.examples]:
            print(f"- {identifier}: {note.text} ({kind})")
    meta = report.meta(seed=SEED, servers=options.servers, tools=len(catalogue))
    found = {tool: {note.kind: note.text for note in notes} for tool, notes in noted.items()}
    report.write(options.json, {"meta": meta, "tools": counts, "noted": found})
    return 0


def _options(parser: Parser, arguments: Sequence[str] | None) -> argparse.Namespace:
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="folder of the dataset folders")
    add("--dataset", default="wild_mcp", metavar="SET", help="the dataset whose tools to look at")
    add("--servers", type=int, default=50, metavar="N", help="servers of a configuration")
    add("--examples", type=int, default=0, metavar="N", help="show so many of each kind")
    add("--json", type=Path, metavar="FILE", help="write all notes there too")
    options = parser.parse_args(arguments)
    if options.servers < 1 or options.examples < 0:
        parser.error("--servers has to be at least 1, --examples at least 0")
    return options


def _tools(folder: Path) -> Iterator[ToolSpec]:
    """The tools of a dataset, each server named as in a configuration, no two alike."""
    names: dict[str, str] = {}
    for tool in datasets.tools(folder):
        if tool.server not in names:
            name = _configured(tool.server)
            taken = name in names.values()
            names[tool.server] = f"{name}-{len(names)}" if taken else name
        yield ToolSpec(
            server=names[tool.server],
            name=tool.name,
            description=tool.description or "",
            input_schema=tool.input_schema or {},
        )


def _configured(server: str) -> str:
    words = re.findall(r"[a-z0-9]+", server.rpartition("/")[2].lower())
    return "-".join(word for word in words if word not in _LEFT_OUT) or server.lower()


def _noted(catalogue: Sequence[ToolSpec], size: int) -> Iterator[tuple[str, list[Note]]]:
    """Yields the id of each tool that has notes, and these."""
    by_server: defaultdict[str, list[ToolSpec]] = defaultdict(list)
    for tool in catalogue:
        by_server[tool.server].append(tool)
    servers = sorted(by_server)
    random.Random(SEED).shuffle(servers)  # noqa: S311 - the same draw every time
    for number, start in enumerate(range(0, len(servers), size)):
        configured = servers[start : start + size]
        _progress(f"configuration {number + 1} of {-(-len(servers) // size)}")
        tools = [tool for server in configured for tool in by_server[server]]
        alike = imitations(tools)
        for tool in tools:
            notes = list(definition_notes(tool, configured))
            notes += [alike[tool.id]] if tool.id in alike else []
            if notes:
                yield tool.id, notes
    _progress("")


def _of(noted: dict[str, list[Note]], kind: str) -> list[tuple[str, Note]]:
    return [(tool, note) for tool, notes in noted.items() for note in notes if note.kind == kind]


def _progress(text: str) -> None:
    """Replace the line on standard error, if somebody looks at it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
