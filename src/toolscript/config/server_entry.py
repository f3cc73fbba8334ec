"""Reads one entry of ``mcpServers`` into a `ServerSpec`, in the spellings of several clients."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from toolscript.storage.atomic_files import expanded
from toolscript.text import encodable, printable, redact
from toolscript.text.redaction import is_harmless, redactable, url_secrets
from toolscript.types import SEPARATOR, OAuthClient, Protocol, ServerSpec, Transport

MAX_TIMEOUT_S = 86_400
MAX_PORT = 65_535
SECTIONS = ("mcpServers", "servers")  # the second is how VS Code spells it
URL_KEYS = ("url", "serverUrl", "httpUrl")  # the field's, Windsurf's, Gemini's
_TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_PUBLIC_VARIABLES = {
    *("HOME", "PATH", "USER", "LOGNAME", "PWD", "OLDPWD", "SHELL", "LANG", "HOSTNAME"),
    *("TMPDIR", "TMP", "TEMP", "USERPROFILE", "USERNAME", "APPDATA", "LOCALAPPDATA"),
}
"""Variables of the environment that hold no secret; any other may."""


class EntryError(Exception):
    """An entry that cannot be used; the message says what is wrong with it."""


@dataclass(slots=True)
class Entry:
    """Reads the values of an entry by type, variables expanded; raises `EntryError`."""

    raw: dict[str, Any]
    environ: Mapping[str, str]
    hidden: set[str] = field(default_factory=set[str])
    """Values from the environment that may be secret."""

    def text(self, key: str) -> str:
        """Returns the string at this key; empty without the key."""
        value = self.raw.get(key, "")
        if not isinstance(value, str):
            raise EntryError(f"{key} is {_shown(value)}; expected a string")
        return self._expand(key, value)

    def written(self, key: str) -> str:
        """Returns the value for a message, as the file has it: variables are not expanded."""
        value = self.raw.get(key, "")
        if not isinstance(value, str):
            return _shown(value)
        return repr(redact(value, redactable(url_secrets(value))))[:60]

    def flag(self, key: str) -> bool:
        """Returns the boolean at this key; false without the key."""
        value = self.raw.get(key, False)
        if not isinstance(value, bool):
            raise EntryError(f"{key} is {_shown(value)}; expected true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Returns the list of strings at this key; None without the key."""
        value: object = self.raw.get(key)
        if value is None:
            return None
        items = cast("list[Any]", value) if isinstance(value, list) else None
        if items is None or not all(isinstance(item, str) for item in items):
            raise EntryError(f"{key} is {_shown(self.raw[key])}; expected a list of strings")
        return tuple(self._expand(key, item) for item in items)

    def seconds(self, *keys: str) -> float | None:
        """Returns the duration at the first of these keys that exists; None without any."""
        key = next((key for key in keys if key in self.raw), None)
        if key is None:
            return None
        value = self.raw[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise EntryError(f"{key} is {_shown(value)}; expected seconds, such as 60")
        if not 0 < value <= MAX_TIMEOUT_S:
            raise EntryError(f"{key} is {_shown(value)}; expected seconds, at most {MAX_TIMEOUT_S}")
        return float(value)

    def mapping(self, key: str) -> dict[str, str]:
        """Returns the object at this key, its numbers and booleans as strings."""
        value = self.raw.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise EntryError(f"{key} is {_shown(value)}; expected an object of strings")
        entries = cast("dict[str, Any]", value)
        return {name: self._value(f"{key}.{name}", item) for name, item in entries.items()}

    def _value(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise EntryError(f"{key} is {_shown(value)}; expected a string")
        return self._expand(key, str(value))

    def entry(self, key: str) -> "Entry | None":
        """Returns a reader of the object at this key; None without the key."""
        value: object = self.raw.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise EntryError(f"{key} is {_shown(value)}; expected an object")
        return Entry(cast("dict[str, Any]", value), self.environ, self.hidden)

    def _expand(self, key: str, text: str) -> str:
        def replace(match: re.Match[str]) -> str:
            name, default = match["name"], match["default"]
            value = self.environ.get(name)
            if value is None and default is None:
                raise EntryError(f"{key} needs ${{{name}}}, which is not set in the environment")
            if value and name not in _PUBLIC_VARIABLES:
                self.hidden.add(value)
            return value or default or ""

        return _VARIABLE.sub(replace, text)


def _shown(value: object) -> str:
    if isinstance(value, str):  # in the wrong place: it may be anything
        return repr(value)[:60] if is_harmless(value) else "a string"
    kinds: dict[type, str] = {
        dict: "an object",
        list: "a list",
        type(None): "null",
        bool: "true or false",
    }
    return kinds.get(type(value)) or repr(value)[:60]


def listed(keys: Iterable[str]) -> str:
    """Returns the keys of an object for a message; "nothing" for none."""
    return printable(encodable(", ".join(sorted(keys))), 200) or "nothing"


def server(name: str, raw: Any, environ: Mapping[str, str], base: Path | None) -> ServerSpec:
    """Returns the server that an entry describes; raises `EntryError` for one that is wrong.

    ``base`` is the folder that the server runs in where the entry names none or a relative one;
    ``environ`` has the variables that the entry may refer to.
    """
    _check_name(name)
    if not isinstance(raw, dict):
        raise EntryError(f"the entry is {_shown(raw)}; expected an object with command or url")
    reader = Entry(cast("dict[str, Any]", raw), environ)
    disabled = reader.flag("disabled")
    if disabled:
        # A disabled entry may be unfinished, so nothing else in it is checked.
        return ServerSpec(name=name, transport="stdio", disabled=True)
    url_key = next((key for key in URL_KEYS if key in reader.raw), "url")
    transport = _transport(reader, reader.text(url_key))
    spec = ServerSpec(
        name=name,
        transport=transport,
        include_tools=reader.texts("includeTools"),
        exclude_tools=reader.texts("excludeTools") or (),
        pin_tools=reader.texts("pinTools") or (),
        protocol=_protocol(reader),
        start_timeout_s=reader.seconds("startTimeout", "startup_timeout_sec"),
        call_timeout_s=reader.seconds("callTimeout", "tool_timeout_sec"),
    )
    stdio = transport == "stdio"
    spec = _stdio(spec, reader, base) if stdio else _remote(spec, reader, url_key)
    return msgspec.structs.replace(spec, hidden=tuple(sorted(reader.hidden)))


def _check_name(name: str) -> None:
    if not name.strip():
        raise EntryError("the name is empty; give the server a name")
    if SEPARATOR in name or name.endswith("_"):
        raise EntryError(
            f"a name may not contain {SEPARATOR!r} or end in '_' (tools are called "
            f"server{SEPARATOR}tool); rename the server"
        )
    if any(not character.isprintable() for character in name):
        raise EntryError("the name has characters that cannot be shown; rename the server")


def _transport(reader: Entry, url: str) -> Transport:
    key = "type" if reader.text("type") else "transport"
    stated = reader.text(key)
    if stated:
        known = _TRANSPORTS.get(stated.casefold())
        if known is None:
            raise EntryError(f"{key} is {reader.written(key)}; expected stdio, http or sse")
        return known
    if url and "command" in reader.raw:
        raise EntryError("both command and url are given; keep the one that is meant")
    if url:
        return "sse" if url.split("?", maxsplit=1)[0].rstrip("/").endswith("/sse") else "http"
    if "command" not in reader.raw:
        raise EntryError(f"neither command nor url is given (found {listed(reader.raw)})")
    return "stdio"


def _protocol(reader: Entry) -> Protocol:
    stated = reader.text("protocol") or "auto"
    if stated not in {"auto", "legacy"}:
        raise EntryError(f"protocol is {reader.written('protocol')}; expected auto or legacy")
    return cast("Protocol", stated)


def _stdio(spec: ServerSpec, reader: Entry, base: Path | None) -> ServerSpec:
    command = reader.text("command")
    if not command.strip():
        raise EntryError("command is empty; expected the program that starts the server")
    stated = reader.text("cwd")
    directory = expanded(stated) if stated else None
    if directory is not None and base is not None:
        directory = base / directory
    directory = directory or base
    return msgspec.structs.replace(
        spec,
        command=command,
        args=reader.texts("args") or (),
        env=reader.mapping("env"),
        cwd=str(directory) if directory else None,
    )


def _remote(spec: ServerSpec, reader: Entry, url_key: str) -> ServerSpec:
    url = reader.text(url_key)
    if not re.match(r"https?://[^\s/]", url):
        written = reader.written(url_key)
        raise EntryError(f"{url_key} is {written}; expected http://… or https://…")
    if not _is_readable(url):
        raise EntryError(
            f"{url_key} has a host or port that cannot be read; in a password write / as %2F, "
            "# as %23 and ? as %3F"
        )
    stated = reader.text("type") or reader.text("transport")
    return msgspec.structs.replace(
        spec,
        url=url,
        headers=reader.mapping("headers"),
        oauth=_oauth(reader),
        sse_fallback=spec.transport == "http" and not stated,
    )


def _is_readable(url: str) -> bool:
    """Whether a host and a port can be read; a parser's own message may quote a password."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _oauth(reader: Entry) -> OAuthClient | None:
    client = reader.entry("oauth")
    if client is None:
        return None
    if not client.text("clientId"):
        raise EntryError(
            f"oauth has no clientId (found {listed(client.raw)}); leave oauth out "
            "where the server registers clients by itself"
        )
    port = client.raw.get("callbackPort", 0)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= MAX_PORT:
        raise EntryError(f"oauth.callbackPort is {_shown(port)}; expected a port, 1 to {MAX_PORT}")
    return OAuthClient(
        client_id=client.text("clientId"),
        client_secret=client.text("clientSecret"),
        scope=client.text("scope"),
        callback_port=port,
    )
