"""Whatever becomes of this process, no server that it started lives on.

A process that is killed cannot clean up. So a second, small one waits for the
end of a pipe that only the first one holds, and then ends every process that
carries the first one's mark in its environment: servers and what they started,
in whichever session or group that is by now.
"""

import secrets
import subprocess
import sys
import threading
from pathlib import Path

from toolscript.gateway.process import reap as sweep


class ProcessReaper:
    """Marks servers, so that what is left of one, or in the end of all, can be ended.

    The second process is started with the first server, and ends with `close`.
    On systems other than Linux nothing is marked, and a server is known by its
    process group alone.
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(16)
        self._marked = 0
        self._sweeper: subprocess.Popen[bytes] | None = None
        self._alone = threading.Lock()

    def mark(self) -> str:
        """A mark for one more server; empty where there can be none. May start a process."""
        if not sweep.can_sweep():
            return ""
        with self._alone:
            if self._sweeper is None or self._sweeper.poll() is not None:
                self._sweeper = _started(self._mark)
            self._marked += 1
            # The end keeps a mark from being the beginning of another.
            return f"{self._mark}-{self._marked}."

    def close(self) -> None:
        """Every server has ended: the second process looks a last time, and ends too."""
        with self._alone:
            if self._sweeper is not None:
                self._sweeper.communicate()
                self._sweeper = None


def _started(mark: str) -> "subprocess.Popen[bytes]":
    # -I -S: nothing but the core of the standard library, since it is there all the time.
    return subprocess.Popen(  # noqa: S603 - this interpreter, with a program of our own
        [sys.executable, "-I", "-S", str(Path(sweep.__file__)), mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
