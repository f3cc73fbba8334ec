"""The demo: what it claims is what it checked."""

import re

import pytest

from tests.support import ROOT

DEMO = (ROOT / "scripts" / "demo").read_text("utf-8")
ASKED = re.findall(r"^ask '([^']+)' '[^']+' (?:\\\n +)?'([^']+)'", DEMO, re.MULTILINE)
RIGHT_AND_WRONG = {
    "what is the current time in Tokyo": ("time__get_current_time", "time__convert_time"),
    "read_fil": ("filesystem__read_file", "filesystem__read_file_info"),
    "commit my changes to git": ("git__git_commit", "shell__execute_command"),
}


def test_it_asks_as_many_questions_as_it_says() -> None:
    assert len(re.findall(r"^ask ", DEMO, re.MULTILINE)) == 6
    assert "Six questions, six right answers" in DEMO


@pytest.mark.parametrize("query", RIGHT_AND_WRONG)
def test_a9_the_tool_that_answers_has_to_be_first(query: str) -> None:
    """Once any tool of the right server would do, and the wrong one came first."""
    [pattern] = [pattern for pattern, asked in ASKED if asked == query]
    right, wrong = RIGHT_AND_WRONG[query]
    shown = "Tool  Confidence  Reason {}  0.60  Semantic similarity"
    assert re.search(pattern, shown.format(right))
    assert not re.search(pattern, shown.format(wrong))
