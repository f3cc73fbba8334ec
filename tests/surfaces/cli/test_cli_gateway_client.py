"""The command line's table of errors."""

import inspect

from toolscript import errors
from toolscript.errors import GatewayError, ToolscriptError
from toolscript.surfaces.cli.gateway_client import error_named
from toolscript.surfaces.cli.gateway_command import NOT_RUNNING
from toolscript.surfaces.server.error_codes import codes_of

ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ToolscriptError)
]


def test_exit_codes() -> None:
    """cli:search: 2 for what the user gave, 1 for what failed, and none means "not running"."""
    codes = {codes_of(kind).exit_code for kind in ERRORS}
    assert codes == {1, 2}
    assert NOT_RUNNING not in codes


def test_an_error_crosses_the_wire() -> None:
    """cli:search: what a gateway spells as JSON is the same error again, if it is known here."""
    for kind in ERRORS:
        assert type(error_named(kind.__name__, "why")) is kind
    for name in ("NeverHeardOfError", "__doc__", ""):
        error = error_named(name, "why")
        assert (type(error), str(error)) == (GatewayError, "why")
