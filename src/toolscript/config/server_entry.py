"""Reads one entry of ``mcpServers`` into a `ServerSpec`, in the spellings of several clients."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

import msgspec

from toolscript.config.env_file import read_env_file
from toolscript.config.foreign_entries import rewrite
from toolscript.config.known_keys import (
    CALL_TIMEOUT_KEYS,
    EXCLUDE_KEYS,
    FOREIGN_KEYS,
    FOREIGN_OAUTH_KEYS,
    INCLUDE_KEYS,
    OAUTH_KEYS,
    SERVER_KEYS,
    START_TIMEOUT_KEYS,
    SWITCH_KEYS,
    URL_KEYS,
    listed,
    misspelt,
)
from toolscript.config.tool_repairs import RepairError, class_of_hints, read_repairs
from toolscript.config.variables import PATTERN, VariableError, Variables
from toolscript.errors import ConfigSyntaxError
from toolscript.storage.atomic_files import expanded
from toolscript.text.redaction import redact
from toolscript.text.secret_detection import is_harmless, redactable, url_secrets
from toolscript.types import (
    PROJECT,
    SEPARATOR,
    TOOL_CLASSES,
    Instances,
    OAuthClient,
    Protocol,
    Repair,
    ServerSpec,
    Start,
    ToolClass,
    Transport,
)

MAX_TIMEOUT_S = 86_400
MAX_PORT = 65_535
MAX_CONCURRENT = 10_000
_MAX_LINES = 5
"""Maximum number of lines that a note names."""
RESULT_LIMITS = 4_000, 1_000_000
_TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "remote": "http",
    "url": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_TELLING = re.compile(
    r"[A-Za-z_ -]{0,20}|(?:https?|wss?|ftp|file)://.*|[\w-]*[.:][\w.:/-]{1,60}|" + PATTERN
)
"""A value in the wrong place that a message shows: a word, an address, a variable."""
BROWSERS = (
    "@playwright/mcp",
    "chrome-devtools-mcp",
    "server-puppeteer",
    "browser-use",
    "@browsermcp/mcp",
)
"""Parts of the commands of servers that drive a browser, whose pages are one session's alone."""
_WITH_SECRETS = {"env", "headers", "args", *URL_KEYS}
"""The keys whose values may name stored secrets."""
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=MAX_TIMEOUT_S)]
_IdleSeconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_TIMEOUT_S)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_CONCURRENT)]
_ResultLimit = Annotated[int, msgspec.Meta(ge=RESULT_LIMITS[0], le=RESULT_LIMITS[1])]
_Port = Annotated[int, msgspec.Meta(ge=0, le=MAX_PORT)]


class EntryError(Exception):
    """An entry that cannot be used; the message names the mistake."""


