"""Rewrites other clients' spellings in a server's entry, and names the keys that are not read."""

from collections.abc import Iterator
from copy import copy
from typing import Any, cast

from toolscript.config.known_keys import ALIASES, BEARER_KEYS, REQUEST_KEYS, UNREAD_KEYS
from toolscript.config.tool_repairs import describe_unread_repairs
from toolscript.text.json_values import as_list, as_object
from toolscript.text.secret_shapes import AUTH_SCHEMES


def rewrite(raw: dict[str, Any]) -> dict[str, Any]:
    """Returns an entry with toolscript's own keys; a key that is null is left out.

    Values at two keys are put together if both are objects. Otherwise toolscript's
    own key counts, and `describe_unread` names the other one.
    """
    entry = copy(raw)
    for key in [key for key, value in raw.items() if value is None]:
        del entry[key]
    started = as_object(entry.get("command"))  # an older Zed's
    if "path" in started:
        entry["command"] = started["path"]
        entry |= {key: started[key] for key in ("args", "env") if started.get(key) is not None}
    command = as_list(entry.get("command"))  # opencode's
    if command:
        entry["command"] = command[0]
    if command or isinstance(entry.get("args"), list):
        entry["args"] = [*map(_text, (*command[1:], *as_list(entry.get("args"))))]
    for alias, key in ALIASES.items():
        if alias in entry:
            entry[key] = _merge(entry.pop(alias), entry.get(key))
    for key, value in as_object(entry.get("tool_configuration")).items():  # Anthropic's API
        entry.setdefault(key, value)
    headers = _foreign_headers(entry)
    if headers:
        entry["headers"] = _merge(headers, entry.get("headers"))
    return entry


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


def describe_unread(raw: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each key that changes how a server works and is not read."""
    entry = {key for key, value in raw.items() if value is not None}
    for key, consequence in UNREAD_KEYS.items():
        is_read = key in REQUEST_KEYS and {*as_object(raw.get(key))} == {"headers"}
        if key in entry and not is_read:
            yield f"{key} is not read: {consequence}"
    yield from describe_unread_repairs(raw.get("tools"))
    for alias, key in ALIASES.items():
        if alias in entry and key in entry and not isinstance(raw[key], dict):
            yield f"{alias} is not read beside {key}"


def _merge(other: Any, own: Any) -> Any:
    """Returns two objects as one, in which toolscript's own spelling counts; else that alone."""
    if own is None:
        return other
    if isinstance(other, dict) and isinstance(own, dict):
        return cast("dict[str, Any]", other) | cast("dict[str, Any]", own)
    return own


def _text(word: Any) -> Any:
    """Returns a number or a boolean as the word that it stands for."""
    if isinstance(word, bool):
        return str(word).lower()
    return str(word) if isinstance(word, int | float) else word
