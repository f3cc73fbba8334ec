"""Lets OpenAI's models search tools with toolscript's ranking, through the Responses API.

The request has one tool, a search that the client executes. Its output are the definitions that
answer, grouped by server; the model calls them from then on.
"""

import json
from typing import Any

from toolscript.codegen.api_definitions import define_namespaces
from toolscript.integrations.remote_tools import ToolSource, as_mapping, find_tool
from toolscript.retrieval.ranker import OfferedTool

MAX_TOOLS = 5


class ResponsesToolSearch:
    """Search of tools for the Responses API.

    Args:
        source: The tools.
        limit: Maximum number of tools that a search loads.
    """

    def __init__(self, source: ToolSource, limit: int = MAX_TOOLS) -> None:
        self._source = source
        self._limit = limit

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The ``tools`` of a request."""
        return [
            {
                "type": "tool_search",
                "execution": "client",
                "description": "Finds tools by what they do.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "query": {"type": "string", "description": "What to do, in words"}
                    },
                    "required": ["query"],
                    "additionalProperties": False,
                },
            }
        ]

    def answer(self, item: Any) -> dict[str, Any]:
        """Returns the ``tool_search_output`` for a ``tool_search_call``.

        Args:
            item: The call, as an object of the SDK or as a mapping.

        Raises:
            QueryError: The model's query is empty or too long.
        """
        call = as_mapping(item)
        arguments: Any = call["arguments"]
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        found = self._source.rank(str(arguments.get("query", "")), self._limit)
        return {
            "type": "tool_search_output",
            "call_id": call["call_id"],
            "execution": "client",
            "status": "completed",
            "tools": define_namespaces((tool.spec, tool.name) for tool in found),
        }

    def tool(self, name: str) -> OfferedTool:
        """Returns the tool that a ``function_call`` names.

        Raises:
            UnknownNameError: No tool is called so.
        """
        return find_tool(self._source, name)
