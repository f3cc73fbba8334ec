"""Keeps the memory of a process that runs for long small, and its garbage collector quick."""

import ctypes
import gc
import sys
import threading
import time
from contextlib import AbstractContextManager, suppress
from importlib.util import find_spec
from types import ModuleType

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""As ``malloc.h`` has them."""
_LARGE = 4 << 20
"""Blocks of so many bytes come from the system and go back to it. It takes time for each page."""
_HEAP = {_M_TRIM_THRESHOLD: 2 * _LARGE, _M_MMAP_THRESHOLD: _LARGE, _M_ARENA_MAX: 1}


def limit_heap() -> None:
    """Makes glibc hand large blocks back to the system once they are freed; nothing elsewhere.

    Of smaller ones it keeps those that are needed again at once: with a limit of 64 KiB embedding
    takes twice as long, and a search a quarter longer.
    """
    with _without_glibc():
        libc = ctypes.CDLL(None)
        for parameter, value in _HEAP.items():
            libc.mallopt(parameter, value)


def release_heap() -> None:
    """Makes glibc hand all freed memory back to the system now; does nothing elsewhere.

    Indexing and loading a model need more memory than searching does afterwards. Handing back 32 MB
    takes some 2 ms; if there is nothing to hand back it takes nearly nothing.
    """
    with _without_glibc():
        ctypes.CDLL(None).malloc_trim(0)


def keep_heap_small(period_s: float = 30.0) -> None:
    """Limits the heap, and releases it every so many seconds: in a process that runs on."""

    def release() -> None:
        while True:
            time.sleep(period_s)
            release_heap()

    limit_heap()
    threading.Thread(target=release, name="heap", daemon=True).start()


def _without_glibc() -> AbstractContextManager[None]:
    return suppress(OSError, AttributeError, TypeError)  # the last one on Windows


def freeze_gc() -> None:
    """Takes all objects that exist now, modules above all, out of garbage collection.

    Looking through 100,000 objects takes the collector 80 ms each time, in which
    nothing else runs.
    """
    gc.freeze()


def skip_sdk_framework() -> None:
    """Keeps the MCP SDK from importing its framework for servers, which is not used here.

    Every module of the SDK imports it, and cryptography with it: 9 MiB. In its
    place stands a package whose names are empty classes. Only for a process of our own.
    """
    name = "mcp.server.mcpserver"
    package = find_spec("mcp")
    framework = ModuleType(name)
    folders = package.submodule_search_locations if package else None
    framework.__path__ = [f"{folder}/server/mcpserver" for folder in folders or ()]
    framework.__getattr__ = lambda name: type(name, (), {})
    sys.modules.setdefault(name, framework)