@dataclass(slots=True)
class Entry:
    """Reads the values of an entry by type, variables expanded; raises `EntryError`."""

    raw: dict[str, Any]
    environ: Mapping[str, str]
    hidden: set[str] = field(default_factory=set[str])
    """Values from the environment that may be secret."""
    own: Mapping[str, str] = field(default_factory=dict[str, str])
    """The variables that the entry defines for its server."""
    secrets: set[str] = field(default_factory=set[str])
    """The names of the stored secrets that the values name."""
    folder: Path = Path()
    """The folder of the file."""
    notes: list[str] = field(default_factory=list[str])
    """Collects a line for each thing that is not read."""

    def text(self, key: str) -> str:
        """Returns the string at this key; empty without the key."""
        return self._expand(key, self._convert(key, str, "a string")) if key in self.raw else ""

    def choice(self, key: str, *options: str) -> str:
        """Returns the option at this key; empty without the key."""
        value = self.text(key)
        if value and value not in options:
            raise EntryError(f"{key} is {self.written(key)}; expected {' or '.join(options)}")
        return value

    def written(self, key: str) -> str:
        """Returns the value for a message, as the file has it: variables are not expanded."""
        value = self.raw.get(key, "")
        if not isinstance(value, str) or not _TELLING.fullmatch(value):
            return _show(value)
        return repr(redact(value, redactable(url_secrets(value))))[:60]

    def flag(self, key: str) -> bool:
        """Returns the boolean at this key; false without the key."""
        return key in self.raw and self._convert(key, bool, "true or false")

    def port(self, key: str) -> int:
        """Returns the port at this key; 0 without the key."""
        return self._convert(key, _Port, f"a port, 1 to {MAX_PORT}") if key in self.raw else 0

    def count(self, key: str) -> int:
        """Returns the number at this key; 0 without the key."""
        expected = f"a number of requests, 1 to {MAX_CONCURRENT}"
        return self._convert(key, _Count, expected) if key in self.raw else 0

    def result_limit(self, key: str) -> int:
        """Returns the number of characters at this key."""
        expected = "a number of characters, {} to {}".format(*RESULT_LIMITS)
        return self._convert(key, _ResultLimit, expected)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Returns the list of strings at this key; None without the key."""
        if self.raw.get(key) is None:
            return None
        items = self._convert(key, list[str], "a list of strings")
        return tuple(self._expand(key, item) for item in items)

    def seconds(self, *keys: str) -> float | None:
        """Returns the duration at the first of these keys that exists; None without any."""
        key = next((key for key in keys if key in self.raw), None)
        expected = f"seconds, such as 60 and at most {MAX_TIMEOUT_S}"
        return None if key is None else self._convert(key, _Seconds, expected)

    def idle_seconds(self, key: str) -> float | None:
        """Returns the duration at this key, 0 for never; None without the key."""
        expected = f"seconds, 0 for never and at most {MAX_TIMEOUT_S}"
        return self._convert(key, _IdleSeconds, expected) if key in self.raw else None

    def mapping(self, key: str) -> dict[str, str]:
        """Returns the object at this key, its numbers and booleans as strings."""
        if self.raw.get(key) is None:
            return {}
        entries = self._convert(key, dict[str, Any], "an object of strings")
        return {name: self._value(f"{key}.{name}", item) for name, item in entries.items()}

    def entry(self, key: str) -> "Entry | None":
        """Returns a reader of the object at this key; None without the key."""
        if self.raw.get(key) is None:
            return None
        raw = self._convert(key, dict[str, Any], "an object")
        return Entry(raw, self.environ, self.hidden, folder=self.folder)

    def _convert(self, key: str, kind: Any, expected: str) -> Any:
        try:
            return msgspec.convert(self.raw[key], kind)
        except (msgspec.ValidationError, UnicodeEncodeError):
            raise EntryError(f"{key} is {_show(self.raw[key])}; expected {expected}") from None

    def _value(self, key: str, value: Any) -> str:
        if not isinstance(value, str | int | float):
            raise EntryError(f"{key} is {_show(value)}; expected a string")
        return self._expand(key, str(value).lower() if isinstance(value, bool) else str(value))

    def _expand(self, key: str, text: str) -> str:
        # A shell's or a program's text may be among the arguments.
        secrets = self.secrets if key.partition(".")[0] in _WITH_SECRETS else None
        place = self.environ, self.own, self.hidden, secrets, self.folder
        variables = Variables(*place, may_keep=key == "args")
        try:
            return variables.expand(text)
        except VariableError as mistake:
            raise EntryError(f"{key} {mistake}") from None


def _show(value: object) -> str:
    if isinstance(value, str):  # in the wrong place: it may be anything
        return repr(value)[:60] if is_harmless(value) else "a string"
    kinds: dict[type, str] = {
        dict: "an object",
        list: "a list",
        type(None): "null",
        bool: "true or false",
    }
    return kinds.get(type(value)) or repr(value)[:60]


def server(  # noqa: PLR0913, PLR0917 - an entry and its surroundings
    name: str,
    raw: Any,
    environ: Mapping[str, str],
    base: Path | None,
    folder: Path = Path(),
    secret_version: Callable[[str], str] = lambda _: "",
    *,
    notes: list[str] | None = None,
) -> ServerSpec:
    """Returns the server that an entry describes.

    Args:
        name: The server's name.
        raw: The entry.
        environ: The variables that the entry may refer to.
        base: The folder that the server runs in if the entry names none or a relative one.
        folder: The folder of the file.
        secret_version: Returns the version of a stored secret; see `SecretStore.version`.
        notes: Collects a line for each thing in its files that is not read.

    Raises:
        EntryError: The entry is wrong.
        SecretStoreError: It names secrets, and these cannot be read.
    """
    _check_name(name)
    if not isinstance(raw, dict):
        raise EntryError(f"the entry is {_show(raw)}; expected an object with command or url")
    collected: list[str] = [] if notes is None else notes
    entry = rewrite(cast("dict[str, Any]", raw))
    reader = Entry(entry, environ, folder=folder, notes=collected)
    if _is_off(reader):
        # A disabled entry may be unfinished, so nothing else in it is checked.
        return ServerSpec(name=name, transport="stdio", disabled=True)
    if mistake := misspelt(reader.raw, SERVER_KEYS, FOREIGN_KEYS):
        raise EntryError(mistake)
    reader.own = _environment(reader, base, folder)
    url_key = next((key for key in URL_KEYS if key in reader.raw), "url")
    transport = _transport(reader, reader.text(url_key).strip(), url_key)
    try:
        repairs = read_repairs(reader.raw.get("tools"))
    except RepairError as mistake:
        raise EntryError(str(mistake)) from None
    return ServerSpec(
        name=name,
        transport=transport,
        include_tools=_read_included(reader),
        exclude_tools=_read_excluded(reader),
        pin_tools=reader.texts("pinTools") or (),
        classes=_classes(reader, repairs),
        repairs=repairs,
        auto_approve=_auto_approve(reader),
        protocol=cast("Protocol", reader.choice("protocol", "auto", "legacy") or "auto"),
        start_timeout_s=reader.seconds(*START_TIMEOUT_KEYS),
        call_timeout_s=reader.seconds(*CALL_TIMEOUT_KEYS),
        start=cast("Start | None", reader.choice("start", "lazy", "eager") or None),
        idle_timeout_s=reader.idle_seconds("idleTimeout"),
        is_shared=_is_shared(reader),
        instances=_instances(reader, transport),
        max_concurrent=reader.count("maxConcurrent"),
        result_limits=_result_limits(reader),
        **(_process(reader, base) if transport == "stdio" else _remote(reader, url_key)),
        hidden=tuple(sorted(reader.hidden)),
        secret_versions={name: secret_version(name) for name in sorted(reader.secrets)},
    )


def _is_off(reader: Entry) -> bool:
    return any(key in reader.raw and reader.flag(key) == off for key, off in SWITCH_KEYS.items())


def _read_included(reader: Entry) -> tuple[str, ...] | None:
    """Returns the tools that every list of an entry includes; None without any list."""
    included: tuple[str, ...] | None = None
    for key in INCLUDE_KEYS:
        if key == "tools" and not isinstance(reader.raw.get(key), list):
            continue  # an object has another meaning in other clients
        tools = reader.texts(key)
        if tools is not None:
            included = tools if included is None else _in_both(included, tools)
    return included


def _read_excluded(reader: Entry) -> tuple[str, ...]:
    """Returns the tools that any list of an entry excludes."""
    return tuple(tool for key in EXCLUDE_KEYS for tool in reader.texts(key) or ())


def _classes(reader: Entry, repairs: Mapping[str, Repair]) -> dict[str, ToolClass]:
    """Returns the classes that an entry gives tools, by names or patterns of names.

    The hints of a repair are a class, too, if no other one is stated for the tool's name.
    """
    stated = reader.mapping("class")
    for pattern in (each for each, given in stated.items() if given not in TOOL_CLASSES):
        expected = f"expected one of {', '.join(TOOL_CLASSES)}"
        written = cast("Entry", reader.entry("class")).written(pattern)
        raise EntryError(f"class.{pattern[:60]} is {written}; {expected}")
    hinted = {name: class_of_hints(repair) for name, repair in repairs.items()}
    classes = {name: hint for name, hint in hinted.items() if hint} | stated
    return cast("dict[str, ToolClass]", classes)


def _in_both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names and patterns of each list that the other list has, or has a pattern for."""
    pairs = ((one, other), (other, one))
    both = (
        tool
        for tools, others in pairs
        for tool in tools
        if any(tool == pattern or fnmatchcase(tool, pattern) for pattern in others)
    )
    return tuple(dict.fromkeys(both))


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


