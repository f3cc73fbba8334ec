"""Turns SIGTERM and SIGHUP into an exception, so that a process closes its servers first."""

import signal
from types import FrameType

# A closed terminal sends SIGHUP, which not every system has.
_END_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class EndedError(KeyboardInterrupt):
    """A signal asked the process to end; like Ctrl-C, with the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def raise_when_asked_to_end() -> None:
    """Let SIGTERM and SIGHUP raise `EndedError`, once. Ignored signals (``nohup``) stay ignored."""
    for number in end_signals():
        signal.signal(number, _raise)


def end_signals() -> list[int]:
    """Returns the signals, besides Ctrl-C's, that ask this process to end."""
    return [number for number in _END_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def _raise(number: int, frame: FrameType | None) -> None:
    del frame
    # A terminal that is closed may say so twice; closing down goes on.
    for signum in end_signals():
        signal.signal(signum, _go_on)
    raise EndedError(number)


def _go_on(number: int, frame: FrameType | None) -> None:
    del number, frame
