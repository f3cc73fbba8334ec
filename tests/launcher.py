"""Runs programs as forks of a process that has imported them, which saves most of their time.

A fork runs ``python -m toolscript``, or a helper server, as the interpreter would: with the
arguments, the environment, the directory and the output of its own, and as ``__main__``. What it
does not do is start the interpreter, import, and free all objects in the end; nor does a gateway
that such a command starts. So what depends on these (``PYTHONPATH``, for one) is tested with
processes that are started the long way, as those of real clients and gateways in the foreground
are.
"""

import atexit
import contextlib
import gc
import json
import math
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn, Self

import click

IMPORTED = (
    *("anyio._backends._asyncio", "mcp.client.stdio", "mcp.client.streamable_http"),
    *("toolscript.bootstrap", "toolscript.surfaces.cli.local_client"),
    *("toolscript.surfaces.http.routes", "toolscript.surfaces.http.gateway_process"),
    *("toolscript.surfaces.mcp.sdk_server", "toolscript.surfaces.mcp.session_stream"),
    *("toolscript.surfaces.web.screens", "toolscript.gateway.upstream.connection"),
    *("toolscript.embedding.onnx", "jsonschema_rs", "uvloop", "httptools"),
    *("uvicorn", "mcp.server.mcpserver", "mcp.server.sse", "mcp.server.subscriptions"),
)
"""What nearly every command needs, beside its own module; and what servers of the SDK need."""
_LEFT_OUT = "huggingface_hub"
"""Reads its settings from the environment as it is imported."""


