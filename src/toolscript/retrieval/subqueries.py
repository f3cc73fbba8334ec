"""Subqueries: splits a question that has several wishes.

"Find the invoice and mail it to Ana" wants two tools, and as a whole it is
near to neither. It is cut at the end of a sentence, and at an "and", a "then" or
a comma that an action follows: a word with which tools' names or descriptions
begin, or one that takes an object ("mail it", "book a table").
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolscript.retrieval.base import Corpus
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.text.words import STOP_WORDS, words
from toolscript.types import Document

MAX_SUBQUERIES = 6
"""The most subqueries of a question that are ranked."""
MIN_WORDS = 2
"""A text with fewer words that mean something is no question."""
MIN_TOOLS = 2
"""The number of texts that begin with an action, at least."""
_OPENING_CHARS = 80
SHORTEST_ACTION = 3
"""Letters of an action."""

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])\s*|\n+")
_JOINT = re.compile(
    # A run of white space is tried from its first character alone: a long one takes no longer.
    r"(?:[,;]\s*|(?<!\s)\s+)"
    r"(?:(?:and|or)(?:\s+(?:then|also|finally))?|then|after that|afterwards|also|finally)\s+"
    r"|,\s+",
    re.IGNORECASE,
)
_OBJECTS = frozenset(
    """
    it its them this that these those the a an my our your his her their me him us
    all each every both everything
    """.split()  # noqa: SIM905 - a list of words reads best as words
)


def actions(corpus: Corpus, stem: Stemmer) -> Callable[[str], bool]:
    """Returns whether a word is an action: whether several documents' texts begin with it."""
    openings = Openings(stem)
    counts = [part.segment.derive(openings) for part in corpus.parts]
    parts = [(part.segment.documents, part.missing_places) for part in corpus.parts]
    missing = openings([documents[place] for documents, places in parts for place in places])

    def is_action(word: str) -> bool:
        stemmed = stem(word)
        return sum(each[stemmed] for each in counts) - missing[stemmed] >= MIN_TOOLS

    return is_action


@dataclass(frozen=True, slots=True)
class Openings:
    """Counts with which words the texts of documents begin."""

    stem: Stemmer

    def __call__(self, documents: Sequence[Document]) -> Counter[str]:
        """Returns the number of texts by the stem of their first word."""
        return Counter(
            self.stem(word)
            for document in documents
            for text in (document.name, document.description)
            for word in words(text[:_OPENING_CHARS])[:1]
            if len(word) >= SHORTEST_ACTION
        )


def split(text: str, is_action: Callable[[str], bool]) -> list[str]:
    """The subqueries of a question, at most `MAX_SUBQUERIES`; none when it is of one piece."""
    sentences = [sentence for sentence in _SENTENCE.split(text) if sentence]
    clauses = [text.strip() for sentence in sentences for text in _clauses(sentence, is_action)]
    subqueries = [text for text in clauses if _is_query(text)]
    return list(dict.fromkeys(subqueries))[:MAX_SUBQUERIES] if len(subqueries) > 1 else []


def _clauses(sentence: str, is_action: Callable[[str], bool]) -> Iterator[str]:
    start = 0
    for joint in _JOINT.finditer(sentence):
        following = words(sentence[joint.end() : joint.end() + _OPENING_CHARS])[:2]
        if following and _begins_clause(following, is_action):
            yield sentence[start : joint.start()]
            start = joint.end()
    yield sentence[start:]


def _begins_clause(following: list[str], is_action: Callable[[str], bool]) -> bool:
    first, *then = following
    if first in STOP_WORDS or first in _OBJECTS:
        return False
    return is_action(first) or bool(then and then[0] in _OBJECTS)


def _is_query(text: str) -> bool:
    return sum(word not in STOP_WORDS for word in words(text)) >= MIN_WORDS
