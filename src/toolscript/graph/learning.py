"""Learning from use, off the caller's path: calls are noted, and a thread learns and keeps them."""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from toolscript.embedding.base import Vectors
from toolscript.errors import LearningError
from toolscript.graph.counts import GraphDelta
from toolscript.graph.forecast import Forecast
from toolscript.graph.graph_files import ImportedGraph
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.session_history import SessionHistory
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage, UsageChange

log = logging.getLogger(__name__)
KEEP_EVERY_S = 0.5
MAX_WAITING = 20_000
"""Calls that are noted and not learned yet; more are dropped."""
HINDSIGHT, MAX_FORESEEN = 1 / 3, 500
"""So much of what is imported, its end, and so many sequences, are foreseen before."""
_CLOSE_S = 30.0

EmbedQuestion: TypeAlias = Callable[[str], tuple[str, Vectors] | None]
"""A question's vector and the model that made it; None without one."""


@dataclass(frozen=True, slots=True)
class _RecordedCall:
    context: tuple[str, ...]
    tool: str
    succeeded: bool
    question: str
    when_s: float


class Learning:
    """The graph, what tools were found by, and where both are kept.

    `open` reads what is kept; from then on `record_call` notes a call in
    microseconds, a thread learns it, and at most `KEEP_EVERY_S` later it is on
    the disk. `close` ends the thread, having kept everything. Without a store
    nothing outlives the process. What goes wrong is logged, said by `state`, and
    tried again: the thread goes on, and one that died is replaced.
    """

    def __init__(
        self,
        store: GraphStore | None = None,
        *,
        embed: EmbedQuestion = lambda _: None,
        graph: ToolGraph | None = None,
    ) -> None:
        self.graph = graph or ToolGraph()
        self.usage = Usage()
        self.dropped = 0
        self._store = store
        self.embed = embed
        self._forecast: Forecast | None = None
        self._waiting: queue.SimpleQueue[_RecordedCall | threading.Event | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        self._opened = self._closing = False
        self._problem = ""

    @property
    def state(self) -> str:
        """``running``, or ``failing:`` and what is wrong."""
        if self._problem:
            return f"failing: {self._problem}"
        dead = self._thread is not None and not self._thread.is_alive()
        return "failing: its thread has ended; the next call begins another" if dead else "running"

    def open(self) -> None:
        """Read what is kept, once. Takes a fraction of a second, or longer where it is locked."""
        with self._guard:
            if not self._opened:
                with self._contained("what was learned before cannot be read"):
                    self._opened = self._store is None or self._store.load(self.graph, self.usage)

    def set_corpus(
        self, ids: Sequence[str], servers: Sequence[str], vectors: Vectors | None
    ) -> Forecast:
        """The tools that there are now, as rows; what is learned from now on is foreseen first."""
        self._forecast = Forecast(self.graph, tuple(ids), tuple(servers), vectors)
        return self._forecast

    def record_call(self, history: SessionHistory, tool: str, *, succeeded: bool) -> None:
        """Note that a call has ended. Takes microseconds, and never fails."""
        context, question = history.record_call(tool, succeeded=succeeded)
        if self._waiting.qsize() >= MAX_WAITING:
            self.dropped += 1
            return
        self._waiting.put(_RecordedCall(context, tool, succeeded, question, time.time()))
        self._begin()

    def import_known(self, given: ImportedGraph) -> dict[str, int]:
        """Take over templates and dependencies, and learn sequences; what became of them.

        Raises `LearningError` where they are learned, but could not be written down.
        """
        before = self.graph.edge_count
        self.graph.bootstrap_from_templates(given.templates)
        self.graph.add_dependencies(given.dependencies)
        first = int(len(given.sequences) * (1 - HINDSIGHT))
        for number, calls in enumerate(given.sequences):
            hindsight = first <= number < first + MAX_FORESEEN
            context: tuple[str, ...] = ()
            for tool, succeeded in calls:
                if hindsight and succeeded and context and self._forecast is not None:
                    self._forecast.evaluate(context, tool)
                context = self.graph.observe(context, tool, succeeded=succeeded)
        if not self.flush():
            raise LearningError(f"it is learned, but not on the disk: {self._trouble}")
        total = self.graph.edge_count
        calls = sum(map(len, given.sequences))
        return {"calls": calls, "edges": total - before, "total": total}

    def flush(self) -> bool:
        """Return when everything that was noted is learned; whether it is kept."""
        if self._thread is None:
            return self._save()
        done = threading.Event()
        self._waiting.put(done)
        self._begin()
        return done.wait(_CLOSE_S) and not self._problem

    def close(self) -> None:
        """Learn and keep what is left, and end the thread."""
        thread = self._thread
        if thread is None:
            self._save()
            return
        self._closing = True
        self._waiting.put(None)
        thread.join(_CLOSE_S)
        self._thread, self._closing = None, False

    def clear(self) -> None:
        """Forget everything, on the disk too. Raises `LearningError` where that cannot be."""
        self._opened = True  # nothing of it is to be read any more
        self.graph.clear()
        self.usage.clear()
        if not self.flush():
            raise LearningError(f"it is forgotten here, but not on the disk: {self._trouble}")

    @property
    def _trouble(self) -> str:
        return f"{self._problem or 'it takes too long'}; it is tried again with the next call"

    def _begin(self) -> None:
        """Have a thread that lives."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._guard:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="toolscript-learning", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        self.open()
        due: float | None = None  # when what was learned is to be on the disk
        ends = False
        while not ends:
            each: _RecordedCall | threading.Event | tuple[()] | None = ()
            with contextlib.suppress(queue.Empty):
                left = None if due is None else max(0.0, due - time.monotonic())
                each = self._waiting.get(timeout=left)
            if isinstance(each, _RecordedCall):
                self._learn(each)
                due = due or time.monotonic() + KEEP_EVERY_S
            ends = each is None
            if not isinstance(each, _RecordedCall) or (due and time.monotonic() >= due):
                due = None if self._save() else time.monotonic() + KEEP_EVERY_S
            if isinstance(each, threading.Event):
                each.set()

    def _learn(self, call: _RecordedCall) -> None:
        try:
            in_time = not self._closing  # what takes long is left out then
            if in_time and call.succeeded and call.context and self._forecast is not None:
                self._forecast.evaluate(call.context, call.tool)
            self.graph.observe(
                call.context, call.tool, succeeded=call.succeeded, when_s=call.when_s
            )
            embedded = self.embed(call.question) if in_time and call.question else None
            if embedded is not None:
                self.usage.learn(call.tool, *embedded)
        except Exception:
            # A boundary: whatever is wrong with one call, the others are learned.
            log.exception("a call could not be learned from")

    def _save(self) -> bool:
        """Keep what was learned; whether it is kept."""
        with self._contained("what was learned cannot be written"):
            if self._keep():
                self._problem = ""
                return True
            self._problem = "what was learned cannot be written; the log says why"
        return False

    def _keep(self) -> bool:
        """Keep what was learned, having read what is kept; False where to try again."""
        self.open()
        if not self._opened:
            return False
        change, usage = self.graph.drain_changes(), self.usage.drain_changes()
        if self._store is None or not (change or usage):
            return True
        done = False
        try:
            done = self._store.add(change, usage, self._everything)
        finally:
            if not done:
                self.graph.requeue(change)
                self.usage.requeue(usage)
        return done

    def _everything(self) -> tuple[GraphDelta, UsageChange]:
        return self.graph.drain_all(), self.usage.drain_all()

    @contextlib.contextmanager
    def _contained(self, what: str) -> Generator[None]:
        """A boundary: whatever goes wrong with the disk is logged once, and the thread goes on."""
        try:
            yield
        except Exception as error:
            problem = f"{what} ({type(error).__name__}: {error})"
            if problem != self._problem:
                log.exception("%s", what)
            self._problem = problem
