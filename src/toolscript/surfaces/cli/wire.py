"""How the command line spells things: exit codes beside those of errors, and errors from JSON."""

from toolscript import errors

NOT_RUNNING = 3
"""``gateway status`` with no gateway, as in the LSB's status actions."""
NOT_ANSWERING = 1
"""``gateway status`` with a gateway that runs, but does not answer."""


def named_error(name: str, message: str) -> errors.ToolscriptError:
    """Returns the error that a gateway has spelled as JSON; `GatewayError` for an unknown name."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, errors.ToolscriptError):
        return kind(message)
    return errors.GatewayError(message)
