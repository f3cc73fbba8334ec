"""Errors on HTTP: a status for each, and a body."""

from typing import Any

import msgspec

from toolscript import errors

STATUS: dict[type[errors.ToolscriptError], int] = {
    errors.ToolscriptError: 500,
    errors.InputError: 400,
    errors.QueryError: 400,
    errors.RangeError: 400,
    errors.ArgumentsError: 400,
    errors.UnknownNameError: 404,
    errors.SkillError: 400,
    errors.ConfigError: 500,
    errors.ConfigMissingError: 500,
    errors.ConfigSyntaxError: 500,
    errors.ConfigUntrustedError: 500,
    errors.DataDirectoryError: 500,
    errors.TokenFileError: 503,
    errors.AccessError: 401,
    errors.ModelError: 503,
    errors.DeviceError: 503,
    errors.UnreachableError: 503,
    errors.LlmError: 502,
    errors.NotReadyError: 503,
    errors.SearchTimeoutError: 504,
    errors.UpstreamError: 502,
    errors.NotConnectedError: 503,
    errors.RefusedError: 502,
    errors.CallTimeoutError: 504,
    errors.LearningError: 503,
    errors.TaskDiedError: 503,
    errors.SandboxError: 500,
    errors.GatewayError: 500,
    errors.GatewayMissingError: 502,
    errors.GatewayRunningError: 409,
    errors.PortInUseError: 500,
    errors.UnprotectedError: 500,
}


def error(problem: errors.ToolscriptError) -> dict[str, Any]:
    """An error: its kind, as in `toolscript.errors`, and its message."""
    return {"error": str(problem), "type": type(problem).__name__}


def encode(value: Any) -> bytes:
    """JSON bytes."""
    return msgspec.json.encode(value)
