"""The doors through which tools are called: each makes many calls, and says what became of each.

A door takes a `Visit` and returns an outcome for each of its tools. Outcomes are read from the
words of the answers; whether the server was reached, the test looks up at the server.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.compilers import DENO, OFFLINE
from tests.models import calls, endpoint, says
from tests.support import Cli, fetch

CALLED, REFUSED, TOLD, HIDDEN, WRONG = "called", "not allowed", "told", "hidden", "wrong class"
_WORDS = {
    "was not allowed:": REFUSED,
    "may not be called: ": TOLD,
    "no tool is called": HIDDEN,
    "there is no tool": HIDDEN,
    "this call is for": WRONG,
}
_NONE = "no tools: the configured servers offer none that this caller may use"
_AT_ONCE = 12
CALLS = {"read": "read_tool", "write": "call_tool", "destructive": "call_destructive_tool"}


@dataclass(frozen=True)
class Visit:
    """Calls of one caller."""

    cli: Cli
    url: str
    token: str
    narrow: str
    """A token that has the profile among its own rules, for doors that can name none."""
    profile: str
    classes: Mapping[str, str]
    """The class of each tool of the server ``s``, by name."""
    marks: Mapping[str, str]
    """What each tool is called with, by name; like no other call's."""
    folder: Path
    most: str | None = None
    """What the tools may be at most; None for anything."""

    @property
    def headers(self) -> dict[str, str]:
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return sent | ({} if self.profile == "none" else {"Toolscript-Profile": self.profile})

    @property
    def environment(self) -> dict[str, str]:
        env = {"TOOLSCRIPT_GATEWAY_URL": self.url, "TOOLSCRIPT_GATEWAY_TOKEN": self.token}
        return env | ({} if self.profile == "none" else {"TOOLSCRIPT_PROFILE": self.profile})

    @property
    def bound(self) -> tuple[str, ...]:
        return ("--class", self.most) if self.most else ()

    def each(self, call: Callable[[str, dict[str, str]], str]) -> dict[str, str]:
        """The outcome of each tool's call, many at once: some wait for an answer."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            given = [{"mark": mark} for mark in self.marks.values()]
            return dict(zip(self.marks, pool.map(call, self.marks, given), strict=True))


Door: TypeAlias = Callable[[Visit], dict[str, str]]


def outcome(text: str) -> str:
    """What became of a call that was answered with this."""
    found = [what for words, what in _WORDS.items() if words in text]
    return found[0] if found else CALLED


def over_http(visit: Visit) -> dict[str, str]:
    """``POST /tools/{tool}``."""
    query = {"class": visit.most} if visit.most else {}

    def call(name: str, given: dict[str, str]) -> str:
        path, body = f"/tools/s__{name}", json.dumps(given).encode()
        status, answer = fetch(
            visit.url, path, query, method="POST", headers=visit.headers, body=body
        )
        said = outcome(json.dumps(answer))
        wanted = {REFUSED: 403, TOLD: 403, HIDDEN: 404, WRONG: 403, CALLED: 200}
        assert status == wanted[said], answer
        return said

    return visit.each(call)


def over_message(visit: Visit) -> dict[str, str]:
    """``POST /message``: the way of each tool's class."""

    def call(name: str, given: dict[str, str]) -> str:
        arguments = {"tool": f"s__{name}", "arguments": given}
        params = {"name": CALLS[visit.classes[name]], "arguments": arguments}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        _, answer = fetch(
            visit.url, "/message", method="POST", headers=visit.headers, body=body.encode()
        )
        said = outcome(json.dumps(answer))
        assert bool(answer["result"].get("isError")) == (said != CALLED), answer
        return said

    return visit.each(call)


def by_command(visit: Visit) -> dict[str, str]:
    """``toolscript call``; nobody is at a terminal."""

    def call(name: str, given: dict[str, str]) -> str:
        words = ("call", f"s__{name}", json.dumps(given), *visit.bound)
        done = visit.cli(*words, env=visit.environment)
        said = outcome(done.stderr)
        assert (done.returncode == 0) == (said == CALLED), done.stderr
        return said

    return visit.each(call)


