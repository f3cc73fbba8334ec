"""A server as a process: started, spoken to through its pipes, ended with all that it started.

The library's own transport ends only a server that does not obey, so what an
obedient one has started would live on; and it takes a server for alive as long
as anything it started holds its output open.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import UNIXSocketStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client
from mcp.shared.message import SessionMessage

from toolscript.gateway.jsonrpc_reader import BoundedBuffer
from toolscript.gateway.process.reap import sweep
from toolscript.gateway.process.stderr_log import ErrorLog

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A line that goes on for so long beyond what is read does not end: the connection does."""
PATIENCE_S = 2.0
"""How long a server may take to end when its input does, and again when it is told to."""
_POLL_S = 0.02
_WATCH_S = 1.0
"""How often a server that says nothing is looked at: most are idle most of the time."""

_BREATH_S = 0.01
"""Between two readings of standard error: a server that floods it waits for us."""
_PIPE_BYTES = 65536

_Received: TypeAlias = SessionMessage | Exception
_Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[_Received], MemoryObjectSendStream[SessionMessage]
]
_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def process_streams(
    parameters: StdioServerParameters, errors: ErrorLog, mark: str, turn: anyio.Lock, limit: int
) -> AsyncGenerator[_Streams]:
    """Messages from and to a new process; it and its descendants end with the block.

    A message of more than ``limit`` bytes is not read. Its descendants are its process
    group, and whatever has ``mark`` in the environment; it is empty where there are no
    marks. Processes are started in ``turn``: each stops the whole process for a moment.
    """
    if sys.platform == "win32":  # there the library's own does all of this
        with errors.handed_over() as file:
            async with stdio_client(parameters, file) as (read, write):
                yield read, write  # pyright: ignore[reportReturnType] - protocols of the same shape
        return
    with _pipe() as (source, sink):
        try:
            async with turn:
                process = await _started(parameters, sink)
        finally:
            os.close(sink)
        try:
            async with _attended(process, source, errors, limit) as streams:
                yield streams
        finally:
            if mark:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(sweep, mark)


@contextmanager
def _pipe() -> Generator[tuple[int, int]]:
    """Both ends; the second is the caller's to close.

    A pipe of our own, and none of the process's: whatever else holds it open
    cannot keep us from closing our end.
    """
    source, sink = os.pipe()
    os.set_blocking(source, False)
    try:
        yield source, sink
    finally:
        os.close(source)


class _Process:
    """A process and its pipes, which nothing but this holds open on our side.

    `subprocess` starts it, with ``vfork`` where there is one: what the event
    loop has for this copies our whole memory map, and the loop waits for it.
    """

    def __init__(self, popen: "subprocess.Popen[bytes]", stdin: UNIXSocketStream) -> None:
        assert popen.stdout  # noqa: S101 - it was opened with a pipe
        self.pid = popen.pid
        self.stdin = stdin
        self.silent = anyio.Event()
        """Its output has ended."""
        self._popen = popen
        self._stdout = popen.stdout
        os.set_blocking(self._stdout.fileno(), False)

    @property
    def ended(self) -> bool:
        """Whether it has; takes the process away once it has."""
        return self._popen.poll() is not None

    async def received(self) -> bytes:
        """What it says next; nothing at the end."""
        while not self._stdout.closed:
            # Even where there is something already: a flood must let others in.
            await anyio.wait_readable(self._stdout)
            with suppress(BlockingIOError):
                if data := os.read(self._stdout.fileno(), _PIPE_BYTES):
                    return data
                break
        self.silent.set()
        return b""

    def close_output(self) -> None:
        """Listen no more."""
        if not self._stdout.closed:
            anyio.notify_closing(self._stdout)
            self._stdout.close()


async def _started(parameters: StdioServerParameters, stderr: int) -> _Process:
    ours, theirs = socket.socketpair()
    with theirs:
        stdin = await UNIXSocketStream.from_socket(ours)
        try:
            # Nothing may be awaited after this: a cancellation would lose the process.
            popen = await anyio.to_thread.run_sync(_popen, parameters, theirs.fileno(), stderr)
        except BaseException:
            ours.close()
            raise
    return _Process(popen, stdin)


