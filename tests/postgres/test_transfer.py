"""Whatever is copied from files into the database and back is the same as before."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.contracts.test_activity_stores import CALL
from tests.contracts.test_graph_stores import described
from tests.graph.test_tool_graph import Clock
from tests.postgres_server import PostgresServer
from toolscript.config.access_tokens import TokenStore
from toolscript.config.secret_key import SecretKey
from toolscript.embedding.base import CachedVector
from toolscript.errors import ConfigError
from toolscript.gateway.catalogue import ServerEntry
from toolscript.graph.graph_data import server_of
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage
from toolscript.postgres.key_value_store import DatabaseRecords
from toolscript.postgres.shared_stores import SharedStores
from toolscript.postgres.transfer import Files, InDatabase, Side, is_empty, steps
from toolscript.storage.activity_log import MAX_ROWS, OUTCOMES, ActivityQuery, RecordedCall
from toolscript.types import Grant, ToolSpec

KEY = SecretKey("k" * 32)
ONE_NAME = ("tokens", "answers", "questions")
"""Stores with one value, which has the name of the store."""


@pytest.fixture
def shared(database_url: str) -> Generator[SharedStores]:
    shared = SharedStores(database_url, "default", KEY)
    shared.open()
    yield shared
    shared.close()


def tool(server: str, name: str, text: str) -> ToolSpec:
    return ToolSpec(server=server, name=name, description=text)


NAMES = st.text("abcXYZ-_.%", min_size=1, max_size=8).filter(lambda name: name[0] != ".")
SERVERS = st.text("abc-", min_size=1, max_size=4)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
VECTORS = st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=4).map(
    lambda numbers: np.array(numbers, np.float32)
)
CALLS = st.builds(
    RecordedCall,
    time=st.just(CALL.time),
    who=st.text("abc", max_size=3),
    tool=TEXTS,
    server=st.text("abc", max_size=3),
    outcome=st.sampled_from(OUTCOMES),
    ms=st.floats(0, 1e6),
    argument_bytes=st.none() | st.integers(0, 2**40),
    result_bytes=st.none() | st.integers(0, 2**40),
    search=st.none() | TEXTS,
    arguments=st.none() | TEXTS,
)
CONTENTS = st.fixed_dictionaries(
    {
        "single": st.fixed_dictionaries({}, optional=dict.fromkeys(ONE_NAME, st.binary())),
        "pins": st.dictionaries(NAMES, st.binary(), max_size=3),
        "logins": st.dictionaries(NAMES, st.binary(), max_size=3),
        "servers": st.dictionaries(
            SERVERS, st.dictionaries(st.text("abc", min_size=1), TEXTS, max_size=3), max_size=3
        ),
        "sequences": st.lists(st.text("abcde", min_size=1, max_size=5), max_size=4),
        "questions": st.dictionaries(st.sampled_from("abc"), VECTORS),
        "calls": st.lists(CALLS, max_size=5),
        "first": st.integers(1, 10**6),
        "vectors": st.dictionaries(st.integers(0, 8), VECTORS),
    }
)


def fill(files: Files, contents: dict[str, Any]) -> None:
    """Writes contents with what a gateway writes them with."""
    for name, content in contents["single"].items():
        files.records[name].write(name, content)
    for store in ("pins", "logins"):
        for name, content in contents[store].items():
            files.records[store].write(name, content)
    entries = [
        ServerEntry(
            name=server,
            digest="d" + server,
            state="ready",
            tools=tuple(tool(server, name, text) for name, text in tools.items()),
        )
        for server, tools in contents["servers"].items()
    ]
    files.replace_entries(entries)
    graph, usage = ToolGraph(clock=Clock()), Usage()
    for sequence in contents["sequences"]:
        graph.learn(f"s__{letter}" for letter in sequence)
    for letter, vector in contents["questions"].items():
        usage.learn(f"s__{letter}", "m", vector)
    assert files.graph.add(graph.drain_changes(), usage.drain_changes())
    first = contents["first"]
    files.activity.restore([replace(call, id=n) for n, call in enumerate(contents["calls"], first)])
    known = {each.id: each.digest for entry in entries for each in entry.tools}
    chosen = [identifier for n, identifier in enumerate(known) if n in contents["vectors"]]
    vectors = dict(zip(chosen, contents["vectors"].values(), strict=False))
    by_digest = {known[identifier]: vector for identifier, vector in vectors.items()}
    files.add_vectors(
        "m@1",
        {each: CachedVector(known[each], by_digest[known[each]]) for each in vectors},
    )


def everything(side: Side) -> dict[str, Any]:
    """What is in one of the places, to be compared."""
    entries = sorted(side.entries(), key=lambda entry: entry.name)
    tools = {each.id: each.digest for entry in entries for each in entry.tools}
    graph, usage = ToolGraph(clock=Clock()), Usage()
    assert side.graph.load(graph, usage)
    return {
        **{
            store: {name: records.read(name) for name in records.names()}
            for store, records in side.records.items()
        },
        "servers": entries,
        "graph": (described(graph), graph.data.totals, set(map(server_of, graph.data.nodes))),
        "usage": {each: (count, total.tobytes()) for each, (count, total) in usage.of("m").items()},
        "calls": side.activity.read(ActivityQuery(MAX_ROWS)).calls,
        "vectors": {
            (model, each, entry.digest, entry.vector.tobytes())
            for model, vectors in side.vectors(tools)
            for each, entry in vectors.items()
        },
    }


def copy(source: Side, target: Side) -> dict[str, int]:
    return {name: step() for name, step in steps(source, target).items()}


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=15,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a smaller example takes minutes
    deadline=None,
)
@given(contents=CONTENTS, others=CONTENTS)
def test_what_is_imported_and_exported_is_the_same(
    shared: SharedStores,
    tmp_path_factory: pytest.TempPathFactory,
    contents: dict[str, Any],
    others: dict[str, Any],
) -> None:
    folder = tmp_path_factory.mktemp("data")
    source, target = Files(folder / "a", "key", "hash"), Files(folder / "b", "key", "hash")
    shared.database.run(lambda c: c.execute("delete from toolscript.embedding"))
    fill(source, contents)
    fill(target, {**others, "vectors": {}})  # it is replaced
    before = everything(source)

    stored = InDatabase(shared)
    copy(source, stored)
    assert everything(stored) == before
    copy(stored, target)
    assert everything(target) == before
    assert is_empty(target) == is_empty(source) == is_empty(stored)

    copy(target, stored)
    assert everything(stored) == before


def test_a_token_counts_in_the_other_place(shared: SharedStores, tmp_path: Path) -> None:
    _, secret = TokenStore(tmp_path / "a", "key").create(Grant(), "mine")
    copy(Files(tmp_path / "a", "key", "hash"), InDatabase(shared))
    assert TokenStore(tmp_path, "key", shared.records("tokens")).find(secret)

    copy(InDatabase(shared), Files(tmp_path / "b", "key", "hash"))
    tokens = TokenStore(tmp_path / "b", "key")
    assert tokens.find(secret)
    tokens.path.unlink()
    assert tokens.protected, "the gateway stays closed where the file is lost"


def test_logins_are_sealed_in_the_database_only(
    shared: SharedStores, tmp_path: Path, postgres: PostgresServer
) -> None:
    del postgres
    files = Files(tmp_path, "key", "hash")
    files.records["logins"].write("a", b"the token")
    copy(files, InDatabase(shared))
    content = DatabaseRecords(shared.database, shared.feed, "default", "logins").read("a")
    assert content is not None
    assert b"the token" not in content
    target = tmp_path / "other"
    copy(InDatabase(shared), Files(target, "key", "hash"))
    assert (target / "auth" / "a.json").read_bytes() == b"the token"
    assert (target / "auth" / "a.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("store", ["tokens", "pins"])
def test_a_file_that_is_lost_is_not_imported_as_none(tmp_path: Path, store: str) -> None:
    files = Files(tmp_path, "key", "hash")
    files.check()
    files.records[store].write("tokens", b"x")
    files.check()
    for path in (tmp_path / store).rglob("*.json"):
        path.unlink()
    with pytest.raises(ConfigError, match="is gone"):
        files.check()


def test_vectors_of_every_set_of_servers_are_imported(shared: SharedStores, tmp_path: Path) -> None:
    vector = np.ones(3, np.float32)
    for number in ("1", "2"):
        files = Files(tmp_path, "key", number)
        files.add_vectors("m", {"s__a": CachedVector(number, vector)})
    stored = InDatabase(shared)
    assert copy(Files(tmp_path, "key", "hash"), stored)["vectors"] == 2
    [(model, vectors)] = stored.vectors({"t__1": "1", "t__2": "2"})
    assert model == "m"
    assert vectors.keys() == {"t__1", "t__2"}


def test_a_catalogue_with_a_value_of_any_kind_is_not_empty(
    shared: SharedStores, tmp_path: Path
) -> None:
    fillers: list[Callable[[Side], object]] = [
        lambda side: side.records["pins"].write("a", b""),
        lambda side: side.replace_entries([ServerEntry(name="a", digest="d", state="ready")]),
        lambda side: side.graph.add(
            (graph := ToolGraph(), graph.learn(["s__a"]))[0].drain_changes(),
            Usage().drain_changes(),
        ),
        lambda side: side.activity.append([CALL]),
    ]
    nothing = Files(tmp_path / "nothing", "key", "hash")
    assert is_empty(nothing)
    for side in (InDatabase(shared), Files(tmp_path / "a", "key", "hash")):
        for fill_it in fillers:
            assert is_empty(side)
            fill_it(side)
            assert not is_empty(side)
            copy(nothing, side)
