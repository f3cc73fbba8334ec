"""The errors that toolscript raises on purpose.

    ToolscriptError
    ├── InputError               the caller's input cannot be used
    │   ├── QueryError           an empty or oversized query
    │   ├── RangeError           a number outside its range, an unknown choice
    │   ├── ArgumentsError       a tool's arguments do not fit its schema
    │   ├── UnknownNameError     no server, tool, skill or profile has this name
    │   └── SkillError           a file cannot be read as a skill
    ├── ConfigError              the configuration as a whole cannot be used
    │   ├── ConfigMissingError   there is no configuration file
    │   ├── ConfigSyntaxError    a file is not a JSON object
    │   ├── ConfigUntrustedError the user has not trusted a project's file
    │   ├── DataDirectoryError   another user may have written to the data directory
    │   ├── TokenFileError       the file of tokens cannot be read
    │   ├── SecretStoreError     the secrets of servers cannot be read or written
    │   └── SchemaVersionError   the shared database has tables of another release
    ├── DatabaseUnavailableError the shared database does not answer (also an OSError)
    ├── AccessError              the caller has no token, or an invalid one
    ├── NotPermittedError        a call is not allowed
    │   ├── DeniedError          a rule or a person denies it
    │   ├── HeldError            the tool's definition waits for approval
    │   └── ToolClassError       the tool may do more, or less, than the call says
    ├── ModelError               an embedding model cannot be used
    │   ├── UnsuitableModelError it does not fit, or is not trusted
    │   │   └── DeviceError      the selected device cannot run it
    │   └── UnreachableError     its server does not answer at the moment
    ├── LlmError                 a language model does not answer
    ├── NotReadyError            there is nothing to search yet
    ├── OverloadError            there is no room for more at the moment
    ├── SearchTimeoutError       a search took too long
    ├── UpstreamError            an MCP server does not work
    │   ├── NotConnectedError    it is not connected
    │   │   └── NotOwnerError    another replica of the gateway runs it
    │   ├── RefusedError         it answered a request with an error
    │   └── CallTimeoutError     it did not answer in time
    ├── LearningError            usage data cannot be written
    ├── ActivityLogError         the log of calls cannot be read
    ├── DecisionStorageError     what a person decided cannot be stored
    ├── OutdatedDecisionError    what was decided about has changed since it was shown
    ├── TaskDiedError            a background task of the process has failed
    ├── SandboxError             a script cannot be run, or was stopped
    └── GatewayError             the gateway process cannot be used
        ├── GatewayMissingError  no gateway is running
        ├── GatewayRunningError  a gateway is running already
        ├── PortInUseError       its address is in use
        └── UnprotectedError     other machines could use it without a token

Every message says what is wrong, the value seen, and what to do. Each branch
of the tree has its codes in one table (``surfaces/server/error_codes.py``).
"""

from typing import cast


class ToolscriptError(Exception):
    """The root of the tree; its message is for the user."""


class InputError(ToolscriptError):
    """The caller's input cannot be used."""


class QueryError(InputError):
    """An empty or oversized query."""


class RangeError(InputError):
    """A number outside its range, or an unknown choice."""


class ArgumentsError(InputError):
    """A tool's arguments do not fit its schema; the message names the mistakes."""


class UnknownNameError(InputError):
    """No server, tool, skill or profile has this name."""


class SkillError(InputError):
    """A file cannot be read as a skill; the message says why and what to do."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing
        """Whether a later attempt may succeed with the file as it is."""


class ConfigError(ToolscriptError):
    """The configuration as a whole cannot be used."""


class ConfigMissingError(ConfigError):
    """There is no configuration file where one was expected."""


class ConfigSyntaxError(ConfigError):
    """A configuration file cannot be read, or is not a JSON object."""


class ConfigUntrustedError(ConfigError):
    """The user has not trusted a project's configuration file with its present content."""


class DataDirectoryError(ConfigError):
    """Another user may have written to the data directory, whose files are relied on."""


class TokenFileError(ConfigError):
    """The file of access tokens cannot be read."""


class SecretStoreError(ConfigError):
    """The file or the keyring with the secrets of servers cannot be used."""


class SchemaVersionError(ConfigError):
    """The shared database has the tables of another release."""


class DatabaseUnavailableError(ToolscriptError, OSError):
    """The shared database does not answer: stores treat it like a disk that fails."""


class AccessError(ToolscriptError):
    """The caller has no token where one is required, or an invalid one."""


class NotPermittedError(ToolscriptError):
    """A call is not allowed; the message says by whom, and what to do."""


class DeniedError(NotPermittedError):
    """A rule or a person denies a call."""


class HeldError(NotPermittedError):
    """A tool's definition waits for a person's approval."""


class ToolClassError(NotPermittedError):
    """A tool may do more, or less, than its caller says that the call does."""

    def __init__(self, message: str, tool_class: str = "") -> None:
        super().__init__(message)
        self.tool_class = tool_class
        """The tool's class: ``read``, ``write`` or ``destructive``."""


class ModelError(ToolscriptError):
    """An embedding model cannot be used."""


class UnsuitableModelError(ModelError):
    """A model does not fit, or is not trusted: at no time, so that no other stands in for it."""


class DeviceError(UnsuitableModelError):
    """The selected device cannot run the model."""


class UnreachableError(ModelError):
    """A hub or an embedding server does not answer at the moment."""


class LlmError(ToolscriptError):
    """A language model does not answer, or its answer cannot be used."""


class NotReadyError(ToolscriptError):
    """There is nothing to search yet; the message says what has to finish first."""


class OverloadError(ToolscriptError):
    """A caller, or all of them, have too much under way at the moment."""


class SearchTimeoutError(ToolscriptError):
    """A search took too long."""


class UpstreamError(ToolscriptError):
    """An MCP server does not work."""


class NotConnectedError(UpstreamError):
    """A server is not connected; the message says why."""


class NotOwnerError(NotConnectedError):
    """Another replica of the gateway runs a server, or none does yet; nothing was executed."""


class RefusedError(UpstreamError):
    """A server answered a request with a JSON-RPC error; its name is before its message."""

    def __init__(self, message: str, code: int = -32603, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class CallTimeoutError(UpstreamError):
    """A server did not answer a request in time."""


class LearningError(ToolscriptError):
    """Usage data, or its deletion, cannot be written to disk."""


class DecisionStorageError(ToolscriptError):
    """What a person decided about a tool or a call cannot be written to disk."""


class OutdatedDecisionError(ToolscriptError):
    """What a decision is about has changed since it was looked at."""


class ActivityLogError(ToolscriptError):
    """The log of calls cannot be read at the moment."""


class TaskDiedError(ToolscriptError):
    """A background task has failed, which ends the process."""


class SandboxError(ToolscriptError):
    """A script cannot be run, or was stopped because it exceeded a limit."""


class GatewayError(ToolscriptError):
    """The gateway process cannot be used."""


class GatewayMissingError(GatewayError):
    """There is no gateway where one was expected."""


class GatewayRunningError(GatewayError):
    """A gateway is running already."""


class PortInUseError(GatewayError):
    """The gateway's address is in use."""


class UnprotectedError(GatewayError):
    """Other machines could use the gateway without a token."""


def innermost(error: BaseException) -> BaseException:
    """Returns the first leaf of an exception group, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
