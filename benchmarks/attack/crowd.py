"""Everything that a bearer may keep open, at once: streams, waiting calls, links, large forms.

What is promised: memory that is bounded by the documented figure, an event loop that
comes round, and an owner who is served all the while.
"""

import http.client
import json
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.attack.base import Effort, Outcome
from benchmarks.attack.requests import JSON, MIB, Target, key_of
from benchmarks.gateways import configure, gateway, scripted
from toolscript.config.access_tokens import TokenStore
from toolscript.types import Grant, PermissionRule

MAX_GROWTH_MIB = 128
"""What all of it may add to the memory of the process."""
BEARERS = 10
TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "edit", "inputSchema": {"type": "object"}},
]
_HEAD = "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Type: {}\r\n"
_LINE = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"a" * int(3.9 * MIB)
_HELD_S, _SOON_S = 5.0, 0.1


def attacks(effort: Effort) -> Iterator[Outcome]:
    """All of it on one gateway, and once more for the memory that stays."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configure(folder, {"s": scripted(tools=TOOLS)})
        with gateway(folder, TOOLSCRIPT_SEARCH_MODEL="bundled") as started:
            asks = PermissionRule("s__edit", "ask")
            grant = Grant(servers=("s",), permissions=(asks,))
            store = TokenStore(folder, key_of(folder))
            tokens = [store.create(grant)[1] for _ in range(BEARERS)]
            target = Target(started)
            owner = {"Authorization": f"Bearer {started.key}"}
            for turn in ("", " again"):
                yield _crowd(target, owner, tokens, effort, turn)


@dataclass(eq=False)
class _Owner:
    """Searches and calls all the while, and counts both."""

    target: Target
    headers: dict[str, str]
    ended: threading.Event = field(default_factory=threading.Event)
    served: int = 0
    refused: int = 0
    slowest_s: float = 0.0

    def work(self) -> None:
        """Asks until it is ended."""
        while not self.ended.wait(0.2):
            for method, path, body in (
                ("GET", "/tools?q=echo", None),
                ("POST", "/tools/s__echo", b"{}"),
            ):
                began = time.monotonic()
                status = self.target.ask(method, path, body, {**JSON, **self.headers})[0]
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                self.served += status == 200
                self.refused += status != 200


def _crowd(
    target: Target, headers: dict[str, str], tokens: list[str], effort: Effort, turn: str
) -> Outcome:
    streams, calls, links = effort.times(1_000), effort.times(200), effort.times(250)
    forms = effort.times(8)
    owner = _Owner(target, headers)
    worker = threading.Thread(target=owner.work)
    worker.start()
    with target.observed() as seen, ExitStack() as stack:
        for number in range(calls):
            head = _HEAD.format("/tools/s__edit", tokens[number % BEARERS], "application/json")
            _send(stack, target, head, json.dumps({"text": "a" * 100_000}).encode())
        for number in range(links):
            bearer = {"Authorization": f"Bearer {tokens[number % BEARERS]}"}
            target.ask("POST", "/ui/link", b"{}", {**JSON, **bearer})
        for number in range(forms):
            kind = "application/x-www-form-urlencoded"
            head = _HEAD.format("/ui/tools/s__echo", tokens[number % BEARERS], kind)
            _send(stack, target, head, b"a=" + b"b" * (4 * MIB - 2))
        for number in range(streams):
            kind = "application/x-ndjson\r\nTransfer-Encoding: chunked"
            head = _HEAD.format("/mcp/stream", tokens[number % BEARERS], kind)
            chunk = b"%x\r\n" % len(_LINE) + _LINE + b"\r\n"
            _send(stack, target, head + "\r\n", chunk, framed=True)
        waiting = len(json.loads(target.ask("GET", "/pending", None, headers)[1])["pending"])
        time.sleep(_HELD_S)
    owner.ended.set()
    worker.join()
    time.sleep(35)  # the heap is released twice a minute
    held = seen.grown_mib <= MAX_GROWTH_MIB and not seen.unanswered and not owner.refused
    what = f"{streams} streams, {calls} waiting calls, {links} links, {forms} forms of 4 MB{turn}"
    soon = sum(each <= _SOON_S for each in seen.answers_s)
    figure = (
        f"{seen}, {soon} within 100 ms; {waiting} calls waited; owner served {owner.served} times, "
        f"{owner.refused} refused, slowest {owner.slowest_s * 1000:.0f} ms; "
        f"afterwards {target.resident_mib:.0f} MiB"
    )
    return Outcome("A4", what, 1, int(held), figure)


def _send(
    stack: ExitStack, target: Target, head: str, body: bytes, *, framed: bool = False
) -> None:
    """Sends a request on a connection that stays open; the gateway may end it meanwhile."""
    length = "" if framed else f"Content-Length: {len(body)}\r\n\r\n"
    with suppress(OSError, http.client.HTTPException):
        made: socket.socket = stack.enter_context(target.connect(5))
        made.sendall((head + length).encode() + body)
