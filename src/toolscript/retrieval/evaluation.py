"""Evaluates whether a search finds the tools that questions are about, and the tools found instead.

The figures are those of `quality_metrics`, and the recall among the first three.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec

from toolscript.config.settings import MAX_QUERY_CHARS
from toolscript.errors import InputError
from toolscript.retrieval.quality_metrics import DEPTH, Scores, mean, score
from toolscript.text.display import printable
from toolscript.text.json_values import as_list, as_object
from toolscript.text.words import first_sentence, words
from toolscript.types import Document

FIGURES = {"r1": "R@1", "r3": "R@3", "r5": "R@5", "r10": "R@10", "mrr": "MRR", "ndcg10": "nDCG@10"}
"""The figures of an evaluation, with their labels."""
HIT_RANK = 5
"""A question is missed if none of its tools is among the first five."""
MAX_DESCRIBED = 2000
"""Maximum number of tools whose own descriptions are asked for them."""
MIN_WORD_CHARS = 4
"""Shorter words tell no tools apart."""
MAX_WORDS = 6
"""Words of a description that tell two tools apart."""

Search = Callable[[str], Sequence[str]]
"""Returns the ids of the tools that answer a question, best first, at most `DEPTH`."""


class Question(msgspec.Struct, frozen=True):
    """A question, and the ids of the tools that answer it."""

    query: str
    relevant: tuple[str, ...]


class Miss(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A question that did not find its tool."""

    query: str
    relevant: tuple[str, ...]
    rank: int | None
    """The rank of the first right tool; None if it is not among the first ten."""
    found: tuple[str, ...]
    """The ids that came first instead."""
    why: str = ""
    """The place of the right tool, in a sentence; empty if it was not asked for."""


class Confusion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Two tools of which the wrong one came first."""

    tool: str
    instead: str
    questions: int
    words: tuple[str, ...]
    """Words of the right tool's description that the other's lacks."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of an evaluation."""

    questions: int
    figures: Scores
    servers: dict[str, Scores]
    """The figures of the questions about each server's tools."""
    misses: tuple[Miss, ...]
    confusions: tuple[Confusion, ...]
    unfindable: tuple[str, ...]
    """Tools that the first sentence of their own description does not find."""


def parse_questions(content: bytes, source: str) -> list[Question]:
    """Returns the questions of a file: a JSON object with ``question`` and ``relevant`` a line.

    ``query`` is read for ``question``, and a single id for a list. Lines without a question, as in
    a template, are skipped.

    Args:
        content: The file's bytes.
        source: The file's name, for messages.

    Raises:
        InputError: A line is something else, or there is no question.
    """
    questions: list[Question] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            stated = as_object(msgspec.json.decode(line))
        except msgspec.DecodeError as error:
            raise InputError(f"{source}:{number}: this is no JSON: {error}") from None
        query, relevant = stated.get("question", stated.get("query")), stated.get("relevant")
        if isinstance(relevant, str):
            relevant = [relevant]
        if not isinstance(query, str) or not _is_ids(relevant):
            raise InputError(
                f'{source}:{number}: expected {{"question": "…", "relevant": ["server__tool"]}}'
            )
        if query.strip():
            questions.append(Question(query.strip(), tuple(dict.fromkeys(relevant))))
    if not questions:
        raise InputError(f"{source} has no question; write some, or begin with --template")
    return questions


def check_questions(questions: Iterable[Question], known: Mapping[str, Document]) -> None:
    """Raises `InputError` if a question names a tool that is not there."""
    for question in questions:
        for identifier in question.relevant:
            if identifier not in known:
                raise InputError(
                    f"{question.query[:60]!r} names {identifier!r}, which is no tool of this "
                    f"catalogue of {len(known)}"
                )


def evaluate(
    questions: Sequence[Question],
    known: Mapping[str, Document],
    search: Search,
    explain: Callable[[str, str], str] | None = None,
) -> Evaluation:
    """Asks every question, and the descriptions of all tools.

    Args:
        questions: The questions, whose tools are all known.
        known: The tools, by id.
        search: Searches them.
        explain: Returns the place of a tool for a question, in a sentence; None leaves that out.
    """
    asked = [(question, list(search(question.query))) for question in questions]
    scores = [_score(found, question.relevant) for question, found in asked]
    misses = [
        Miss(
            query=question.query,
            relevant=question.relevant,
            rank=_rank(found, question.relevant),
            found=tuple(found[:3]),
            why=explain(question.query, question.relevant[0]) if explain else "",
        )
        for question, found in asked
        if (_rank(found, question.relevant) or DEPTH + 1) > HIT_RANK
    ]
    by_server: dict[str, list[Scores]] = {}
    for question, figures in zip(questions, scores, strict=True):
        for server in {known[each].server for each in question.relevant}:
            by_server.setdefault(server, []).append(figures)
    return Evaluation(
        questions=len(questions),
        figures=mean(scores),
        servers={server: mean(each) for server, each in sorted(by_server.items())},
        misses=tuple(misses),
        confusions=tuple(_confusions(asked, known)),
        unfindable=tuple(
            identifier
            for identifier, document in sorted(known.items())[:MAX_DESCRIBED]
            if (sentence := printable(first_sentence(document.description)))
            and identifier not in search(sentence[:MAX_QUERY_CHARS])[:HIT_RANK]
        ),
    )


def shortfalls(figures: Scores, floors: Mapping[str, float], name: str) -> list[str]:
    """Returns a line for each figure below its floor; rounding in the fourth digit is forgiven."""
    return [
        f"{FIGURES[key]} is {figures[key]:.4f}, below {name} {floor:.4f}"
        for key, floor in floors.items()
        if figures[key] < floor - 0.00005
    ]


def _is_ids(value: Any) -> TypeGuard[list[str]]:
    items = as_list(value)
    return bool(items) and all(isinstance(item, str) for item in items)


def _score(found: Sequence[str], relevant: Sequence[str]) -> Scores:
    figures = score(found, relevant)
    return figures | {"r3": len(set(found[:3]) & set(relevant)) / len(set(relevant))}


def _rank(found: Sequence[str], relevant: Sequence[str]) -> int | None:
    return next((rank for rank, each in enumerate(found, 1) if each in relevant), None)


def _confusions(
    asked: Iterable[tuple[Question, Sequence[str]]], known: Mapping[str, Document]
) -> Iterable[Confusion]:
    """Yields the pairs of a right tool and the wrong one before it, the most frequent first."""
    pairs = Counter(
        (question.relevant[0], found[0])
        for question, found in asked
        if found and found[0] not in question.relevant
    )
    for (tool, instead), count in pairs.most_common():
        if tool in known and instead in known:
            others = set(words(known[instead].description))
            own = dict.fromkeys(
                word for word in words(known[tool].description) if word not in others
            )
            yield Confusion(
                tool=tool,
                instead=instead,
                questions=count,
                words=tuple(word for word in own if len(word) >= MIN_WORD_CHARS)[:MAX_WORDS],
            )
