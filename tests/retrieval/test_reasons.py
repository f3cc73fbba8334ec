import pytest

from toolscript.retrieval.capability import Capability
from toolscript.retrieval.reasons import Evidence, reason

GIT = Capability("git operations", "git ops", shell=True, intents=(), tools=())  # noqa: S604 - not a process


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
        (Evidence({"semantic": 0.9}, named=1.0, inferred=GIT), "Exact name"),
        (Evidence({"semantic": 0.9}, named=0.875), "Fuzzy match (name, 88% alike)"),
    ],
)
def test_the_reason_names_what_contributed_most(evidence: Evidence, expected: str) -> None:
    """search:reason"""
    assert reason(evidence) == expected
