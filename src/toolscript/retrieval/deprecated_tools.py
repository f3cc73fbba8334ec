"""Ranks a deprecated tool below the replacement that its description names."""

import re
from collections.abc import Iterator

import numpy as np

from toolscript.retrieval.base import Corpus
from toolscript.retrieval.trace import Column, Evidence, Trace
from toolscript.text.display import printable
from toolscript.types import SEPARATOR, Document

MARGIN = 0.01
"""How far a deprecated tool is below the best of its successors."""
_OPENING_CHARS = 400
"""Characters of a description in which it is said that the tool is deprecated."""
_DEPRECATED = re.compile(r"(?i)\b(?:deprecated|obsolete|superseded)\b")
_NAME = re.compile(r"[\w-]{3,}")


def prefer_successors(trace: Trace) -> Column | None:
    """Gives a deprecated tool's score to those that its description names, and it a little less.

    They have taken its place, so that its words speak for them. Without one that the caller can
    see, the score stays.
    """
    scores = trace.scores
    changed, replaced = scores.copy(), dict[int, str]()
    for row in _rows_of_deprecated(trace.state.corpus):
        successors = [each for each in _successors(trace, row) if each != row]
        if successors and scores[row] > 0:
            changed[successors] = np.maximum(changed[successors], scores[row])
            changed[row] = min(scores[row], float(changed[successors].max()) - MARGIN)
            replaced[row] = trace.state.corpus.documents[successors[0]].name
    if np.array_equal(changed, scores):
        return None

    def evidence(row: int) -> Evidence | None:
        if changed[row] == scores[row]:
            return None
        if row in replaced:
            remark = f"deprecated, see {printable(replaced[row], 128)}"
            return Evidence("deprecated", "it is deprecated", remark=remark)
        return Evidence("deprecated", "it replaces a deprecated tool")

    return Column(changed.astype(np.float32)[None], evidence)


def _rows_of_deprecated(corpus: Corpus) -> list[int]:
    """Returns the rows of the deprecated tools."""
    rows = np.concatenate(
        [part.rows[part.segment.derive(_find_deprecated)] for part in corpus.parts]
    )
    return rows[rows >= 0].tolist()


def _find_deprecated(documents: tuple[Document, ...]) -> list[int]:
    return [
        place
        for place, document in enumerate(documents)
        if not document.parent_id and _DEPRECATED.search(document.description, 0, _OPENING_CHARS)
    ]


def _successors(trace: Trace, row: int) -> Iterator[int]:
    """Yields the rows of the tools that a deprecated one's description names, of its server."""
    document: Document = trace.state.corpus.documents[row]
    for name in dict.fromkeys(_NAME.findall(document.description, 0, _OPENING_CHARS)):
        other = trace.state.corpus.rows.get(f"{document.server}{SEPARATOR}{name}")
        if other is not None and (trace.visible is None or trace.visible[other]):
            yield other
