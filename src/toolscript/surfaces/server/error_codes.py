"""Gives every error its HTTP status, exit code and JSON-RPC code, by the error's class.

The table has a row per branch of the tree in `toolscript.errors`: an error without a row has the
codes of its nearest base class.
"""

from typing import NamedTuple

from toolscript import errors

INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
"""JSON-RPC's own codes."""


class ErrorCodes(NamedTuple):
    """What an error is on each surface."""

    http_status: int
    exit_code: int = 1
    """2 where the user can put it right by giving something else, 1 otherwise."""
    json_rpc: int = INTERNAL_ERROR
    """A server's own refusal keeps the code that it came with instead."""


BRANCHES: dict[type[errors.ToolscriptError], ErrorCodes] = {
    errors.ToolscriptError: ErrorCodes(500),
    errors.InputError: ErrorCodes(400, 2, INVALID_PARAMS),
    errors.UnknownNameError: ErrorCodes(404, 2, INVALID_PARAMS),
    errors.ConfigError: ErrorCodes(500, 2),
    errors.TokenFileError: ErrorCodes(503, 2),
    errors.SchemaVersionError: ErrorCodes(503, 2),
    errors.DatabaseUnavailableError: ErrorCodes(503),
    errors.AccessError: ErrorCodes(401),
    errors.NotPermittedError: ErrorCodes(403, 1, INVALID_PARAMS),
    errors.ModelError: ErrorCodes(503),
    errors.LlmError: ErrorCodes(502),
    errors.NotReadyError: ErrorCodes(503),
    errors.SearchTimeoutError: ErrorCodes(504),
    errors.UpstreamError: ErrorCodes(502),
    errors.NotConnectedError: ErrorCodes(503),
    errors.CallTimeoutError: ErrorCodes(504),
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
