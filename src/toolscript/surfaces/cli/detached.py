"""Runs the command line as nobody's child: the process that was started ends at once.

A client may end its servers with all their descendants, and a gateway that one session's bridge has
started serves others, too. Standard output takes the process id, and at the end the exit status;
all else goes to standard error.
"""

import os
from contextlib import suppress


def main() -> None:
    """Detach, then run the command line with the arguments of this process."""
    if hasattr(os, "fork"):  # Windows has no tree of processes that outlives a parent
        if os.fork():
            os._exit(0)
        os.setsid()
    report = os.dup(1)
    os.dup2(2, 1)
    _write(report, os.getpid())
    from toolscript.surfaces.cli.main import main as run  # noqa: PLC0415 - in the second process

    try:
        run()
    except SystemExit as end:
        _write(report, end.code)
        raise


def _write(report: int, line: object) -> None:
    with suppress(OSError):  # nobody reads it any more
        os.write(report, f"{line}\n".encode())


if __name__ == "__main__":
    main()
