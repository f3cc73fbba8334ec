"""A language model's HTTP endpoint that says what it is told to, and keeps what it was asked."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.servers.in_thread import serve_in_thread


@dataclass
class Endpoint:
    """Answers each request with the next of ``replies``, the last one for ever."""

    replies: list[Any]
    status: int = 200
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[str | None] = field(default_factory=list[str | None])

    def offered(self) -> list[list[str]]:
        """The names of the tools in each request."""
        return [[t["function"]["name"] for t in each.get("tools", [])] for each in self.asked]


def calls(*wanted: tuple[str, Any]) -> dict[str, Any]:
    """A message that wants these tools called."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"call-{n}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for n, (name, given) in enumerate(wanted)
        ],
    }


def says(text: str) -> dict[str, Any]:
    """A message that is the answer."""
    return {"role": "assistant", "content": text}


@contextmanager
def endpoint(*replies: Any, status: int = 200) -> Generator[Endpoint]:
    """An endpoint on this machine for as long as the block lasts."""
    made = Endpoint(list(replies), status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.asked.append(json.loads(body))
            made.keys.append(self.headers.get("Authorization"))
            reply = made.replies.pop(0) if len(made.replies) > 1 else made.replies[0]
            if isinstance(reply, dict):
                usage = {"prompt_tokens": 100, "completion_tokens": 7}
                data = json.dumps({"choices": [{"message": reply}], "usage": usage}).encode()
            else:
                data = str(reply).encode()
            self.send_response(made.status if self.path == "/v1/chat/completions" else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with serve_in_thread(Handler) as port:
        made.url = f"http://127.0.0.1:{port}/v1"
        yield made
