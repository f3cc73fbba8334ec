import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.graph.test_tool_graph import Clock, graph_of
from tests.support import edge_of
from toolscript.graph.base import LearnedCounts
from toolscript.graph.counts import GraphDelta
from toolscript.graph.graph_files import ImportedGraph, LoggedCall
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.learning import MAX_WAITING, Learning
from toolscript.graph.related import relations
from toolscript.graph.session_history import PAUSE_S, SessionHistory
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import MAX_OWN_TOOLS, Usage, UsageChange
from toolscript.types import Grant


def stored(directory: Path) -> tuple[ToolGraph, Usage]:
    """What is on the disk."""
    graph, usage = ToolGraph(clock=Clock()), Usage()
    GraphStore(directory, "key").load(graph, usage)
    return graph, usage


def until(condition: Callable[[], bool], bound_s: float = 30.0) -> None:
    end = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class TestStore:
    def test_a_graph_that_grew_too_large_is_kept_as_it_was_cut(self, tmp_path: Path) -> None:
        graph, store = ToolGraph(max_edges=10, clock=Clock()), GraphStore(tmp_path, "key")
        for number in range(30):
            graph.learn([f"s__{number}", f"s__{number}-2"])
            store.add(graph.drain_changes(), UsageChange())
        again, _ = stored(tmp_path)
        assert again.edge_count == graph.edge_count <= 10
        assert again.strongest(20) == graph.strongest(20)

    def test_a_file_with_figures_that_nobody_reads_any_more_is_read(self, tmp_path: Path) -> None:
        """graph:learning: those of a former version."""
        graph, store = graph_of("abc"), GraphStore(tmp_path, "key")
        graph.record_gain(0.5)
        assert store.add(graph.drain_changes(), UsageChange())
        with sqlite3.connect(store.path) as db:
            for name in ("steps", "repeats", "same_server"):
                crc = zlib.crc32(b"2.5", zlib.crc32(f"'{name}'".encode()))
                db.execute("insert into habit values (?, 2.5, ?)", (name, crc))
        db.close()
        again, _ = stored(tmp_path)
        assert again.stats() == graph.stats()
        assert store.add(graph_of("ab").drain_changes(), UsageChange())
        assert stored(tmp_path)[0].stats().calls == 5

    @pytest.mark.parametrize("damage", [b"", b"nothing of the kind" * 100])
    def test_a_damaged_file_is_put_aside_and_learning_goes_on(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: bytes
    ) -> None:
        store = GraphStore(tmp_path, "key")
        store.add(graph_of("ab").drain_changes(), UsageChange())
        store.path.write_bytes(damage)
        graph, _ = stored(tmp_path)
        assert graph.edge_count == 0
        assert store.add(graph_of("ab").drain_changes(), UsageChange())
        assert stored(tmp_path)[0].edge_count == 1
        assert "is damaged" in caplog.text
        assert store.path.with_name(f"{store.path.name}.damaged-1").read_bytes() == damage

    def test_a_file_cut_anywhere_costs_what_was_learned_and_nothing_else(
        self, tmp_path: Path
    ) -> None:
        store = GraphStore(tmp_path, "key")
        store.add(graph_of("abcdef").drain_changes(), UsageChange())
        whole = store.path.read_bytes()
        for length in range(0, len(whole), 997):
            store.path.write_bytes(whole[:length])
            stored(tmp_path)
            assert store.add(graph_of("ab").drain_changes(), UsageChange())
            assert edge_of(stored(tmp_path)[0], "s__a", "s__b")
            store.path.unlink()

    def test_what_cannot_be_kept_is_kept_for_later(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "taken").write_text("a file where the directory should be")
        learning = Learning(GraphStore(tmp_path / "taken", "key"))
        learning.graph.learn(["s__a", "s__b"])
        learning.flush()
        assert "cannot be written" in caplog.text
        (tmp_path / "taken").unlink()
        learning.graph.learn(["s__b", "s__c"])
        learning.flush()
        assert stored(tmp_path / "taken")[0].edge_count == 2

    def test_only_the_owner_may_read_it(self, tmp_path: Path) -> None:
        store = GraphStore(tmp_path / "graph", "key")
        store.add(graph_of("ab").drain_changes(), UsageChange())
        assert store.path.stat().st_mode & 0o077 == 0


