"""An MCP server over stdio that answers as its one argument says, a JSON object.

It needs nothing but the standard library, so that it starts at once. Every key is optional:

    name      what the server calls itself
    tools     the entries of its list, sent as they are
    results   tool name to the result of calling it, sent as it is; a tool without one
              answers with the parameters of the call, as text
    errors    tool name to the JSON-RPC error that answers a call
    silent    names of tools whose calls are never answered
    slow      seconds before a call is answered
    progress  how many notifications of progress precede the answer to a call
    pace      seconds after each of these notifications
    others    the method of another list, such as ``prompts/list``, to its result
"""

import json
import sys
import threading
import time
from typing import Any

JsonObject = dict[str, Any]


class ScriptedServer:
    """Reads requests from stdin and answers them on stdout; each call has its own thread."""

    def __init__(self, script: JsonObject) -> None:
        self.script = script
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        """Write to stdout at once."""
        with self._lock:
            sys.stdout.write(text)
            sys.stdout.flush()

    def send(self, **message: Any) -> None:
        """Send a message of JSON-RPC."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def serve(self) -> None:
        """Answer until stdin is closed."""
        for line in sys.stdin:
            self.receive(json.loads(line))

    def receive(self, message: JsonObject) -> None:
        """Handle one message."""
        if "id" in message and "method" in message:
            self.answer(message["id"], message["method"], message.get("params") or {})

    def answer(self, identifier: Any, method: str, params: JsonObject) -> None:
        """Answer a request."""
        if method == "initialize":
            self.send(id=identifier, result=self.initialized(params))
        elif method == "tools/list":
            self.send(id=identifier, result={"tools": self.script.get("tools", [])})
        elif method == "tools/call":
            threading.Thread(target=self.call, args=(identifier, params), daemon=True).start()
        elif method == "ping":
            self.send(id=identifier, result={})
        elif method in self.script.get("others", {}):
            self.send(id=identifier, result=self.script["others"][method])
        else:
            error = {"code": self.script.get("refusal", -32601), "message": "Method not found"}
            self.send(id=identifier, error=error)

    def initialized(self, params: JsonObject) -> JsonObject:
        """Returns the result of ``initialize``."""
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {"listChanged": True}, **self._other_capabilities()},
            "serverInfo": {"name": self.script.get("name", "scripted"), "version": "1"},
        }

    def _other_capabilities(self) -> JsonObject:
        return {method.partition("/")[0]: {} for method in self.script.get("others", {})}

    def call(self, identifier: Any, params: JsonObject) -> None:
        """Answer a call of a tool, after what the script has happen before."""
        script, name = self.script, params["name"]
        token = params.get("_meta", {}).get("progressToken")
        time.sleep(script.get("slow", 0))
        for step in range(script.get("progress", 0) if token is not None else 0):
            progress = {"progress": step + 1, "total": script["progress"]}
            progress |= {"progressToken": token, "message": f"step {step + 1}"}
            self.send(method="notifications/progress", params=progress)
            time.sleep(script.get("pace", 0))
        if name in script.get("errors", {}):
            self.send(id=identifier, error=script["errors"][name])
        elif name not in script.get("silent", []):
            self.reply(identifier, params)

    def reply(self, identifier: Any, params: JsonObject) -> None:
        """Send the result of a call."""
        result = self.script.get("results", {}).get(params["name"], text_result(params))
        self.send(id=identifier, result=result)


def text_result(value: Any) -> JsonObject:
    """Returns the result of a tool whose text is this value as JSON."""
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


if __name__ == "__main__":
    ScriptedServer(json.loads(sys.argv[1])).serve()
