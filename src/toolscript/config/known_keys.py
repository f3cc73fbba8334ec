"""Tells keys that are misspelt from keys that are meant for other MCP clients."""

from collections.abc import Collection, Iterable

from toolscript.text.display import encodable, printable

SECTIONS = ("mcpServers", "servers", "mcp", "context_servers", "mcp_servers", "mcp.servers")
"""The field's, and those of VS Code, opencode, Zed and Codex. All that a file has are read."""
SWITCHED_OFF_KEYS = ("disabledMcpServers", "disabledMcpjsonServers")
"""Claude Code's lists of servers that are off, beside the section."""
URL_KEYS = ("url", "serverUrl", "httpUrl")  # the field's, Windsurf's, Gemini's
START_TIMEOUT_KEYS = ("startTimeout", "startup_timeout_sec")  # the second is Codex's
CALL_TIMEOUT_KEYS = ("callTimeout", "tool_timeout_sec")  # the second is Codex's
SWITCH_KEYS = {"disabled": True, "enabled": False, "isActive": False, "active": False}
"""The values by which a key switches a server off: ours, that of Codex and Zed, Cherry Studio's,
and Jan's."""
EXCLUDE_KEYS = ("excludeTools", "disabledTools", "disabled_tools")
INCLUDE_KEYS = (
    *("includeTools", "enabledTools", "enabled_tools"),
    *("allowedTools", "allowed_tools", "available_tools", "tools"),
)
"""A list at any of these keys takes tools away: a tool has to pass all of them."""
ALIASES = {
    "environment": "env",  # opencode's
    "env_file": "envFile",
    "envs": "env",  # Goose's, as the next two
    "cmd": "command",
    "uri": "url",
    "http_headers": "headers",  # Codex's
    "working_directory": "cwd",
    "workingDirectory": "cwd",
}
"""Other clients' names of our keys."""
BEARER_KEYS = ("authorization_token", "bearerToken", "bearer_token", "authToken", "auth_token")
"""Other clients' keys for a token that requests have as ``Authorization``."""
REQUEST_KEYS = ("requestInit", "requestOptions")
"""Other clients' objects that have headers in them."""
UNREAD_KEYS = {
    "headersHelper": "requests go out without the headers that it prints; state them in headers",
    **dict.fromkeys(REQUEST_KEYS, "requests go out with nothing of it but its headers"),
    "apiKey": "requests go out without it; state it in headers",
    "auth": "log in with toolscript auth, or state headers",
    "authProviderType": "log in with toolscript auth, or state headers",
    "authentication": "log in with toolscript auth, or state headers",
    "env_keys": "the server starts without what Goose keeps; state it in env",
    "experimental_environment": "the server runs here",
    "sandbox": "the server runs with your rights",
    "sandboxEnabled": "the server runs with your rights",
    "roots": "the server gets the folders of the client",
    "timeout": "clients differ about its unit; state callTimeout in seconds",
    "startup_timeout_ms": "state startTimeout in seconds",
}
"""Keys of other clients that change how a server works, each with the consequence of its not being
read."""

TOP_LEVEL_KEYS = (*SECTIONS, "skills", "permissions", "profiles", "issuer")
SERVER_KEYS = (
    *("command", "args", "env", "envFile", "env_vars", "cwd"),
    *(*URL_KEYS, "headers", "bearer_token_env_var", "env_http_headers", "oauth"),
    *("type", "transport", "protocol"),
    *("includeTools", "excludeTools", "pinTools", "class", "permissions", "autoApprove"),
    "resultLimit",
    *("disabled", "start", "share", "instances", "idleTimeout", "maxConcurrent"),
    *(*START_TIMEOUT_KEYS, *CALL_TIMEOUT_KEYS),
)
OAUTH_KEYS = ("clientId", "clientSecret", "scope", "callbackPort")