class TestLearning:
    @pytest.mark.requirement("graph:learning")
    def test_calls_become_steps_of_their_session(self, tmp_path: Path) -> None:
        learning = Learning(GraphStore(tmp_path, "key"))
        one, other = SessionHistory(), SessionHistory()
        for history, tool in [(one, "a"), (other, "x"), (one, "b"), (other, "y"), (one, "c")]:
            learning.record_call(history, f"s__{tool}", succeeded=tool != "b")
        learning.close()
        graph, _ = stored(tmp_path)
        assert graph.neighbors("s__a") == ["s__c"]
        assert graph.neighbors("s__x") == ["s__y"]
        assert graph.stats().failures == 1
        assert one.context == ("s__a", "s__c")

    def test_nobody_but_the_owner_teaches_by_repetition(self) -> None:
        """Of a holder each tool and each pair counts once a day; of the owner every call.

        The questions of a holder count for others as one.
        """

        def learned(holder: str) -> tuple[float, int]:
            learning = Learning(embed=lambda _: ("model", np.ones(3, np.float32)))
            history, grant = SessionHistory(), Grant(servers=("*",), holder=holder)
            for _ in range(50):
                for tool in ("s__a", "s__b"):
                    history.record_search("question", [tool])
                    learning.record_call(history, tool, succeeded=True, grant=grant)
            learning.flush()
            learning.close()
            known = learning.usage.of("model", "other", others=True)
            return known["s__b"][0], learning.graph.stats().calls

        assert learned("t1") == (1.0, 3)
        assert learned("owner") == (50.0, 100)

    def test_what_is_noted_is_on_the_disk_without_being_asked_for(self, tmp_path: Path) -> None:
        learning, history = Learning(GraphStore(tmp_path, "key")), SessionHistory()
        for tool in ("s__a", "s__b"):
            learning.record_call(history, tool, succeeded=True)
        until(lambda: stored(tmp_path)[0].edge_count == 1)
        learning.close()

    @pytest.mark.requirement("graph:learning")
    def test_a_question_counts_for_the_tool_that_it_led_to(self) -> None:
        asked: list[str] = []

        def embed(text: str) -> tuple[str, np.ndarray]:
            asked.append(text)
            return "m", np.ones(3, dtype=np.float32)

        learning, history = Learning(embed=embed), SessionHistory()
        history.record_search("send it", ["s__mail", "s__post"])
        history.record_search("read it", ["s__read"])
        learning.record_call(history, "s__mail", succeeded=False)
        learning.record_call(history, "s__other", succeeded=True)
        learning.record_call(history, "s__mail", succeeded=True)
        learning.record_call(history, "s__mail", succeeded=True)
        learning.flush()
        learning.close()
        assert asked == ["send it"]
        assert list(learning.usage.of("m")) == ["s__mail"]

    def test_a_fault_in_one_call_costs_only_that(self, caplog: pytest.LogCaptureFixture) -> None:
        def embed(_: str) -> None:
            raise ValueError("no embedding today")

        learning, history = Learning(embed=embed), SessionHistory()
        history.record_search("send it", ["s__a"])
        for tool in ("s__a", "s__b"):
            learning.record_call(history, tool, succeeded=True)
        learning.flush()
        learning.close()
        assert learning.graph.neighbors("s__a") == ["s__b"]
        assert "no embedding today" in caplog.text

    def test_calls_are_dropped_rather_than_waited_for(self) -> None:
        started, release = threading.Event(), threading.Event()

        def embed(_: str) -> None:
            started.set()
            release.wait(30)

        learning, history = Learning(embed=embed), SessionHistory()
        history.record_search("x", ["s__a"])
        learning.record_call(history, "s__a", succeeded=True)
        assert started.wait(30)
        for _ in range(MAX_WAITING + 10):
            learning.record_call(SessionHistory(), "s__b", succeeded=True)
        release.set()
        learning.close()
        assert learning.dropped == 10
        assert learning.graph.stats().calls == MAX_WAITING + 1

    def test_everything_can_be_forgotten_while_it_learns(self, tmp_path: Path) -> None:
        learning, history = Learning(GraphStore(tmp_path, "key")), SessionHistory()
        for tool in ("s__a", "s__b"):
            learning.record_call(history, tool, succeeded=True)
        learning.flush()
        learning.usage.learn("s__a", "m", np.ones(2, dtype=np.float32))
        learning.clear()
        learning.close()
        graph, usage = stored(tmp_path)
        assert graph.stats() == ToolGraph().stats()
        assert usage.of("m") == {}

    def test_who_tells_of_news_does_not_wait_until_the_graph_is_read(self, tmp_path: Path) -> None:
        told = threading.Event()

        class Store(GraphStore):
            """Hears of news from another thread while it reads for the first time."""

            def subscribe(self, changed: Callable[[], None]) -> None:
                self._changed = changed

            def load(
                self, graph: LearnedCounts[GraphDelta], usage: LearnedCounts[UsageChange]
            ) -> bool:
                if not told.is_set():
                    teller = threading.Thread(target=self._changed)
                    teller.start()
                    teller.join(30)
                    assert not teller.is_alive()
                    told.set()
                return super().load(graph, usage)

        GraphStore(tmp_path, "key").add(graph_of("ab").drain_changes(), UsageChange())
        learning = Learning(Store(tmp_path, "key"))
        learning.open()
        assert told.is_set()
        learning.close()
        assert learning.graph.edge_count == 1

    def test_what_is_imported_is_learned_and_kept(self, tmp_path: Path) -> None:
        learning = Learning(GraphStore(tmp_path, "key"))
        learning.open()
        ids = ("s__a", "s__b", "s__c")
        learning.set_corpus(ids, ("s", "s", "s"))
        a, b = LoggedCall("s__a"), LoggedCall("s__b")
        failed = LoggedCall("s__b", ok=False)
        taken = learning.import_known(ImportedGraph(sequences=((a, b), (a, failed))))
        assert taken == {"calls": 4, "edges": 1, "total": 1}
        assert stored(tmp_path)[0].stats().failures == 1
        assert learning.graph.data.totals.foreseen == 0  # nothing was known before
        learning.import_known(ImportedGraph(sequences=((a, b),) * 3))
        assert learning.graph.data.totals.foreseen == 3


