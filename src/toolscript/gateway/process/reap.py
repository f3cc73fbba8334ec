"""Ends the processes that have a tag in their environment, in whichever group they are.

As a program it uses only the core of the standard library. It waits for the end of its
standard input, that is of the process that started it. See `ProcessReaper`.
"""

import os
import signal
import sys
import time
from contextlib import suppress

TAG_VARIABLE = "TOOLSCRIPT_SERVER_OF"
"""The variable that holds the tag of a server and of its child processes."""
PATIENCE_S = 0.7
"""How long they have to end because their input has, and again after SIGTERM."""
_KILL_S = 5.0
_POLL_S = 0.05


def can_reap() -> bool:
    """Whether the environment of processes can be read here: on Linux."""
    return os.path.exists("/proc/self/environ") and hasattr(os, "pidfd_open")  # noqa: PTH110 - pathlib would cost this program a third of its memory


def reap(tag: str) -> None:
    """Ends every process with the tag: waits a little, then sends SIGTERM, then SIGKILL."""
    for number, patience_s in (
        (0, PATIENCE_S),
        (signal.SIGTERM, PATIENCE_S),
        (signal.SIGKILL, _KILL_S),
    ):
        until = time.monotonic() + patience_s
        again = number if number == signal.SIGKILL else 0
        left = signal_tagged(tag, number) and signal_tagged(tag, again)
        while left and time.monotonic() < until:
            time.sleep(_POLL_S)
            left = signal_tagged(tag, again)
        if not left:
            return


def signal_tagged(tag: str, number: int) -> int:
    """Sends a signal, or none for 0, to every process with the tag; returns how many there are."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - as above
    return sum(_signal(pid, tag, number) for pid in pids)


def _signal(pid: int, tag: str, number: int) -> bool:
    with suppress(OSError):
        handle = os.pidfd_open(pid)  # so that no later process with the same number is meant
        try:
            if not _has_tag(pid, tag):
                return False
            if number == signal.SIGKILL:
                _kill_group(pid)
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
        return True
    return False


def _kill_group(pid: int) -> None:
    """Kills the process with its group.

    A server begins a session, so its groups hold only its own processes, also those
    that have emptied their environment.
    """
    with suppress(OSError):
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)


def _has_tag(pid: int, tag: str) -> bool:
    start = f"{TAG_VARIABLE}={tag}".encode()
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as above
        return any(variable.startswith(start) for variable in file.read().split(b"\0"))


def main() -> None:
    """Waits for the end of the input, ignoring signals, and reaps."""
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    reap(sys.argv[1])


if __name__ == "__main__":
    main()
