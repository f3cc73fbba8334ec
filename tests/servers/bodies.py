"""An MCP server over HTTP that answers calls with prepared bytes: ``bodies.py FILE``.

FILE holds JSON: tool name to ``{"type": content type, "body": text, "encoding": …}``, in whose
body ID stands for the request's id. It prints its URL. Nothing but the standard library.
"""

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ANSWERS: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text("utf-8"))
_HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bodies", "version": "1"},
}


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    def do_POST(self) -> None:
        asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in asked:
            self.say(202, {}, b"")
            return
        method: str = asked["method"]
        params: dict[str, Any] = asked.get("params") or {}
        answer = ANSWERS.get(params.get("name", method))
        if answer is not None:
            self.prepared(answer, asked["id"])
            return
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ANSWERS]
        results: dict[str, Any] = {"initialize": _HELLO, "tools/list": {"tools": tools}}
        error = {"code": -32601, "message": "Method not found"}
        body = {"result": results[method]} if method in results else {"error": error}
        text = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **body})
        self.say(200, {"content-type": "application/json"}, text.encode())

    def prepared(self, answer: dict[str, Any], identifier: Any) -> None:
        body = answer["body"].replace("ID", json.dumps(identifier)).encode()
        headers = {"content-type": answer["type"]}
        if encoding := answer.get("encoding"):
            headers["content-encoding"] = encoding
            body = gzip.compress(body)
        self.say(200, headers, body)

    def say(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.say(405, {}, b"")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/mcp\n")
    sys.stdout.flush()
    server.serve_forever()
