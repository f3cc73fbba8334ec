"""Keeps the memory of a process that runs for long small, and the garbage collector quick.

Each run of that takes time in proportion to the objects of all imported modules. A command ends
before it has made much garbage; a gateway runs on.
"""

import gc
import threading
import time
from typing import NoReturn

_DEFAULT = gc.get_threshold()
_OBJECTS = 100_000
"""How many more objects there have to be before a run, in a command."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""As ``malloc.h`` has them."""
_LARGE = 4 << 20
"""Blocks of so many bytes come from the system and go back to it. It takes time for each page: with
64 KiB embedding takes twice as long, and a search a quarter longer."""
_HEAP = {_M_TRIM_THRESHOLD: 2 * _LARGE, _M_MMAP_THRESHOLD: _LARGE, _M_ARENA_MAX: 1}


def keep_heap_small(period_s: float = 30.0) -> None:
    """Makes glibc hand freed memory back to the system; does nothing with another library.

    Large blocks go back at once, all others every so many seconds: indexing and loading a model
    need more memory than searching does afterwards. Handing back 32 MB takes some 2 ms; if there is
    nothing to hand back it takes nearly nothing.
    """
    import ctypes  # noqa: PLC0415 - not for a command

    try:
        libc = ctypes.CDLL(None)
        set_limit, release = libc.mallopt, libc.malloc_trim
    except (OSError, AttributeError, TypeError):  # the last one on Windows
        return

    def release_for_ever() -> None:
        while True:
            time.sleep(period_s)
            release(0)

    for parameter, value in _HEAP.items():
        set_limit(parameter, value)
    threading.Thread(target=release_for_ever, name="heap", daemon=True).start()


def freeze_gc() -> None:
    """Takes all objects that exist now, modules above all, out of garbage collection.

    Looking through 100,000 objects takes the collector 80 ms each time, in which
    nothing else runs.
    """
    gc.freeze()


def collect_rarely() -> None:
    """Run the collector as rarely as a command needs it."""
    gc.set_threshold(_OBJECTS)


def collect_as_usual() -> None:
    """Run the collector as often as Python does by default: for a program that runs on."""
    gc.set_threshold(*_DEFAULT)


def exit_at_once(code: int) -> NoReturn:
    """Raise `SystemExit`, after which the interpreter does not run the collector once more."""
    gc.freeze()
    raise SystemExit(code)
