"""Errors get their codes along the class hierarchy."""

import inspect

import pytest

from toolscript import errors
from toolscript.errors import ToolscriptError
from toolscript.surfaces.server.error_codes import (
    BRANCHES,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    codes_of,
)

ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ToolscriptError)
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_a_status_is_an_error_and_a_code_is_of_the_protocol(kind: type[ToolscriptError]) -> None:
    codes = codes_of(kind)
    assert 400 <= codes.http_status < 600
    assert codes.json_rpc in {INVALID_PARAMS, INTERNAL_ERROR}


def test_a_new_leaf_has_its_branchs_codes() -> None:
    class NewError(errors.UnknownNameError):
        """A leaf that nobody has written a row for."""

    assert codes_of(NewError) == codes_of(errors.UnknownNameError)


def test_no_row_says_what_its_branch_says_already() -> None:
    for kind, codes in BRANCHES.items():
        if kind is not ToolscriptError:
            assert codes != codes_of(kind.__bases__[0]), kind
