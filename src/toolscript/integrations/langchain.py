# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false, reportUnknownParameterType=false
"""Offers an agent of LangChain only the tools that its conversation needs.

``create_agent(model, tools, middleware=[ToolSelection()])``: each request has the tools that the
user's messages ask for, in the order of the conversation. The list only grows, so that the cached
part of the prompt stays valid.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio.to_thread
from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.messages import HumanMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from toolscript.retrieval.ranker import Ranker

MAX_MESSAGE_CHARS = 2000
"""Characters of a message that are read: its end has the question."""


class ToolSelection(AgentMiddleware):
    """Middleware that narrows the tools of each request to the model.

    Args:
        limit: Maximum number of tools that each message of the user adds.
        always: Names of tools that are always offered, first.
        ranker: Ranks the agent's tools; None makes one.
    """

    def __init__(
        self, limit: int = 5, always: Iterable[str] = (), ranker: Ranker | None = None
    ) -> None:
        super().__init__()
        self._limit = limit
        self._always = list(always)
        self._ranker = ranker or Ranker(limit=limit)

    def narrow(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Returns the request with fewer tools; tools that a provider executes stay."""
        tools = {_name(tool): tool for tool in request.tools if _name(tool)}
        if len(tools) <= self._limit:
            return request
        self._ranker.update(map(convert_to_openai_tool, tools.values()))
        offered = [name for name in self._always if name in tools]
        for message in request.messages:
            if isinstance(message, HumanMessage) and message.text.strip():
                seen = self._ranker.narrow(message.text[-MAX_MESSAGE_CHARS:], offered, self._limit)
                offered = [tool.name for tool in seen]
        elsewhere = [tool for tool in request.tools if not _name(tool)]
        return request.override(tools=[*elsewhere, *(tools[name] for name in offered)])

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """See ``AgentMiddleware``."""
        return handler(self.narrow(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """See ``AgentMiddleware``."""
        return await handler(await anyio.to_thread.run_sync(self.narrow, request))


def _name(tool: Any) -> str:
    """Returns the name of a tool that the agent executes; empty for a provider's own."""
    return "" if isinstance(tool, dict) else str(tool.name)