def _popen(parameters: StdioServerParameters, stdin: int, stderr: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - a server of the configuration
        [parameters.command, *parameters.args],
        env=get_default_environment() | (parameters.env or {}),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd=parameters.cwd,
        start_new_session=True,
        bufsize=0,
    )


@asynccontextmanager
async def _attended(
    process: _Process, stderr: int, errors: ErrorLog, limit: int
) -> AsyncGenerator[_Streams]:
    """The streams of a process that has been started, until it has ended."""
    # Heard to its end: a server that is told to end may have to write to do so.
    hearing = anyio.CancelScope(shield=True)
    inbound, read = anyio.create_memory_object_stream[_Received]()
    write, outbound = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_receive, process, inbound, limit)
        tasks.start_soon(_send, process, outbound, inbound)
        tasks.start_soon(_notice_end, process, inbound)
        tasks.start_soon(_overhear, stderr, errors, hearing)
        try:
            yield read, write
        finally:
            read.close()
            write.close()
            with anyio.CancelScope(shield=True):
                await _end(process)
            hearing.cancel()
            tasks.cancel_scope.cancel()


async def _receive(
    process: _Process, inbound: MemoryObjectSendStream[_Received], limit: int
) -> None:
    buffer = BoundedBuffer(limit)
    try:
        with suppress(*_CLOSED):
            async with inbound:
                while chunk := await process.received():
                    *ends, rest = chunk.split(b"\n")
                    for end in ends:
                        buffer.add(end)
                        await inbound.send(await _message(buffer))
                        buffer = BoundedBuffer(limit)
                    buffer.add(rest)
                    if buffer.size > limit + MAX_LINE_BYTES:
                        break
    finally:
        # A server that is still writing could not see that its input has ended.
        with anyio.CancelScope(shield=True), suppress(*_CLOSED):
            while await process.received():
                pass


async def _message(line: BoundedBuffer) -> _Received:
    try:
        return SessionMessage(await line.message())
    except ValueError as error:
        return error


async def _send(
    process: _Process,
    outbound: MemoryObjectReceiveStream[SessionMessage],
    inbound: MemoryObjectSendStream[_Received],
) -> None:
    try:
        async with outbound:
            async for message in outbound:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode("utf-8", "replace") + b"\n")
    except _CLOSED:
        await inbound.aclose()


async def _overhear(stderr: int, errors: ErrorLog, hearing: anyio.CancelScope) -> None:
    """Keep the server's words, and at the end those that are still in the pipe."""
    with hearing:
        while _heard(stderr, errors):
            await anyio.sleep(_BREATH_S)
            await anyio.wait_readable(stderr)
    _heard(stderr, errors)


def _heard(stderr: int, errors: ErrorLog) -> bool:
    """Read what is there; whether there may be more."""
    try:
        data = os.read(stderr, _PIPE_BYTES)
    except BlockingIOError:
        return True
    errors.write(data)
    return bool(data)


async def _notice_end(process: _Process, inbound: MemoryObjectSendStream[_Received]) -> None:
    """End the connection with the process, even if another one holds its output open."""
    await _until_ended(process, _WATCH_S)
    await anyio.sleep(10 * _POLL_S)  # for what it has said last
    await inbound.aclose()


async def _until_ended(process: _Process, pause_s: float = _POLL_S) -> None:
    while not process.ended:  # noqa: ASYNC110 - there is no event for it
        await anyio.sleep(pause_s)


async def _end(process: _Process) -> None:
    """Close its input, then tell its whole group to end, then see to it."""
    with suppress(*_CLOSED):
        await process.stdin.aclose()
    with anyio.move_on_after(PATIENCE_S):
        await _until_ended(process)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with anyio.move_on_after(PATIENCE_S):
            while _signalled(process, sign):
                sign = 0  # noqa: PLW2901 - once; after that only ask whether anybody is left
                await anyio.sleep(_POLL_S)
    with anyio.move_on_after(PATIENCE_S):
        await process.silent.wait()
    process.close_output()


def _signalled(process: _Process, sign: int) -> bool:
    """Whether there was anybody in the process's group to send a signal to."""
    _ = process.ended
    try:
        os.killpg(process.pid, sign)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
