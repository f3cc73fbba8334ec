"""One search for candidates, prepared: its plan, masks, vectors and the weights of words."""

from dataclasses import dataclass

from toolscript.embedding.base import Vectors
from toolscript.postgres.posting_blocks import Weights
from toolscript.postgres.resident_index import IndexMemory, Snapshot
from toolscript.retrieval.base import Mask, Plan


@dataclass(slots=True)
class PreparedSearch:
    """One search as it begins. ``problem`` says later what it lacks, and why."""

    plan: Plan
    memory: IndexMemory
    snapshot: Snapshot
    visible: Mask
    """By a tool's number, whether the caller may find it."""
    requested: Mask
    """Those of the servers that were asked for; the same where none was."""
    vectors: Vectors | None
    weights: list[Weights]
    """By query, those of its stems."""
    executors: Mask | None
    """The tools that run commands, where they may be what is asked for."""
    problem: str = ""
    """Why rows or words may be missing or out of date; empty if none are."""

    @property
    def masks(self) -> list[Mask]:
        """The masks that lists are taken from."""
        requested = [self.requested] if self.requested is not self.visible else []
        return [self.visible, *requested, *([] if self.executors is None else [self.executors])]
