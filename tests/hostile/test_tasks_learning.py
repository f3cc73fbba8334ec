"""Learning goes on whatever the disk does, says when it fails, and claims only what is so."""

from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support import until
from toolscript.errors import LearningError
from toolscript.graph.base import LearnedCounts
from toolscript.graph.counts import GraphDelta
from toolscript.graph.graph_files import ImportedGraph, Workflow
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage, UsageChange


class _FailingStore(GraphStore):
    """A store whose disk fails while it is told to, by raising or by refusing."""

    fails: BaseException | Literal["refuses"] | None = None

    def load(self, graph: LearnedCounts[GraphDelta], usage: LearnedCounts[UsageChange]) -> bool:
        self._fail()
        return super().load(graph, usage)

    def add(self, change: GraphDelta, usage: UsageChange, everything: Any = None) -> bool:
        self._fail()
        return self.fails is None and super().add(change, usage, everything)

    def _fail(self) -> None:
        if isinstance(self.fails, BaseException):
            raise self.fails


class _GoneError(BaseException):
    """What ends a thread: no boundary for faults takes it."""


def stored(directory: Path) -> int:
    """How many calls are on the disk."""
    graph = ToolGraph()
    GraphStore(directory, "key").load(graph, Usage())
    return graph.stats().calls


def use(learning: Learning, times: int = 1) -> None:
    for _ in range(times):
        learning.record_call(SessionHistory(), "s__a", succeeded=True)


@pytest.mark.parametrize("fails", [ValueError("damaged row"), OSError("no disk"), "refuses"])
def test_m15_learning_goes_on_when_keeping_fails(
    tmp_path: Path, fails: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = _FailingStore(tmp_path, "key")
    learning = Learning(store)
    learning.open()
    assert learning.state == "running"
    store.fails = fails
    use(learning, 3)
    assert not learning.flush()
    assert learning.state.startswith("failing: what was learned cannot be written")
    use(learning, 2)
    assert not learning.flush()
    assert len(caplog.records) <= 1, "the same again is no news"
    store.fails = None
    use(learning)
    assert learning.flush()
    assert learning.state == "running"
    learning.close()
    assert stored(tmp_path) == 6


def test_m15_what_could_not_be_added_to_a_file_is_added_later(tmp_path: Path) -> None:
    """To one that is there, and is thus not made of everything that is known."""
    store = _FailingStore(tmp_path, "key")
    learning = Learning(store)
    use(learning, 2)
    assert learning.flush()
    store.fails = "refuses"
    use(learning, 3)
    assert not learning.flush()
    store.fails = None
    use(learning)
    assert learning.flush()
    learning.close()
    assert stored(tmp_path) == 6


def test_m15_a_thread_that_died_is_replaced(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    store = _FailingStore(tmp_path, "key")
    learning = Learning(store)
    learning.open()
    store.fails = _GoneError()
    use(learning)
    until(lambda: "its thread has ended" in learning.state, "it has died")
    recwarn.clear()
    store.fails = None
    use(learning)
    assert learning.flush()
    assert learning.state == "running"
    learning.close()
    assert stored(tmp_path) == 2


def test_m15_what_cannot_be_read_at_the_start_costs_no_start(tmp_path: Path) -> None:
    store = _FailingStore(tmp_path, "key")
    store.fails = PermissionError("not yours")
    learning = Learning(store)
    learning.open()
    assert "PermissionError" in learning.state
    store.fails = None
    use(learning)
    assert learning.flush()
    learning.close()
    assert stored(tmp_path) == 1


def test_m15_nobody_is_told_that_it_was_forgotten_when_it_was_not(tmp_path: Path) -> None:
    store = _FailingStore(tmp_path, "key")
    learning = Learning(store)
    use(learning, 4)
    assert learning.flush()
    store.fails = "refuses"
    with pytest.raises(LearningError, match="it is forgotten here, but not on the disk"):
        learning.clear()
    assert stored(tmp_path) == 4
    with pytest.raises(LearningError, match="it is learned, but not on the disk"):
        learning.import_known(ImportedGraph(workflows=(Workflow(("s__a", "s__b")),)))
    store.fails = None
    learning.close()
    assert stored(tmp_path) == 0
