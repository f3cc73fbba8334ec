"""Sets how often the interpreter looks for unreachable objects.

Each search takes time in proportion to what was imported. A command ends before it has made
much that is unreachable; a gateway runs on.
"""

import gc
from typing import NoReturn

_DEFAULT = gc.get_threshold()
_OBJECTS = 100_000
"""How many more objects there are before a command searches."""


def collect_rarely() -> None:
    """Search as rarely as a command needs it."""
    gc.set_threshold(_OBJECTS)


def collect_as_usual() -> None:
    """Search as often as a program that runs on needs it."""
    gc.set_threshold(*_DEFAULT)


def exit_at_once(code: int) -> NoReturn:
    """Raise `SystemExit`, after which the interpreter does not search what is there now."""
    gc.freeze()
    raise SystemExit(code)
