"""What came of one door, and what counts as a fault in an answer."""

import json
from collections import Counter
from dataclasses import dataclass, field

PATIENCE_S = 30.0
"""An answer that takes longer counts as none."""
MAX_GROWTH_MIB, MAX_DESCRIPTORS = 64.0, 4
"""What may be left after a door: the allocator keeps some, and idle connections are open."""
_CAUSES = {502, 503, 504}
"""Statuses of 5xx that have a cause outside, which the answer names."""


@dataclass
class Result:
    """What came of one door."""

    cases: int = 0
    answers: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    growth_mib: float = 0.0
    descriptors: int = 0

    def fault(self, what: str, sent: object) -> None:
        """Note a fault, with what led to it."""
        self.faults.append(f"{what}: {sent!r:.300}")

    def judge(self, status: int, body: bytes, sent: object) -> None:
        """Count an answer; note a fault where it is one of the server's."""
        self.answers[str(status)] += 1
        if b"Traceback" in body:
            self.fault("a traceback in an answer", sent)
        if status >= 500:
            try:
                has_cause = status in _CAUSES and bool(json.loads(body)["type"])
            except (ValueError, KeyError, TypeError):
                has_cause = False
            if not has_cause:
                self.fault(f"status {status} {body[:200]!r}", sent)

    @property
    def is_clean(self) -> bool:
        """Whether there is no fault, and nothing has grown."""
        grown = self.growth_mib > MAX_GROWTH_MIB or self.descriptors > MAX_DESCRIPTORS
        return not (self.faults or grown)
