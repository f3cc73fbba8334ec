"""An application in this process that a test calls like a function."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from toolscript.app.application import App
from toolscript.bootstrap import Wiring, application
from toolscript.config.servers import load_config
from toolscript.config.settings import load_settings
from toolscript.types import SearchRequest, SearchResult, ServerStatus, ToolSpec


class InProcessClient:
    """Calls an application that runs on an event loop in another thread; made by `running_client`.

    Every method blocks until the answer is there, and raises what the method of ``app`` of the
    same name raises; ``portal`` leads to the event loop.
    """

    def __init__(self, app: App, portal: BlockingPortal) -> None:
        self.app = app
        self.portal = portal

    def wait_until_ready(self) -> None:
        """Return once every server is connected or has failed and every tool is indexed."""
        self.portal.call(self.app.ready)

    def servers(self) -> list[ServerStatus]:
        """Returns the state of each configured server, by name."""
        return self.portal.call(self.app.catalogue().servers)

    def tools(self, server: str | None = None) -> list[ToolSpec]:
        """Returns the tools of every server, or of ``server``, by id."""
        return self.portal.call(self.app.catalogue().tools, server)

    def search(self, text: str, **options: Any) -> SearchResult:
        """Returns what a search for ``text`` finds.

        ``options`` are further fields of `SearchRequest`.
        """
        request = SearchRequest(text=text, **options)
        return self.portal.call(self.app.search, request).result

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns the result of calling ``tool``, an id, with ``arguments``, as MCP has it."""
        return self.portal.call(self.app.call, tool, arguments or {})


@contextmanager
def running_client(
    folder: Path,
    servers: Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    wiring: Wiring | None = None,
) -> Generator[InProcessClient]:
    """Run an application for as long as the block lasts.

    Args:
        folder: Gets the configuration and all data.
        servers: The entries of ``mcpServers``, by name.
        environ: Further variables of ``docs/reference/settings.md``. Those of the process do not
            count, and without others the bundled model is used.
        wiring: Which parts of the application are used; all by default.
    """
    folder = folder.resolve()
    config = folder / "toolscript.json"
    config.write_text(json.dumps({"mcpServers": dict(servers)}), "utf-8")
    own = {"HOME": str(folder), "TOOLSCRIPT_DATA_DIR": str(folder / "data")}
    variables = {**own, "TOOLSCRIPT_SEARCH_MODEL": "bundled", **(environ or {})}
    app = application(
        load_settings({}, variables), load_config(config, folder, variables), wiring, variables
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(app.running()):
        yield InProcessClient(app, portal)
