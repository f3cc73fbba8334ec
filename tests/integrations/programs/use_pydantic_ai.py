"""A function stands for the model: it searches, and calls the first tool that it then sees."""

import json
import sys
from typing import Any

import garden
import guide
from pydantic_ai import Agent, Tool
from pydantic_ai.capabilities import ToolSearch
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolscript.integrations.pydantic_ai import search_strategy

shown: list[list[str]] = []
address = sys.argv[1:]


def model(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    shown.append([tool.name for tool in info.function_tools])
    new = [name for name in shown[-1] if name not in shown[0]]
    if garden.calls:
        return ModelResponse(parts=[TextPart("done")])
    if new:
        return ModelResponse(parts=[ToolCallPart(new[0], {"amount": 30})])
    return ModelResponse(parts=[ToolCallPart(shown[0][0], {"queries": [garden.QUESTION]})])


prefix = "garden__" if address else ""
tools = [
    Tool(garden.function(name), name=prefix + name, description=text, defer_loading=True)
    for name, text in garden.DESCRIPTIONS.items()
]
agent: Any = guide.names("Pydantic AI")["make_agent"](FunctionModel(model), tools)
if address:
    strategy = search_strategy(garden.source(address))
    agent = Agent(FunctionModel(model), tools=tools, capabilities=[ToolSearch(strategy=strategy)])
agent.run_sync(garden.QUESTION)
print(json.dumps({"shown": shown, "calls": garden.calls}))
