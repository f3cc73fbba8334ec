"""A large catalogue in PostgreSQL gives the hits and scores that all tools in memory give."""

import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from tests.corpus import ROWS
from tests.many_tools import QUESTIONS, Made, alike, asked, grants, made_tools
from tests.postgres_server import PostgresServer, postgres_server
from tests.support import until
from toolscript.embedding.base import CachedVector, Encoder
from toolscript.embedding.loader import LazyModel
from toolscript.errors import ConfigError, InputError
from toolscript.graph.learning import Learning
from toolscript.postgres import schema
from toolscript.postgres.catalogue_build import rebuild
from toolscript.postgres.catalogue_index import IndexRow
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection
from toolscript.postgres.large_catalogue import LargeCatalogue
from toolscript.retrieval.catalogue_analysis import Batch, CatalogueAnalyzer
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.stored_search import StoredSearch
from toolscript.types import Grant, SearchRequest

TOLERANCE = 2e-4
"""Vectors in the database have half the digits."""
DRIFT = 2e-3
"""What all tools have in common is that of the last rebuild until the next one."""
PROFILE = search_profile(0.5, 10, 0.0)


@pytest.fixture(scope="module")
def made(encoder: Encoder) -> Made:
    return made_tools(encoder)


def built(
    database: Database,
    model: str,
    batches: Callable[[], Iterator[Batch]],
    feed: ChangeFeed | None = None,
) -> int:
    """Builds the index of tools with their vectors."""
    analyzer = CatalogueAnalyzer()
    statistics = analyzer.statistics(batches(), model)
    analyzed = (analyzer.analyze(*batch, statistics) for batch in batches())
    return rebuild(database, "default", statistics, analyzed, feed)


class Pair:
    """The same tools in memory and in the database, each with an engine."""

    def __init__(self, database: Database, model: LazyModel, made: Made) -> None:
        encoder = model.get().encoder
        assert encoder is not None
        self.made = Made(dict(made.documents), dict(made.vectors))
        self.name = encoder.name
        self.database = database
        self.feed = ChangeFeed(database, "default")
        self.semantic = SemanticSignal(model, lambda: None)
        self.memory = SearchEngine(PROFILE, semantic=self.semantic)
        built(database, self.name, self.made.batches, self.feed)
        self.catalogue = opened(database, self.feed)
        self.feed.start()
        self.engine = engine_of(self.catalogue, SemanticSignal(model, lambda: None))
        self.update()

    def update(self) -> None:
        """Have the engine in memory search what is there by now."""
        documents = self.made.documents
        vectors = {
            key: CachedVector(documents[key].digest, vector)
            for key, vector in self.made.vectors.items()
            if key in documents
        }
        self.semantic.take(self.name, vectors)
        self.memory.update(documents.values())

    def write(self, server: str) -> None:
        """Write which tools a server has by now."""
        tools, vectors = self.made.of(server)
        rows = [vectors[tool.id] for tool in tools]
        statistics, _ = self.catalogue.counts(())
        analyzed = CatalogueAnalyzer().analyze(tools, np.array(rows), statistics) if tools else []
        assert self.catalogue.replace_server(server, analyzed)

    def equal(self, requests: Sequence[SearchRequest], tolerance: float = TOLERANCE) -> float:
        """The share of questions with the same hits, in their order and to the score."""
        pairs = ((self.engine.search(each), self.memory.search(each)) for each in requests)
        same = [alike(found.hits, expected.hits, tolerance) for found, expected in pairs]
        return sum(same) / len(same)


def opened(database: Database, feed: ChangeFeed | None = None) -> LargeCatalogue:
    catalogue = LargeCatalogue(database, feed or ChangeFeed(database, "default"), "default")
    catalogue.open()
    return catalogue


def engine_of(
    catalogue: LargeCatalogue,
    semantic: SemanticSignal | None = None,
    learning: Learning | None = None,
) -> SearchEngine:
    stored = StoredSearch(catalogue, semantic, learning)
    return SearchEngine(PROFILE, semantic=semantic, learning=learning, elsewhere=stored)


def first(engine: SearchEngine, text: str) -> str:
    hits = engine.search(SearchRequest(text=text, words_only=True)).hits
    return hits[0].document.id if hits else ""


@pytest.fixture
def pair(connect: Callable[[], Database], model: LazyModel, made: Made) -> Pair:
    return Pair(connect(), model, made)