FOREIGN_KEYS = frozenset(
    """
    auth authProviderType targetAudience targetServiceAccount apiKey headersHelper
    registryUrl baseUrl uri tcp http_headers oauth_resource
    cmd envs env_file env_keys environment experimental_environment
    working_directory workingDirectory
    source settings sandbox sandboxEnabled dev watchPaths transportType options
    enabled enabledTools enabled_tools disabled_tools disabledTools allowedTools allowed_tools
    available_tools tool_configuration active
    disabledAutoApproveTools
    tools default_tools_approval_mode supports_parallel_tool_calls trust alwaysAllow alwaysLoad
    required scopes restart bundled extension sampling roots inputs isActive longRunning
    timeout connectionTimeout startup_timeout_ms sse_read_timeout keep_alive authentication
    name displayName display_name title description note notes comment id icon iconUrl
    logo logoUrl faviconUrl homepage repository author license gallery version tags category
    provider metadata
    """.split()  # noqa: SIM905 - a list of words reads best as words
) | {*BEARER_KEYS, *REQUEST_KEYS}
"""Keys that other clients read in a server's entry: Claude Code, Cursor, VS Code, Windsurf, Cline,
Roo Code, Gemini CLI, Codex, Zed, Continue, LM Studio, Goose, Cherry Studio, Jan, FastMCP. None of
them is a misspelling, such as ``auth`` of ``oauth``."""
FOREIGN_OAUTH_KEYS = frozenset(
    """
    scopes enabled issuer audiences authorizationUrl tokenUrl registrationUrl redirectUri
    tokenParamName authServerMetadataUrl
    """.split()  # noqa: SIM905
)
"""Keys that Claude Code and Gemini CLI read in ``oauth``."""
_LONG_CHARS = 10
"""Keys at least this long may have two adjacent wrong letters."""


def listed(keys: Iterable[str]) -> str:
    """Returns the keys of an object for a message; "nothing" for none."""
    return printable(encodable(", ".join(sorted(keys))), 200) or "nothing"


def misspelt(
    keys: Iterable[str], known: Collection[str], foreign: Collection[str] = ()
) -> str | None:
    """Returns a message about the first of the keys that looks like a known one misspelt.

    None if there is no such key. A key that begins or ends with a sign, such as ``_command``
    or ``args2``, is not looked at: that is how users switch a key off.
    """
    ignored = {_plain(key) for key in foreign} - {_plain(key) for key in known}
    for key in keys:
        if key in known or _is_marked(key) or _plain(key) in ignored:
            continue
        if nearest := _nearest(key, known):
            return f"the key {key!r:.60} is not known; did you mean {nearest!r}?"
    return None


def unknown(keys: Iterable[str]) -> list[str]:
    """Returns the keys of an entry that nothing is known about, but for those that users marked."""
    odd = [key for key in keys if key not in SERVER_KEYS and key not in FOREIGN_KEYS]
    known = {*map(_plain, (*SERVER_KEYS, *FOREIGN_KEYS))} if odd else set[str]()
    return [key for key in odd if not _is_marked(key) and _plain(key) not in known]


def _is_marked(key: str) -> bool:
    return not (key[:1].isalpha() and key[-1:].isalpha())


def _nearest(key: str, known: Iterable[str]) -> str:
    """Returns the known key that a key may be a misspelling of; empty for none."""
    near = ((_difference(_plain(key), _plain(each)), "." in each, each) for each in known)
    wrong, _, nearest = min(near)
    return nearest if wrong <= (2 if len(nearest) >= _LONG_CHARS else 1) else ""


def _plain(key: str) -> str:
    """Returns the key without the characters that join its words."""
    return key.replace("_", "").replace("-", "").replace(" ", "").casefold()


def _difference(one: str, other: str) -> int:
    """Returns the length of the part in which two keys differ; 1 for two letters swapped."""
    for _ in range(2):  # what is alike at the beginning, then at the end
        pairs = enumerate(zip(one, other, strict=False))
        alike = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
        one, other = one[alike:][::-1], other[alike:][::-1]
    swapped = len(one) == 2 and one == other[::-1]  # noqa: PLR2004 - a pair
    return 1 if swapped else max(len(one), len(other))
