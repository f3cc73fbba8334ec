"""Stores results that are too long for a model, and reads more of them for their owners."""

import logging
from collections.abc import Mapping
from typing import Any, TypeAlias

import anyio

from toolscript.app.application import App
from toolscript.app.result_store import ResultOwner
from toolscript.gateway.raw_results import in_thread
from toolscript.surfaces.mcp.result_reading import read_more, read_value

log = logging.getLogger(__name__)
ONE_AT_A_TIME = anyio.CapacityLimiter(1)
"""Large results are worked on one after the other: each needs several times its memory."""
_Raw: TypeAlias = dict[str, Any]


class StoredResults:
    """The stored results of an application, for the callers of one endpoint.

    Args:
        app: Has the results.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    def add(self, owner: ResultOwner, tool: str, content: bytes) -> str:
        """Stores a result of a tool; returns its handle, or "" if it cannot be written."""
        try:
            return self._app.results.add(self._narrow(owner), content)
        except OSError as error:
            log.warning("a long result of %s cannot be kept: %s", tool, error)
            return ""

    async def read(self, owner: ResultOwner, handle: str, wanted: Mapping[str, str]) -> _Raw:
        """Returns a part of a result: see `read_more`.

        Other keys of ``wanted`` than its parameters are ignored. Raises `UnknownNameError` for a
        handle that is not the owner's.
        """
        part = {key: wanted[key] for key in ("lines", "grep", "query") if key in wanted}
        return await in_thread(lambda: read_more(self._load(owner, handle), **part), ONE_AT_A_TIME)

    async def read_value(self, owner: ResultOwner, handle: str, query: str) -> str:
        """Returns a result, or the value of a query in it, as JSON; raises the same errors."""
        return await in_thread(lambda: read_value(self._load(owner, handle), query), ONE_AT_A_TIME)

    def _load(self, owner: ResultOwner, handle: str) -> bytes:
        return self._app.results.get(self._narrow(owner), handle)

    def _narrow(self, owner: ResultOwner) -> ResultOwner:
        """Returns an owner whose grant is within the present selections of its profiles."""
        session, grant = owner
        return session, self._app.permissions.narrow(grant)
