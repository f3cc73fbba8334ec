"""The history of one session: its tools and its searches."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from toolscript.graph.tool_graph import append_recent

PAUSE_S = 1800.0
"""A pause after which the next call begins another job."""
MAX_SEARCHES = 3
"""The number of latest searches that may have led to a call."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A question."""

    text: str
    unused: frozenset[str]
    """The ids of the tools that it found, and that no call has used since."""


@dataclass(eq=False, slots=True)
class Job:
    """A session's calls without a long pause, as the learning thread sees them."""

    pairs: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The pairs of tools that the graph has learned from it."""
    gain: float = 0.0
    """The sum of its forecasts' gains: see `ToolGraph.predictive_skill`."""


@dataclass(eq=False, slots=True)
class SessionHistory:
    """One session's calls and searches, without arguments and results. Used on one thread."""

    context: tuple[str, ...] = ()
    """The latest tools that were used with success, each once, the last one last."""
    job: Job = field(default_factory=Job)
    clock: Callable[[], float] = time.monotonic
    _last_s: float = 0.0
    _searched: deque[Searched] = field(default_factory=lambda: deque[Searched](maxlen=MAX_SEARCHES))

    @property
    def telling_context(self) -> tuple[str, ...]:
        """The context, or nothing if the graph has foreseen this job worse than chance."""
        return self.context if self.job.gain >= 0 else ()

    def record_search(self, text: str, tools: Sequence[str]) -> None:
        """Record that a question was answered with these tools, by id."""
        self._searched.append(Searched(text, frozenset(tools)))

    def record_call(self, tool: str, *, succeeded: bool) -> tuple[tuple[str, ...], str]:
        """Record a call that has ended; returns its context, and the question that led to it.

        The question is empty if none did; it leads to one use of each tool that it found.
        """
        now = self.clock()
        if now - self._last_s > PAUSE_S:
            self.context, self.job = (), Job()
        self._last_s = now
        before, question = self.context, ""
        if succeeded:
            self.context = append_recent(before, tool)
            question = self._question(tool)
        return before, question

    def _question(self, tool: str) -> str:
        for place, search in reversed([*enumerate(self._searched)]):
            if tool in search.unused:
                self._searched[place] = replace(search, unused=search.unused - {tool})
                return search.text
        return ""
