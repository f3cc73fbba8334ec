"""Runs a server as a child process and ends it with all that it started.

The SDK's own transport ends only a server that does not obey, so the children of an
obedient one would live on; and it takes a server for alive while a child holds its
output open. It has no limit for the size of a message either.
"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import IO, TypeAlias

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client
from mcp.shared.message import SessionMessage

from toolscript.gateway.jsonrpc_reader import MESSAGE_BYTES, BoundedBuffer
from toolscript.gateway.process.process_reaper import ProcessReaper
from toolscript.gateway.process.reap import TAG_VARIABLE, reap
from toolscript.gateway.process.stderr_log import StderrLog
from toolscript.types import ServerSpec

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A line that goes on so far past the limit ends the connection."""
PATIENCE_S = 2.0
"""How long a server may take to end when its input does, and again after each signal."""
_POLL_S = 0.02
_IDLE_POLL_S = 1.0
"""How often an idle server is polled for its end."""
_LAST_OUTPUT_S = 0.2
"""How long the output of a server that has ended is still read."""
_STDERR_PAUSE_S = 0.01
"""The pause between two reads of standard error, which slows a server that floods it."""
_PIPE_BYTES = 65536
_INHERITED = {
    *("ALL_PROXY", "FTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
    *("SSL_CERT_DIR", "SSL_CERT_FILE", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    *("CONTAINER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST"),
    *("LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"),
    *("XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"),
    *("ASDF_DATA_DIR", "JAVA_HOME", "NVM_DIR", "PYENV_ROOT", "VOLTA_HOME"),
}
"""Without these a server behind a proxy reaches nothing, and a program finds no runtime. None is
a key or a right of its own, but for a password in a proxy's address."""

_Received: TypeAlias = SessionMessage | Exception
_Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[_Received], MemoryObjectSendStream[SessionMessage]
]
_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def process_streams(
    spec: ServerSpec,
    stderr_log: StderrLog,
    reaper: ProcessReaper,
    note_pid: Callable[[int | None], None],
) -> AsyncGenerator[_Streams]:
    """Starts a process, yields the streams of its messages, and ends it and its descendants.

    Descendants are the process group and every process with the reaper's tag in its environment.

    Args:
        spec: The server that is started.
        stderr_log: Takes the standard error of the process.
        reaper: Tags the process.
        note_pid: Takes the process id once the process runs, and None once it has ended. It is
            not called on Windows, since there the SDK starts the process and keeps the id.
    """
    with stderr_log.opened():
        tag = await anyio.to_thread.run_sync(reaper.tag)
        parameters = StdioServerParameters(
            command=spec.command,
            args=list(spec.args),
            env={
                **_inherit_variables(spec.env),
                **spec.env,
                **({TAG_VARIABLE: tag} if tag else {}),
            },
            cwd=spec.cwd,
            encoding_error_handler="replace",
        )
        if sys.platform == "win32":  # there the SDK's own transport has to do
            with stderr_log.handed_over() as file:
                async with stdio_client(parameters, file) as (read, write):
                    yield read, write  # pyright: ignore[reportReturnType] - protocols of the same shape
            return
        async with reaper.spawn_lock:
            # Nothing may be awaited after this: a cancellation would lose the process.
            process = _Process(await anyio.to_thread.run_sync(_popen, parameters))
        note_pid(process.pid)
        try:
            async with _connect(process, stderr_log) as streams:
                yield streams
        finally:
            note_pid(None)
            if tag:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(reap, tag)
            process.stderr.close()


def _inherit_variables(stated: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that a server gets beside the SDK's, unless its entry states them."""
    own = {name.upper() for name in stated}
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper() not in own and (name.upper() in _INHERITED or name.startswith("LC_"))
    }


def _popen(parameters: StdioServerParameters) -> "subprocess.Popen[bytes]":
    """Starts a process with ``vfork`` if possible.

    The event loop's own way copies the memory map of this process while the loop waits.
    """
    return subprocess.Popen(  # noqa: S603 - a server of the configuration
        [parameters.command, *parameters.args],
        env=get_default_environment() | (parameters.env or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=parameters.cwd,
        start_new_session=True,
        bufsize=0,
    )


class _Process:
    """A process and our ends of its pipes, which never block."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        assert popen.stdin and popen.stdout and popen.stderr  # noqa: S101, PT018 - these are pipes
        self.pid = popen.pid
        self.stderr = popen.stderr
        self.output_ended = anyio.Event()
        self._popen = popen
        self._stdin, self._stdout = popen.stdin, popen.stdout
        for pipe in (self._stdin, self._stdout, self.stderr):
            os.set_blocking(pipe.fileno(), False)

    async def send(self, data: bytes) -> None:
        """Writes to its input."""
        while data:
            if self._stdin.closed:
                raise anyio.ClosedResourceError
            await anyio.wait_writable(self._stdin)
            data = data[self._stdin.write(data) or 0 :]

    async def receive(self) -> bytes:
        """Returns the next output, or nothing at the end."""
        data: bytes | None = None
        while data is None and not self._stdout.closed:
            # Waits even if there is output already: other tasks run during a flood.
            await anyio.wait_readable(self._stdout)
            data = self._stdout.read(_PIPE_BYTES)
        if not data:
            self.output_ended.set()
        return data or b""

    async def wait(self, poll_s: float = _POLL_S) -> None:
        """Waits until it has ended."""
        while self._popen.poll() is None:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(poll_s)

    def signal_group(self, number: int) -> bool:
        """Sends a signal, or none for 0, to its process group; returns whether it exists."""
        self._popen.poll()
        try:
            os.killpg(self._popen.pid, number)
        except OSError as error:
            return isinstance(error, PermissionError)
        return True

    async def end(self) -> None:
        """Closes its input, then sends SIGTERM and SIGKILL to its group, with pauses."""
        _close(self._stdin)
        with anyio.move_on_after(PATIENCE_S):
            await self.wait()
        for number in (signal.SIGTERM, signal.SIGKILL):
            exists = self.signal_group(number)
            with anyio.move_on_after(PATIENCE_S):
                while exists:
                    await anyio.sleep(_POLL_S)
                    exists = self.signal_group(0)
        with anyio.move_on_after(PATIENCE_S):
            await self.output_ended.wait()
        _close(self._stdout)


def _close(pipe: IO[bytes]) -> None:
    """Closes a pipe, also for a task that waits for it."""
    if not pipe.closed:
        anyio.notify_closing(pipe)
        pipe.close()


@asynccontextmanager
async def _connect(process: _Process, stderr_log: StderrLog) -> AsyncGenerator[_Streams]:
    """Yields the streams of a process that has been started, and ends it after the block."""
    # Read to its end: a server that is told to end may have to write to do so.
    stderr_scope = anyio.CancelScope(shield=True)
    inbound, read = anyio.create_memory_object_stream[_Received]()
    write, outbound = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_receive, process, inbound)
        tasks.start_soon(_send, process, outbound, inbound)
        tasks.start_soon(_close_at_end, process, inbound)
        tasks.start_soon(_log_stderr, process.stderr, stderr_log, stderr_scope)
        try:
            yield read, write
        finally:
            read.close()
            write.close()
            with anyio.CancelScope(shield=True):
                await process.end()
            stderr_scope.cancel()
            tasks.cancel_scope.cancel()


async def _receive(process: _Process, inbound: MemoryObjectSendStream[_Received]) -> None:
    buffer = BoundedBuffer()
    try:
        with suppress(*_CLOSED):
            async with inbound:
                while chunk := await process.receive():
                    *ends, rest = chunk.split(b"\n")
                    for end in ends:
                        buffer.add(end)
                        await inbound.send(await _message(buffer))
                        buffer = BoundedBuffer()
                    buffer.add(rest)
                    if buffer.size > MESSAGE_BYTES + MAX_LINE_BYTES:
                        break
    finally:
        # A server that is still writing could not see that its input has ended.
        with anyio.CancelScope(shield=True), suppress(*_CLOSED):
            while await process.receive():
                pass


async def _message(line: BoundedBuffer) -> _Received:
    try:
        return SessionMessage(await line.message())
    except ValueError as error:
        error.__context__ = None
        return error.with_traceback(None)  # its frames hold the line


async def _send(
    process: _Process,
    outbound: MemoryObjectReceiveStream[SessionMessage],
    inbound: MemoryObjectSendStream[_Received],
) -> None:
    try:
        async with outbound:
            async for message in outbound:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.send(text.encode("utf-8", "replace") + b"\n")
    except _CLOSED:
        await inbound.aclose()


async def _close_at_end(process: _Process, inbound: MemoryObjectSendStream[_Received]) -> None:
    """Ends the connection with the process, even if a child holds its output open."""
    await process.wait(_IDLE_POLL_S)
    await anyio.sleep(_LAST_OUTPUT_S)
    await inbound.aclose()


async def _log_stderr(stderr: IO[bytes], log: StderrLog, scope: anyio.CancelScope) -> None:
    """Logs standard error, and at the end the rest in the pipe."""
    with scope:
        while _log_available(stderr, log):
            await anyio.sleep(_STDERR_PAUSE_S)
            await anyio.wait_readable(stderr)
    _log_available(stderr, log)


def _log_available(stderr: IO[bytes], log: StderrLog) -> bool:
    """Logs the available output; returns whether there may be more."""
    data: bytes | None = stderr.read(_PIPE_BYTES)
    log.write(data or b"")
    return data != b""
