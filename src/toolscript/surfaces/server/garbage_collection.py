"""Sets how often Python's garbage collector runs in a process.

Each run takes time in proportion to the objects of all imported modules. A command ends before it
has made much garbage; a gateway runs on.
"""

import gc
from typing import NoReturn

_DEFAULT = gc.get_threshold()
_OBJECTS = 100_000
"""How many more objects there have to be before a run, in a command."""


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
