"""Learns from calls in a background thread, which stores the counts."""

import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from toolscript.embedding.base import Vectors
from toolscript.errors import LearningError
from toolscript.graph.base import GraphStorage
from toolscript.graph.counts import GraphDelta
from toolscript.graph.forecast import Forecast
from toolscript.graph.graph_files import ImportedGraph
from toolscript.graph.session_history import Job, SessionHistory
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage, UsageChange, teaches_fully
from toolscript.types import EVERYTHING, Grant

log = logging.getLogger(__name__)
STORE_EVERY_S = 0.5
LOAD_EVERY_S = 2.0
"""Counts of other processes, which are read all at once, are not read more often."""
MAX_WAITING = 20_000
"""Calls that wait in the queue; more are dropped."""
MAX_EVALUATED = 500
"""Maximum number of imported sequences that are forecast before they are learned: the last ones."""
_CLOSE_S = 30.0
_NEWS: Final = "news"

EmbedQuestion: TypeAlias = Callable[[str], tuple[str, Vectors] | None]
"""Returns the model's name and a question's vector; None without a model."""


MAX_USES = 100_000
"""Uses of a day, by holder, that are counted; further ones are not learned from."""
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class _RecordedCall:
    context: tuple[str, ...]
    tool: str
    succeeded: bool
    question: str
    when_s: float
    grant: Grant
    is_step: bool
    """Whether the graph learns from it."""
    job: Job


