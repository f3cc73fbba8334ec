"""The server of the stored scripts: it lists them as tools, and answers a call with the script.

The surface that received the call runs the script, because its calls are the caller's.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from toolscript.config.stored_scripts import ScriptFolder, StoredScript
from toolscript.errors import NotConnectedError, RefusedError
from toolscript.gateway.base import Caller, Ready, Report
from toolscript.gateway.catalogue import contents_of
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.text.wire_constants import SCRIPT
from toolscript.types import ServerSpec

_NO_METHOD = -32601


class ScriptUpstream:
    """Lists the scripts when it begins, and again when it is told to; see `Upstream`."""

    pid = None

    def __init__(
        self, spec: ServerSpec, report: Callable[[Report], None], pins: DefinitionPins
    ) -> None:
        self._spec, self._report, self._pins = spec, report, pins
        self._scripts: dict[str, StoredScript] = {}
        """The scripts that may be called, by name."""
        self._due = anyio.Event()
        self._listed = anyio.Event()

    async def run(self) -> None:
        """See `Upstream.run`."""
        while True:
            self._due = anyio.Event()
            await anyio.to_thread.run_sync(self._list)
            self._listed.set()
            await self._due.wait()

    def _list(self) -> None:
        scripts, problems = ScriptFolder(Path(self._spec.scripts[0]).parent).read()
        tools = tuple(
            msgspec.structs.replace(s.tool, config_class=self._spec.class_of(s.tool.name))
            for s in scripts
        )
        reviewed = self._pins.review(self._spec, tools)
        accepted = {tool.name for tool in reviewed.accepted}
        self._scripts = {s.tool.name: s for s in scripts if s.tool.name in accepted}
        self._report(
            Ready(
                **contents_of(reviewed),
                transport=self._spec.transport,
                rejected=tuple(problems),
                lists={},
            )
        )

    def list_again(self) -> None:
        """See `Upstream.list_again`."""
        self._due.set()

    async def send(self, method: str, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """See `Upstream.send`. The result has the script and its arguments."""
        del caller
        if method != "tools/call":
            raise RefusedError(f"scripts do not answer {method}", _NO_METHOD)
        await self._listed.wait()
        script = self._scripts.get(params["name"])
        if script is None:
            raise NotConnectedError(f"the script {params['name']} is not there any more")
        return {"resultType": SCRIPT, "script": script.text, "arguments": params["arguments"]}
