"""A scripted chat model records the tools that it is given, and calls the newest one."""

import json
from typing import Any

import garden
import guide
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from pydantic import Field

shown: list[list[str]] = []


class Scripted(BaseChatModel):
    names: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return Scripted(names=[tool.name for tool in tools])

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        shown.append(self.names)
        message = AIMessage(content="done")
        if isinstance(messages[-1], HumanMessage):
            earlier = shown[-2] if len(shown) > 1 else []
            new = next(name for name in self.names if name not in earlier)
            message = AIMessage("", tool_calls=[{"name": new, "args": {"amount": 30}, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=message)])


tools = [StructuredTool.from_function(function) for function in garden.functions()]
agent = guide.names("LangChain")["make_agent"](Scripted(), tools)
state = agent.invoke({"messages": [HumanMessage(garden.QUESTION)]})
history = [*state["messages"], HumanMessage("the trees are full of fruit")]
agent.invoke({"messages": history})
print(json.dumps({"shown": shown, "calls": garden.calls}))
