"""What a caller sees through each door: everything that the door says of servers and tools.

A door takes a `Visitor` and returns its answers as one text, in which the test looks for names.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.stdio_sessions import session
from tests.support import PATIENCE_S, Cli, fetch
from tests.surfaces.web.browser import Browser

QUERY = "goes"
"""The question, which the description of each tool answers."""


@dataclass(frozen=True)
class Visitor:
    """A caller of a gateway, under a profile if it names one."""

    cli: Cli
    url: str
    profile: str = ""
    token: str = ""

    @property
    def headers(self) -> dict[str, str]:
        sent = {"Toolscript-Profile": self.profile} if self.profile else {}
        return sent | ({"Authorization": f"Bearer {self.token}"} if self.token else {})

    @property
    def env(self) -> dict[str, str]:
        shown = {"TOOLSCRIPT_GATEWAY_URL": self.url, "TOOLSCRIPT_GATEWAY_TOKEN": self.token}
        return shown if self.token else {}

    @property
    def place(self) -> str:
        """The address of MCP."""
        return f"{self.url}/mcp/p/{self.profile}" if self.profile else f"{self.url}/mcp"

    def run(self, *words: str) -> str:
        """What a command says, its messages included."""
        flags = ("--profile", self.profile) if self.profile else ()
        done = self.cli(*words, *flags, env=self.env)
        return done.stdout + done.stderr

    def get(self, path: str, **query: object) -> str:
        """What a route answers."""
        answer = fetch(self.url, path, query, headers=self.headers)[1]
        return answer if isinstance(answer, str) else json.dumps(answer)


Door: TypeAlias = Callable[[Visitor], str]


def by_commands(visitor: Visitor) -> str:
    """The lists and the search of the command line."""
    every = (("list-tools",), ("list-servers",), ("search", QUERY, "--threshold", "0"))
    return "\n".join(visitor.run(*words) for words in every)


def by_types(visitor: Visitor) -> str:
    """``toolscript get-types``."""
    return visitor.run("get-types")


def over_http(visitor: Visitor) -> str:
    """The routes of the lists, the search, the metrics and the graph."""
    found = visitor.get("/search", q=QUERY, threshold=0)
    paths = ("/tools", "/servers", "/health", "/skills", "/graph")
    return "\n".join([found, *map(visitor.get, paths)])


def by_clients(visitor: Visitor) -> str:
    """The typed clients that the gateway makes."""
    return "\n".join(visitor.get(f"/runtime/tools.{language}") for language in ("ts", "py"))


def by_page(visitor: Visitor) -> str:
    """The page's screens of servers and of a search."""
    env = visitor.env | ({"TOOLSCRIPT_PROFILE": visitor.profile} if visitor.profile else {})
    browser = Browser(visitor.url).log_in(visitor.cli, **env)
    paths = ("/ui/servers", f"/ui/?q={QUERY}&threshold=0")
    return "\n".join(browser.page(path).one("main").text for path in paths)


def by_stdio(visitor: Visitor) -> str:
    """``toolscript mcp``: a plain proxy, and its prompts."""
    flags = ("--profile", visitor.profile) if visitor.profile else ()
    cli = Cli(visitor.cli.home, {**visitor.cli.env, **visitor.env}, visitor.cli.storage)
    with session(cli, "--exposure", "all", *flags) as one:
        one.ask("ping")  # from now on the gateway answers, and no list of an earlier one
        return json.dumps([one.ask("tools/list"), one.ask("prompts/list")])


def _over_mcp(visitor: Visitor, mode: Literal["auto", "legacy"]) -> str:
    """The greeting, the lists and a search over HTTP."""

    async def talk() -> list[str]:
        said: list[str] = []
        async with httpx2.AsyncClient(headers=visitor.headers, timeout=PATIENCE_S) as sends:
            for place in (visitor.place, f"{visitor.place}/all"):
                server = streamable_http_client(place, http_client=sends)
                async with Client(server, mode=mode) as client:
                    said += [client.instructions or ""]
                    said += [str(await client.list_tools()), str(await client.list_prompts())]
                    if place == visitor.place:
                        asked: dict[str, Any] = {"query": QUERY, "detail": True, "limit": 50}
                        said.append(str(await client.call_tool("search_tools", asked)))
        return said

    return "\n".join(anyio.run(talk))


def over_mcp(visitor: Visitor) -> str:
    """The protocols that have sessions."""
    return _over_mcp(visitor, "legacy")


def over_newest_mcp(visitor: Visitor) -> str:
    """The newest protocol, which has none."""
    return _over_mcp(visitor, "auto")


SIGHTS: dict[str, Door] = {
    "commands": by_commands,
    "get-types": by_types,
    "HTTP": over_http,
    "clients": by_clients,
    "page": by_page,
    "stdio": by_stdio,
    "MCP": over_mcp,
    "newest MCP": over_newest_mcp,
}


def call(visitor: Visitor, tool: str) -> set[str]:
    """What becomes of a call of a tool, over HTTP and by the command: ``called`` or ``refused``."""
    status, answer = fetch(
        visitor.url,
        f"/tools/{tool}",
        method="POST",
        headers={**visitor.headers, "Content-Type": "application/json"},
        body=b"{}",
    )
    assert status in {200, 403, 404}, answer
    said = visitor.run("call", tool)
    reasons = ("no tool is called", "may not be called", "is turned off")
    is_refused = any(each in said for each in reasons)
    return {"called" if status == 200 else "refused", "refused" if is_refused else "called"}
