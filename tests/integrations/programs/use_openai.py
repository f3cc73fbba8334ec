"""The model's side is a transport: it searches, and calls the first function that was loaded."""

import json
import sys
from typing import Any

import garden
import guide
import httpx2
from openai import OpenAI

from toolscript.integrations.openai import ResponsesToolSearch

requests: list[dict[str, Any]] = []
address = sys.argv[1:]


def respond(request: httpx2.Request) -> httpx2.Response:
    body = json.loads(request.content)
    requests.append(body)
    last = body["input"][-1]
    item: dict[str, Any] = {"type": "tool_search_call", "id": "s", "call_id": "1"}
    item |= {"status": "completed", "execution": "client", "arguments": {"query": garden.QUESTION}}
    if len(requests) == 2:
        space = last["tools"][0]
        item = {"type": "function_call", "id": "f", "call_id": "2", "arguments": '{"amount": 30}'}
        item |= {"name": space["tools"][0]["name"], "namespace": space["name"]}
    if len(requests) == 3:
        text = {"type": "output_text", "text": last["output"], "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
        item |= {"status": "completed"}
    answer = {"id": "r", "object": "response", "created_at": 0, "model": "gpt", "output": [item]}
    more = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "status": "completed"}
    return httpx2.Response(200, json=answer | more)


search = ResponsesToolSearch(garden.source(address))
client = OpenAI(api_key="-", http_client=httpx2.Client(transport=httpx2.MockTransport(respond)))
names = guide.names("OpenAI")
if address:
    gateway: Any = garden.source(address)

    def output(search: ResponsesToolSearch, item: Any) -> dict[str, Any] | None:
        if item.type == "tool_search_call":
            return search.answer(item)
        if item.type != "function_call":
            return None
        answer = gateway.call(search.tool(item.name).name, json.loads(item.arguments))
        return {"type": "function_call_output", "call_id": item.call_id, "output": str(answer)}

    names["output"] = output
answer = names["ask"](client, "gpt", search, garden.QUESTION)
(loaded,) = [item for item in requests[1]["input"] if item.get("type") == "tool_search_output"]
print(
    json.dumps(
        {
            "offered": [tool["type"] for tool in requests[0]["tools"]],
            "loaded": {
                space["name"]: [tool["name"] for tool in space["tools"]]
                for space in loaded["tools"]
            },
            "calls": garden.calls,
            "answer": answer,
        }
    )
)
