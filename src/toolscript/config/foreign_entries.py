"""Rewrites other clients' spellings in a server's entry, and names the keys that are not read."""

from collections.abc import Iterator
from copy import copy
from typing import Any, cast

from toolscript.config.known_keys import ALIASES, UNREAD_KEYS
from toolscript.config.tool_repairs import describe_unread_repairs
from toolscript.text.json_values import as_list, as_object


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
    headers = _codex_headers(entry)
    if headers:
        entry["headers"] = _merge(headers, entry.get("headers"))
    return entry


def _codex_headers(entry: dict[str, Any]) -> dict[str, Any]:
    """Returns the headers whose values Codex takes from the environment."""
    headers: dict[str, Any] = {}
    variable = entry.get("bearer_token_env_var")
    if isinstance(variable, str):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    named = as_object(entry.get("env_http_headers")).items()
    return headers | {name: f"${{{value}}}" for name, value in named}


def describe_unread(raw: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each key that changes how a server works and is not read."""
    entry = {key for key, value in raw.items() if value is not None}
    for key, consequence in UNREAD_KEYS.items():
        if key in entry:
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