def run(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout_s: float, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours to its end; ``given`` is its standard input."""
    with begin(arguments, cwd, env, hears_errors=True) as process:
        try:
            out, err = process.communicate(given.encode(), timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        texts = [each.decode().replace("\r\n", "\n") for each in (out, err)]
        return subprocess.CompletedProcess(list(arguments), process.wait(), *texts)


def begin(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], *, hears_errors: bool = False
) -> "Piped | subprocess.Popen[bytes]":
    """Begin a command of ours, with pipes for its standard input and output.

    ``hears_errors`` says whether there is one for standard error, too.
    """
    if sys.platform == "linux" and not any(name.startswith("PYTHON") for name in env):
        return Piped(arguments, cwd, env, hears_errors=hears_errors)
    return subprocess.Popen(
        [sys.executable, "-m", "toolscript", *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if hears_errors else None,
    )


@contextlib.contextmanager
def helper(
    script: Path, *arguments: str, env: Mapping[str, str]
) -> Generator[tuple[str, "Forked | subprocess.Popen[str]"]]:
    """A server of ``tests/servers`` over HTTP: the URL that it prints, and its process."""
    out = os.pipe()
    if sys.platform == "linux":
        request = {"script": str(script), "arguments": arguments, "cwd": "/", "env": dict(env)}
        process = Forked(request, [os.open(os.devnull, os.O_RDONLY), out[1], os.dup(2)])
    else:
        command = [sys.executable, str(script), *arguments]
        process = subprocess.Popen(command, env=env, stdout=out[1], text=True)
        os.close(out[1])
    with os.fdopen(out[0], encoding="utf-8") as said, process:
        try:
            yield said.readline().strip(), process
        finally:
            process.kill()


class Forked:
    """A process that the launcher has forked."""

    def __init__(self, request: Mapping[str, Any], descriptors: list[int]) -> None:
        data = json.dumps(request).encode()
        self._channel = socket.socket(socket.AF_UNIX)
        self._channel.connect(_launcher())
        socket.send_fds(self._channel, [len(data).to_bytes(4)], descriptors)
        self._channel.sendall(data)
        for each in descriptors:
            os.close(each)
        self.pid = int.from_bytes(_received(self._channel, 4))
        self.returncode: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._channel.close()

    def kill(self) -> None:
        """As `subprocess.Popen.kill`."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        """As `subprocess.Popen.poll`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """As `subprocess.Popen.wait`."""
        if self.returncode is None:
            if not select.select([self._channel], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout or 0.0)
            self.returncode = int.from_bytes(_received(self._channel, 4), signed=True)
        return self.returncode


class Piped(Forked):
    """A command with pipes, as `subprocess.Popen` has them; see `begin`."""

    def __init__(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], *, hears_errors: bool
    ) -> None:
        given, out, err = os.pipe(), os.pipe(), os.pipe() if hears_errors else None
        self.stdin, self.stdout = os.fdopen(given[1], "wb"), os.fdopen(out[0], "rb")
        self.stderr = os.fdopen(err[0], "rb") if err else None
        request = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}
        super().__init__(request, [given[0], out[1], err[1] if err else os.dup(2)])

    def communicate(self, given: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """As `subprocess.Popen.communicate`, of what fits into a pipe."""
        assert len(given) <= select.PIPE_BUF * 16, "more than fits into a pipe"
        with contextlib.suppress(BrokenPipeError):  # it may end without having read
            self.stdin.write(given)
            self.stdin.close()
        pipes = [self.stdout, *([self.stderr] if self.stderr else [])]
        out, *err = _contents(pipes, timeout)
        return out, b"".join(err)

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        super().__exit__()
        self.stdout.close()
        if self.stderr:
            self.stderr.close()


def _contents(pipes: Sequence[BufferedReader], timeout: float | None) -> list[bytes]:
    """What is written into pipes until every writer has closed them."""
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    found = {pipe.fileno(): bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as open_ones:
        for descriptor in found:
            open_ones.register(descriptor, selectors.EVENT_READ)
        while open_ones.get_map():
            left = deadline - time.monotonic()
            ready = open_ones.select(None if left == math.inf else left)
            if not ready and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a fork", timeout or 0.0)
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                found[key.fd] += data
                if not data:
                    open_ones.unregister(key.fd)
    return [bytes(each) for each in found.values()]


def _received(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = channel.recv(size - len(data))
        if not more:
            raise EOFError("the launcher has ended")
        data += more
    return bytes(data)


@cache
def _launcher() -> str:
    """Starts it once in each process of the tests, which it does not outlive."""
    folder = tempfile.TemporaryDirectory(prefix="launcher-", ignore_cleanup_errors=True)
    path = str(Path(folder.name) / "socket")
    process = subprocess.Popen(
        [sys.executable, __file__, path],
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    with process.stdout as said:
        assert said.readline() == b"ready\n"
    atexit.register(_end, process, folder)
    return path


def _end(process: "subprocess.Popen[bytes]", folder: "tempfile.TemporaryDirectory[str]") -> None:
    process.communicate()
    folder.cleanup()


# The launcher itself


def _serve(path: str) -> NoReturn:
    """Fork for each request until standard input is closed."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    os.write(1, b"ready\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    ended, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.signal(signal.SIGCHLD, _note)
    signal.set_wakeup_fd(wakeup)
    waiting: dict[int, socket.socket] = {}
    gc.freeze()
    while True:
        ready, _, _ = select.select([listener, ended, 0], [], [])
        if 0 in ready:
            os._exit(0)
        if ended in ready:
            os.read(ended, 4096)
            _tell_ended(waiting)
        if listener not in ready:
            continue
        channel, _ = listener.accept()
        head, descriptors, _, _ = socket.recv_fds(channel, 4, 3)
        request = json.loads(_received(channel, int.from_bytes(head)))
        if pid := os.fork():
            for each in descriptors:
                os.close(each)
            waiting[pid] = channel
            channel.sendall(pid.to_bytes(4))
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(ended)
        os.close(wakeup)
        for each in (listener, channel, *waiting.values()):
            each.close()
        _become(request, descriptors)


def _load_bundled_model() -> None:
    """Load the model that nearly every gateway loads, which each fork then has."""
    onnx: Any = import_module("toolscript.embedding.onnx")
    make, loaded = onnx.OnnxEncoder, dict[tuple[Any, ...], Any]()

    def encoder(*which: Any) -> Any:
        if not loaded:
            loaded[which] = make(*which)
        return loaded.get(which) or make(*which)

    onnx.OnnxEncoder = encoder
    import_module("toolscript.embedding.loader").load_model("bundled", "bundled", 1)


def _note(_number: int, _frame: object) -> None:
    """A signal that is not ignored wakes `select.select` by the wakeup descriptor."""


def _tell_ended(waiting: dict[int, socket.socket]) -> None:
    """Tell the exit codes of the children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(found[1])
            with waiting.pop(found[0]) as channel, contextlib.suppress(OSError):
                channel.sendall(code.to_bytes(4, signed=True))


def _become(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    for target, source in enumerate(descriptors):
        os.dup2(source, target)
        os.close(source)
    os.chdir(request["cwd"])
    coerced = os.environ.get("LC_CTYPE")  # by the interpreter, which does so in every process
    os.environ.clear()
    os.environ.update(({"LC_CTYPE": coerced} if coerced else {}) | request["env"])
    time.tzset()
    if script := request.get("script"):
        sys.argv[1:] = request["arguments"]
        sys.path[0], sys.argv[0] = str(Path(script).parent), script
        _run(lambda: runpy.run_path(script, run_name="__main__"))
    _Popen.spare = _spare()
    subprocess.Popen = _Popen
    sys.path[0] = request["cwd"]
    _command(request["arguments"])


def _command(arguments: Sequence[str]) -> NoReturn:
    sys.argv[1:] = arguments
    _run(lambda: runpy.run_module("toolscript", run_name="__main__", alter_sys=True))


def _run(program: Callable[[], object]) -> NoReturn:
    """End with the program as the interpreter would, but let the system free the memory.

    To free each object is to copy nearly all that the fork shares.
    """
    code = 0
    try:
        program()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the same
        traceback.print_exc()
        code = 1
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - waits for threads
    atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF)


class _Popen(subprocess.Popen[Any]):
    """Starts a gateway as a fork that has imported what it needs, once in each command."""

    spare: tuple[int, socket.socket] | None = None
    """A child that becomes the gateway, and the channel on which it is told to."""

    def _execute_child(self, args: Any, *more: Any) -> None:
        own = _Popen.spare
        words: list[Any] = [] if isinstance(args, str | bytes | os.PathLike) else [*args]
        if own is None or words[:5] != [sys.executable, "-P", "-m", "toolscript", "gateway"]:
            super()._execute_child(args, *more)  # type: ignore[misc]
            return
        _Popen.spare = None
        pipes = more[9:15]  # each for reading and writing: standard input, output, errors
        self.pid, channel = own
        with channel:
            data = json.dumps(words[4:]).encode()
            fds = [pipes[0], pipes[3], pipes[5]]
            socket.send_fds(channel, [len(data).to_bytes(4)], fds)
            channel.sendall(data)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _spare() -> tuple[int, socket.socket]:
    """Forks a child that becomes a gateway if it is told to, and ends with its parent."""
    ours, its = socket.socketpair()
    if pid := os.fork():
        its.close()
        return pid, ours
    ours.close()
    for each in range(3):
        os.dup2(its.fileno(), each)  # nobody waits for the end of the command's output
    head, descriptors, _, _ = socket.recv_fds(its, 4, 3)
    if not head:
        os._exit(0)
    arguments = json.loads(_received(its, int.from_bytes(head)))
    its.close()
    os.setsid()
    for target, source in enumerate(descriptors):
        os.dup2(source, target)
        os.close(source)
    sys.path.pop(0)  # as -P has it
    _command(arguments)


if __name__ == "__main__":
    del sys.path[0]
    sys.path.insert(0, "")
    from toolscript.surfaces.cli.main import cli

    context = click.Context(cli)
    for name in cli.list_commands(context):
        cli.get_command(context, name)
    for name in IMPORTED:
        import_module(name)
    _load_bundled_model()
    assert _LEFT_OUT not in sys.modules
    _serve(sys.argv[1])
