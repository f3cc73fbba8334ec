"""Stores results that are too long for a model; a tool and a resource serve the rest."""

import logging
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import anyio

from toolscript.app.application import App
from toolscript.app.result_store import ResultOwner
from toolscript.gateway.raw_results import in_thread
from toolscript.surfaces.mcp.result_truncation import RESULTS, read_more

log = logging.getLogger(__name__)
ONE_AT_A_TIME = anyio.CapacityLimiter(1)
"""Large results are worked on one after the other: each needs several times its memory."""
_Raw: TypeAlias = dict[str, Any]


class StoredResults:
    """The stored results of an application, for the callers of one endpoint.

    Args:
        app: Has the results.
        replica: The gateway that keeps them, if there are several: handles begin with it.
    """

    def __init__(self, app: App, replica: str = "") -> None:
        self._app = app
        self._replica = replica

    def add(self, owner: ResultOwner, tool: str, content: bytes) -> str:
        """Stores a result of a tool; returns its handle, or "" if it cannot be written."""
        try:
            handle = self._app.results.add(self._narrow(owner), content)
        except OSError as error:
            log.warning("a long result of %s cannot be kept: %s", tool, error)
            return ""
        return f"{self._replica}-{handle}" if self._replica else handle

    def load(self, owner: ResultOwner, handle: str) -> bytes:
        """Returns a result of the owner's; raises `UnknownNameError` for any other handle."""
        return self._app.results.get(self._narrow(owner), handle.rpartition("-")[2])

    async def read(self, owner: ResultOwner, handle: str, wanted: Mapping[str, str]) -> _Raw:
        """Returns a part of a result: see `read_more`, which may raise `ArgumentsError`, too.

        Other keys of ``wanted`` than its parameters are ignored.
        """
        part = {key: wanted[key] for key in ("lines", "grep", "path") if key in wanted}

        def work() -> _Raw:
            return read_more(self.load(owner, handle), **part)

        return await in_thread(work, ONE_AT_A_TIME)

    async def read_resource(self, owner: ResultOwner, uri: str) -> _Raw:
        """Returns the same for ``toolscript://results/HANDLE?lines=61-120``, as a resource."""
        wanted = dict(parse_qsl(urlsplit(uri).query))
        handle = uri.removeprefix(RESULTS).partition("?")[0]
        result = await self.read(owner, handle, wanted)
        return {"contents": [{"uri": uri, **_contents(block)} for block in result["content"]]}

    def _narrow(self, owner: ResultOwner) -> ResultOwner:
        """Returns an owner whose grant is within the present selections of its profiles."""
        session, grant = owner
        return session, self._app.permissions.narrow(grant)


def _contents(block: _Raw) -> _Raw:
    """Returns a block of a result as the contents of a resource."""
    if block.get("type") == "resource":
        return {**block["resource"]}
    if "text" in block:
        return {"mimeType": "text/plain", "text": block["text"]}
    return {"mimeType": block.get("mimeType"), "blob": block.get("data", "")}
