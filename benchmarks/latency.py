"""How long a search takes in the process that holds the index, by the number of tools.

    python -m benchmarks.latency --data DIR [--names SET] [--sizes 500,5000,14191]
        [--questions A,B] [--json FILE]

The tools are the first of the set, the questions those of the others, each asked
twice: with its embedding to be computed, and with that remembered. Beside them
stands the embedding alone, which is the same for any number of tools. Also how
long the words' index takes to be made, and to be made again when one tool
changed; embedding the tools is not in it.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks import report
from benchmarks.arguments import Parser
from benchmarks.quality import datasets
from benchmarks.quality.own import document, encoder, semantic
from toolscript.config.settings import MAX_QUERY_CHARS, OPTION
from toolscript.retrieval.base import Corpus
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.profiles import search_profile
from toolscript.types import Document, SearchRequest

QUESTIONS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = Parser(prog="python -m benchmarks.latency")
    add = parser.add_argument
    parser.add_data()
    add("--names", default="wild_mcp", metavar="SET", help="the dataset whose tools are searched")
    add("--sizes", default="500,5000,14191", metavar="N,M", help="how many of them")
    add("--questions", default="livemcp_agent,azure_mcp", metavar="A,B", help="whose are asked")
    parser.add_json()
    options = parser.parse_args(arguments)
    try:
        rows = _measured(options)
    except datasets.DataError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    header = ["tools", "p50 ms", "p95 ms", "again p50", "again p95", "index s", "one changed s"]
    names = ("p50_ms", "p95_ms", "again_p50_ms", "again_p95_ms", "index_s", "changed_s")
    table = [[f"{row['tools']:,}", *(f"{row[name]:.2f}" for name in names)] for row in rows]
    report.table(header, table)
    report.write(options.json, {"meta": report.meta(questions=QUESTIONS), "results": rows})
    return 0


def _measured(options: argparse.Namespace) -> list[dict[str, Any]]:
    catalogue = [document(tool) for tool in datasets.tools(options.data / options.names)]
    texts = [text for name in options.questions.split(",") for text in _texts(options.data / name)]
    embedding = _times(encoder().query, texts)
    rows: list[dict[str, Any]] = []
    for size in sorted((int(size) for size in options.sizes.split(",")), reverse=True):
        rows.insert(0, _by(catalogue[:size], texts) | {"embedding_p50_ms": _median(embedding)})
    print(f"embedding a question alone: p50 {_median(embedding):.2f} ms\n")
    return rows


def _texts(folder: Path) -> list[str]:
    queries = datasets.load(folder, QUESTIONS // 2).queries
    return list(dict.fromkeys(query.query[:MAX_QUERY_CHARS] for query in queries))


def _by(documents: list[Document], texts: list[str]) -> dict[str, Any]:
    defaults = (OPTION[name].default for name in ("alpha", "limit", "threshold"))
    engine = SearchEngine(search_profile(*defaults), semantic=semantic())
    engine.update(documents)

    def search(text: str) -> object:
        return engine.search(SearchRequest(text=text))

    first, again = _times(search, texts), _times(search, texts)
    return {
        "tools": len(documents),
        "p50_ms": _median(first),
        "p95_ms": float(np.quantile(first, 0.95)),
        "again_p50_ms": _median(again),
        "again_p95_ms": float(np.quantile(again, 0.95)),
        **_indexing(documents),
    }


def _indexing(documents: list[Document]) -> dict[str, float]:
    signal = LexicalSignal()
    changed = [*documents[:-1], msgspec.structs.replace(documents[-1], description="Changed.")]
    corpora = [Corpus(documents), Corpus(changed)]
    [first, second] = (_seconds(lambda c=corpus: signal.index(c)) for corpus in corpora)
    return {"index_s": first, "changed_s": second}


def _times(ask: Callable[[str], object], texts: list[str]) -> list[float]:
    """Milliseconds for each text."""
    return [1e3 * _seconds(lambda t=text: ask(t)) for text in texts]


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _median(times: list[float]) -> float:
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
