"""Candidates from a real PostgreSQL give the hits and scores that all tools in memory give."""

import asyncio
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from tests.corpus import ROWS
from tests.many_tools import QUESTIONS, Made, alike, asked, grants, made_tools
from tests.postgres_server import PostgresServer
from tests.support import until
from toolscript.embedding.base import CachedVector, Encoder, Vectors
from toolscript.embedding.loader import LazyModel
from toolscript.errors import InputError
from toolscript.graph.learning import Learning
from toolscript.postgres.candidate_builder import rebuild
from toolscript.postgres.candidate_rows import STORE
from toolscript.postgres.candidate_writer import ServerTools
from toolscript.postgres.candidates import DatabaseCandidates
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection
from toolscript.postgres.index_records import IndexRow
from toolscript.postgres.resident_index import IndexMemory
from toolscript.retrieval.capability import CapabilityReader, shell_capabilities
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, Hit, SearchRequest

TOLERANCE = 2e-4
"""Vectors in the database have half the digits."""
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
DRIFT = 2e-3
"""What all tools have in common is that of the last rebuild until the next one."""


@pytest.fixture(scope="module")
def made(encoder: Encoder) -> Made:
    return made_tools(encoder)


class Pair:
    """The same tools in memory and in the database, each with an engine."""

    def __init__(self, database: Database, model: LazyModel, made: Made) -> None:
        encoder = model.get().encoder
        assert encoder is not None
        self.made = Made(dict(made.documents), dict(made.vectors))
        self._name = encoder.name
        self.database = database
        self.feed = ChangeFeed(database, "default")
        self.semantic = SemanticSignal(model, lambda: None)
        profile = search_profile(0.5, 10, 0.0)
        self.memory = SearchEngine(profile, semantic=self.semantic)
        rebuild(database, "default", self._name, self.made.batches, feed=self.feed)
        semantic = SemanticSignal(model, lambda: None)
        self.candidates = DatabaseCandidates(database, self.feed, "default", semantic=semantic)
        self.candidates.open()
        self.feed.start()
        self.engine = SearchEngine(profile, semantic=semantic, elsewhere=self.candidates)
        self.update()

    def update(self) -> None:
        """Have the engine in memory search what is there by now."""
        documents = self.made.documents
        vectors = {
            key: CachedVector(documents[key].digest, vector)
            for key, vector in self.made.vectors.items()
            if key in documents
        }
        self.semantic.take(self._name, vectors)
        self.memory.update(documents.values())

    def write(self, server: str) -> None:
        """Write what a server's tools are by now."""
        asyncio.run(self.candidates.replace_server(ServerTools(server, *self.made.of(server))))

    def find(self, request: SearchRequest) -> tuple[Hit, ...]:
        async def search() -> tuple[Hit, ...]:
            plan = self.engine.plan(request)
            return self.engine.score(plan, await self.engine.candidates.find(plan)).hits

        return asyncio.run(search())

    def equal(self, requests: Sequence[SearchRequest], tolerance: float = TOLERANCE) -> float:
        """The share of questions with the same hits, in their order and to the score."""
        same = [
            alike(self.find(each), self.memory.search(each).hits, tolerance) for each in requests
        ]
        return sum(same) / len(same)


@pytest.fixture
def pair(connect: Callable[[], Database], model: LazyModel, made: Made) -> Pair:
    return Pair(connect(), model, made)


def test_the_first_hits_are_those_of_all_tools(pair: Pair) -> None:
    assert pair.candidates.size == len(pair.made.documents)
    assert pair.equal([*asked(), *grants()]) >= 0.98


def test_abbreviations_are_read_as_they_are_in_memory(pair: Pair) -> None:
    texts = ("what time is it in my tz", "list the files of a DIR, then show their perms")
    requests = [SearchRequest(text=text) for text in texts]
    for each in requests:
        queries = pair.engine.plan(each).queries
        assert queries[0].readings
        assert queries == pair.memory.plan(each).queries
    assert pair.equal(requests) == 1