class Learning:
    """The graph and the usage of tools, and the thread that learns and stores both.

    `open` reads the stored counts; from then on `record_call` queues a call in
    microseconds, a thread learns it, and at most `STORE_EVERY_S` later it is
    stored. The thread also takes over the counts that other processes have stored. `close`
    ends it once everything is stored. Without a store nothing outlives the
    process. Failures are logged, shown by `state`, and tried again: the thread
    goes on, and one that died is replaced.
    """

    def __init__(
        self,
        store: GraphStorage | None = None,
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
        self._waiting: queue.SimpleQueue[
            _RecordedCall | threading.Event | Literal["news"] | None
        ] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._guard, self._loading = threading.Lock(), threading.Lock()
        self._opened = self._closing = self._closed = False
        self._today = 0
        self._uses: set[tuple[str, ...]] = set()
        """Those of today that count, by anybody but the owner."""
        self._problem = ""
        self._has_news = False
        """Other processes have stored something that is not loaded yet."""
        self._loaded_at = -math.inf
        if store is not None:
            store.subscribe(self._hear)

    @property
    def state(self) -> str:
        """``running``, or ``failing:`` and the reason."""
        if self._problem:
            return f"failing: {self._problem}"
        dead = self._thread is not None and not self._thread.is_alive()
        return "failing: its thread has ended; the next call begins another" if dead else "running"

    def open(self) -> None:
        """Reads the stored counts, once. Takes a fraction of a second, or longer for a lock."""
        with self._loading:
            if not self._opened:
                with self._contain("what was learned before cannot be read"):
                    self._opened = self._store is None or self._store.load(self.graph, self.usage)

    def set_corpus(self, ids: Sequence[str], servers: Sequence[str]) -> Forecast:
        """Returns forecasts over these tools; from now on calls are forecast before learned."""
        self._forecast = Forecast(self.graph, ids, servers)
        return self._forecast

    def record_call(
        self, history: SessionHistory, tool: str, *, succeeded: bool, grant: Grant = EVERYTHING
    ) -> None:
        """Queue a call that has ended. Takes microseconds, and never fails.

        Args:
            history: The session of the call.
            tool: The tool's id.
            succeeded: Whether the call did.
            grant: Whose call it is. The graph, which ranks for everybody, learns nothing from a
                limited one, and from a token for everything each tool and each pair of tools once
                a day: else a program could buy a tool's rank with calls.
        """
        context, question = history.record_call(tool, succeeded=succeeded)
        is_step = grant.is_whole
        if is_step and not teaches_fully(grant):
            is_first = self._is_first_today(grant.holder, tool)
            if context and not self._is_first_today(grant.holder, context[-1], tool):
                context = ()
            is_step = is_first or bool(context)
        if not (is_step or question):
            return
        if self._waiting.qsize() >= MAX_WAITING:
            self.dropped += 1
            return
        self._waiting.put(
            _RecordedCall(
                context, tool, succeeded, question, time.time(), grant, is_step, history.job
            )
        )
        self._start()

    def _is_first_today(self, *use: str) -> bool:
        """Whether a use by a holder is the first of this day (UTC), and counts."""
        today = int(time.time() // _DAY_S)
        if today != self._today:
            self._today, self._uses = today, set()
        is_first = use not in self._uses and len(self._uses) < MAX_USES
        if is_first:
            self._uses.add(use)
        return is_first

    def import_known(self, given: ImportedGraph) -> dict[str, int]:
        """Add templates and dependencies, and learn sequences; returns the numbers added.

        Raises `LearningError` if they are learned, but could not be stored.
        """
        before = self.graph.edge_count
        self.graph.bootstrap_from_templates(given.templates)
        self.graph.add_dependencies(given.dependencies)
        first = len(given.sequences) - MAX_EVALUATED
        evaluate = self._forecast.evaluate if self._forecast else None
        for number, calls in enumerate(given.sequences):
            steps = ((call.tool, call.ok) for call in calls)
            self.graph.learn(steps, evaluate if number >= first else None)
        if not self.flush():
            raise LearningError(f"it is learned, but not on the disk: {self._trouble}")
        total = self.graph.edge_count
        calls = sum(map(len, given.sequences))
        return {"calls": calls, "edges": total - before, "total": total}

    def flush(self) -> bool:
        """Wait until every queued call is learned; returns whether everything is stored."""
        if self._thread is None:
            return self._save()
        done = threading.Event()
        self._waiting.put(done)
        self._start()
        return done.wait(_CLOSE_S) and not self._problem

    def close(self) -> None:
        """Learns and stores the waiting calls, and ends the thread."""
        self._closed = True
        thread = self._thread
        if thread is None:
            self._save()
            return
        self._closing = True
        self._waiting.put(None)
        thread.join(_CLOSE_S)
        self._thread, self._closing = None, False

    def clear(self) -> None:
        """Forget everything, on the disk too. Raises `LearningError` if the disk fails."""
        self._opened = True  # what is stored must not be read any more
        self.graph.clear()
        self.usage.clear()
        if not self.flush():
            raise LearningError(f"it is forgotten here, but not on the disk: {self._trouble}")

    @property
    def _trouble(self) -> str:
        return f"{self._problem or 'it takes too long'}; it is tried again with the next call"

    def _hear(self) -> None:
        """Has the thread load the counts of other processes."""
        if not (self._has_news or self._closed):
            self._has_news = True
            self._waiting.put(_NEWS)
            self._start()

    def _start(self) -> None:
        """Start the thread unless it is alive."""
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
        due = math.inf  # when changes have to be stored, or news loaded
        ends = False
        while not ends:
            item = self._next(due)
            ends = item is None
            if item == _NEWS:
                due = min(due, self._loaded_at + LOAD_EVERY_S)
                continue
            if isinstance(item, _RecordedCall):
                self._learn(item)
                due = min(due, time.monotonic() + STORE_EVERY_S)
                if time.monotonic() < due:
                    continue
            due = math.inf if self._save() else time.monotonic() + STORE_EVERY_S
            if self._has_news:
                due = min(due, self._loaded_at + LOAD_EVERY_S)
            if isinstance(item, threading.Event):
                item.set()

    def _next(
        self, due: float
    ) -> _RecordedCall | threading.Event | Literal["news"] | tuple[()] | None:
        """Returns the next of the queue; an empty tuple once changes are due."""
        left = None if due == math.inf else max(0.0, due - time.monotonic())
        try:
            return self._waiting.get(timeout=left)
        except queue.Empty:
            return ()

    def _learn(self, call: _RecordedCall) -> None:
        try:
            in_time = not self._closing  # at the end what takes long is left out
            if call.is_step:
                self._learn_step(call, in_time=in_time)
            embedded = self.embed(call.question) if in_time and call.question else None
            if embedded is not None:
                self.usage.learn(call.tool, *embedded, call.grant)
        except Exception:
            # A boundary: whatever fails for one call, the others are learned.
            log.exception("a call could not be learned from")

    def _learn_step(self, call: _RecordedCall, *, in_time: bool) -> None:
        if in_time and call.succeeded and call.context and self._forecast is not None:
            call.job.gain += self._forecast.evaluate(call.context, call.tool)
        self.graph.observe(
            call.context,
            call.tool,
            succeeded=call.succeeded,
            when_s=call.when_s,
            pairs=call.job.pairs,
        )

    def _save(self) -> bool:
        """Stores the changes; returns whether that succeeded."""
        with self._contain("what was learned cannot be written"):
            if self._store_changes():
                self._problem = ""
                return True
            self._problem = "what was learned cannot be written; the log says why"
        return False

    def _store_changes(self) -> bool:
        """Stores the changes, after reading the file; returns False to try again."""
        if not self._load_news():
            return False
        change, usage = self.graph.drain_changes(), self.usage.drain_changes()
        if self._store is None or not (change or usage):
            return True
        done = False
        try:
            done = self._store.add(change, usage, self._drain_all)
        finally:
            if not done:
                self.graph.requeue(change)
                self.usage.requeue(usage)
        return done

    def _load_news(self) -> bool:
        """Loads counts that are not loaded yet, if it is time; returns False to try again."""
        self.open()
        is_due = time.monotonic() >= self._loaded_at + LOAD_EVERY_S
        if not (self._opened and self._has_news and is_due and self._store is not None):
            return self._opened
        done, self._has_news = False, False
        with self._contain("what others have learned cannot be read"):
            done = self._store.load(self.graph, self.usage)
        self._has_news, self._loaded_at = self._has_news or not done, time.monotonic()
        return done

    def _drain_all(self) -> tuple[GraphDelta, UsageChange]:
        return self.graph.drain_all(), self.usage.drain_all()

    @contextlib.contextmanager
    def _contain(self, what: str) -> Generator[None]:
        """A boundary: any failure of the disk is logged once, and the thread goes on."""
        try:
            yield
        except Exception as error:
            problem = f"{what} ({type(error).__name__}: {error})"
            if problem != self._problem:
                log.exception("%s", what)
            self._problem = problem