def _transport(reader: Entry, url: str, url_key: str) -> Transport:
    key, stated = _read_type(reader)
    if stated:
        known = _TRANSPORTS.get(stated.casefold())
        if known is None:
            raise EntryError(f"{key} is {reader.written(key)}; expected stdio, http or sse")
        if (needed := "command" if known == "stdio" else url_key) not in reader.raw:
            found = f"found {listed(reader.raw)}"
            raise EntryError(f"{key} is {reader.written(key)}, but no {needed} is given ({found})")
        return known
    if url and "command" in reader.raw:
        raise EntryError("both command and url are given; keep the one that is meant")
    if url:
        return "sse" if url.split("?", maxsplit=1)[0].rstrip("/").endswith("/sse") else "http"
    if "command" not in reader.raw and reader.raw.get("source") == "extension":
        raise EntryError("an extension of Zed starts it; state its command to use it here")
    if "command" not in reader.raw:
        raise EntryError(f"neither command nor url is given (found {listed(reader.raw)})")
    return "stdio"


def _read_type(reader: Entry) -> tuple[str, str]:
    """Returns the key and the value of the type that an entry states; "" if it states none."""
    key = "type" if reader.text("type") else "transport"
    return key, reader.text(key)


def _auto_approve(reader: Entry) -> bool:
    """Whether changes of tools need no approval. Other clients have a list of names there."""
    return not isinstance(reader.raw.get("autoApprove"), list) and reader.flag("autoApprove")


