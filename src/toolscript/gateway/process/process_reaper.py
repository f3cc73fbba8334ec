"""Starts a second process that ends all servers once this process has ended, even by a kill.

A process that is killed cannot clean up. So a small one waits for the end of a pipe that
only the first one holds, and then ends every process that has the first one's tag in its
environment: servers and the processes that they started. See `reap`.
"""

import secrets
import subprocess
import sys
import threading
from pathlib import Path

import anyio

from toolscript.gateway.process import reap


class ProcessReaper:
    """Tags servers, and runs the second process from the first tag to `close`.

    On systems other than Linux there are no tags: a server is known by its process group.
    """

    def __init__(self) -> None:
        self.spawn_lock = anyio.Lock()
        """Lets one server start at a time: each stops this process for a moment."""
        self._tag = secrets.token_hex(16)
        self._tagged = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def tag(self) -> str:
        """Returns a tag for one more server, or "" if there are none. May start a process."""
        if not reap.can_reap():
            return ""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._process = _start(self._tag)
            self._tagged += 1
            # The full stop keeps a tag from being the beginning of another.
            return f"{self._tag}-{self._tagged}."

    def close(self) -> None:
        """Has the second process look a last time and end. Every server has ended by now."""
        with self._lock:
            if self._process is not None:
                self._process.communicate()
                self._process = None


def _start(tag: str) -> "subprocess.Popen[bytes]":
    # -I -S: only the core of the standard library, since it runs all the time.
    return subprocess.Popen(  # noqa: S603 - this interpreter, with a program of our own
        [sys.executable, "-I", "-S", str(Path(reap.__file__)), tag],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
