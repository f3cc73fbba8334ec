"""Running a script against the typed client, where it can do nothing but call tools.

Deno denies a script what is not allowed. What the script and its imports load is
loaded by a dynamic import of a computed name, since Deno asks for no permission
for what it can see in the text of the first module.

Nothing that the script can read is worth anything elsewhere: it calls through a
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
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO
from urllib.parse import urlsplit

from toolscript.errors import SandboxError
from toolscript.surfaces.cli.tool_proxy import Gateway, ToolProxy

MAX_SCRIPT_BYTES = 1_000_000
MAX_OUTPUT_BYTES = 4_000_000
"""Of either stream: a script that says more is stopped."""
_OVERHEAD_MIB = 768
"""What Deno itself may take of the memory that is counted, beside a script's objects."""
WORKER_MIB = 540
"""What every further isolate of V8 takes of that: it reserves most of it for compiled code."""
_MAIN = """\
globalThis.TOOLSCRIPT_GATEWAY_URL = %(url)s;
globalThis.TOOLSCRIPT_GATEWAY_TOKEN = %(key)s;
try {
  await import(["./script", "ts"].join("."));
} catch (error) {
  const said = error instanceof Error ? error.stack ?? error.message : `thrown: ${error}`;
  const ours = /^ +at .*\\/(main|toolscript)\\.[jt]s:/;
  console.error(said.split("\\n").filter((line) => !ours.test(line)).join("\\n"));
  Deno.exit(1);
}
"""
"""What is loaded first. The script may read it."""
_FOLDER = "toolscript-exec-"
_FRESH_S = 60.0
"""A folder younger than this may be one that another process is about to lock."""
_PR_SET_PDEATHSIG = 1
"""As ``sys/prctl.h`` has it."""
_FLAGS = ("--no-prompt", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--quiet")
_CRASH = re.compile(rb"\s*(<--- Last few GCs|#\s+# Fatal \w+ out of memory)")
_SPENT = re.compile(
    rb"<--- Last few GCs|# Fatal \w+ out of memory|Array buffer allocation failed"
    rb"|memory allocation of \d+ bytes failed"
)
_ADVICE = re.compile(r", run again with the --allow-\w+ flag")
"""Of Deno's; here there is no such flag."""
_SYSTEM = ("SYSTEMROOT", "TMPDIR", "TEMP", "TMP")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a script may take."""

    timeout_s: float
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Tools:
    """What a script may call."""

    client: str
    """The module that it imports."""
    names: tuple[str, ...]
    """The ids of the tools in it."""
    gateway: Gateway


@dataclass(frozen=True, slots=True)
class Script:
    """A script: its text, and what its errors call it."""

    text: str
    name: str


def find_deno() -> str:
    """The Deno of the extra, else of the system; raises `SandboxError` where there is none."""
    beside = Path(sysconfig.get_path("scripts")) / ("deno.exe" if os.name == "nt" else "deno")
    found = str(beside) if beside.is_file() else shutil.which("deno")
    if found is None:
        raise SandboxError(
            "scripts run in Deno, which is not there; install it with: "
            "pip install 'toolscript[deno]'"
        )
    return found


def run(script: Script, tools: Tools, limits: Limits, given: IO[bytes] | None = None) -> int:
    """Run a script to its end, its output going to this process's, and return its exit code.

    ``given`` is the script's standard input. Raises `SandboxError` where a limit
    was reached.
    """
    deno = find_deno()
    with _folder() as folder, ToolProxy(tools.gateway, tools.names) as proxy:
        _write(folder, script, tools.client, proxy)
        process = subprocess.Popen(  # noqa: S603 - Deno, with a script that is meant to be run
            _command(deno, folder, proxy.url, limits),
            cwd=folder,
            env=_environ(folder),
            stdin=subprocess.DEVNULL if given is None else given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_bounded(limits) if os.name == "posix" else None,  # noqa: PLW1509 - one thread so far
        )
        try:
            proxy.serve()
            return _attended(process, folder, script.name, limits)
        finally:
            process.kill()
            process.wait()


@contextmanager
def _folder() -> Generator[Path]:
    """A folder for the run, locked as long as this process lives; abandoned ones are deleted."""
    _delete_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as name:
        lock = _lock(Path(name))
        try:
            yield Path(name).resolve()
        finally:
            if lock is not None:
                os.close(lock)


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
    """A descriptor that locks the folder until it is closed; None where another process does."""
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


def _write(folder: Path, script: Script, client: str, proxy: ToolProxy) -> None:
    main = _MAIN % {"url": json.dumps(proxy.url), "key": json.dumps(proxy.key)}
    imports = {"imports": {"toolscript": "./toolscript.ts"}}
    files = {"main.js": main, "script.ts": script.text, "toolscript.ts": client}
    for name, text in {**files, "imports.json": json.dumps(imports)}.items():
        (folder / name).write_text(text, "utf-8")


def _command(deno: str, folder: Path, url: str, limits: Limits) -> list[str]:
    return [
        *(deno, "run", *_FLAGS, f"--import-map={folder / 'imports.json'}"),
        f"--allow-net={urlsplit(url).netloc}",
        f"--allow-read={folder / 'script.ts'},{folder / 'toolscript.ts'}",
        f"--v8-flags=--max-old-space-size={limits.memory_mib}",
        str(folder / "main.js"),
    ]


def _environ(folder: Path) -> dict[str, str]:
    """Nothing of ours: a script may not read it, and Deno needs none.

    Below a file there can be no directory, so Deno has no place for its cache:
    compiled modules, the Cache API and localStorage would fill the disk.
    """
    kept = {name: os.environ[name] for name in _SYSTEM if name in os.environ}
    nowhere = str(folder / "main.js" / "none")
    return {**kept, "DENO_DIR": nowhere, "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}


def _bounded(limits: Limits) -> Callable[[], None]:
    import resource  # noqa: PLC0415 - POSIX only

    parent, libc = os.getpid(), ctypes.CDLL(None)
    seconds = math.ceil(limits.timeout_s + 1) * (os.cpu_count() or 1)
    most = {
        # On Linux this counts what V8 holds outside its heap, too.
        resource.RLIMIT_DATA: (limits.memory_mib + _OVERHEAD_MIB) << 20,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        # More than the timeout lets it take: for a process that nothing else ends.
        resource.RLIMIT_CPU: seconds,
    }

    def bound() -> None:
        for number, value in most.items():
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(number, (value, value))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then fails, with an error
        if sys.platform == "linux":
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

    return bound


# Its output


class _Relay(threading.Thread):
    """Reads a stream to its end; ends the process when it says too much."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", source: IO[bytes], sink: BinaryIO | None
    ) -> None:
        super().__init__(daemon=True)
        self._process, self._source, self._sink = process, source, sink
        self.said = bytearray()
        self.length = 0
        self.problem: OSError | None = None

    def run(self) -> None:
        """See `threading.Thread.run`."""
        while data := os.read(self._source.fileno(), 65536):
            self.length += len(data)
            if self.length > MAX_OUTPUT_BYTES:
                self._process.kill()
                return
            self._pass_on(data)

    def _pass_on(self, data: bytes) -> None:
        if self._sink is None:
            self.said += data
            return
        try:
            self._sink.write(data)
            self._sink.flush()
        except OSError as error:  # nobody reads it any more
            self.problem = error
            self._process.kill()


