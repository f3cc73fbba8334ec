"""The Python SDK's client, as it logs in by itself.

Its argument has the ``url`` of the server, the ``redirect`` address of its own, and maybe the
address of a ``document`` about it. For each line of standard input it connects anew and writes
``{"tools": [...]}``. If it has to log in, it writes ``{"authorize": URL}`` first, and reads the
query with which the browser came back.
"""

import json
import sys
from typing import Any
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
import httpx2
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

GIVEN: dict[str, str] = json.loads(sys.argv[1])


class Memory:
    """A `TokenStorage`."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def write(said: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def read() -> str:
    return await anyio.to_thread.run_sync(sys.stdin.readline)


async def redirect(url: str) -> None:
    write({"authorize": url})


async def callback() -> AuthorizationCodeResult:
    return AuthorizationCodeResult(**dict(parse_qsl((await read()).strip())))


async def tools(memory: Memory) -> list[str]:
    metadata = OAuthClientMetadata(client_name="Python SDK", redirect_uris=[GIVEN["redirect"]])
    provider = OAuthClientProvider(
        GIVEN["url"], metadata, memory, redirect, callback, GIVEN.get("document")
    )
    async with httpx2.AsyncClient(auth=provider, timeout=60) as http:
        server = streamable_http_client(GIVEN["url"], http_client=http)
        async with Client(server) as client:
            return [each.name for each in (await client.list_tools()).tools]


async def main() -> None:
    memory = Memory()
    while await read():
        try:
            write({"tools": await tools(memory)})
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is told
            write({"error": repr(error)})


anyio.run(main)
