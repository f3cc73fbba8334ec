"""Tools in an index of a real PostgreSQL, for searches with the database and without."""

import asyncio
from collections.abc import Mapping, Sequence

from tests.many_tools import Made, made_tools
from tests.postgres_server import free_port
from toolscript.embedding.base import Encoder
from toolscript.embedding.loader import LazyModel
from toolscript.postgres.candidate_builder import rebuild
from toolscript.postgres.candidate_rows import by_server
from toolscript.postgres.candidate_search import CandidateSearch
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.index_records import IndexRow
from toolscript.postgres.resident_index import IndexMemory
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, SearchRequest, SearchResult

LISTED = 200
ENGINE = SearchEngine(search_profile(0.5, 10, 0.0))


class Indexed:
    """Tools in the database's index, the index in memory, and an address without a database."""

    def __init__(self, database: Database, model: LazyModel, encoder: Encoder) -> None:
        self.made: Made = made_tools(encoder)
        self.database = database
        rebuild(
            database,
            "default",
            encoder.name,
            self.made.batches,
            feed=ChangeFeed(database, "default"),
        )
        self.memory = self.loaded()
        self.away = Database(f"postgresql://toolscript@127.0.0.1:{free_port()}/toolscript")
        self.away.start()
        self.semantic = SemanticSignal(model, lambda: None)

    def loaded(self) -> IndexMemory:
        """Loads the index."""
        row = self.database.run(lambda connection: IndexRow.current(connection, "default"))
        memory = IndexMemory(row, Stemmer())
        self.database.run(lambda connection: memory.load(connection, row))
        return memory

    def documents(self) -> Mapping[str, Sequence[Document]]:
        return by_server(self.made.documents.values())

    def search(self, database: Database) -> CandidateSearch:
        """Returns what finds candidates, and has nothing cached."""
        return CandidateSearch(
            database,
            Stemmer(),
            semantic=self.semantic,
            learning=None,
            listed=LISTED,
            documents=self.documents,
        )

    def find(self, database: Database, request: SearchRequest) -> SearchResult:
        return self.ask(self.search(database), request)

    def ask(self, search: CandidateSearch, request: SearchRequest) -> SearchResult:
        plan = ENGINE.plan(request)
        return ENGINE.score(plan, asyncio.run(search.find(plan, self.memory, None)))
