"""Ranks tools for a question without any server: functions, or definitions as model APIs have them.

A `Ranker` is a `SearchEngine` with the bundled model and its defaults. `Ranker.narrow` keeps the
order in which tools were offered, since a model's prompt cache ends at the first change.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from toolscript.config.settings import OPTION
from toolscript.embedding.loader import LazyModel, load_model
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.errors import InputError
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, SearchRequest, ToolSpec


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool under the name by which a model calls it."""

    name: str
    """The name in its definition; the id, ``server__tool``, if it was given as a `ToolSpec`."""
    spec: ToolSpec
    """Its server, description and schemas."""
    source: Any = None
    """The function or definition that a `Ranker` was given; None for a gateway's tool."""


class RankedTool(OfferedTool, frozen=True, kw_only=True):
    """A tool that answers a question: the ``name``, ``spec`` and ``source`` of an `OfferedTool`."""

    score: float
    """The confidence, 0 to 1."""
    reason: str
    """The reason of the confidence, for people."""


class Ranker:
    """Ranks tools for a question. Thread-safe; the model is loaded by the first `rank`.

    Args:
        tools: Functions, `ToolSpec` values, or definitions as MCP, OpenAI or Anthropic has them
            (mappings, or objects with a method ``model_dump``). No two have the same name.
        server: The server of those that are no `ToolSpec`; its name is searched, too.
        limit: Maximum number of tools that `rank` returns.
        threshold: Minimum score of these, 0 to 1.
        model: ``bundled``, a folder, a repository on the hub, or an address.
        cache: The SQLite file that stores vectors; None stores none.

    Raises:
        InputError: One of the tools is none, or two have the same id.
    """

    def __init__(  # noqa: PLR0913 - options, each by its name
        self,
        tools: Iterable[Any] = (),
        *,
        server: str = "tools",
        limit: int = 5,
        threshold: float = 0.35,
        model: str = "bundled",
        cache: Path | None = None,
    ) -> None:
        self._server = server
        self._tools: dict[str, OfferedTool] = {}
        self._engine = make_engine(limit=limit, threshold=threshold, model=model, cache=cache)
        self.update(tools)

    @property
    def tools(self) -> list[OfferedTool]:
        """All tools, in the order in which they were given."""
        return list(self._tools.values())

    def update(self, tools: Iterable[Any]) -> None:
        """Replaces the tools. Only those whose text is new are embedded.

        Args:
            tools: As for the constructor.

        Raises:
            InputError: As for the constructor; the former tools stay.
        """
        offered: dict[str, OfferedTool] = {}
        for source in tools:
            spec = ToolSpec.of(source, self._server)
            if spec.id in offered:
                raise InputError(f"two tools are called {spec.id}; give each a name of its own")
            name = spec.id if source is spec else spec.name
            offered[spec.id] = OfferedTool(name=name, spec=spec, source=source)
        if _digests(offered) != _digests(self._tools):
            self._engine.update(Document.of(tool.spec) for tool in offered.values())
        self._tools = offered

    def rank(
        self, query: str, limit: int | None = None, threshold: float | None = None
    ) -> list[RankedTool]:
        """Returns the tools that answer a question, best first.

        Args:
            query: The question, in words, or the name of a tool.
            limit: Maximum number of tools; None for the constructor's.
            threshold: Minimum score; None for the constructor's.

        Raises:
            QueryError: The query is empty or too long.
            RangeError: The limit or the threshold is outside its range.
        """
        tools = self._tools
        result = self._engine.search(SearchRequest(text=query, limit=limit, threshold=threshold))
        return [
            RankedTool(
                name=tool.name,
                spec=tool.spec,
                source=tool.source,
                score=hit.score,
                reason=hit.reason,
            )
            for hit in result.hits
            if (tool := tools.get(hit.document.id)) is not None
        ]

    def narrow(
        self, query: str, seen: Sequence[str] = (), limit: int | None = None
    ) -> list[OfferedTool]:
        """Returns the tools to offer a model now: those that it has seen, then the ones it needs.

        The list of a session begins with its former list, so that the part of a prompt that a
        model's API has cached stays valid. It is never empty while there are tools.

        Args:
            query: The question.
            seen: Names of the tools that were offered before, in their order.
            limit: Maximum number of tools that are added; None for the constructor's.

        Raises:
            QueryError: The query is empty or too long.
            RangeError: The limit is outside its range.
        """
        tools = {tool.name: tool for tool in self._tools.values()}
        offered: dict[str, OfferedTool] = {name: tools[name] for name in seen if name in tools}
        for tool in self.rank(query, limit):
            offered.setdefault(tool.name, tool)
        if offered or not tools:
            return list(offered.values())
        best = self.rank(query, limit, threshold=0.0)
        return [*best] or list(tools.values())[: limit or self._engine.profile.limit]

    async def arank(
        self, query: str, limit: int | None = None, threshold: float | None = None
    ) -> list[RankedTool]:
        """Ranks in a worker thread.

        Args:
            query: See `rank`.
            limit: See `rank`.
            threshold: See `rank`.
        """
        return await _in_thread(self.rank, query, limit, threshold)

    async def anarrow(
        self, query: str, seen: Sequence[str] = (), limit: int | None = None
    ) -> list[OfferedTool]:
        """Narrows in a worker thread.

        Args:
            query: See `narrow`.
            seen: See `narrow`.
            limit: See `narrow`.
        """
        return await _in_thread(self.narrow, query, seen, limit)

    async def aupdate(self, tools: Iterable[Any]) -> None:
        """Updates the ``tools`` in a worker thread: see `update`."""
        await _in_thread(self.update, tools)


def make_engine(
    *, limit: int, threshold: float, model: str = "bundled", cache: Path | None = None
) -> SearchEngine:
    """Returns an engine with the weights of ``toolscript search``; see `Ranker` for arguments."""
    semantic = SemanticSignal(
        LazyModel(partial(load_model, model, "bundled", threads=1)),
        lambda: None if cache is None else SqliteVectorCache(cache),
    )
    alpha = OPTION["alpha"].default
    return SearchEngine(search_profile(alpha, limit, threshold), semantic=semantic)


def _digests(tools: Mapping[str, OfferedTool]) -> list[str]:
    return [tool.spec.digest for tool in tools.values()]


async def _in_thread(function: Any, *arguments: Any) -> Any:
    import anyio.to_thread  # noqa: PLC0415 - synchronous programs need none

    return await anyio.to_thread.run_sync(partial(function, *arguments))