def _result_limits(reader: Entry) -> dict[str, int]:
    """Returns the limits of results by patterns: one for all tools, or one for each pattern."""
    if not isinstance(reader.raw.get("resultLimit"), dict):
        return {"*": reader.result_limit("resultLimit")} if "resultLimit" in reader.raw else {}
    limits = cast("Entry", reader.entry("resultLimit"))
    return {pattern: limits.result_limit(pattern) for pattern in limits.raw}


def _is_shared(reader: Entry) -> bool:
    """Whether all sessions use one instance: as the entry says, or unless it is a browser."""
    if reader.raw.get("share") is not None:
        return reader.flag("share")
    started = [reader.text("command"), *(reader.texts("args") or ())]
    return not any(browser in text for text in started for browser in BROWSERS)


def _instances(reader: Entry, transport: Transport) -> Instances:
    stated = reader.choice("instances", "each", "one") or "each"
    if stated == "one" and transport != "stdio":
        raise EntryError("instances is 'one', which is for servers with a command; leave it out")
    return cast("Instances", stated)


def _process(reader: Entry, base: Path | None) -> dict[str, Any]:
    """Returns the fields of a server that is a process."""
    command = reader.text("command").strip()
    if not command:
        raise EntryError("command is empty; expected the program that starts the server")
    stated = reader.text("cwd")
    directory = (base or Path()) / expanded(stated) if stated else base
    if stated.startswith(PROJECT):
        directory = Path(stated)
    return {
        "command": str(expanded(command)) if command.startswith("~") else command,
        "args": reader.texts("args") or (),
        "env": dict(reader.own),
        "cwd": str(directory) if directory else None,
    }


def _environment(reader: Entry, base: Path | None, folder: Path) -> dict[str, str]:
    """Returns the variables that an entry defines: from the environment, a file, and ``env``."""
    passed = {
        name: reader.environ[name]
        for name in reader.texts("env_vars") or ()
        if name in reader.environ
    }
    reader.hidden.update(value for value in passed.values() if value)
    stated = reader.text("envFile")
    if PROJECT in stated and base is None:
        raise EntryError(
            "envFile is in the project, which is not known yet when this file is read; "
            "state another path, or the variables in env"
        )
    path = folder / expanded(stated.replace(PROJECT, str(base)))
    try:
        from_file, odd = read_env_file(path) if stated else ({}, ())
    except ConfigSyntaxError as mistake:
        raise EntryError(f"envFile: {mistake}") from None
    if odd:
        lines = ", ".join(map(str, odd[:_MAX_LINES])) + (", …" if len(odd) > _MAX_LINES else "")
        reader.notes.append(f"envFile: not NAME=value, so not read: line {lines} of {path}")
    return {**passed, **from_file, **reader.mapping("env")}


def _remote(reader: Entry, url_key: str) -> dict[str, Any]:
    """Returns the fields of a server that has an address."""
    url = reader.text(url_key).strip()
    if not re.match(r"https?://[^\s/]", url):
        written = reader.written(url_key)
        raise EntryError(f"{url_key} is {written}; expected http://… or https://…")
    if not _is_readable(url):
        raise EntryError(
            f"{url_key} has a host or port that cannot be read; in a password write / as %2F, "
            "# as %23 and ? as %3F"
        )
    return {"url": url, "headers": reader.mapping("headers"), "oauth": _oauth(reader)}


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
    if mistake := misspelt(client.raw, OAUTH_KEYS, FOREIGN_OAUTH_KEYS):
        raise EntryError(f"in oauth {mistake}")
    if not client.text("clientId"):
        raise EntryError(
            f"oauth has no clientId (found {listed(client.raw)}); leave oauth out "
            "where the server registers clients by itself"
        )
    return OAuthClient(
        client_id=client.text("clientId"),
        client_secret=client.text("clientSecret"),
        scope=client.text("scope"),
        callback_port=client.port("callbackPort"),
    )
