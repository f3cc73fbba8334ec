"""Gives every error its HTTP status, exit code, JSON-RPC code and outcome, by the error's class.

The table has a row per branch of the tree in `toolscript.errors`: an error without a row has the
codes of its nearest base class.
"""

from typing import TYPE_CHECKING, NamedTuple

from toolscript import errors

if TYPE_CHECKING:
    from toolscript.storage.activity_log import Outcome

INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
"""JSON-RPC's own codes."""


class ErrorCodes(NamedTuple):
    """The codes of an error on each surface."""

    http_status: int
    exit_code: int = 1
    """2 if the user can put it right by giving something else, 1 otherwise."""
    json_rpc: int = INTERNAL_ERROR
    """A server's own refusal keeps the code that it came with instead."""
    outcome: "Outcome" = "internal"
    """The outcome of a call that raises it, in the activity."""


BRANCHES: dict[type[errors.ToolscriptError], ErrorCodes] = {
    errors.ToolscriptError: ErrorCodes(500),
    errors.InputError: ErrorCodes(400, 2, INVALID_PARAMS, outcome="invalid arguments"),
    errors.UnknownNameError: ErrorCodes(404, 2, INVALID_PARAMS, outcome="unknown tool"),
    errors.ConfigError: ErrorCodes(500, 2),
    errors.TokenFileError: ErrorCodes(503, 2),
    errors.SchemaVersionError: ErrorCodes(503, 2),
    errors.DatabaseUnavailableError: ErrorCodes(503, outcome="not connected"),
    errors.AccessError: ErrorCodes(401, outcome="denied"),
    errors.NotPermittedError: ErrorCodes(403, 1, INVALID_PARAMS, outcome="denied"),
    errors.ModelError: ErrorCodes(503),
    errors.UnsuitableModelError: ErrorCodes(503, 2),
    errors.LlmError: ErrorCodes(502),
    errors.HeldError: ErrorCodes(403, 1, INVALID_PARAMS, "held"),
    errors.NotReadyError: ErrorCodes(503, outcome="not connected"),
    errors.OverloadError: ErrorCodes(429, outcome="not connected"),
    errors.SearchTimeoutError: ErrorCodes(504, outcome="timeout"),
    errors.UpstreamError: ErrorCodes(502, outcome="bad answer"),
    errors.RefusedError: ErrorCodes(502, outcome="refused"),
    errors.NotConnectedError: ErrorCodes(503, outcome="not connected"),
    errors.CallTimeoutError: ErrorCodes(504, outcome="timeout"),
    errors.LearningError: ErrorCodes(503),
    errors.ActivityLogError: ErrorCodes(503),
    errors.DecisionStorageError: ErrorCodes(503),
    errors.OutdatedDecisionError: ErrorCodes(409),
    errors.TaskDiedError: ErrorCodes(503),
    errors.GatewayMissingError: ErrorCodes(502),
    errors.GatewayRunningError: ErrorCodes(409),
    errors.UnprotectedError: ErrorCodes(500, 2),
}


def codes_of(kind: type[errors.ToolscriptError]) -> ErrorCodes:
    """Returns the codes of a class of errors: those of the first of its bases that has a row."""
    return next(BRANCHES[base] for base in kind.__mro__ if base in BRANCHES)


def outcome_of(kind: type[BaseException]) -> "Outcome":
    """Returns the outcome of a call that raised an exception of this class."""
    if issubclass(kind, errors.ToolscriptError):
        return codes_of(kind).outcome
    # Other exceptions than `Exception` end a call from outside, such as a client that hangs up.
    return "internal" if issubclass(kind, Exception) else "cancelled"