def test_vectors_of_another_length_replace_those_before() -> None:
    """graph:learning: a model that was exchanged may keep its name."""
    usage = Usage()
    for length in (2, 3, 3):
        usage.learn("s__a", "m", np.ones(length, dtype=np.float32))
    count, total = usage.of("m")["s__a"]
    assert (count, total.tolist()) == (2.0, [2.0, 2.0, 2.0])


def test_no_holder_crowds_out_what_others_teach() -> None:
    """graph:learning: tools of a limited token are bounded by themselves."""
    usage, vector = Usage(), np.ones(1, dtype=np.float32)
    greedy, other = (Grant(servers=("s",), holder=holder) for holder in ("greedy", "other"))
    for number in range(MAX_OWN_TOOLS + 5):
        usage.learn(f"s__{number}", "m", vector, greedy)
    usage.learn("s__0", "m", vector, greedy)
    usage.learn("s__x", "m", vector, other)
    usage.learn("s__y", "m", vector)
    assert len(usage.of("m", "greedy")) == MAX_OWN_TOOLS + 1
    assert usage.of("m", "greedy")["s__0"][0] == 2
    assert usage.of("m", "other").keys() == {"s__x", "s__y"}
    assert usage.of("m").keys() == {"s__y"}


KILLED = """
import sys
from pathlib import Path
from toolscript.graph.learning import Learning
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.session_history import SessionHistory

learning = Learning(GraphStore(Path(sys.argv[1]), "key"))
learning.open()
number = 0
while True:
    history = SessionHistory()
    for tool in ("a", "b", "c"):
        learning.record_call(history, f"s__{tool}{number % 50}", succeeded=True)
    number += 1
    if number % 200 == 0:
        learning.flush()
        print(number, flush=True)
"""


