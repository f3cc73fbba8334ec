"""The HTTP door's table of errors."""

import inspect

from toolscript import errors
from toolscript.errors import ToolscriptError
from toolscript.surfaces.server.wire import STATUS


def test_every_error_has_a_status() -> None:
    """http:search: a class without a row would be answered with 500 and a traceback in the log."""
    classes = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, ToolscriptError)
    }
    assert set(STATUS) == classes


def test_a_status_is_an_error() -> None:
    """http:search."""
    assert all(400 <= status < 600 for status in STATUS.values())
