"""Ending the processes that carry a mark in their environment, wherever they are by now.

Run as a program with nothing but the standard library's core: it waits for the
end of its standard input, that is of the process that started it, and then ends
all that process's servers have left behind. See `ProcessReaper`.
"""

import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

MARK = "TOOLSCRIPT_SERVER_OF"
"""The variable by which a server and what it started are known."""
PATIENCE_S = 0.7
"""How long they have to end because their input has, and again when they are told to."""
_POLL_S = 0.05
_ROUNDS = 100
_GONE = (ProcessLookupError, PermissionError, FileNotFoundError)


def can_sweep() -> bool:
    """Whether processes can be known by their environment here: on Linux."""
    return os.path.exists("/proc/self/environ") and hasattr(os, "pidfd_open")  # noqa: PTH110 - pathlib would cost this program a third of its memory


def sweep(mark: str) -> None:
    """End every process with the mark: wait a little, then tell them to, then see to it."""
    for number, patience_s in ((0, PATIENCE_S), (signal.SIGTERM, PATIENCE_S)):
        signalled(mark, number)
        until = time.monotonic() + patience_s
        while signalled(mark, 0):
            if time.monotonic() > until:
                break
            time.sleep(_POLL_S)
        else:
            return
    for _ in range(_ROUNDS):
        if not signalled(mark, signal.SIGKILL):
            return
        time.sleep(_POLL_S)


def signalled(mark: str, number: int) -> int:
    """Send a signal to every process with the mark, 0 only to count them; how many there are."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - as above
    return sum(_signalled(pid, mark, number) for pid in pids)


def _signalled(pid: int, mark: str, number: int) -> bool:
    with suppress(OSError), _held(pid) as held:
        if not _is_marked(pid, mark):
            return False
        if number == signal.SIGKILL:
            _kill_group(pid)
        signal.pidfd_send_signal(held, number)
        return True
    return False


def _kill_group(pid: int) -> None:
    """End the process with its group.

    A server begins a session, so a group of it holds nothing but what it started,
    also what has emptied its environment.
    """
    with suppress(*_GONE):
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)


@contextmanager
def _held(pid: int) -> Generator[int]:
    """A handle on the process, so that no later one of the same number is meant."""
    held = os.pidfd_open(pid)
    try:
        yield held
    finally:
        os.close(held)


def _is_marked(pid: int, mark: str) -> bool:
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as above
        return any(each.startswith(f"{MARK}={mark}".encode()) for each in file.read().split(b"\0"))


def main() -> None:
    """Wait, and sweep. Only the end of the input ends the waiting."""
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    sweep(sys.argv[1])


if __name__ == "__main__":
    main()
