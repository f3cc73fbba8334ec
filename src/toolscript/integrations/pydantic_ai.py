"""Lets agents of pydantic-ai search their deferred tools with toolscript's ranking.

``Agent(…, capabilities=[ToolSearch(strategy=search_strategy())])``: pydantic-ai asks the strategy
wherever it searches itself, and hands its answers to Anthropic's and OpenAI's own mechanisms.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio.to_thread

from toolscript.integrations.remote_tools import ToolSource
from toolscript.retrieval.ranker import Ranker

Strategy = Callable[[Any, Sequence[str], Sequence[Any]], Awaitable[list[str]]]


def search_strategy(source: ToolSource | None = None, limit: int = 5) -> Strategy:
    """Returns a strategy for ``pydantic_ai.capabilities.ToolSearch``.

    Args:
        source: The tools, which have the names that the agent has for them; None ranks the
            agent's own deferred tools.
        limit: Maximum number of tools for each query.
    """
    own = Ranker(limit=limit) if source is None else None

    def names(queries: Sequence[str], tools: Sequence[Any]) -> list[str]:
        if own is not None:
            own.update(
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.parameters_json_schema,
                }
                for tool in tools
            )
        known = {tool.name for tool in tools}
        ranked = (
            tool.name
            for query in queries
            if query.strip()
            for tool in (own or source).rank(query, limit)  # type: ignore[union-attr] - one is
        )
        return [name for name in dict.fromkeys(ranked) if name in known]

    async def search(_: Any, queries: Sequence[str], tools: Sequence[Any]) -> list[str]:
        return await anyio.to_thread.run_sync(names, queries, tools)

    return search