def test_the_first_hits_are_those_of_all_tools(pair: Pair) -> None:
    assert pair.engine.indexed == len(pair.made.documents)
    assert pair.equal([*asked(), *grants()]) >= 0.98


def test_abbreviations_are_read_as_they_are_in_memory(pair: Pair) -> None:
    texts = ("what time is it in my tz", "list the files of a DIR, then show their perms")
    assert pair.equal([SearchRequest(text=text, explain=True) for text in texts]) == 1
    for text in texts:
        [hit, *_] = pair.engine.search(SearchRequest(text=text, explain=True)).hits
        assert hit.explanation is not None
        assert "reading" in {step.name for step in hit.explanation.steps}


def test_the_tools_of_a_named_server_are_those_of_all_tools(pair: Pair) -> None:
    request = SearchRequest(text="在 fetch 里创建一个新问题", limit=3)
    hits = pair.engine.search(request).hits
    assert [hit.reason for hit in hits] == ["Name of its server"] * 3
    assert {hit.document.server.split("-")[0] for hit in hits} == {"fetch"}
    assert pair.equal([request]) == 1


def test_a_search_by_words_and_one_of_some_servers_find_the_same(pair: Pair) -> None:
    words = [replace(each, words_only=True, threshold=0.01) for each in asked()]
    some = [replace(each, servers=("git-1", "time-2", "shell-3")) for each in asked()]
    assert pair.equal([*words, *some]) >= 0.98


def test_a_search_within_the_selections_of_profiles_finds_the_same(pair: Pair) -> None:
    selection = Grant(servers=("git-1", "time-2"), tools=("shell-3__*",))
    grants = (
        Grant(servers=("*",), within=(selection,)),
        Grant(servers=("*",), within=(Grant(servers=("*",)), selection)),
        Grant(servers=("git-1",), tools=("shell-*",), within=(selection,)),
    )
    requests = [replace(each, grant=grant) for each in asked() for grant in grants]
    assert pair.equal(requests) >= 0.98
    hits = [hit for each in requests for hit in pair.engine.search(each).hits]
    assert {hit.document.server for hit in hits} <= {"git-1", "time-2", "shell-3"}


def test_a_rebuild_that_another_has_overtaken_leaves_the_index_of_that(
    connect: Callable[[], Database], encoder: Encoder, made: Made
) -> None:
    database, other = connect(), connect()
    others, readings = list[int](), itertools.count()

    def batches() -> Iterator[Batch]:
        is_first = not next(readings)  # which only finds what all tools have in common
        for batch in made.batches():
            yield batch
            if not (is_first or others):
                others.append(built(other, encoder.name, made.batches))
                others.append(built(other, encoder.name, made.batches))

    with pytest.raises(InputError, match="another rebuild has ended"):
        built(database, encoder.name, batches)
    assert opened(database).size == others[0] == len(made.documents)


def test_without_pgvector_one_line_says_what_to_install() -> None:
    with postgres_server(extension_control_path="/no-such-folder") as server:
        database = Database(server.url())
        try:
            database.run(schema.migrate)  # whoever shares a small catalogue needs no pgvector
            with pytest.raises(ConfigError, match=r"needs the extension pgvector 0\.8 or later"):
                built(database, "", lambda: iter(()))
        finally:
            database.close()


def test_what_changes_is_found_and_what_is_removed_is_not(pair: Pair) -> None:
    chance = random.Random(5)  # noqa: S311 - no secret
    documents, vectors = pair.made.documents, pair.made.vectors
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
    pair.engine.search(SearchRequest(text="read"))
    assert pair.engine.indexed == len(documents)
    changed = [
        SearchRequest(text=text)
        for text in ("plot quarks", "plot_quarks5", "zygomorphic9 quarks", "water it at dawn")
    ]
    assert pair.equal([*asked(), *grants()[::3], *changed], DRIFT) >= 0.98
    hits = pair.engine.search(SearchRequest(text="plot_quarks5")).hits
    assert hits[0].document.name == "plot_quarks5"


