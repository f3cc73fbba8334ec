"""A catalogue of any size: the tools of a dataset, then perturbed copies of them.

A copy has another server and name, a fifth of its description's words replaced, and in three of ten
a coined word. Its vector is the tool's, half of another tool's, and noise, so that none has to be
computed. Every tool has many relatives then: that is hard for an approximate index, and near to
what public registries look like.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from benchmarks.quality import datasets
from benchmarks.quality.own import document, encoder
from toolscript.config.settings import MAX_QUERY_CHARS
from toolscript.embedding.base import Vectors, unit_rows
from toolscript.retrieval.semantic.document_text import document_vectors
from toolscript.types import EVERYTHING, Document, Grant, SearchRequest, tool_id

NOISE, OTHER = 0.4, 0.5
REPLACED, COINED = 0.2, 0.3
QUESTION_SETS = ("livemcp_agent", "azure_mcp", "livemcpbench", "ultratool")
_BATCH = 128


class Catalogue:
    """The tools of a dataset and their vectors, to be copied.

    Args:
        data: The folder of the dataset folders.
        vectors: A file that keeps the tools' vectors; None computes them.
    """

    def __init__(self, data: Path, vectors: Path | None) -> None:
        tools = datasets.tools(data / "wild_mcp")
        self.tools = _distinct([document(tool) for tool in tools])
        self.vectors = _vectors(self.tools, vectors)
        self._words = sorted({word for tool in self.tools for word in tool.description.split()})

    def copies(self, count: int) -> Iterator[tuple[Sequence[Document], Vectors]]:
        """Yields so many tools in batches, each server's in one."""
        for number in range(-(-count // len(self.tools))):
            size = min(len(self.tools), count - number * len(self.tools))
            yield self._copy(number, size) if number else (self.tools[:size], self.vectors[:size])

    def servers(self, count: int) -> dict[str, int]:
        """Returns the servers of so many tools, and how many of them each has."""
        sizes = Counter(tool.server for tool in self.tools)
        copies = max(1, count // len(self.tools))
        return {
            f"{name}-{number}" if number else name: size
            for number in range(copies)
            for name, size in sizes.items()
        }

    def _copy(self, number: int, size: int) -> tuple[Sequence[Document], Vectors]:
        chance = random.Random(number)  # noqa: S311 - no secret
        noise = np.random.default_rng(number)
        others = self.vectors[noise.integers(len(self.tools), size=size)]
        drift = noise.normal(scale=NOISE / np.sqrt(others.shape[1]), size=others.shape)
        vectors = unit_rows(self.vectors[:size] + OTHER * others + drift)
        copies = [self._perturbed(tool, number, chance) for tool in self.tools[:size]]
        return _distinct(copies), vectors

    def _perturbed(self, tool: Document, number: int, chance: random.Random) -> Document:
        words = [
            chance.choice(self._words) if chance.random() < REPLACED else word
            for word in tool.description.split()
        ]
        if chance.random() < COINED:
            words.append("".join(chance.choices("abdeiklmnorstu", k=8)))
        server = f"{tool.server}-{number}"
        name = tool.name if chance.random() < 0.5 else f"{tool.name}_{chance.choice(words or [''])}"
        return replace(
            tool,
            server=server,
            name=name,
            description=" ".join(words),
            digest=f"{tool.digest}-{number}",
        )


def _distinct(tools: Sequence[Document]) -> list[Document]:
    """Returns the tools with ids of their servers and names, each another."""
    found: dict[str, Document] = {}
    for row, tool in enumerate(tools):
        identifier = tool_id(tool.server, tool.name)
        if identifier in found:
            identifier = f"{identifier}.{row}"
        found[identifier] = replace(tool, id=identifier)
    return list(found.values())


def _vectors(tools: Sequence[Document], file: Path | None) -> Vectors:
    if file is not None and file.exists():
        return np.load(file)
    vectors = np.zeros((len(tools), encoder().dim), np.float32)
    order = sorted(range(len(tools)), key=lambda row: len(tools[row].description))
    for first in range(0, len(order), _BATCH):
        rows = order[first : first + _BATCH]
        vectors[rows] = document_vectors(encoder(), [tools[row] for row in rows])
        print(f"\r{first:,} of {len(tools):,} tools embedded", end="", file=sys.stderr)
    if file is not None:
        np.save(file, vectors)
    return vectors


def questions(
    data: Path, count: int, catalogue: Catalogue, tools: int
) -> dict[str, list[SearchRequest]]:
    """Returns ``count`` requests of each kind, to so many tools of the catalogue."""
    servers = catalogue.servers(tools)
    chance = random.Random(1)  # noqa: S311 - no secret
    each = -(-count // len(QUESTION_SETS))
    texts = [
        query.query[:MAX_QUERY_CHARS]
        for name in QUESTION_SETS
        for query in datasets.load(data / name, each).queries
    ][:count]
    names = [chance.choice(catalogue.tools).name for _ in texts]
    coined = [" ".join("".join(chance.choices("bcdfghjkqvwxz", k=7)) for _ in "ab") for _ in texts]

    def asked(texts: Sequence[str], grant: Grant = EVERYTHING) -> list[SearchRequest]:
        return [SearchRequest(text=text, grant=grant) for text in texts]

    return {
        "question": asked(texts),
        "grant of .2 %": asked(texts, _grant(servers, 0.002)),
        "grant of 7 %": asked(texts, _grant(servers, 0.07)),
        "typo": asked([_misspelled(text, chance) for text in texts]),
        "exact name": asked(names),
        "gibberish": asked(coined),
    }


def _grant(servers: dict[str, int], share: float) -> Grant:
    """Returns a grant of servers that have this share of the tools."""
    chance = random.Random(3)  # noqa: S311 - no secret
    left = share * sum(servers.values())
    granted: list[str] = []
    for name in chance.sample(sorted(servers), len(servers)):
        if servers[name] <= left:
            granted.append(name)
            left -= servers[name]
    return Grant(servers=tuple(granted))


def _misspelled(text: str, chance: random.Random) -> str:
    """Returns the text with two letters of a long word exchanged."""
    words = text.split()
    long = [place for place, word in enumerate(words) if len(word) >= 6 and word.isalpha()]
    if not long:
        return text
    place = chance.choice(long)
    word, at = words[place], chance.randrange(1, len(words[place]) - 2)
    words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)
