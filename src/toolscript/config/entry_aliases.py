"""Translates other clients' keys of a server's entry, and names those that nothing reads."""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import filterfalse
from operator import itemgetter
from typing import Any, cast

from toolscript.text.display import encodable, printable
from toolscript.text.json_values import as_list, as_object
from toolscript.text.secret_shapes import AUTH_SCHEMES
from toolscript.types import Repair
from toolscript.types.patterns import matches

ALIASES = {
    **dict.fromkeys(("serverUrl", "httpUrl", "uri"), "url"),  # Windsurf's, Gemini's, Goose's
    "cmd": "command",  # Goose's
    **dict.fromkeys(("environment", "envs"), "env"),  # opencode's, Goose's
    "env_file": "envFile",
    "env_vars": "envVars",  # Codex's, as the three with the unit
    "http_headers": "headers",
    "startup_timeout_sec": "startTimeout",
    "tool_timeout_sec": "callTimeout",
    **dict.fromkeys(("working_directory", "workingDirectory"), "cwd"),
    "transport": "type",
    **dict.fromkeys(("disabledTools", "disabled_tools"), "excludeTools"),
    **dict.fromkeys(("enabledTools", "enabled_tools", "allowedTools"), "includeTools"),
    **dict.fromkeys(("allowed_tools", "available_tools", "tools"), "includeTools"),
}
"""Other clients' names of our keys. ``tools`` is one if it is a list."""
SWITCH_KEYS = {"disabled": True, "enabled": False, "isActive": False, "active": False}
"""The values by which a key switches a server off: ours, that of Codex and Zed, Cherry Studio's,
and Jan's."""
BEARER_KEYS = ("authorization_token", "bearerToken", "bearer_token", "authToken", "auth_token")
"""Other clients' keys for a token that requests have as ``Authorization``."""
REQUEST_KEYS = ("requestInit", "requestOptions")
"""Other clients' objects that have headers in them."""
MERGED_KEYS = (
    *("bearer_token_env_var", "env_http_headers", "tool_configuration"),
    *(*BEARER_KEYS, *REQUEST_KEYS),
)
"""Other clients' keys whose values `rewrite` puts into ours."""
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
    **dict.fromkeys(("tls", "verify"), "certificates are checked; set SSL_CERT_FILE"),
    "roots": "the server gets the folders of the client",
    "timeout": "clients differ about its unit; state callTimeout in seconds",
    "startup_timeout_ms": "state startTimeout in seconds",
}
"""Keys of other clients that change how a server works, each with the consequence of its not being
read."""
RAW_KEYS = ("tools", "permissions")
"""The keys whose values stay as they are, each variable and ``null`` in them too."""
_LONG_CHARS = 10
"""Keys at least this long may have two wrong letters."""


class EntryError(Exception):
    """An entry that cannot be used; the message names the mistake."""


def rewrite(raw: dict[str, Any]) -> dict[str, Any]:
    """Returns an entry in toolscript's own keys, without nulls at any depth.

    Values at two spellings of a key are put together if both are objects or lists. Otherwise
    toolscript's own key counts, and `describe_unread` names the other one.
    """
    entry = {
        key: value if key in RAW_KEYS else _without_nulls(value)
        for key, value in raw.items()
        if value is not None
    }
    for key, value in as_object(entry.get("tool_configuration")).items():  # Anthropic's API
        entry.setdefault(key, value)
    _split_command(entry)
    for alias, key in ALIASES.items():
        if alias in entry and (alias != "tools" or isinstance(entry[alias], list)):
            entry[key] = _merge(key, entry.pop(alias), entry.get(key))
    if headers := _foreign_headers(entry):
        entry["headers"] = _merge("headers", headers, entry.get("headers"))
    return entry | {key: shape(entry[key]) for key, shape in _SHAPES.items() if key in entry}


def spelling_of(key: str, value: object, raw: dict[str, Any]) -> str:
    """Returns the spelling of a key at which an entry has its value; the key itself for none."""
    return next((each for each in spellings(key) if each in raw and raw[each] == value), key)


def spellings(key: str) -> tuple[str, ...]:
    """Returns a key and its aliases."""
    return (key, *(alias for alias, own in ALIASES.items() if own == key))


