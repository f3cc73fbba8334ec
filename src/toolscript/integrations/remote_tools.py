"""A client of a running gateway: ranks, lists and calls its tools over HTTP."""

import json
from collections.abc import Mapping
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Protocol, cast
from urllib.parse import quote, urlencode, urlsplit

from toolscript.codegen.api_definitions import valid_name
from toolscript.errors import GatewayError, UnknownNameError
from toolscript.retrieval.ranker import OfferedTool, RankedTool
from toolscript.types import ToolSpec

TIMEOUT_S = 30.0
"""Seconds to wait for an answer, unless the constructor is told otherwise."""


class ToolSource(Protocol):
    """Tools that can be listed and ranked: a `Ranker`, or a `RemoteTools`."""

    @property
    def tools(self) -> list[OfferedTool]:
        """All tools."""
        ...

    def rank(self, query: str, limit: int | None = None) -> list[RankedTool]:
        """Returns the tools that answer a question, best first."""
        ...


def as_mapping(item: Any) -> Mapping[str, Any]:
    """Returns a part of a model's answer, an object of an SDK or a mapping, as a mapping."""
    return cast("Mapping[str, Any]", item if isinstance(item, Mapping) else item.model_dump())


def find_tool(source: ToolSource, name: str) -> OfferedTool:
    """Returns the tool that a model calls by a name of its definition.

    Raises:
        UnknownNameError: No tool is called so.
    """
    for tool in source.tools:
        if valid_name(tool.name) == name:
            return tool
    raise UnknownNameError(f"no tool is called {name!r}")


class RemoteTools:
    """The tools of a gateway.

    Args:
        url: The gateway's address, such as ``http://127.0.0.1:7337``.
        token: A token of the gateway; None if it asks for none.
        timeout_s: Seconds to wait for each answer.
    """

    def __init__(self, url: str, token: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        if not url.startswith(("http://", "https://")):
            raise GatewayError(f"{url!r} is no address of a gateway; expected http://host:port")
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout_s = timeout_s

    @property
    def tools(self) -> list[OfferedTool]:
        """All tools that the token may use. Each reading asks the gateway.

        Raises:
            GatewayError: The gateway cannot be reached, or refuses.
        """
        return [OfferedTool(name=tool.id, spec=tool) for tool in self._list().values()]

    def rank(self, query: str, limit: int | None = None) -> list[RankedTool]:
        """Returns the tools that answer a question, best first.

        Args:
            query: The question, in words, or the name of a tool.
            limit: Maximum number of tools; None for the gateway's.

        Raises:
            GatewayError: The gateway cannot be reached, or refuses.
        """
        asked = {"q": query, "format": "mcp"} | ({} if limit is None else {"limit": str(limit)})
        answer = self._ask("GET", f"/search?{urlencode(asked)}")
        return [
            RankedTool(
                name=hit["toolId"],
                spec=_spec(hit["serverName"], hit["toolName"], definition),
                score=hit["confidence"],
                reason=hit["reason"],
            )
            for hit, definition in zip(answer["results"], answer["tools"], strict=True)
        ]

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Returns the result of a tool's call, as MCP has it.

        Args:
            name: The tool's id, or the name in a definition.
            arguments: The tool's arguments.

        Raises:
            GatewayError: The gateway cannot be reached, or refuses.
        """
        return self._ask("POST", f"/tools/{quote(name, safe='')}", json.dumps(arguments).encode())

    def _list(self) -> dict[str, ToolSpec]:
        answer = self._ask("GET", "/tools")
        specs = (_spec(each["serverName"], each["toolName"], each) for each in answer["tools"])
        return {spec.id: spec for spec in specs}

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Asks the gateway itself: a proxy, or the aim of a redirection, would get the token."""
        parts = urlsplit(self._url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        headers = self._headers | {"Content-Type": "application/json"}
        try:
            with closing(kind(parts.netloc.rpartition("@")[2], timeout=self._timeout_s)) as asked:
                asked.request(method, parts.path + path, body, headers)
                answer = asked.getresponse()
                content = answer.read()
        except (OSError, HTTPException, ValueError) as error:
            raise GatewayError(f"the gateway at {self._url} does not answer: {error}") from None
        if answer.status != HTTPStatus.OK:
            raise GatewayError(_message(answer.status, content))
        return json.loads(content)


def _spec(server: str, name: str, stated: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        server=server,
        name=name,
        description=stated.get("description", ""),
        input_schema=stated["inputSchema"],
        annotations=stated.get("annotations"),
    )


def _message(status: int, content: bytes) -> str:
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the gateway answered with status {status}"
