"""An engine with a clock around it, the same for ours and for the others'.

An engine is a function: given tools it returns a function from a question to the
ids of the tools found, best first. The clock runs in the process of the engine.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from benchmarks.quality.datasets import Tool

Find: TypeAlias = Callable[[str], Sequence[str]]
Build: TypeAlias = Callable[[Sequence[Tool]], Find]

WARM_UP = "warm up"
"""Asked once as part of indexing, since some engines index when they are first asked."""


_ONE = Tool(id="warm__up", server="warm", name="up", description=WARM_UP)


class Timed:
    """One engine over one catalogue at a time.

    A catalogue of one tool comes first, unmeasured: it loads the modules and the
    model, which a program does once.
    """

    def __init__(self, build: Build) -> None:
        self._build = build
        self._find = build([_ONE])
        self._find(WARM_UP)

    def index(self, tools: Sequence[Tool]) -> float:
        """Take in a catalogue; the seconds until a first question was answered."""
        start = time.perf_counter()
        self._find = self._build(tools)
        self._find(WARM_UP)
        return time.perf_counter() - start

    def search(self, text: str) -> tuple[list[str], float]:
        """The ids found, best first, and the milliseconds it took."""
        start = time.perf_counter()
        found = self._find(text)
        elapsed = time.perf_counter() - start
        return list(found), elapsed * 1000

    def close(self) -> None:
        """Nothing is held."""