def describe_unread(raw: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each key that changes how a server works and is not read."""
    stated = {key for key, value in raw.items() if value is not None}
    taken = {key for key in REQUEST_KEYS if {*as_object(raw.get(key))} == {"headers"}}
    for key in filter((stated - taken).__contains__, UNREAD_KEYS):
        yield f"{key} is not read: {UNREAD_KEYS[key]}"
    tools = as_object(raw.get("tools"))
    for name in filterfalse(_repairs_in(tools).__contains__, tools):
        yield f"tools.{name:.60} is not read: it has none of {', '.join(Repair.__struct_fields__)}"
    for alias, key in ALIASES.items():
        if {alias, key} <= stated and not isinstance(raw[key], dict | list):
            yield f"{alias} is not read beside {key}"


def listed(keys: Iterable[str]) -> str:
    """Returns the keys of an object for a message; "nothing" for none."""
    return printable(encodable(", ".join(sorted(keys))), 200) or "nothing"


def misspelt(
    keys: Iterable[str], known: Collection[str], others: Collection[str] = ()
) -> str | None:
    """Returns a message about the first of the keys that looks like a known one misspelt.

    None if there is no such key. ``others`` are not known, and no misspellings either. A key that
    begins or ends with a sign, such as ``_command`` or ``args2``, is not looked at: that is how
    users switch a key off.
    """
    for key in keys:
        is_marked = not (key[:1].isalpha() and key[-1:].isalpha())
        if key in known or key in others or is_marked:
            continue
        if nearest := _nearest(key, known):
            return f"the key {key!r:.60} is not known; did you mean {nearest!r}?"
    return None


def _nearest(key: str, known: Iterable[str]) -> str:
    """Returns the first known key that a key may be a misspelling of; empty for none."""
    from rapidfuzz.distance import OSA  # noqa: PLC0415 - slow to load, and seldom needed

    plain = _plain(key)
    wrong, nearest = min(
        ((OSA.distance(plain, _plain(each)), each) for each in known), key=itemgetter(0)
    )
    return nearest if wrong <= (2 if len(nearest) >= _LONG_CHARS else 1) else ""


def _plain(key: str) -> str:
    """Returns the key without the characters that join its words."""
    return key.replace("_", "").replace("-", "").replace(" ", "").casefold()


def _repairs_in(tools: object) -> dict[str, Any]:
    """Returns the repairs in an entry's ``tools``; those of other clients mean nothing here."""
    known = Repair.__struct_fields__
    return {
        name: value
        for name, value in as_object(tools).items()
        if isinstance(value, dict) and (not value or any(key in value for key in known))
    }


def _split_command(entry: dict[str, Any]) -> None:
    """Takes a command apart that is an object, as an older Zed's, or a list, as opencode's."""
    command: Any = entry.get("command")
    if "path" in as_object(command):
        entry |= {key: command[key] for key in ("args", "env") if key in command}
        entry["command"] = command["path"]
    elif as_list(command):
        entry["command"] = command[0]
        entry["args"] = [*command[1:], *as_list(entry.get("args"))]


def _foreign_headers(entry: dict[str, Any]) -> dict[str, Any]:
    """Returns the headers that other keys state, some from the environment, as Codex does."""
    headers: dict[str, Any] = {}
    for key in REQUEST_KEYS:
        headers |= as_object(as_object(entry.get(key)).get("headers"))
    tokens: list[Any] = [entry.get(key) for key in BEARER_KEYS]
    variable = entry.get("bearer_token_env_var")
    tokens += [f"${{{variable}}}"] if isinstance(variable, str) else []
    for token in (each for each in tokens if isinstance(each, str)):
        is_whole = token.partition(" ")[0].casefold() in AUTH_SCHEMES
        headers["Authorization"] = token if is_whole else f"Bearer {token}"
    named = as_object(entry.get("env_http_headers")).items()
    return headers | {name: f"${{{value}}}" for name, value in named}


def _merge(key: str, other: Any, own: Any) -> Any:
    """Returns the values of two spellings of a key as one; of the first alone if they are texts."""
    if own is None:
        return other
    if isinstance(other, dict) and isinstance(own, dict):
        return cast("dict[str, Any]", other) | cast("dict[str, Any]", own)
    if key not in {"includeTools", "excludeTools"}:
        return own
    lists: list[Any] = [own, other]
    if wrong := [each for each in lists if not _are_names(each)]:
        return wrong[0]
    return lists[0] + lists[1] if key == "excludeTools" else _in_both(*lists)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(name, str) for name in cast("list[Any]", value)
    )


def _in_both(one: list[str], other: list[str]) -> list[str]:
    """Returns the names and patterns of each list that the other list has, or has a pattern for."""
    pairs = [(tool, other) for tool in one] + [(tool, one) for tool in other]
    return [*dict.fromkeys(tool for tool, patterns in pairs if matches(tool, patterns))]


def _without_nulls(value: Any) -> Any:
    """Returns a value without the nulls in its objects."""
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value).items()
    return {key: _without_nulls(each) for key, each in members if each is not None}


def _texts(value: Any) -> Any:
    """Returns a list or an object with words in place of numbers and booleans."""
    if isinstance(value, list):
        return [*map(_text, cast("list[Any]", value))]
    if isinstance(value, dict):
        return {key: _text(each) for key, each in cast("dict[str, Any]", value).items()}
    return value


def _text(word: Any) -> Any:
    if isinstance(word, bool):
        return str(word).lower()
    return str(word) if isinstance(word, int | float) else word


_SHAPES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("args", "env", "headers"), _texts),
    "tools": _repairs_in,
    "resultLimit": lambda value: {"*": value} if isinstance(value, int | float | str) else value,
    "autoApprove": lambda value: False if isinstance(value, list) else value,
}
"""The form of a key's value here, made of the forms that it may have."""
