"""Says in a word what came of a call that raised an error, by the error's class."""

from toolscript import errors
from toolscript.storage.activity_log import Outcome

_OUTCOMES: dict[str, Outcome] = {
    "Exception": "internal",
    errors.InputError.__name__: "invalid arguments",
    errors.UnknownNameError.__name__: "unknown tool",
    errors.AccessError.__name__: "denied",
    errors.DatabaseUnavailableError.__name__: "not connected",
    errors.NotPermittedError.__name__: "denied",
    errors.HeldError.__name__: "held",
    errors.NotReadyError.__name__: "not connected",
    errors.SearchTimeoutError.__name__: "timeout",
    errors.UpstreamError.__name__: "bad answer",
    errors.NotConnectedError.__name__: "not connected",
    errors.RefusedError.__name__: "refused",
    errors.CallTimeoutError.__name__: "timeout",
}
"""By the name of a class, for it and its subclasses, unless those have a row of their own."""


def outcome_of(kind: type[BaseException]) -> Outcome:
    """Returns what came of a call that raised this: what the first of its bases with a row says.

    What is no `Exception` ends a call from outside, such as a client that hangs up.
    """
    for base in kind.__mro__:
        if base.__name__ in _OUTCOMES:
            return _OUTCOMES[base.__name__]
    return "cancelled"
