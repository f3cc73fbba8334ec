import pytest

from toolscript.retrieval.capability import Capability
from toolscript.retrieval.lexical.name_matching import NameMatch
from toolscript.retrieval.reasons import Evidence, reason

GIT = Capability("git operations", "git ops", shell=True, intents=(), tools=())  # noqa: S604 - not a process


@pytest.mark.requirement("search:reason")
@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (
            Evidence({"semantic": 0.4, "fuzzy": 0.1}, label="file operations"),
            "Semantic similarity (file operations)",
        ),
        (Evidence({"semantic": 0.4, "fuzzy": 0.1}), "Semantic similarity"),
        (
            Evidence({"semantic": 0.1, "fuzzy": 0.2}, label="git operations"),
            "Fuzzy match (git operations)",
        ),
        (Evidence({"fuzzy": 0.0}), "Fuzzy match"),
        (Evidence({"graph": 0.3, "fuzzy": 0.2}), "Graph"),
        (Evidence({}), "No signal answered"),
        (
            Evidence({"semantic": 0.4}, inferred=GIT, label="process management"),
            "Capability inference (shell → git ops)",
        ),
        (Evidence({"semantic": 0.9}, named=NameMatch(1.0, 1.0), inferred=GIT), "Exact name"),
        (
            Evidence({"semantic": 0.9}, named=NameMatch(0.875, 0.875)),
            "Fuzzy match (name, 88% alike)",
        ),
        (Evidence({"semantic": 0.9}, named=NameMatch(0.9, 1.0)), "Fuzzy match (name, 100% alike)"),
        (
            Evidence({"semantic": 0.4, "fuzzy": 0.2}, raised=0.3, label="git operations"),
            "Fuzzy match + name boost (git operations)",
        ),
        (Evidence({"semantic": 0.4, "fuzzy": 0.2}, raised=0.1), "Semantic similarity"),
        (Evidence({"semantic": 0.4, "fuzzy": 0.4}, raised=0.1), "Fuzzy match"),
        (
            Evidence({"semantic": 0.4}, label="messaging", part="mail it\nto Ana"),
            "Semantic similarity (messaging) for “mail it to Ana”",
        ),
    ],
)
def test_the_reason_names_what_contributed_most(evidence: Evidence, expected: str) -> None:
    """search:reason"""
    assert reason(evidence) == expected
