"""The MCP door on standard input and output, for clients that start their servers themselves."""

import logging
import os
import signal
from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server

from toolscript.app.application import App
from toolscript.surfaces.mcp.endpoint import Exposure
from toolscript.surfaces.mcp.sdk_server import DoorServer
from toolscript.surfaces.server.signals import end_signals
from toolscript.types import EVERYTHING

log = logging.getLogger(__name__)
_BY_A_SIGNAL = 128


async def serve_stdio(app: App, exposure: Exposure) -> None:
    """Serve the client at the other end until it closes our input, or a signal asks to end.

    Ends the process with 1 once a background task has died.
    """
    server = DoorServer(app, exposure, lambda _: EVERYTHING)
    ended: list[int] = []
    async with stdio_server() as (read, write):
        try:
            async with anyio.create_task_group() as tasks, app.running():
                await tasks.start(_listen, ended, tasks.cancel_scope)
                tasks.start_soon(app.task_monitor.run, "mcp", server.run_beside)
                await _serve(server, read, write, exposure)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as error:
            failure = app.task_monitor.failure  # which has been logged already
            log.error("%s", failure or "this process failed", exc_info=None if failure else error)  # noqa: TRY400 - see there
            os._exit(1)
        if ended:
            # Every server is closed; only a thread still waits for a line of input.
            os._exit(_BY_A_SIGNAL + ended[0])


async def _listen(
    ended: list[int], scope: anyio.CancelScope, *, task_status: TaskStatus[None]
) -> None:
    numbers = [signal.Signals(number) for number in (*end_signals(), signal.SIGINT)]
    with anyio.open_signal_receiver(*numbers) as received:
        task_status.started()
        async for number in received:
            ended.append(number)
            scope.cancel()


async def _serve(server: DoorServer, read: Any, write: Any, exposure: Exposure) -> None:
    if exposure == "two-phase":  # which needs a session, so a version that has them
        await serve_loop(server, read, write, lifespan_state={})
    else:
        await server.run(read, write, server.create_initialization_options())
