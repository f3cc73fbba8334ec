"""Runs a script in Deno, which lets it do nothing but call tools.

Deno denies a script everything that is not allowed. The script is loaded by a dynamic import
of a computed name, since Deno asks for no permission for what it can see in the text
of the first module.

Nothing that the script can read is of use elsewhere: it calls tools through a
`ToolProxy` of this process, with a key that is made for the run.
"""

import contextlib
import ctypes
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from toolscript.config.settings import ExecSettings
from toolscript.errors import SandboxError
from toolscript.surfaces.cli.tool_proxy import ToolProxy
from toolscript.text.display import harmless

MAX_SCRIPT_BYTES = 1_000_000
MAX_OUTPUT_BYTES = 4_000_000
"""Limit of either output stream: a script that writes more is stopped."""
_OVERHEAD_MIB = 768
"""Counted memory for Deno itself, beside a script's objects."""
WORKER_MIB = 540
"""Counted memory of each further isolate of V8, mostly reserved for compiled code."""
_MAIN = """\
globalThis.TOOLSCRIPT_GATEWAY_URL = %(url)s;
globalThis.TOOLSCRIPT_GATEWAY_TOKEN = %(key)s;
try {
  await import(["./script", "ts"].join("."));
} catch (error) {
  const text = error instanceof Error ? error.stack ?? error.message : `thrown: ${error}`;
  const internal = /^ +at .*\\/(main|toolscript)\\.[jt]s:/;
  console.error(text.split("\\n").filter((line) => !internal.test(line)).join("\\n"));
  Deno.exit(1);
}
"""
"""The module that Deno loads first. The script may read it."""
_FOLDER = "toolscript-exec-"
_FRESH_S = 60.0
"""A folder younger than this may be one that another process is about to lock."""
_PR_SET_PDEATHSIG = 1
"""As ``sys/prctl.h`` has it."""
_FLAGS = ("--no-prompt", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--quiet")
_CRASH_REPORT = re.compile(rb"\s*(<--- Last few GCs|#\s+# Fatal \w+ out of memory)")
_OUT_OF_MEMORY = re.compile(
    rb"<--- Last few GCs|# Fatal \w+ out of memory|Array buffer allocation failed"
    rb"|memory allocation of \d+ bytes failed"
)
_ADVICE = re.compile(r", run again with the --allow-\w+ flag")
"""Deno's advice to use a flag that does not exist here."""
_SYSTEM_VARIABLES = ("SYSTEMROOT", "TMPDIR", "TEMP", "TMP")


def find_deno() -> str:
    """Returns the path of the extra's Deno, or else the system's.

    Raises `SandboxError` if there is none.
    """
    beside = Path(sysconfig.get_path("scripts")) / ("deno.exe" if os.name == "nt" else "deno")
    path = str(beside) if beside.is_file() else shutil.which("deno")
    if path is None:
        raise SandboxError(
            "scripts run in Deno, which is not there; install it with: "
            "pip install 'toolscript[deno]'"
        )
    return path


def run(
    modules: Mapping[str, str],
    name: str,
    proxy: ToolProxy,
    limits: ExecSettings,
    stdin: IO[bytes] | None = None,
) -> int:
    """Run a script to its end, its output going to this process's, and return its exit code.

    ``modules`` are ``script.ts``, which errors call ``name``, and ``toolscript.ts``, which that
    imports and whose calls go to ``proxy``. Without ``stdin`` the standard input is empty. Raises
    `SandboxError` when the script reaches one of the ``limits``.
    """
    deno = find_deno()
    with _folder() as folder:
        _write(folder, modules, proxy)
        process = subprocess.Popen(  # noqa: S603 - Deno, with a script that is meant to be run
            _command(deno, folder, proxy.url, limits),
            cwd=folder,
            env=_environ(folder),
            stdin=stdin or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_limiter(limits) if os.name == "posix" else None,  # noqa: PLW1509 - one thread so far
        )
        try:
            proxy.serve()
            return _supervise(process, folder, name, limits)
        finally:
            process.kill()
            process.wait()


@contextmanager
def _folder() -> Generator[Path]:
    """A folder for the run, locked while this process lives; deletes abandoned ones."""
    _delete_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as name:
        _lock(Path(name))
        yield Path(name).resolve()


def _delete_abandoned(directory: Path) -> None:
    """Delete the folders of runs whose process was killed."""
    for folder in directory.glob(f"{_FOLDER}*") if os.name == "posix" else ():
        with contextlib.suppress(OSError):
            status = folder.lstat()
            old = time.time() - status.st_mtime > _FRESH_S
            lock = _lock(folder) if old and status.st_uid == os.geteuid() else None
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """Returns a descriptor that locks the folder until it is closed; None if it is locked."""
    if os.name != "posix":
        return None
    import fcntl  # noqa: PLC0415 - POSIX only

    descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _write(folder: Path, modules: Mapping[str, str], proxy: ToolProxy) -> None:
    main = _MAIN % {"url": json.dumps(proxy.url), "key": json.dumps(proxy.key)}
    imports = json.dumps({"imports": {"toolscript": "./toolscript.ts"}})
    for name, text in {**modules, "main.js": main, "imports.json": imports}.items():
        (folder / name).write_text(text, "utf-8")


def _command(deno: str, folder: Path, url: str, limits: ExecSettings) -> list[str]:
    return [
        *(deno, "run", *_FLAGS, f"--import-map={folder / 'imports.json'}"),
        f"--allow-net={urlsplit(url).netloc}",
        f"--allow-read={folder / 'script.ts'},{folder / 'toolscript.ts'}",
        f"--v8-flags=--max-old-space-size={limits.memory_mib}",
        str(folder / "main.js"),
    ]


def _environ(folder: Path) -> dict[str, str]:
    """Returns Deno's environment, with none of the user's variables.

    Below a file there can be no directory, so Deno has no place for its cache:
    compiled modules, the Cache API and localStorage would fill the disk.
    """
    system = {name: os.environ[name] for name in _SYSTEM_VARIABLES if name in os.environ}
    nowhere = str(folder / "main.js" / "none")
    return {**system, "DENO_DIR": nowhere, "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}


def _limiter(limits: ExecSettings) -> Callable[[], None]:
    """Returns a function with which the new process limits itself before it becomes Deno."""
    import resource  # noqa: PLC0415 - POSIX only

    parent, libc = os.getpid(), ctypes.CDLL(None)
    seconds = math.ceil(limits.timeout_s + 1) * (os.cpu_count() or 1)
    maxima = {
        # On Linux this counts what V8 holds outside its heap, too.
        resource.RLIMIT_DATA: (limits.memory_mib + _OVERHEAD_MIB) << 20,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        # More than the timeout allows: this ends a process that nothing else has ended.
        resource.RLIMIT_CPU: seconds,
    }

    def limit() -> None:
        for number, value in maxima.items():
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(number, (value, value))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then fails, with an error
        if sys.platform == "linux":
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

    return limit


def _copy(
    process: "subprocess.Popen[bytes]",
    stream: IO[bytes] | None,
    sink: Callable[[bytes], object],
    problems: list[Exception],
) -> None:
    """Read a stream to its end; kill the process when that is too long or cannot be passed on."""
    assert stream is not None  # noqa: S101 - a pipe
    length = 0
    try:
        while data := os.read(stream.fileno(), 65536):
            length += len(data)
            if length > MAX_OUTPUT_BYTES:
                much = f"the script said more than {MAX_OUTPUT_BYTES} bytes and was stopped; "
                problems.append(SandboxError(f"{much}let it say less"))
                process.kill()
                return
            sink(data)
    except OSError as error:  # the reader of the output has gone
        problems.append(error)
        process.kill()


def _write_through(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _supervise(
    process: "subprocess.Popen[bytes]", folder: Path, name: str, limits: ExecSettings
) -> int:
    sys.stdout.flush()
    written = bytearray()
    problems: list[Exception] = []
    sinks = (process.stdout, _write_through), (process.stderr, written.extend)
    readers = [threading.Thread(target=_copy, args=(process, *x, problems)) for x in sinks]
    for reader in readers:
        reader.daemon = True
        reader.start()
    try:
        code = process.wait(limits.timeout_s)
    except subprocess.TimeoutExpired:
        late = f"the script ran longer than {limits.timeout_s:g} s and was stopped; "
        problems.append(SandboxError(f"{late}give it more with --timeout"))
        process.kill()
        code = process.wait()
    for reader in readers:
        reader.join()
    _print_errors(_CRASH_REPORT.split(bytes(written))[0], folder, name)
    if problems:
        raise problems[0]
    if code != 0 and _OUT_OF_MEMORY.search(written):
        raise SandboxError(
            f"the script took more memory than {limits.memory_mib} MiB and was stopped; "
            f"give it more with --memory (a Worker takes {WORKER_MIB} MiB of it)"
        )
    return code if code >= 0 else 1


def _print_errors(written: bytes, folder: Path, name: str) -> None:
    """Print the script's standard error, with the file name that its author knows."""
    text = written.decode("utf-8", "replace")
    text = text.replace(f"{folder.as_uri()}/script.ts", name)
    text = text.replace(f"{folder.as_uri()}/toolscript.ts", "toolscript")
    text = text.replace(f"{folder.as_uri()}/", "").replace(f"{folder}{os.sep}", "")
    text = harmless(_ADVICE.sub("", text))
    sys.stderr.write(f"{text}\n" if text and not text.endswith("\n") else text)
    sys.stderr.flush()
