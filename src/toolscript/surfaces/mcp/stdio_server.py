"""Serves MCP on standard input and output, for clients that start their servers themselves."""

import logging
import os
import signal
from io import TextIOWrapper
from pathlib import Path

import anyio
from anyio.abc import TaskStatus
from mcp.server.stdio import stdio_server

from toolscript.app.application import App
from toolscript.surfaces.mcp.request_context import Exposure
from toolscript.surfaces.mcp.sdk_server import McpServer
from toolscript.surfaces.server.signals import end_signals
from toolscript.types import Grant

log = logging.getLogger(__name__)
_SIGNAL_EXIT_CODE = 128


async def serve_stdio(app: App, exposure: Exposure, grant: Grant) -> None:
    """Serve the client until it closes our input, or a signal asks this process to end.

    ``grant`` is what the client may see and do. Ends the process with 1 once a background task
    has died.
    """
    server = McpServer(app, exposure, grant)
    received: list[int] = []
    async with stdio_server(_input()) as (read, write):
        try:
            async with anyio.create_task_group() as tasks, app.running():
                await tasks.start(_listen, received, tasks.cancel_scope)
                tasks.start_soon(app.tasks.run, "mcp", server.run_background)
                await server.serve(read, write, exposure)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as error:
            failure = app.tasks.failure  # which has been logged already
            log.error("%s", failure or "this process failed", exc_info=None if failure else error)  # noqa: TRY400 - see there
            os._exit(1)
        if received:
            # Every server is closed; only a thread still waits for a line of input.
            os._exit(_SIGNAL_EXIT_CODE + received[0])


def _input() -> anyio.AsyncFile[str]:
    """Returns standard input, past a byte order mark. What is started reads nothing of it."""
    messages = os.fdopen(os.dup(0), "rb")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return anyio.wrap_file(TextIOWrapper(messages, encoding="utf-8-sig", errors="replace"))


async def _listen(
    received: list[int], scope: anyio.CancelScope, *, task_status: TaskStatus[None]
) -> None:
    numbers = [signal.Signals(number) for number in (*end_signals(), signal.SIGINT)]
    with anyio.open_signal_receiver(*numbers) as signals:
        task_status.started()
        async for number in signals:
            received.append(number)
            scope.cancel()
