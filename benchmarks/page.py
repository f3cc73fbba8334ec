"""Measures the page: how long the search lab takes, how large screens are, what they cost.

    python -m benchmarks.page --data DIR [--names SET] [--size 14191] [--questions A,B]
        [--json FILE]

A gateway process serves the first tools of the set, from servers with at most 1,000 tools each. One
connection asks for the search lab with each question, first as HTML and then as JSON; a question's
own time is that of the whole request as its client sees it; beside it stands the processor time
that the gateway spent, which other programs on the machine do not lengthen. The answer of the
gateway's ``/search`` is measured as well, and what each screen weighs. Memory is the private
memory of the gateway before the first screen is asked for, and after all of them were; searches
warm it up before that.
"""

import argparse
import http.client
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import psutil

from benchmarks import report
from benchmarks.gateways import configure, gateway, scripted, write
from benchmarks.quality import datasets
from toolscript.config.settings import MAX_QUERY_CHARS
from toolscript.surfaces.server.page_sessions import PAGE
from toolscript.surfaces.web.rendering import NAVIGATION

QUESTIONS = 200
TOOLS_PER_SERVER = 1000
_TYPED = 120
"""Characters of a question that are asked: what somebody types."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page")
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="folder of the dataset folders")
    add("--names", default="wild_mcp", metavar="SET", help="the dataset whose tools are served")
    add("--size", type=int, default=14_191, metavar="N", help="how many of them")
    add("--questions", default="livemcp_agent,azure_mcp", metavar="A,B", help="whose are asked")
    add("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args(arguments)
    try:
        result = _measured(options)
    except datasets.DataError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    names = ("p50_ms", "p95_ms", "cpu_ms", "kb", "max_kb")
    rows = [[row["what"], *(f"{row[name]:.1f}" for name in names)] for row in result["rows"]]
    report.table(["asked", "p50 ms", "p95 ms", "CPU ms", "kB", "largest kB"], rows)
    print(f"\nmemory: {result['before_mib']:.1f} MiB, with the page {result['after_mib']:.1f} MiB")
    report.write(options.json, {"meta": report.meta(questions=QUESTIONS), **result})
    return 0


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    tools = datasets.tools(options.data / options.names)[: options.size]
    texts = [text for name in options.questions.split(",") for text in _texts(options.data / name)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configure(folder, dict(_servers(folder, tools)))
        with gateway(folder, TOOLSCRIPT_SEARCH_MODEL="bundled") as started:
            key = json.loads(next(folder.glob("run/gateway-*.json")).read_text("utf-8"))["key"]
            client = _Client(started.url, {"Authorization": f"Bearer {key}"})
            while client.json("/search/stats")["toolsWaiting"]:
                time.sleep(1)
            return _asked(client, psutil.Process(started.pid), texts)


def _servers(folder: Path, tools: Sequence[datasets.Tool]) -> Iterator[tuple[str, Any]]:
    for number in range(math.ceil(len(tools) / TOOLS_PER_SERVER)):
        some = tools[number * TOOLS_PER_SERVER : (number + 1) * TOOLS_PER_SERVER]
        listed = folder / f"tools-{number}.json"
        rows = [
            {
                "name": f"{at}-{tool.name}"[:64],
                "description": tool.description or "",
                "inputSchema": tool.input_schema or {"type": "object"},
            }
            for at, tool in enumerate(some)
        ]
        write(listed, json.dumps(rows))
        yield f"wild-{number}", scripted(tools_file=str(listed))


def _texts(folder: Path) -> list[str]:
    queries = datasets.load(folder, QUESTIONS // 2).queries
    return [query.query[: min(_TYPED, MAX_QUERY_CHARS)] for query in queries]


class _Client:
    """One connection that is kept open."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        self._headers = headers

    def get(self, path: str) -> bytes:
        """Returns the body of an answer."""
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise SystemExit(f"{path}: {answer.status} {body[:200]!r}")
        return body

    def json(self, path: str) -> Any:
        """Returns an answer that is JSON."""
        return json.loads(self.get(path))

    def timed(self, path: str) -> tuple[float, float]:
        """Returns how many milliseconds an answer took, and how many kB it has."""
        begin = time.perf_counter()
        body = self.get(path)
        return 1e3 * (time.perf_counter() - begin), len(body) / 1000


def _asked(client: _Client, process: psutil.Process, texts: list[str]) -> dict[str, Any]:
    for text in texts:  # so that the model and the index are warm, and no question is embedded
        client.get(f"/search?q={quote(text)}&explain=true")
    before = _private_mib(process)
    asked = {
        "`/search`": [f"/search?q={quote(text)}" for text in texts],
        "search lab": [f"{PAGE}/?q={quote(text)}" for text in texts],
        "search lab, as JSON": [f"{PAGE}/search.json?q={quote(text)}" for text in texts],
        **{name: [PAGE + path] * 5 for path, name in NAVIGATION[1:]},
    }
    rows = [_row(what, client, process, paths) for what, paths in asked.items()]
    return {"rows": rows, "before_mib": before, "after_mib": _private_mib(process)}


def _row(what: str, client: _Client, process: psutil.Process, paths: list[str]) -> dict[str, Any]:
    client.get(paths[0])
    before = sum(process.cpu_times()[:2])
    answers = [client.timed(path) for path in paths]
    times, sizes = [ms for ms, _ in answers], [kb for _, kb in answers]
    return {
        "what": what,
        "p50_ms": statistics.median(times),
        "p95_ms": float(np.quantile(times, 0.95)),
        "cpu_ms": 1e3 * (sum(process.cpu_times()[:2]) - before) / len(paths),
        "kb": statistics.median(sizes),
        "max_kb": max(sizes),
    }


def _private_mib(process: psutil.Process) -> float:
    return process.memory_full_info().uss / 2**20


if __name__ == "__main__":
    sys.exit(main())
