"""Lets Claude search tools with toolscript's ranking, through the Messages API.

Claude is sent every definition as deferred, which costs no tokens, and a tool that searches. The
answer to a search are references, with which the API shows Claude the definitions.
"""

from typing import Any

from toolscript.codegen.api_definitions import define_tool, valid_name
from toolscript.integrations.remote_tools import ToolSource, as_mapping, find_tool
from toolscript.retrieval.ranker import OfferedTool

MAX_REFERENCES = 5


class ClaudeToolSearch:
    """Search of tools for the Messages API.

    Args:
        source: The tools.
        limit: Maximum number of tools that a search shows to Claude.
        name: The name of the tool that searches.
    """

    def __init__(
        self, source: ToolSource, limit: int = MAX_REFERENCES, name: str = "search_tools"
    ) -> None:
        self._source = source
        self._limit = limit
        self.name = name

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The ``tools`` of a request: the search, then all definitions, deferred, by name."""
        search = {
            "name": self.name,
            "description": "Finds tools by what they do. Search before you say that there is none.",
            "input_schema": {
                "type": "object",
                "properties": {"query": {"type": "string", "description": "What to do, in words"}},
                "required": ["query"],
            },
        }
        deferred = [
            define_tool(tool.spec, "anthropic", tool.name) | {"defer_loading": True}
            for tool in sorted(self._source.tools, key=lambda tool: tool.name)
        ]
        return [search, *deferred]

    def answer(self, block: Any) -> dict[str, Any]:
        """Returns the ``tool_result`` for a ``tool_use`` block of the search.

        Args:
            block: The block, as an object of the SDK or as a mapping.

        Raises:
            QueryError: Claude's query is empty or too long.
        """
        use = as_mapping(block)
        found = self._source.rank(str(use["input"].get("query", "")), self._limit)
        references = [
            {"type": "tool_reference", "tool_name": valid_name(tool.name)} for tool in found
        ]
        nothing = [{"type": "text", "text": "No tool does that. Ask in other words."}]
        return {
            "type": "tool_result",
            "tool_use_id": use["id"],
            "content": references or nothing,
        }

    def tool(self, name: str) -> OfferedTool:
        """Returns the tool that Claude calls by a name of `tools`.

        Raises:
            UnknownNameError: No tool is called so.
        """
        return find_tool(self._source, name)
