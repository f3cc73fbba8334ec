"""Sessions of an MCP client with processes, message by message."""

import json
import re
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from tests import launcher
from tests.support import PATIENCE_S, Cli

VERSION = "2025-06-18"


@dataclass
class Session:
    """A client that speaks the protocol of one version to a process."""

    process: "launcher.Piped | subprocess.Popen[bytes]"
    received: "Queue[dict[str, Any] | None]" = field(default_factory=Queue[dict[str, Any] | None])
    others: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Notifications and requests that came meanwhile."""
    number: int = 0
    reads: bool = True
    """Whether what comes is read."""

    def __post_init__(self) -> None:
        if self.reads:
            Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.received.put(json.loads(line))
        self.received.put(None)

    def send(self, **message: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, **params: Any) -> int:
        self.number += 1
        self.send(id=self.number, method=method, params=params)
        return self.number

    def until(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message that fits; the others are kept."""
        for message in list(self.others):
            if fits(message):
                self.others.remove(message)
                return message
        while True:
            try:
                message = self.received.get(timeout=PATIENCE_S)
            except Empty:
                raise AssertionError(f"nothing came; there were {self.others}") from None
            assert message is not None, "the process has ended"
            if fits(message):
                return message
            self.others.append(message)

    def answer(self, number: int) -> dict[str, Any]:
        return self.until(lambda each: each.get("id") == number and "method" not in each)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        answer = self.answer(self.begin(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The result of a server's tool, which is called as the first refusal says."""
        given = {"tool": name, "arguments": arguments}
        result = self.ask("tools/call", name="call_tool", arguments=given)
        right = re.search(r"; call it with (\w+)$", str(result["content"][0].get("text")))
        return self.ask("tools/call", name=right[1], arguments=given) if right else result

    def open(self, version: str = VERSION, **capabilities: Any) -> None:
        self.answer(self.open_blindly(capabilities, version))

    def open_blindly(self, capabilities: Any = None, version: str = VERSION) -> int:
        """Opens the session without waiting for the answer to the request that is returned."""
        number = self.begin(
            "initialize",
            protocolVersion=version,
            capabilities=capabilities or {},
            clientInfo={"name": "test", "version": "1"},
        )
        self.send(method="notifications/initialized")
        return number


def called(name: str, how: str = "call_destructive_tool") -> dict[str, Any]:
    """The parameters that call a server's tool without arguments."""
    return {"name": how, "arguments": {"tool": name}}


def said(result: dict[str, Any]) -> Any:
    return json.loads(result["content"][0]["text"])


@contextmanager
def session(
    cli: Cli, *arguments: str, cwd: Path | None = None, **capabilities: Any
) -> Generator[Session]:
    environ = cli.environment({"TOOLSCRIPT_PORT": "0"})
    with launcher.begin(["mcp", *arguments], cwd or cli.home, environ) as process:
        try:
            made = Session(process)
            made.open(**capabilities)
            yield made
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(PATIENCE_S)
