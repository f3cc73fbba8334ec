"""Starts the clients and talks with them: one interface for all."""

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from tests.compilers import NODE
from tests.support import PATIENCE_S, ROOT

CLIENTS = ROOT / ".clients"
PROGRAMS = Path(__file__).with_name("programs")
PACKAGES = CLIENTS / "node_modules"
INSPECTOR = PACKAGES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

Where: TypeAlias = dict[str, str]
"""``url``, or ``config`` and ``server``: the name of an entry in that file."""


class Client(Protocol):
    """Somebody else's client, connected to a server."""

    def tools(self) -> dict[str, str]:
        """What is listed: name to description."""
        ...

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of calling a tool, as on the wire."""
        ...


Connect: TypeAlias = Callable[[Where, Mapping[str, str]], AbstractContextManager[Client]]
"""Where the server is, and the client's environment."""


class Listening:
    """A client that lives on; see ``programs/talk.py`` for what it is told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def tools(self) -> dict[str, str]:
        """See `Client`."""
        return self._ask(do="tools")

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """See `Client`."""
        return self._ask(do="call", name=name, arguments=arguments)

    def heard(self) -> int:
        """How often it was told that the list has changed."""
        return self._ask(do="heard")

    def _ask(self, **what: Any) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(what) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, "the client has ended"
        said = json.loads(line)
        assert "error" not in said, said["error"]
        return said["answer"]


def listening(*command: object, **more: str) -> Callable[..., AbstractContextManager[Listening]]:
    """Connects a program that keeps its session; it is ended with the test, in its time at most."""

    @contextmanager
    def connect(where: Where, env: Mapping[str, str]) -> Generator[Listening]:
        words = [*map(str, command), json.dumps(where | more)]
        told = Path(env["HOME"]) / "client.log"
        with (
            told.open("w+", encoding="utf-8") as log,
            subprocess.Popen(
                words,
                env=dict(env) | {"NODE_PATH": str(PACKAGES)},
                cwd=env["HOME"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as process,
        ):
            try:
                yield Listening(process)
                process.communicate()
                assert process.returncode == 0
            except BaseException as problem:  # also the end of the test's time
                problem.add_note(told.read_text("utf-8")[-4000:])
                raise
            finally:
                process.kill()

    return connect


class Inspector:
    """The inspector's command line: a connection for each request."""

    def __init__(self, where: Where, env: Mapping[str, str]) -> None:
        if "url" in where:
            self._server = [where["url"], "--transport", "http"]
        else:
            self._server = ["--config", where["config"], "--server", where["server"]]
        self._env = dict(env)

    def tools(self) -> dict[str, str]:
        """See `Client`."""
        return {each["name"]: each["description"] for each in self._run("tools/list")["tools"]}

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """See `Client`."""
        given = ["--tool-name", name, "--tool-args-json", json.dumps(arguments)]
        return self._run("tools/call", *given)

    def _run(self, method: str, *more: str) -> dict[str, Any]:
        asked = [*self._server, "--method", method, *more, "--format", "json", "--quiet"]
        done = subprocess.run(
            [NODE, INSPECTOR, "--cli", *asked],
            env=self._env,
            cwd=self._env["HOME"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)["result"]  # also where that is an error of the tool's


@contextmanager
def inspector(where: Where, env: Mapping[str, str]) -> Generator[Inspector]:
    """See `Inspector`."""
    yield Inspector(where, env)


def _python(name: str) -> Path:
    return CLIENTS / name / "bin" / "python"


LISTENING: dict[str, Callable[..., AbstractContextManager[Listening]]] = {
    "TypeScript SDK 1": listening(NODE, PROGRAMS / "typescript_1.cjs"),
    "TypeScript SDK 2": listening(NODE, PROGRAMS / "typescript_2.cjs"),
    "Python SDK 1": listening(_python("python_1"), PROGRAMS / "python_1.py"),
    "Python SDK 2": listening(sys.executable, PROGRAMS / "python_2.py"),
    "FastMCP": listening(_python("fastmcp"), PROGRAMS / "fastmcp_4.py"),
    "FastMCP, legacy": listening(_python("fastmcp"), PROGRAMS / "fastmcp_4.py", mode="legacy"),
}
EVERY: dict[str, Connect] = {**LISTENING, "inspector": inspector}
HEARING = [name for name in LISTENING if name != "FastMCP"]
"""In the newest protocol who wants to hear of changes asks for them; FastMCP's client does not."""
