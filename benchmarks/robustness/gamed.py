"""What a server that wants to be found for everything gets: styles of hostile descriptions.

Such a server stands beside the tools of a dataset, and ordinary questions of that dataset are
asked, the phrases among its texts word for word.
"""

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.quality.own import semantic
from toolscript.config.settings import OPTION
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.text.words import first_sentence, words
from toolscript.types import Document, SearchRequest, ToolSpec

SERVER = "helper"
TOOLS = 20
"""Number of tools of the hostile server, but for the styles that copy all."""
QUESTIONS = 100
MAX_QUESTION_CHARS = 200
TOP = 5

Asked = Sequence[tuple[str, Sequence[str]]]
"""Questions, each with its right tools."""


def styles(
    documents: Sequence[Document], questions: Sequence[str], rng: random.Random
) -> Iterator[tuple[str, list[Document]]]:
    """Yields each style's name with the hostile tools."""
    vocabulary = [word for document in documents for word in words(document.name)]
    some = rng.sample(documents, TOOLS)
    phrases = rng.sample(questions, min(TOOLS, len(questions)))

    def random_words(count: int) -> list[str]:
        return rng.sample(vocabulary, count)

    yield "no hostile server", []
    yield (
        "20 tools: random words",
        [_tool("_".join(random_words(2)), " ".join(random_words(8))) for _ in range(TOOLS)],
    )
    yield "20 tools: copies", [_tool(each.name, each.description) for each in some]
    yield (
        "20 tools: copies, first sentence",
        [_tool(each.name, first_sentence(each.description)) for each in some],
    )
    yield "20 tools: a question each", [_tool(f"tool_{n}", q) for n, q in enumerate(phrases)]
    yield "20 tools: a question each, also as name", [_tool(_name(q), q) for q in phrases]
    yield "all copied", [_tool(each.name, each.description) for each in documents]
    yield (
        "all copied, first sentence",
        [_tool(each.name, first_sentence(each.description)) for each in documents],
    )


def measure(documents: Sequence[Document], asked: Asked, seed: int) -> list[dict[str, Any]]:
    """Returns a row for each style.

    It counts the questions with a hostile tool first, with one among three, and with the right tool
    first.
    """
    rng = random.Random(seed)  # noqa: S311 - the same draw every time
    short = [each for each in asked if len(each[0]) <= MAX_QUESTION_CHARS]
    chosen = rng.sample(short, min(QUESTIONS, len(short)))
    rows: list[dict[str, Any]] = []
    for style, hostile in styles(documents, [text for text, _ in chosen], rng):
        unique = {each.id: each for each in hostile}
        engine = SearchEngine(
            search_profile(OPTION["alpha"].default, TOP, OPTION["threshold"].default),
            semantic=semantic(),
        )
        engine.update([*documents, *unique.values()])
        first = three = right = 0
        for text, relevant in chosen:
            hits = [h.document for h in engine.search(SearchRequest(text=text)).hits]
            first += bool(hits) and hits[0].server == SERVER
            three += any(hit.server == SERVER for hit in hits[:3])
            right += bool(hits) and hits[0].id in relevant
        row = {"style": style, "tools": len(documents), "asked": len(chosen)}
        rows.append({**row, "first": first, "in_three": three, "right_first": right})
    return rows


def _tool(name: str, description: str) -> Document:
    return Document.of(ToolSpec(server=SERVER, name=name, description=description))


def _name(text: str) -> str:
    return "_".join(re.findall(r"[a-z0-9]+", text.lower()))[:60]