def test_the_tools_of_a_named_server_are_those_of_all_tools(pair: Pair) -> None:
    request = SearchRequest(text="在 fetch 里创建一个新问题", limit=3)
    hits = pair.find(request)
    assert [hit.reason for hit in hits] == ["Name of its server"] * 3
    assert {hit.document.server.split("-")[0] for hit in hits} == {"fetch"}
    assert pair.equal([request]) == 1


def test_a_rebuild_that_another_has_overtaken_leaves_the_index_of_that(
    connect: Callable[[], Database], encoder: Encoder, made: Made
) -> None:
    database, other = connect(), connect()
    others, readings = list[int](), itertools.count()

    def batches() -> Iterator[tuple[Sequence[Document], Vectors]]:
        is_first = not next(readings)  # which only finds what all tools have in common
        for batch in made.batches():
            yield batch
            if not (is_first or others):
                others.append(rebuild(other, "default", encoder.name, made.batches))

    with pytest.raises(InputError, match="another rebuild has ended"):
        rebuild(database, "default", encoder.name, batches)
    candidates = DatabaseCandidates(database, ChangeFeed(database, "default"), "default")
    candidates.open()
    assert candidates.size == others[0] == len(made.documents)


def test_a_search_by_words_and_one_of_some_servers_find_the_same(pair: Pair) -> None:
    words = [replace(each, words_only=True, threshold=0.01) for each in asked()]
    some = [replace(each, servers=("git-1", "time-2", "shell-3")) for each in asked()]
    assert pair.equal([*words, *some]) >= 0.98


def test_what_changes_is_found_and_what_is_removed_is_not(pair: Pair) -> None:
    chance = random.Random(5)  # noqa: S311 - no secret
    documents, vectors = pair.made.documents, pair.made.vectors
    for each in (*asked(), *grants()):  # what is read now must not stand for what is there later
        pair.find(each)
    for number in range(15):
        server = f"{chance.choice(sorted(ROWS))}-{chance.randrange(60)}"
        tools, known = pair.made.of(server)
        if not tools:
            continue
        if number % 4 == 0:  # the server is gone
            for tool in tools:
                del documents[tool.id]
        elif number % 4 == 1:  # it has a tool with words that no tool had
            new = replace(
                tools[0],
                id=f"{server}__plot_quarks{number}",
                name=f"plot_quarks{number}",
                description=f"Plots zygomorphic{number} quarks as a diagram.",
                digest=f"new-{number}",
            )
            documents[new.id], vectors[new.id] = new, known[tools[0].id]
        else:  # its first tool says something else
            text = f"Waters the {chance.choice(QUESTIONS)} at dawn."
            documents[tools[0].id] = replace(tools[0], description=text, digest=f"other-{number}")
            other = chance.choice(sorted(documents))
            vectors[tools[0].id] = vectors[other]
        pair.write(server)
    pair.update()
    assert pair.candidates.size == len(documents)
    changed = [
        SearchRequest(text=text)
        for text in ("plot quarks", "plot_quarks5", "zygomorphic9 quarks", "water it at dawn")
    ]
    assert pair.equal([*asked(), *grants()[::3], *changed], DRIFT) >= 0.98
    hits = pair.find(SearchRequest(text="plot_quarks5"))
    assert hits[0].document.name == "plot_quarks5"


