# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false, reportUnknownParameterType=false
"""Gives a FastMCP server toolscript's ranking as its search of tools.

``server.add_transform(RankedSearch())``: clients see ``search_tools`` and ``call_tool``, as with
FastMCP's own search transforms.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import anyio.to_thread
from fastmcp.server.context import Context
from fastmcp.server.transforms.search.base import BaseSearchTransform
from fastmcp.tools.base import Tool

from toolscript.retrieval.ranker import Ranker


class RankedSearch(BaseSearchTransform):
    """Search of a server's tools; takes the options of FastMCP's ``BaseSearchTransform``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._ranker = Ranker(limit=self._max_results)

    def _make_search_tool(self) -> Tool:
        async def search_tools(
            query: Annotated[str, "What the tool should do, in words, or its name"],
            ctx: Context = None,  # type: ignore[assignment] - FastMCP passes it
        ) -> str | list[dict[str, Any]]:
            """Finds tools for a task. Search before you say that there is none."""
            visible = await self._get_visible_tools(ctx)
            return await self._render_results(await self._search(visible, query))

        return Tool.from_function(fn=search_tools, name=self._search_tool_name)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        return await anyio.to_thread.run_sync(self._rank, tools, query)

    def _rank(self, tools: Sequence[Tool], query: str) -> list[Tool]:
        by_name = {tool.name: tool for tool in tools}
        self._ranker.update(tool.to_mcp_tool() for tool in by_name.values())
        ranked = self._ranker.rank(query)
        return [by_name[tool.name] for tool in ranked if tool.name in by_name]