def _attended(process: "subprocess.Popen[bytes]", folder: Path, name: str, limits: Limits) -> int:
    assert process.stdout is not None  # noqa: S101 - both are pipes
    assert process.stderr is not None  # noqa: S101
    sys.stdout.flush()
    relays = [_Relay(process, process.stdout, sys.stdout.buffer)]
    relays += [_Relay(process, process.stderr, None)]
    for relay in relays:
        relay.start()
    late = False
    try:
        code = process.wait(limits.timeout_s)
    except subprocess.TimeoutExpired:
        late = True
        process.kill()
        code = process.wait()
    for relay in relays:
        relay.join()
    said = bytes(relays[1].said)
    _tell(_CRASH.split(said)[0], folder, name)
    if relays[0].problem is not None:
        raise relays[0].problem
    loud = any(relay.length > MAX_OUTPUT_BYTES for relay in relays)
    _check(late, loud, code != 0 and bool(_SPENT.search(said)), limits)
    return code if code >= 0 else 1


def _tell(said: bytes, folder: Path, name: str) -> None:
    """What the script said on standard error, with the name that its author knows it by."""
    text = said.decode("utf-8", "replace")
    text = text.replace(f"{folder.as_uri()}/script.ts", name)
    text = text.replace(f"{folder.as_uri()}/toolscript.ts", "toolscript")
    text = _ADVICE.sub("", text.replace(f"{folder.as_uri()}/", "").replace(f"{folder}{os.sep}", ""))
    shown = "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
    sys.stderr.write(f"{shown}\n" if shown and not shown.endswith("\n") else shown)
    sys.stderr.flush()


def _check(late: bool, loud: bool, spent: bool, limits: Limits) -> None:  # noqa: FBT001 - three findings
    if late:
        raise SandboxError(
            f"the script ran longer than {limits.timeout_s:g} s and was stopped; "
            "give it more with --timeout"
        )
    if loud:
        raise SandboxError(
            f"the script said more than {MAX_OUTPUT_BYTES} bytes and was stopped; let it say less"
        )
    if spent:
        raise SandboxError(
            f"the script took more memory than {limits.memory_mib} MiB and was stopped; "
            f"give it more with --memory (a Worker takes {WORKER_MIB} MiB of it)"
        )
