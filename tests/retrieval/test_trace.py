from typing import Any

import numpy as np
import pytest

from toolscript.retrieval.trace import Column, Evidence, Trace, signal_phrase
from toolscript.types import SearchRequest


@pytest.mark.requirement("search:reason")
@pytest.mark.parametrize(
    ("contributions", "more", "expected"),
    [
        (
            {"semantic": 0.4, "fuzzy": 0.1},
            {"label": "file operations"},
            "Semantic similarity (file operations)",
        ),
        ({"semantic": 0.4, "fuzzy": 0.1}, {}, "Semantic similarity"),
        (
            {"semantic": 0.1, "fuzzy": 0.2},
            {"label": "git operations"},
            "Fuzzy match (git operations)",
        ),
        ({"fuzzy": 0.0}, {}, "Fuzzy match"),
        ({}, {}, "No signal answered"),
        (
            {"semantic": 0.4, "fuzzy": 0.2},
            {"name_boost": 0.3, "label": "git operations"},
            "Fuzzy match + name boost (git operations)",
        ),
        ({"semantic": 0.4, "fuzzy": 0.2}, {"name_boost": 0.1}, "Semantic similarity"),
        ({"semantic": 0.4, "fuzzy": 0.4}, {"name_boost": 0.1}, "Fuzzy match"),
        (
            {"semantic": 0.4},
            {"label": "messaging", "subquery": "mail it\nto Ana"},
            "Semantic similarity (messaging) for “mail it to Ana”",
        ),
    ],
)
def test_the_reason_names_what_contributed_most(
    contributions: dict[str, float], more: dict[str, str], expected: str
) -> None:
    assert signal_phrase(contributions, **more) == expected  # pyright: ignore[reportArgumentType] - any argument


def test_a_steps_evidence_is_computed_once_per_document() -> None:
    rows: list[int] = []
    state: Any = None
    trace = Trace(
        state,
        SearchRequest(text="x"),
        weights={},
        word_match=True,
        limit=1,
        threshold=0.0,
        reachable=np.arange(2),
        queries=(),
        rankings=(),
    )

    def evidence(row: int) -> Evidence:
        rows.append(row)
        return Evidence(phrase=f"row {row}", signals={"fuzzy": 0.5})

    trace.apply(lambda _: Column(np.zeros((1, 2)), evidence))
    for row in (0, 1):
        assert trace.reason(row) == f"row {row}"
        assert trace.signals(row) == {"fuzzy": 0.5}
    assert rows == [0, 1]