def test_what_tools_are_for_is_known_of_all_tools_and_of_changed_ones(pair: Pair) -> None:
    """And one that an earlier version wrote may be for anything."""
    reader = CapabilityReader(Stemmer())

    async def loaded(connection: Connection) -> IndexMemory:
        row = await IndexRow.current(connection, "default")
        memory = IndexMemory(row, Stemmer())
        await memory.load(connection, row)
        return memory

    def known(memory: IndexMemory, identifier: str) -> set[str]:
        numbers = np.array(list(memory.names.by_id(identifier, memory.snapshot.alive)), np.intp)
        has = memory.snapshot.has_capability
        return {name for name in shell_capabilities() if has(numbers, name).any()}

    def wanted(document: Document) -> set[str]:
        return set(reader.purpose(document).capabilities) & set(shell_capabilities())

    memory, later = pair.database.run(loaded), pair.database.run(loaded)
    some = list(pair.made.documents.values())[::40]
    assert [known(memory, each.id) for each in some] == [wanted(each) for each in some]
    assert any(map(wanted, some))
    tools, _ = pair.made.of("git-1")
    changed = replace(tools[0], description="Unpacks a zip archive.", digest="changed")
    pair.made.documents[changed.id] = changed
    pair.write("git-1")
    pair.database.run(memory.advance)
    assert known(memory, changed.id) == wanted(changed) != wanted(tools[0])

    async def written_by_an_earlier_version(connection: Connection) -> None:
        content = await connection.fetchval("select content from toolscript.candidate_change")
        change = msgspec.msgpack.decode(content)
        change[3] = [record[:7] for record in change[3]]
        earlier = msgspec.msgpack.encode(change)
        await connection.execute("update toolscript.candidate_change set content = $1", earlier)

    pair.database.run(written_by_an_earlier_version)
    pair.database.run(later.advance)
    assert known(later, changed.id) == set(shell_capabilities())


def test_searches_go_on_while_tools_are_added(pair: Pair) -> None:
    """Of one size are what may be seen and what is searched, whatever comes in between."""
    requests = [*asked(), *grants()]
    tools, known = pair.made.of("time-4")
    ended = asyncio.Event()

    async def search(first: int) -> None:
        number = first
        while not ended.is_set():
            request = requests[number % len(requests)]
            plan = pair.engine.plan(request)
            state = await pair.engine.candidates.find(plan)
            assert state.corpus.documents or request.text == "qzxv wqkj pmlkz"
            pair.engine.score(plan, state)
            number += 7

    async def change() -> None:
        for number in range(15):
            new = replace(tools[0], id=f"time-4__wind{number}", name=f"wind{number}")
            added = ServerTools("time-4", [*tools, new], known | {new.id: known[tools[0].id]})
            await pair.candidates.replace_server(added)
        ended.set()

    async def everything() -> None:
        async with asyncio.TaskGroup() as tasks:
            for work in (change(), *map(search, range(2))):
                tasks.create_task(work)

    asyncio.run(everything())
    hits = pair.find(SearchRequest(text="wind14", threshold=0.0))
    assert hits[0].document.name == "wind14"


def test_a_fold_changes_no_answer(pair: Pair, model: LazyModel) -> None:
    for copy in range(5, 25):
        server = f"git-{copy}"
        tools, _ = pair.made.of(server)
        moved = replace(tools[0], description="Moves zebras between savannas.", digest=f"m{copy}")
        pair.made.documents[moved.id] = moved
        pair.write(server)
    pair.update()
    requests = [*asked(), SearchRequest(text="move the zebras"), *grants()[::5]]
    before = [pair.find(request) for request in requests]
    assert asyncio.run(pair.candidates.fold()) == 20
    assert [pair.find(request) for request in requests] == before
    # A gateway that starts after that reads what was folded.
    second = DatabaseCandidates(
        pair.database, pair.feed, "default", semantic=SemanticSignal(model, lambda: None)
    )
    second.open()
    pair.engine = SearchEngine(
        pair.engine.profile, semantic=SemanticSignal(model, lambda: None), elsewhere=second
    )
    assert [_scores(pair.find(request)) for request in requests] == [_scores(h) for h in before]
    pair.made.documents.pop("git-6__" + pair.made.of("git-6")[0][0].name)
    pair.write("git-6")
    pair.update()
    until(lambda: second.position == pair.candidates.position, "the change is taken")
    assert pair.equal(requests, DRIFT) >= 0.98


