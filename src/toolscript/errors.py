"""Everything toolscript raises on purpose.

    ToolscriptError
    ├── InputError               what the caller gave cannot be used
    │   ├── QueryError           an empty or oversized query
    │   ├── RangeError           a number outside its range, an unknown choice
    │   ├── ArgumentsError       a tool's arguments that do not fit its schema
    │   ├── UnknownNameError     a server, tool or skill that is not there
    │   └── SkillError           a file that cannot be read as a skill
    ├── ConfigError              the configuration as a whole cannot be used
    │   ├── ConfigMissingError   no configuration file where one was expected
    │   ├── ConfigSyntaxError    a file that is not a JSON object
    │   ├── ConfigUntrustedError a project's file that its user has not trusted
    │   ├── DataDirectoryError   a data directory in which another user may have put files
    │   └── TokenFileError       a file of tokens that cannot be read
    ├── AccessError              a caller without a token, or with one that is not valid
    ├── ModelError               an embedding model that cannot be used
    │   ├── DeviceError          the device asked for cannot run it
    │   └── UnreachableError     what has it does not answer now, and may later
    ├── LlmError                 a language model that does not answer
    ├── NotReadyError            nothing can be searched yet
    ├── SearchTimeoutError       a search took longer than it may
    ├── UpstreamError            an MCP server that does not work
    │   ├── NotConnectedError    one that cannot be asked now
    │   ├── RefusedError         one that answered a request with an error
    │   └── CallTimeoutError     one that did not answer in time
    ├── LearningError            what was learned cannot be written down
    ├── TaskDiedError            a background task of the process
    ├── SandboxError             a script that cannot be run, or was stopped
    └── GatewayError             the gateway process
        ├── GatewayMissingError  none is running where one was expected
        ├── GatewayRunningError  one is running already
        ├── PortInUseError       its address is taken
        └── UnprotectedError     other machines could use it without a token

Every message says what is wrong, the value seen, and what to do. Each branch
of the tree has its codes in one table (``surfaces/server/error_codes.py``).
"""


class ToolscriptError(Exception):
    """The root: a message for the user, never a traceback."""


class InputError(ToolscriptError):
    """What the caller gave cannot be used."""


class QueryError(InputError):
    """An empty or oversized query."""


class RangeError(InputError):
    """A number outside its range, or an unknown choice."""


class ArgumentsError(InputError):
    """A tool's arguments do not fit its schema; the message says how to put that right."""


class UnknownNameError(InputError):
    """A server, tool or skill that is not there."""


class SkillError(InputError):
    """A file that cannot be read as a skill; the message says what it is and what to do."""


class ConfigError(ToolscriptError):
    """The configuration as a whole cannot be used."""


class ConfigMissingError(ConfigError):
    """No configuration file where one was expected."""


class ConfigSyntaxError(ConfigError):
    """A configuration file that is not a JSON object."""


class ConfigUntrustedError(ConfigError):
    """A project's configuration file that its user has not trusted as it is now."""


class DataDirectoryError(ConfigError):
    """A data directory in which another user may have put what would be believed."""


class TokenFileError(ConfigError):
    """A file of tokens that cannot be read."""


class AccessError(ToolscriptError):
    """A caller without a token where one is asked for, or with one that is not valid."""


class ModelError(ToolscriptError):
    """An embedding model that cannot be used."""


class DeviceError(ModelError):
    """The device asked for cannot run the model."""


class UnreachableError(ModelError):
    """A hub or an embedding server that does not answer now, and may later."""


class LlmError(ToolscriptError):
    """A language model that does not answer, or answers what cannot be used."""


class NotReadyError(ToolscriptError):
    """Nothing can be searched yet; the message says what is being waited for."""


class SearchTimeoutError(ToolscriptError):
    """A search took longer than it may."""


class UpstreamError(ToolscriptError):
    """An MCP server that does not work."""


class NotConnectedError(UpstreamError):
    """A server that cannot be asked now; the message says why."""


class RefusedError(UpstreamError):
    """A server answered a request with a JSON-RPC error, which is kept as it came."""

    def __init__(
        self, message: str, code: int = -32603, said: str = "", data: object = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.said = said or message
        """The server's own words, without its name before them."""
        self.data = data


class CallTimeoutError(UpstreamError):
    """A server did not answer a request in time."""


class LearningError(ToolscriptError):
    """What was learned, or that it is forgotten, cannot be written to the disk now."""


class TaskDiedError(ToolscriptError):
    """A background task has died of a fault, and the process ends with it."""


class SandboxError(ToolscriptError):
    """A script that cannot be run, or took more than it may and was stopped."""


class GatewayError(ToolscriptError):
    """The gateway process."""


class GatewayMissingError(GatewayError):
    """No gateway is running where one was expected."""


class GatewayRunningError(GatewayError):
    """A gateway is running already."""


class PortInUseError(GatewayError):
    """The gateway's address is taken."""


class UnprotectedError(GatewayError):
    """Other machines could use the gateway without a token."""
