"""How the command line spells things: errors as exit codes, answers as tables."""

from toolscript import errors

EXIT: dict[type[errors.ToolscriptError], int] = {
    errors.ToolscriptError: 1,
    errors.InputError: 2,
    errors.QueryError: 2,
    errors.RangeError: 2,
    errors.ArgumentsError: 2,
    errors.UnknownNameError: 2,
    errors.SkillError: 2,
    errors.ConfigError: 2,
    errors.ConfigMissingError: 2,
    errors.ConfigSyntaxError: 2,
    errors.ConfigUntrustedError: 2,
    errors.DataDirectoryError: 2,
    errors.TokenFileError: 2,
    errors.AccessError: 1,
    errors.ModelError: 1,
    errors.DeviceError: 1,
    errors.UnreachableError: 1,
    errors.LlmError: 1,
    errors.NotReadyError: 1,
    errors.SearchTimeoutError: 1,
    errors.UpstreamError: 1,
    errors.NotConnectedError: 1,
    errors.RefusedError: 1,
    errors.CallTimeoutError: 1,
    errors.LearningError: 1,
    errors.TaskDiedError: 1,
    errors.SandboxError: 1,
    errors.GatewayError: 1,
    errors.GatewayMissingError: 1,
    errors.GatewayRunningError: 1,
    errors.PortInUseError: 1,
    errors.UnprotectedError: 2,
}
_BY_NAME = {kind.__name__: kind for kind in EXIT}
NOT_RUNNING = 3
"""``gateway status`` with no gateway, as in the LSB's status actions."""
NOT_ANSWERING = 1
"""``gateway status`` with a gateway that runs, but does not answer."""


def named_error(kind: str, message: str) -> errors.ToolscriptError:
    """The error that a gateway spelled as JSON, as itself again."""
    return _BY_NAME.get(kind, errors.GatewayError)(message)
