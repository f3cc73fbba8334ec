"""What one session has done so far: the tools it used, and what it searched for."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toolscript.graph.tool_graph import append_recent

PAUSE_S = 1800.0
"""After so long without a call, another job has begun."""
SEARCHES = 3
"""Of a session's searches, the latest may have led to a call."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A question and the ids of what it found."""

    text: str
    found: frozenset[str]


@dataclass(eq=False, slots=True)
class SessionHistory:
    """One session's. Knows no arguments and no results. Used on one thread, the event loop's."""

    context: tuple[str, ...] = ()
    """The latest tools that were used with success, each once, the last one last."""
    clock: Callable[[], float] = time.monotonic
    _last_s: float = 0.0
    _searched: deque[Searched] = field(default_factory=lambda: deque[Searched](maxlen=SEARCHES))

    def record_search(self, text: str, found: Sequence[str]) -> None:
        """A question was answered with these tools."""
        self._searched.append(Searched(text, frozenset(found)))

    def record_call(self, tool: str, *, succeeded: bool) -> tuple[tuple[str, ...], str]:
        """A call has ended: the context that it came in, and the question that it answers, if any.

        A question leads to one use of each tool that it found.
        """
        now = self.clock()
        if now - self._last_s > PAUSE_S:
            self.context = ()
        self._last_s = now
        before, asked = self.context, ""
        if succeeded:
            self.context = append_recent(before, tool)
            asked = self._question(tool)
        return before, asked

    def _question(self, tool: str) -> str:
        for at in reversed(range(len(self._searched))):
            each = self._searched[at]
            if tool in each.found:
                self._searched[at] = Searched(each.text, each.found - {tool})
                return each.text
        return ""
