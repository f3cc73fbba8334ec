"""Claude's side is a transport: it searches, and calls the first tool that it is referred to."""

import json
import sys
from typing import Any

import garden
import guide
import httpx2
from anthropic import Anthropic

from toolscript.integrations.anthropic import ClaudeToolSearch

requests: list[dict[str, Any]] = []
address = sys.argv[1:]


def loaded(message: dict[str, Any]) -> list[str]:
    """The names of the tools that a message has the API load."""
    return [block["tool_name"] for block in message["content"][0]["content"]]


def respond(request: httpx2.Request) -> httpx2.Response:
    body = json.loads(request.content)
    requests.append(body)
    last = body["messages"][-1]
    asks = {
        "type": "tool_use",
        "id": "1",
        "name": "search_tools",
        "input": {"query": last["content"]},
    }
    block: dict[str, Any] = asks
    if len(requests) == 2:
        block = {"type": "tool_use", "id": "2", "name": loaded(last)[0], "input": {"amount": 30}}
    if len(requests) == 3:
        block = {"type": "text", "text": last["content"][0]["content"]}
    answer = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [block],
    }
    usage = {"input_tokens": 1, "output_tokens": 1}
    return httpx2.Response(200, json=answer | {"stop_reason": "end_turn", "usage": usage})


search = ClaudeToolSearch(garden.source(address))
client = Anthropic(api_key="-", http_client=httpx2.Client(transport=httpx2.MockTransport(respond)))
names = guide.names("Anthropic")
if address:  # the reader is told what to write instead of calling a function
    gateway: Any = garden.source(address)

    def result(search: ClaudeToolSearch, block: Any) -> dict[str, Any]:
        if block.name == search.name:
            return search.answer(block)
        answer = gateway.call(search.tool(block.name).name, block.input)
        return {"type": "tool_result", "tool_use_id": block.id, "content": str(answer)}

    names["result"] = result
answer = names["ask"](client, "claude", search, garden.QUESTION)
tools = requests[0]["tools"]
print(
    json.dumps(
        {
            "offered": [tool["name"] for tool in tools if not tool.get("defer_loading")],
            "deferred": [tool["name"] for tool in tools if tool.get("defer_loading")],
            "same": all(request["tools"] == tools for request in requests),
            "loaded": loaded(requests[1]["messages"][-1]),
            "calls": garden.calls,
            "answer": answer,
        }
    )
)
