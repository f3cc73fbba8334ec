"""Counts the words of all tools of an index, from its tables and then with every change."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from toolscript.postgres.driver import Connection
from toolscript.postgres.index_records import IndexRow
from toolscript.retrieval.lexical.analyzer import FIELDS, TokenIds, Vocabulary
from toolscript.retrieval.lexical.postings import Counts
from toolscript.retrieval.subqueries import SHORTEST_ACTION


@dataclass(slots=True)
class WordCounts:
    """What the words of all tools add up to. Changes; a snapshot has a copy."""

    vocabulary: Vocabulary
    size: int = 0
    lengths: Counts = field(default_factory=lambda: np.zeros(len(FIELDS), np.int64))
    frequencies: Counts = field(default_factory=lambda: np.zeros(0, np.int64))
    openings: Counts = field(default_factory=lambda: np.zeros(0, np.int64))
    words: Counts = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    async def folded(
        cls, connection: Connection, row: IndexRow, vocabulary: Vocabulary
    ) -> "WordCounts":
        """Reads what is in the tables; ``vocabulary``, still empty, takes the words."""
        words = await connection.fetch(
            "select word, count from toolscript.candidate_word where index_id = $1 order by number",
            row.id,
        )
        for word, _ in words:
            _ = vocabulary[word]  # in the order of their numbers
        stems = await connection.fetch(
            "select number, frequency, openings from toolscript.candidate_stem "
            "where index_id = $1 order by number",
            row.id,
        )
        counts = cls(vocabulary, row.folded_size, np.array(row.folded_lengths, np.int64))
        counts.grow()
        counts.words[:] = [count for _, count in words]
        numbers = np.array([number for number, _, _ in stems], np.int64)
        counts.frequencies[numbers] = [frequency for _, frequency, _ in stems]
        counts.openings[numbers] = [openings for _, _, openings in stems]
        return counts

    def grow(self) -> None:
        """Makes room for the words that the vocabulary has by now."""
        stems, words = len(self.vocabulary.stems), len(self.vocabulary.words)
        self.frequencies = np.pad(self.frequencies, (0, stems - self.frequencies.size))
        self.openings = np.pad(self.openings, (0, stems - self.openings.size))
        self.words = np.pad(self.words, (0, words - self.words.size))

    def count(self, documents: Iterable[TokenIds], sign: int) -> None:
        """Adds some tools' words, or takes them away where ``sign`` is −1."""
        stem_of = self.vocabulary.stem_of
        for each in documents:
            self.size += sign
            self.lengths += sign * each.lengths
            np.add.at(self.words, each.numbers, sign)
            self.frequencies[np.unique(stem_of[each.numbers])] += sign
            for word in first_words(each):
                if len(self.vocabulary.words[word]) >= SHORTEST_ACTION:
                    self.openings[stem_of[word]] += sign


def first_words(tool: TokenIds) -> list[int]:
    """Returns the numbers of the words with which a tool's name and description begin."""
    starts = np.cumsum(tool.lengths) - tool.lengths
    fields = (FIELDS.index("name"), FIELDS.index("description"))
    return [int(tool.numbers[starts[each]]) for each in fields if tool.lengths[each]]
