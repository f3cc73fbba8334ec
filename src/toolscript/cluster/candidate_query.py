"""What a search for candidates knows about a question, its caller and the index."""

from dataclasses import dataclass

from toolscript.cluster.posting_blocks import Weights
from toolscript.cluster.resident_index import IndexMemory, Snapshot
from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Mask, Plan


@dataclass(slots=True)
class CandidateQuery:
    """What a search for candidates knows without the database."""

    plan: Plan
    memory: IndexMemory
    snapshot: Snapshot
    visible: Mask
    """By a tool's number, whether the caller may find it."""
    asked: Mask
    """Those of the servers that were asked for; the same where none was."""
    vectors: Vectors | None
    weights: list[Weights]
    """By query, those of its stems."""
    executors: Mask | None
    """The tools that run commands, where they may be what is asked for."""
    problem: str = ""
    """Why rows or words may be missing or out of date; empty where none are."""

    @property
    def masks(self) -> list[Mask]:
        """The masks that lists are taken from."""
        asked = [self.asked] if self.asked is not self.visible else []
        return [self.visible, *asked, *([] if self.executors is None else [self.executors])]
