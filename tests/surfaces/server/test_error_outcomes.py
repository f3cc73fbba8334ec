"""Every error has an outcome, and a new branch of the tree is noticed."""

import asyncio
import inspect
from typing import get_args

import pytest

from toolscript import errors
from toolscript.errors import ToolscriptError
from toolscript.storage.activity_log import OUTCOMES, Outcome
from toolscript.surfaces.server.error_codes import outcome_of

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