def test_a_gateway_that_starts_before_a_fold_knows_new_servers_once(
    pair: Pair, connect: Callable[[], Database]
) -> None:
    known = pair.made.of("git-1")[0]
    for server in ("alpha", "beta"):
        tools = [replace(known[0], id=f"{server}__{known[0].name}", server=server)]
        asyncio.run(pair.candidates.replace_server(ServerTools(server, tools, {})))
    database = connect()
    other = DatabaseCandidates(database, ChangeFeed(database, "default"), "default")
    other.open()
    tools = [replace(known[1], id=f"beta__{known[1].name}", server="beta")]
    asyncio.run(other.replace_server(ServerTools("beta", tools, {})))
    engine = SearchEngine(pair.engine.profile, elsewhere=other)

    async def found() -> list[str]:
        plan = engine.plan(SearchRequest(text=known[1].name, servers=("beta",), threshold=0.0))
        return [hit.document.id for hit in engine.score(plan, await other.find(plan)).hits]

    assert asyncio.run(found()) == [tools[0].id]
    third = replace(known[0], id=f"gamma__{known[0].name}", server="gamma")
    asyncio.run(other.replace_server(ServerTools("gamma", [third], {})))
    until(lambda: pair.candidates.position == other.position, "the first gateway follows")
    assert pair.candidates.size == other.size


def test_a_gateway_forgets_what_a_standby_has_never_had(
    pair: Pair, connect: Callable[[], Database]
) -> None:
    """The numbers of the tool and of the change are given to another server's."""
    known = pair.made.of("git-1")[0][0]

    def tools_of(server: str, text: str) -> ServerTools:
        tool = replace(known, id=f"{server}__wind", server=server, name="wind", description=text)
        return ServerTools(server, [tool], {})

    def found(text: str) -> list[str]:
        hits = pair.find(SearchRequest(text=text, words_only=True, threshold=0.0))
        return [hit.document.server for hit in hits[:1]]

    asyncio.run(pair.candidates.replace_server(tools_of("alpha", "zanzibar quokka")))
    assert found("zanzibar quokka") == ["alpha"]
    _lose_alpha(pair.database)
    database = connect()
    other = DatabaseCandidates(database, ChangeFeed(database, "default"), "default")
    other.open()
    asyncio.run(other.replace_server(tools_of("beta", "flugelhorn wombat")))
    assert other.position == pair.candidates.position
    until(lambda: found("flugelhorn wombat") == ["beta"], "the index is loaded again")
    assert found("zanzibar quokka") != ["alpha"]
    asyncio.run(pair.candidates.replace_server(tools_of("gamma", "piccolo numbat")))
    assert found("piccolo numbat") == ["gamma"]


def test_a_gateway_writes_again_what_a_standby_has_never_had(
    pair: Pair, postgres: PostgresServer
) -> None:
    known = pair.made.of("git-1")[0][0]
    tool = replace(known, id="alpha__wind", server="alpha", name="wind")
    own = DatabaseCandidates(pair.database, pair.feed, "default")
    own.open()

    def written() -> bool:
        count = "select count(*) from toolscript.candidate_tool where id = 'alpha__wind'"
        try:
            return pair.database.run(lambda c: c.fetchval(count)) == 1
        except OSError:
            return False

    deque(own.update([*pair.made.documents.values(), tool], lambda: False), 0)
    assert written()
    _lose_alpha(pair.database)
    assert not written()
    postgres.stop()
    postgres.start()
    until(written, "it is written again")


def _lose_alpha(database: Database) -> None:
    """Leaves the database as a standby has it that lacks the only change."""
    for statement in _LOST:
        database.run(partial(_executed, statement))