def test_what_changes_leaves_no_posting_of_a_former_tool(pair: Pair) -> None:
    """Or the tools that count most for a stem would be hidden by those that are gone."""
    tools, _ = pair.made.of("git-1")
    pair.made.documents[tools[0].id] = replace(tools[0], description="Waters it.", digest="wet")
    pair.write("git-1")

    async def left(connection: Connection) -> int:
        row = await IndexRow.current(connection, "default")
        assert row is not None
        text = "select count(*) from {0}.posting where tool not in (select number from {0}.tool)"
        return await connection.fetchval(text.format(row.schema))

    assert pair.database.run(left) == 0


def test_searches_go_on_while_tools_are_added(pair: Pair) -> None:
    requests = [*asked(), *grants()]
    tools, known = pair.made.of("time-4")
    ended, failed = threading.Event(), list[BaseException]()

    def search(number: int) -> None:
        try:
            while not ended.is_set():
                pair.engine.search(requests[number % len(requests)])
                number += 7
        except BaseException as error:  # noqa: BLE001 - told by the test
            failed.append(error)

    threads = [threading.Thread(target=search, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for number in range(15):
        new = replace(tools[0], id=f"time-4__wind{number}", name=f"wind{number}")
        pair.made.documents[new.id], pair.made.vectors[new.id] = new, known[tools[0].id]
        pair.write("time-4")
    ended.set()
    for thread in threads:
        thread.join()
    assert not failed
    assert first(pair.engine, "wind14") == "time-4__wind14"


def test_another_gateway_finds_a_change_at_once(
    pair: Pair, connect: Callable[[], Database]
) -> None:
    other = engine_of(opened(connect()))
    tool = max(pair.made.of("time-2")[0], key=lambda each: each.id)
    pair.made.documents[tool.id] = replace(tool, description="Winds the clepsydra.", digest="wound")
    pair.write("time-2")
    assert first(other, "wind the clepsydra") == tool.id


def test_another_index_takes_the_place_of_the_former_one(
    pair: Pair, connect: Callable[[], Database]
) -> None:
    """What a gateway owns and the new one lacks it writes again."""
    own = opened(connect(), pair.feed)
    tool = replace(pair.made.of("git-1")[0][0], id="alpha__wind", server="alpha", name="wind")
    stored = StoredSearch(own)
    documents = [*pair.made.documents.values(), tool]
    deque(stored.update(documents, lambda: False), 0)
    engine = SearchEngine(PROFILE, elsewhere=stored)
    assert first(engine, "wind") == tool.id
    built(pair.database, pair.name, pair.made.batches, pair.feed)
    until(lambda: first(engine, "wind") == tool.id, "it is written again")


def test_a_gateway_writes_again_what_a_standby_has_never_had(
    pair: Pair, postgres: PostgresServer
) -> None:
    tool = replace(pair.made.of("git-1")[0][0], id="alpha__wind", server="alpha", name="wind")
    stored = StoredSearch(pair.catalogue)

    def written() -> bool:
        try:
            return pair.catalogue.existing([tool.id]) == {tool.id}
        except OSError:
            return False

    deque(stored.update([*pair.made.documents.values(), tool], lambda: False), 0)
    assert written()
    pair.catalogue.replace_server("alpha", [])
    assert not written()
    postgres.stop()
    postgres.start()
    until(written, "it is written again")


def test_without_the_server_a_search_says_so_in_one_line(
    pair: Pair, postgres: PostgresServer
) -> None:
    postgres.stop()
    try:
        result = pair.engine.search(SearchRequest(text="read a file"))
        assert not result.hits
        [line] = result.degraded
        assert line.startswith("index: the database does not answer: ")
    finally:
        postgres.start()
    request = SearchRequest(text="read a file")
    until(lambda: not pair.engine.search(request).degraded, "it is back")
    assert pair.equal([request]) == 1


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
    pair.engine = engine_of(pair.catalogue, stored, learning)
    pair.memory, pair.semantic = SearchEngine(PROFILE, semantic=memory, learning=learning), memory
    pair.update()
    requests = [*asked(), *(SearchRequest(text=text) for text in used)]
    assert pair.equal(requests) >= 0.98
    [hit, *_] = pair.engine.search(SearchRequest(text="water the plants of the office")).hits
    assert hit.document.id.startswith("time-3__convert_time")


def test_before_anything_is_built_nothing_is_found(connect: Callable[[], Database]) -> None:
    engine = engine_of(opened(connect()))
    assert engine.search(SearchRequest(text="read a file")).hits == ()
    assert engine.indexed == 0
