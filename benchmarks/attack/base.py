"""What every attack reports."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one kind of attack."""

    finding: str
    """The row that it attacks: "H1", "M4"."""
    attack: str
    """What is done, in a few words."""
    tried: int
    """How often it was done, in variants or repetitions."""
    held: int
    """How often the promise was kept."""
    figure: str = ""
    """What was measured on the way: "peak 190 MiB", "loop late by 31 ms at most"."""

    @property
    def failed(self) -> int:
        """How often the promise was broken."""
        return self.tried - self.held


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of an attack is done."""

    scale: float = 1.0
    """Factor on counts: 1 is the figure of record, a test uses less."""
    seed: int = 1
    """Of everything random."""

    def times(self, count: int) -> int:
        """``count``, scaled, and at least one."""
        return max(1, round(count * self.scale))
