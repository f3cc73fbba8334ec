"""The history of one session: the tools it used, and what it searched for."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toolscript.graph.tool_graph import append_recent

PAUSE_S = 1800.0
"""A pause after which the next call begins another job."""
MAX_SEARCHES = 3
"""The number of latest searches that may have led to a call."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A question and the ids of the tools that it found."""

    text: str
    tools: frozenset[str]


@dataclass(eq=False, slots=True)
class SessionHistory:
    """One session's calls and searches, without arguments and results. Used on one thread."""

    context: tuple[str, ...] = ()
    """The latest tools that were used with success, each once, the last one last."""
    clock: Callable[[], float] = time.monotonic
    _last_s: float = 0.0
    _searched: deque[Searched] = field(default_factory=lambda: deque[Searched](maxlen=MAX_SEARCHES))

    def record_search(self, text: str, tools: Sequence[str]) -> None:
        """Record that a question was answered with these tools, by id."""
        self._searched.append(Searched(text, frozenset(tools)))

    def record_call(self, tool: str, *, succeeded: bool) -> tuple[tuple[str, ...], str]:
        """Record a call that has ended; returns its context, and the question that led to it.

        The question is empty where none did; it leads to one use of each tool that it found.
        """
        now = self.clock()
        if now - self._last_s > PAUSE_S:
            self.context = ()
        self._last_s = now
        before, question = self.context, ""
        if succeeded:
            self.context = append_recent(before, tool)
            question = self._question(tool)
        return before, question

    def _question(self, tool: str) -> str:
        for place, search in reversed([*enumerate(self._searched)]):
            if tool in search.tools:
                self._searched[place] = Searched(search.text, search.tools - {tool})
                return search.text
        return ""