def by_ask(visit: Visit) -> dict[str, str]:
    """``toolscript ask``: a model that wants every tool, a few of them at a time."""
    found: dict[str, str] = {}
    names = list(visit.marks)
    for some in (names[at : at + 6] for at in range(0, len(names), 6)):
        search = calls(("tool_search", {"query": " ".join(names), "max_tools": 20}))
        wanted = calls(*((f"s__{name}", {"mark": visit.marks[name]}) for name in some))
        with endpoint(search, wanted, says("done")) as model:
            words = ("ask", "x", "--llm-url", model.url, "--llm-model", "tiny")
            bound = visit.bound or ("--class", "destructive")
            answer = visit.cli.json(*words, *bound, env=visit.environment)
        steps = answer["steps"][1:]
        assert [step["tool"] for step in steps] == [f"s__{name}" for name in some]
        found |= {step["tool"].removeprefix("s__"): outcome(step["said"]) for step in steps}
    return found


_SCRIPT = """
import { tools } from "./tools.ts";
const found = {};
await Promise.all(Object.entries(JSON.parse(Deno.args[0])).map(async ([name, mark]) => {
  const call = tools.s?.[name];
  if (call === undefined) {
    found[name] = "there is no tool";
    return;
  }
  try {
    await call({ mark });
    found[name] = "";
  } catch (error) {
    found[name] = error.message;
  }
}));
console.log(JSON.stringify(found));
"""
_PYTHON = """
import asyncio, json, sys
from tools import tools

async def call(name, given):
    client = getattr(getattr(tools, "s", None), name, None)
    if client is None:
        return "there is no tool"
    try:
        await client(given)
    except Exception as error:
        return str(error)
    return ""

async def main(every):
    said = await asyncio.gather(*(call(name, {"mark": mark}) for name, mark in every.items()))
    print(json.dumps(dict(zip(every, said))))

asyncio.run(main(json.loads(sys.argv[1])))
"""


def _typed(visit: Visit, language: str, command: Iterable[object]) -> dict[str, str]:
    """Runs a script beside the typed client, which names no profile."""
    headers = {"Authorization": f"Bearer {visit.narrow}"}
    status, module = fetch(visit.url, f"/runtime/tools.{language}", headers=headers)
    if status == 503:
        assert module["error"] == _NONE
        return dict.fromkeys(visit.marks, HIDDEN)
    (visit.folder / f"tools.{language}").write_text(module, "utf-8")
    own = {"TOOLSCRIPT_GATEWAY_URL": visit.url, "TOOLSCRIPT_GATEWAY_TOKEN": visit.narrow}
    environ = {**os.environ, **own, **({"TOOLSCRIPT_CLASS": visit.most} if visit.most else {})}
    done = subprocess.run(
        [*(str(word) for word in command), json.dumps(visit.marks)],
        cwd=visit.folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: outcome(said) for name, said in json.loads(done.stdout).items()}


def by_typescript(visit: Visit) -> dict[str, str]:
    """A typed client in TypeScript, under Deno."""
    (visit.folder / "script.ts").write_text(_SCRIPT, "utf-8")
    flags = ("--no-prompt", *OFFLINE, "--allow-net=127.0.0.1", "--allow-env")
    return _typed(visit, "ts", [DENO, "run", *flags, "script.ts"])


def by_python(visit: Visit) -> dict[str, str]:
    """A typed client in Python."""
    return _typed(visit, "py", [sys.executable, "-c", _PYTHON])


DOORS: dict[str, Door] = {
    "HTTP": over_http,
    "/message": over_message,
    "call": by_command,
    "ask": by_ask,
    "TypeScript": by_typescript,
    "Python": by_python,
}
"""For callers that cannot be asked, by name."""
BY_NAME = {"HTTP", "/message", "call"}
"""Where a caller may name any tool; the others offer those that the caller may see."""
EXACT = {"/message"}
"""Where the class of a call is the tool's own, and no bound."""