@pytest.mark.requirement("graph:learning")
def test_a_kill_while_recording_costs_at_most_what_was_not_kept_yet(tmp_path: Path) -> None:
    kept = 0
    for _ in range(3):
        command = [sys.executable, "-c", KILLED, str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(3)]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        kept += 3 * told[-1]
        graph, _ = stored(tmp_path)
        stats = graph.stats()
        assert stats.calls >= kept
        assert stats.edges == 150
        kept = stats.calls
        for number in range(50):
            assert graph.neighbors(f"s__a{number}", "out") == [f"s__b{number}", f"s__c{number}"]
        with sqlite3.connect(tmp_path / "graph-key.sqlite") as db:
            assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        db.close()


PACED = """
import sys, time
from pathlib import Path
from toolscript.graph.learning import Learning
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.session_history import SessionHistory

learning = Learning(GraphStore(Path(sys.argv[1]), "key"))
learning.open()
for number in range(10_000):
    learning.record_call(SessionHistory(), f"s__t{number}", succeeded=True)
    print(time.monotonic(), flush=True)
    time.sleep(0.01)
"""


@pytest.mark.requirement("graph:learning")
def test_a_kill_costs_at_most_the_last_second(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PACED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        noted = [float(process.stdout.readline())]
        while noted[-1] < noted[0] + 2.5:
            noted.append(float(process.stdout.readline()))
        os.kill(process.pid, signal.SIGKILL)
    before = sum(when <= noted[-1] - 1.0 for when in noted)
    calls = stored(tmp_path)[0].stats().calls
    assert before > 10
    assert calls >= before


class TestSessionHistory:
    def test_a_long_pause_begins_another_job(self) -> None:
        now = [1000.0]
        history = SessionHistory(clock=lambda: now[0])
        history.record_call("s__a", succeeded=True)
        now[0] += PAUSE_S - 1
        assert history.record_call("s__b", succeeded=True) == (("s__a",), "")
        now[0] += PAUSE_S + 1
        job = history.job
        assert history.record_call("s__c", succeeded=True) == ((), "")
        assert history.job is not job

    def test_two_tools_go_together_once_two_sessions_have_used_them(self) -> None:
        learning, one, other = Learning(), SessionHistory(), SessionHistory()
        for history, shown in ((one, False), (one, False), (other, True)):
            for tool in ("s__a", "s__b"):
                learning.record_call(history, tool, succeeded=True)
            assert learning.flush()
            assert bool(relations(learning.graph, "s__b").before) is shown
        learning.close()

    def test_a_session_that_follows_no_habit_gives_no_context(self) -> None:
        learning, letters = Learning(), [f"s__{letter}" for letter in "abcdefgh"]
        learning.set_corpus(letters, ["s"] * len(letters))
        for _ in range(20):
            learning.graph.learn(letters)
        habit, mixed = SessionHistory(), SessionHistory()
        for tool in letters[:3]:
            learning.record_call(habit, tool, succeeded=True)
        for tool in ("s__a", "s__f", "s__c"):
            learning.record_call(mixed, tool, succeeded=True)
        assert learning.flush()
        assert habit.telling_context == habit.context == ("s__a", "s__b", "s__c")
        assert mixed.telling_context == () != mixed.context
        learning.close()

    def test_only_the_latest_searches_may_have_led_to_a_call(self) -> None:
        history = SessionHistory()
        for number in range(5):
            history.record_search(f"question {number}", [f"s__{number}"])
        assert history.record_call("s__0", succeeded=True)[1] == ""
        assert history.record_call("s__4", succeeded=True)[1] == "question 4"