_LOST = (
    "delete from toolscript.candidate_tool where id = 'alpha__wind'",
    "delete from toolscript.candidate_server where name = 'alpha'",
    "delete from toolscript.candidate_change",
    "update toolscript.candidate_index set position = 0, next_number = next_number - 1",
)


async def _executed(statement: str, connection: Connection) -> None:
    await connection.execute(statement)


def _scores(hits: tuple[Hit, ...]) -> list[tuple[str, float]]:
    return [(hit.document.id, hit.score) for hit in hits]


@pytest.mark.parametrize("changed", ["text", "vector"])
def test_another_gateway_sees_a_change_through_the_feed(
    changed: str, pair: Pair, connect: Callable[[], Database], database_url: str, model: LazyModel
) -> None:
    database = connect()
    feed = ChangeFeed(database, "default", database_url)
    semantic = SemanticSignal(model, lambda: None) if changed == "vector" else None
    other = DatabaseCandidates(database, feed, "default", semantic=semantic)
    other.open()
    feed.start()
    engine = SearchEngine(pair.engine.profile, semantic=semantic, elsewhere=other)
    tool = max(pair.made.of("time-2")[0], key=lambda each: each.id)

    async def search(text: str, *servers: str) -> list[str]:
        plan = engine.plan(SearchRequest(text=text, servers=servers, threshold=0.0))
        return [hit.document.id for hit in engine.score(plan, await other.find(plan)).hits]

    assert tool.id in asyncio.run(search("convert time", "time-2")), "its row is read"
    if changed == "text":
        pair.made.documents[tool.id] = replace(
            tool, description="Winds the clepsydra.", digest="wound"
        )
    else:
        encoder = model.get().encoder
        assert encoder is not None
        pair.made.vectors[tool.id] = encoder.query("wind the clepsydra")
    pair.write("time-2")

    until(lambda: other.position == pair.candidates.position, "the change is taken")
    assert asyncio.run(search("wind the clepsydra"))[0] == tool.id


def test_while_an_index_is_loaded_the_feed_goes_on(
    pair: Pair, connect: Callable[[], Database], model: LazyModel
) -> None:
    """For a million tools that takes half a minute: too long for a revoked token to count."""
    encoder = model.get().encoder
    assert encoder is not None
    database = connect()
    feed = ChangeFeed(database, "default")
    other = DatabaseCandidates(database, feed, "default")
    told = threading.Event()

    async def note(_: object) -> None:
        told.set()

    feed.subscribe("test", note)
    other.open()
    feed.start()
    new = replace(next(iter(pair.made.documents.values())), id="new__wind", name="wind")
    pair.made.documents[new.id] = replace(new, server="new")
    pair.made.vectors[new.id] = encoder.query("wind")
    rebuild(pair.database, "default", encoder.name, pair.made.batches)
    with connect().transaction() as run:
        run(lambda c: c.execute("lock toolscript.candidate_tool in access exclusive mode"))
        pair.database.run(lambda c: pair.feed.add(c, STORE, "rebuilt"))
        until(lambda: pair.database.run(lambda c: c.fetchval(WAITING)) > 0, "it is being loaded")
        pair.database.run(lambda c: pair.feed.add(c, "test", "a"))
        assert told.wait(10), "another change is told"
        assert other.size == len(pair.made.documents) - 1, "the index waits"
    until(lambda: other.size == len(pair.made.documents), "it is loaded")


