"""What was learned stays, whatever fails for a moment; only what is damaged counts as damaged."""

import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.graph.test_tool_graph import Clock, graph_of
from tests.support import Cli, create_token, fetch, until
from toolscript.graph.counts import GraphDelta
from toolscript.graph.graph_store import VERSION, GraphStore
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage, UsageChange

WAIT_S = 0.05
"""How long a store of a test waits for a lock."""


def store_in(directory: Path) -> GraphStore:
    return GraphStore(directory, "key", WAIT_S)


def read(directory: Path) -> tuple[ToolGraph, Usage]:
    graph, usage = ToolGraph(clock=Clock()), Usage()
    assert GraphStore(directory, "key").load(graph, usage)  # which waits for a writer
    return graph, usage


def calls(directory: Path) -> int:
    return read(directory)[0].stats().calls


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


HOLDS = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin exclusive")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Another process holds SQLite's lock."""
    command = [sys.executable, "-c", HOLDS, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.communicate()


@pytest.fixture
def store(tmp_path: Path) -> GraphStore:
    """A graph of 60 calls, on the disk."""
    store = store_in(tmp_path / "graph")
    assert store.add(graph_of(*["abc"] * 20).drain_changes(), UsageChange())
    return store


# H3: what fails for a moment


def test_h3_a_locked_graph_is_left_alone(store: GraphStore) -> None:
    before = contents(store.path.parent)
    with locked(store.path):
        for _ in range(2):
            assert not store.load(ToolGraph(), Usage())
        assert not store.add(graph_of("ab").drain_changes(), UsageChange())
    assert contents(store.path.parent) == before
    assert calls(store.path.parent) == 60


def test_h3_what_is_learned_while_the_graph_is_locked_is_written_when_the_lock_goes(
    store: GraphStore,
) -> None:
    learning = Learning(store)
    with locked(store.path):
        learning.open()
        for tool in ("s__x", "s__y"):
            learning.record_call(SessionHistory(), tool, succeeded=True)
        learning.flush()
        assert learning.graph.stats().calls == 2
    until(lambda: calls(store.path.parent) == 62, "it is written with no further call")
    assert learning.graph.stats().calls == 62  # what was there is known by now, too
    learning.close()
    assert calls(store.path.parent) == 62


FAILS = """
import resource, sys
from pathlib import Path
from toolscript.graph.counts import GraphDelta
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage, UsageChange
graph = ToolGraph()
graph.learn([f"s__{number}" for number in range(40)])
store = GraphStore(Path(sys.argv[1]), "key")
store.add(GraphDelta(), UsageChange())  # imports what it needs
what, limit = getattr(resource, sys.argv[2]), int(sys.argv[3])
resource.setrlimit(what, (limit, limit))
print(store.load(graph, Usage()), store.add(graph.drain_changes(), UsageChange()))
"""


@pytest.mark.parametrize(
    ("limit", "value", "done"),
    [("RLIMIT_FSIZE", 5000, "True False"), ("RLIMIT_NOFILE", 3, "False False")],
)
def test_h3_a_full_disk_and_a_lack_of_descriptors_leave_the_graph_alone(
    store: GraphStore, limit: str, value: int, done: str
) -> None:
    directory = store.path.parent
    command = [sys.executable, "-c", FAILS, str(directory), limit, str(value)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == done, ran.stderr
    assert "damaged" not in ran.stderr
    assert calls(directory) == 60
    assert not [*directory.glob("*damaged*")]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no `ulimit`")
def test_h3_on_a_full_disk_a_token_is_not_revoked_by_halves(cli: Cli) -> None:
    """The command says so, and what was stored stays."""
    cli.configure()
    made, url = create_token(cli), cli.start_gateway()
    headers = {"Authorization": f"Bearer {made['token']}"}
    command = Cli.command("token", "revoke", made["id"])
    full = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command],  # noqa: S607 - the system's
        env=cli.environment(),
        cwd=cli.home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert full.returncode == 1, full.stdout
    assert "File too large" in full.stderr
    assert fetch(url, "/tools", headers=headers)[0] == 200

    assert cli("token", "revoke", made["id"]).returncode == 0
    until(lambda: fetch(url, "/tools", headers=headers)[0] == 401, "it has ended")


def test_h3_a_graph_of_a_later_version_is_left_to_that(store: GraphStore) -> None:
    with sqlite3.connect(store.path) as db:
        db.execute(f"pragma user_version = {VERSION + 1}")
    db.close()
    before = store.path.read_bytes()
    assert not store.load(ToolGraph(), Usage())
    assert not store.add(graph_of("ab").drain_changes(), UsageChange())
    assert store.path.read_bytes() == before
    assert not [*store.path.parent.glob("*damaged*")]


def test_h3_copies_put_aside_are_numbered_and_never_overwritten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_in(tmp_path)
    for number in range(1, 4):
        assert store.add(graph_of("ab").drain_changes(), UsageChange())
        store.path.write_bytes(b"damage %d" % number * 100)
        store.load(ToolGraph(), Usage())
        assert store.add(graph_of("ab").drain_changes(), UsageChange())
        assert str(tmp_path / f"graph-key.sqlite.damaged-{number}") in caplog.text
    for number in range(1, 4):
        aside = tmp_path / f"graph-key.sqlite.damaged-{number}"
        assert aside.read_bytes() == b"damage %d" % number * 100


def test_h3_a_file_damaged_under_a_running_gateway_is_made_again_from_what_it_knows(
    store: GraphStore,
) -> None:
    learning = Learning(store)
    learning.open()
    store.path.write_bytes(b"damage" * 1000)
    learning.record_call(SessionHistory(), "s__x", succeeded=True)
    learning.close()
    assert calls(store.path.parent) == 61


def test_h3_a_second_process_that_saw_the_damage_leaves_the_new_file(store: GraphStore) -> None:
    other = store_in(store.path.parent)
    store.path.write_bytes(b"damage" * 1000)
    for each in (store, other):
        assert each.load(ToolGraph(), Usage())
    for each in (store, other):
        assert each.add(graph_of("ab").drain_changes(), UsageChange())
    assert calls(store.path.parent) == 4
    assert len([*store.path.parent.glob("*.damaged-*")]) == 1


def test_h3_a_search_changes_nothing_of_what_was_learned(
    cli: Cli, scripted: Callable[..., object]
) -> None:
    """Not even where it is damaged: that is put aside by the next process that learns."""
    cli.configure(good=scripted({"name": "echo", "inputSchema": {"type": "object"}}))
    assert cli("call", "good__echo").returncode == 0
    [graph] = cli.home.rglob("graph-*.sqlite")
    for damage in (b"", b"damage" * 1000):
        if damage:
            graph.write_bytes(damage)
        before = contents(graph.parent), graph.stat().st_mtime_ns
        done = cli("search", "echo")
        assert done.returncode == 0, done.stderr
        assert ("damaged" in done.stderr) is bool(damage)
        assert (contents(graph.parent), graph.stat().st_mtime_ns) == before
    assert cli("call", "good__echo").returncode == 0
    assert [*graph.parent.glob("*.damaged-1")]


KILLED = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma cache_size = 1")
db.execute("begin immediate")
db.executemany(
    "insert into usage values (?, 'm', 1, ?, 0)", [(str(n), bytes(4000)) for n in range(200)]
)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_h3_what_a_killed_writer_left_half_done_is_taken_back_by_a_reader(
    store: GraphStore,
) -> None:
    ran = subprocess.run([sys.executable, "-c", KILLED, store.path], check=False)
    assert ran.returncode == -signal.SIGKILL
    assert store.path.with_name(f"{store.path.name}-journal").stat().st_size
    assert calls(store.path.parent) == 60


# Damage is said: L9


def test_l9_every_flipped_bit_is_harmless_or_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, graph, usage = store_in(tmp_path), graph_of("abcdef", "fab", "cad"), Usage()
    usage.learn("s__a", "m", np.arange(8, dtype=np.float32))
    assert store.add(graph.drain_changes(), usage.drain_changes())
    whole, known = store.path.read_bytes(), known_in(tmp_path)
    said = 0
    chosen = random.Random(9)  # noqa: S311 - which bits, nothing more
    for _ in range(400):
        at, bit = chosen.randrange(len(whole)), chosen.randrange(8)
        store.path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        caplog.clear()
        found = known_in(tmp_path)
        assert found == known or caplog.text, (at, bit)
        said += bool(caplog.text)
    assert said > 20


def known_in(directory: Path) -> tuple[object, ...]:
    """All that is known of a graph on the disk."""
    graph, usage = ToolGraph(clock=Clock()), Usage()
    store_in(directory).load(graph, usage)
    questions = {tool: (n, total.tobytes()) for tool, (n, total) in usage.of("m").items()}
    edges = sorted(map(repr, graph.strongest(999)))
    return graph.stats(), edges, repr(graph.data.totals), questions


@pytest.mark.parametrize("table", ["tool", "usage"])
def test_l9_a_damaged_row_is_not_added_to(store: GraphStore, table: str) -> None:
    """A change would give it a checksum that fits what it became."""
    usage = UsageChange()
    usage.add("s__a", "m", np.arange(4, dtype=np.float32))
    assert store.add(GraphDelta(), usage)
    with sqlite3.connect(store.path) as db:
        db.execute(f"update {table} set {'weight' if table == 'tool' else 'count'} = 99")  # noqa: S608 - above
    db.close()
    assert store.add(graph_of("ab").drain_changes(), usage)
    assert [*store.path.parent.glob("*.damaged-1")]
    assert calls(store.path.parent) == 2


def test_l9_an_emptied_graph_is_damaged(
    store: GraphStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.path.write_bytes(b"")
    assert store.load(ToolGraph(), Usage())
    assert "is damaged (it is empty)" in caplog.text
    assert store.add(graph_of("ab").drain_changes(), UsageChange())
    assert calls(store.path.parent) == 2
