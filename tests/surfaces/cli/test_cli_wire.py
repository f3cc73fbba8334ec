"""The command line's table of errors."""

import inspect

import pytest

from toolscript import errors
from toolscript.errors import GatewayError, ToolscriptError
from toolscript.surfaces.cli.wire import EXIT, NOT_RUNNING, named_error


def test_every_error_has_an_exit_code() -> None:
    """cli:search: a class without a row would end in a traceback."""
    classes = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, ToolscriptError)
    }
    assert set(EXIT) == classes


def test_exit_codes() -> None:
    """cli:search: 2 for what the user gave, 1 for what failed, and none means "not running"."""
    assert set(EXIT.values()) == {1, 2}
    assert NOT_RUNNING not in EXIT.values()


@pytest.mark.parametrize("kind", EXIT, ids=lambda kind: kind.__name__)
def test_an_error_crosses_the_wire(kind: type[ToolscriptError]) -> None:
    """cli:search: what a gateway spells as JSON is the same error again."""
    assert type(named_error(kind.__name__, "why")) is kind


def test_an_error_of_a_newer_gateway() -> None:
    """cli:search."""
    error = named_error("NeverHeardOfError", "why")
    assert (type(error), str(error)) == (GatewayError, "why")