def test_what_is_written_while_an_index_is_loaded_fits_it(
    pair: Pair,
    connect: Callable[[], Database],
    encoder: Encoder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The memory that a write has begun with is not exchanged for an older one."""
    database = connect()
    feed = ChangeFeed(database, "default")
    other = DatabaseCandidates(database, feed, "default")
    other.open()
    feed.start()
    loop = database.run(_running_loop)
    loaded, go_on = threading.Event(), threading.Event()
    load, advance = IndexMemory.load, IndexMemory.advance

    async def held_load(self: IndexMemory, connection: Connection, row: IndexRow) -> None:
        await load(self, connection, row)
        if asyncio.get_running_loop() is loop and not loaded.is_set():
            loaded.set()
            await asyncio.to_thread(go_on.wait, 30)

    async def late_advance(self: IndexMemory, connection: Connection) -> None:
        if asyncio.get_running_loop() is loop and loaded.is_set():
            go_on.set()
            for _ in range(100):  # the other load ends
                await asyncio.sleep(0.01)
        await advance(self, connection)

    monkeypatch.setattr(IndexMemory, "load", held_load)
    rebuild(pair.database, "default", encoder.name, pair.made.batches, feed=pair.feed)
    assert loaded.wait(30), "everything is read"
    for server, word in (("git-1", "zanzibar quokka"), ("git-2", "flugelhorn wombat")):
        tools, _ = pair.made.of(server)
        pair.made.documents[tools[0].id] = replace(tools[0], description=word, digest=word)
    pair.write("git-1")
    monkeypatch.setattr(IndexMemory, "advance", late_advance)
    asyncio.run(other.replace_server(ServerTools("git-2", *pair.made.of("git-2"))))
    monkeypatch.undo()
    fresh = DatabaseCandidates(connect(), pair.feed, "default")
    fresh.open()
    for candidates in (pair.candidates, other, fresh):
        engine = SearchEngine(pair.engine.profile, elsewhere=candidates)
        for word, server in (("quokka", "git-1"), ("wombat", "git-2")):
            until(lambda each=(engine, word, server): _is_first(*each), f"{word} is found first")


async def _running_loop(_: Connection) -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _is_first(engine: SearchEngine, text: str, server: str) -> bool:
    async def found() -> tuple[Hit, ...]:
        plan = engine.plan(SearchRequest(text=text, words_only=True))
        return engine.score(plan, await engine.candidates.find(plan)).hits

    return [hit.document.server for hit in asyncio.run(found())][:1] == [server]


def test_what_was_learned_from_use_counts(pair: Pair, model: LazyModel) -> None:
    learning = Learning()
    encoder = model.get().encoder
    assert encoder is not None
    used = {
        "water the plants of the office": "time-3__convert_time",
        "commit what I have done so far": "git-8__git_add",
        "read a file": "filesystem-4__read_file",
    }
    for question, tool in used.items():
        found = next(each for each in sorted(pair.made.documents) if each.startswith(tool))
        for _ in range(5):
            learning.usage.learn(found, encoder.name, encoder.query(question))
    stored = SemanticSignal(model, lambda: None, usage=learning.usage)
    memory = SemanticSignal(model, lambda: None, usage=learning.usage)
    candidates = DatabaseCandidates(
        pair.database, pair.feed, "default", semantic=stored, learning=learning
    )
    candidates.open()
    profile = pair.engine.profile
    pair.engine = SearchEngine(profile, semantic=stored, learning=learning, elsewhere=candidates)
    pair.memory, pair.semantic = SearchEngine(profile, semantic=memory, learning=learning), memory
    pair.update()
    requests = [*asked(), *(SearchRequest(text=text) for text in used)]
    assert pair.equal(requests) >= 0.98
    [first, *_] = pair.find(SearchRequest(text="water the plants of the office"))
    assert first.document.id.startswith("time-3__convert_time")


def test_before_anything_is_built_nothing_is_found(connect: Callable[[], Database]) -> None:
    database = connect()
    candidates = DatabaseCandidates(database, ChangeFeed(database, "default"), "default")
    candidates.open()
    engine = SearchEngine(search_profile(0.5, 10, 0.0), elsewhere=candidates)

    async def found() -> tuple[Hit, ...]:
        plan = engine.plan(SearchRequest(text="read a file"))
        return engine.score(plan, await candidates.find(plan)).hits

    assert asyncio.run(found()) == ()
    assert engine.indexed == 0
