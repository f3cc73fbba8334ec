"""Errors get their codes and their outcomes along the class hierarchy."""

import asyncio
import inspect
from typing import get_args

import pytest

from toolscript import errors
from toolscript.errors import ToolscriptError
from toolscript.storage.activity_log import OUTCOMES, Outcome
from toolscript.surfaces.server.error_codes import (
    BRANCHES,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    codes_of,
    outcome_of,
)

ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ToolscriptError)
]
INTERNAL = {
    errors.ConfigError,
    errors.ModelError,
    errors.LlmError,
    errors.LearningError,
    errors.ActivityLogError,
    errors.DecisionStorageError,
    errors.OutdatedDecisionError,
    errors.TaskDiedError,
    errors.SandboxError,
    errors.GatewayError,
}
"""Branches that are no outcome of a call of a tool: where one is, something is wrong here."""


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


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_has_an_outcome(kind: type[ToolscriptError]) -> None:
    internal = kind is ToolscriptError or bool(INTERNAL & set(kind.__mro__))
    assert outcome_of(kind) in OUTCOMES
    assert (outcome_of(kind) == "internal") == internal, "give a new error a row in the table"


def test_every_outcome_comes_about() -> None:
    """The others come from a result."""
    results = {"ok", "tool error"}
    assert {outcome_of(kind) for kind in (*ERRORS, asyncio.CancelledError)} | results == set(
        OUTCOMES
    )
    assert get_args(Outcome) == OUTCOMES


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (errors.ArgumentsError, "invalid arguments"),
        (errors.UnknownNameError, "unknown tool"),
        (errors.RefusedError, "refused"),
        (errors.CallTimeoutError, "timeout"),
        (errors.NotConnectedError, "not connected"),
        (errors.UpstreamError, "bad answer"),
        (errors.DeniedError, "denied"),
        (errors.ToolClassError, "denied"),
        (errors.HeldError, "held"),
        (type("AnotherError", (errors.RefusedError,), {}), "refused"),
        (ZeroDivisionError, "internal"),
        (asyncio.CancelledError, "cancelled"),
        (KeyboardInterrupt, "cancelled"),
    ],
)
def test_a_class_has_the_outcome_of_its_nearest_base(
    kind: type[BaseException], outcome: Outcome
) -> None:
    assert outcome_of(kind) == outcome
