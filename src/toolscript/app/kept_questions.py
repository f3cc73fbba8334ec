"""Questions whose right tools are known, kept to see whether a search still finds them.

The file is the ``queries.jsonl`` of the guide on measuring: a JSON object on each line.
"""

from collections.abc import Awaitable, Callable

import msgspec

from toolscript.app.searching import Found
from toolscript.errors import InputError
from toolscript.retrieval.evaluation import Question
from toolscript.retrieval.quality_metrics import DEPTH, Scores, mean, score
from toolscript.storage.atomic_files import storing_decision
from toolscript.storage.base import Records
from toolscript.types import Grant, SearchRequest

MAX_QUESTIONS = 1000
MAX_RELEVANT = 20
"""Tools that one question may have."""
MAX_BYTES = 4 * 1024 * 1024
_NAME = "questions"
"""The name of the record that stores the questions."""


class QuestionResult(msgspec.Struct, frozen=True):
    """How a search answers a kept question now."""

    query: str
    ranks: dict[str, int | None]
    """The place of each relevant tool, from 1; None if it is not among the first `DEPTH`."""
    scores: Scores


class QuestionResults(msgspec.Struct, frozen=True):
    """How all kept questions do: each alone, and the mean of each figure."""

    questions: list[QuestionResult]
    mean: Scores
    """Empty if there is no question."""


class KeptQuestions:
    """The kept questions of one configuration, in one record.

    Methods block; any thread may call.

    Args:
        records: Has them.
        max_bytes: The most bytes that all questions together may have.
    """

    def __init__(self, records: Records, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self.place = records.location(_NAME)
        """Their place, for people."""
        self._records = records

    def all(self) -> list[Question]:
        """Returns the questions, the oldest first; raises `InputError` for a damaged file."""
        try:
            lines = (self._records.read(_NAME) or b"").splitlines()
        except OSError as error:
            why = error.strerror or error
            raise InputError(f"{self.place} cannot be read: {why}") from None
        try:
            return [msgspec.json.decode(line, type=Question) for line in lines if line.strip()]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{self.place} is not what the page has written: {error}") from None

    def keep(self, query: str, tool: str) -> None:
        """Adds a question, or another right tool to one that is kept.

        Raises `InputError` if there are too many, and `DecisionStorageError` if the file
        cannot be written.
        """
        with storing_decision(), self._records.locked(_NAME):
            known = {each.query: each.relevant for each in self.all()}
            tools = tuple(dict.fromkeys((*known.get(query, ()), tool)))
            if len({*known, query}) > MAX_QUESTIONS or len(tools) > MAX_RELEVANT:
                raise InputError(
                    f"at most {MAX_QUESTIONS} questions are kept, of {MAX_RELEVANT} tools each"
                )
            self._write(known | {query: tools})

    def drop(self, query: str) -> None:
        """Keeps a question no longer."""
        with storing_decision(), self._records.locked(_NAME):
            self._write({e.query: e.relevant for e in self.all() if e.query != query})

    def _write(self, questions: dict[str, tuple[str, ...]]) -> None:
        rows = (Question(query, relevant) for query, relevant in questions.items())
        content = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        if len(content) > self._max_bytes:
            raise InputError(f"at most {self._max_bytes} bytes of questions are kept; drop some")
        self._records.write(_NAME, content)


async def measure(
    questions: list[Question],
    search: Callable[[SearchRequest], Awaitable[Found]],
    grant: Grant,
) -> QuestionResults:
    """Returns how a search does on questions, as ``benchmarks.quality`` measures it.

    Ten results are asked for, and no threshold is set.
    """
    results: list[QuestionResult] = []
    for question in questions:
        request = SearchRequest(text=question.query, limit=DEPTH, threshold=0.0, grant=grant)
        found = [hit.document.id for hit in (await search(request)).hits]
        ranks = {t: found.index(t) + 1 if t in found else None for t in question.relevant}
        results.append(QuestionResult(question.query, ranks, score(found, question.relevant)))
    figures = mean([each.scores for each in results]) if results else {}
    return QuestionResults(results, figures)
