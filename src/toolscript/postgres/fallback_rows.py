"""Builds the rows of candidates from a gateway's memory while the database is unreachable.

A row's vector is rebuilt from the tool's components, so it is only approximate.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from toolscript.embedding.base import Vectors
from toolscript.postgres.candidate_rows import CandidateRow, halves, tool_columns
from toolscript.postgres.resident_index import IndexMemory
from toolscript.retrieval.base import Mask, Rows
from toolscript.retrieval.capability import CapabilityReader
from toolscript.retrieval.lexical.analyzer import FIELDS, TokenIds, Vocabulary, token_ids
from toolscript.types import Document

Documents = Callable[[], Mapping[str, Sequence[Document]]]
"""Returns the tools that a gateway knows, by their servers' names."""


class FallbackRows:
    """Builds rows of the tools that a gateway knows. Any thread may call it.

    Args:
        documents: Returns these tools.
        capabilities: Tells what tools are for.
    """

    def __init__(self, documents: Documents, capabilities: CapabilityReader) -> None:
        self._documents = documents
        self._capabilities = capabilities

    def of(self, memory: IndexMemory, numbers: Sequence[int]) -> list[CandidateRow]:
        """Returns the rows of those of some tools that are known.

        Args:
            memory: The index.
            numbers: Of the tools.
        """
        wanted = set(numbers)
        documents = self._documents()
        servers = {memory.server_of(number) for number in numbers}
        found = [
            (number, document)
            for server in servers
            for document in documents.get(server, ())
            for number in memory.names.by_id(document.id, memory.snapshot.alive)
            if number in wanted
        ]
        vectors = self._vectors(memory, np.array([number for number, _ in found], np.intp))
        return [
            self._row(memory, number, document, vector)
            for (number, document), vector in zip(found, vectors, strict=True)
        ]

    def _row(
        self, memory: IndexMemory, number: int, document: Document, vector: Vectors
    ) -> CandidateRow:
        tool = _indexed_words(document, memory.vocabulary)
        purpose = self._capabilities.purpose(document)
        _, _, content, words, lengths, text, executes = tool_columns(document, tool, purpose)
        server = int(memory.snapshot.server[number])
        return CandidateRow(
            number, content, words, lengths, text, executes, halves(vector), server, b""
        )

    def _vectors(self, memory: IndexMemory, numbers: Rows) -> Vectors:
        """Returns vectors that the context of no server moves to about those of some tools.

        With a what all tools have in common, and w a tool's vector as its server has moved it, that
        is a + s · w, at length 1. A tool without a vector has zeros.
        """
        moved, common = memory.components.vectors_of(numbers), memory.basis.common
        along = moved @ common
        lengths = np.sqrt(along**2 + 1 - common @ common) - along
        vectors = common + lengths[:, None] * moved
        return np.where(moved.any(axis=1, keepdims=True), vectors, np.float32(0)).astype(np.float32)


def _indexed_words(document: Document, vocabulary: Vocabulary) -> TokenIds:
    """Returns those words of a tool that the index has: the tool may be newer."""
    tool = token_ids(document, lambda word: vocabulary.get(word, -1))
    known = tool.numbers >= 0
    fields = np.repeat(np.arange(len(FIELDS)), tool.lengths)[known]
    return TokenIds(
        tool.numbers[known], np.bincount(fields, minlength=len(FIELDS)).astype(np.int32)
    )


def matching(
    memory: IndexMemory,
    documents: Mapping[str, Sequence[Document]],
    matches: Callable[[str], bool],
) -> list[int]:
    """Returns the numbers of the known tools whose ids match.

    Args:
        memory: The index.
        documents: The tools that are known, by their servers' names.
        matches: Whether an id matches.
    """
    alive: Mask = memory.snapshot.alive
    ids: Iterable[str] = (tool.id for tools in documents.values() for tool in tools)
    return [number for each in ids if matches(each) for number in memory.names.by_id(each, alive)]
