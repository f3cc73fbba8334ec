"""Reads a server's entry into an `Entry`, and makes it a `ServerSpec`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, field, structs

from toolscript.config.entry_aliases import (
    ALIASES,
    MERGED_KEYS,
    RAW_KEYS,
    SWITCH_KEYS,
    UNREAD_KEYS,
    EntryError,
    listed,
    misspelt,
    rewrite,
    spelling_of,
)
from toolscript.config.entry_environment import Environment, environment_of
from toolscript.config.settings import OPTION
from toolscript.config.variables import PATTERN, VariableError, Variables
from toolscript.storage.atomic_files import expanded
from toolscript.text.redaction import redact
from toolscript.text.secret_detection import is_harmless, redactable, url_secrets
from toolscript.types import (
    PROJECT,
    SEPARATOR,
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
MAX_CONCURRENT = 10_000
RESULT_LIMITS = 4_000, 1_000_000
_TRANSPORTS: dict[str, Transport] = {
    **dict.fromkeys(("stdio", "local"), "stdio"),
    **dict.fromkeys(("http", "remote", "url"), "http"),
    **dict.fromkeys(("streamable-http", "streamablehttp", "streamable_http"), "http"),
    "sse": "sse",
}
_TELLING = re.compile(
    r"[A-Za-z_ -]{0,20}|(?:https?|wss?|ftp|file)://.*|[\w-]*[.:][\w.:/-]{1,60}|" + PATTERN
)
"""A value in the wrong place that a message shows: a word, an address, a variable."""
BROWSERS = (
    *("@playwright/mcp", "chrome-devtools-mcp", "server-puppeteer", "browser-use"),
    "@browsermcp/mcp",
)
"""Parts of the commands of servers that drive a browser, whose pages are one session's alone."""
_WITH_SECRETS = {"env", "headers", "args", "url"}
"""The keys whose values may name stored secrets."""
REASON = "it is toolscript itself, as its clients have it, and is left out here"
"""The note about an entry of toolscript's own."""
_PROGRAM = re.compile(r"(?:.*[/\\])?toolscript(?:\.exe|[\[=<>~!@:].*)?")
"""The program, or the package as installers take it: ``toolscript[postgres]==1.0``."""
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_Seconds: TypeAlias = Annotated[
    float,
    Meta(gt=0, le=MAX_TIMEOUT_S, description=f"seconds, such as 60 and at most {MAX_TIMEOUT_S}"),
]
_IdleSeconds: TypeAlias = Annotated[
    float,
    Meta(ge=0, le=MAX_TIMEOUT_S, description=f"seconds, 0 for never and at most {MAX_TIMEOUT_S}"),
]
_Count: TypeAlias = Annotated[
    int,
    Meta(ge=1, le=MAX_CONCURRENT, description=f"a number of requests, 1 to {MAX_CONCURRENT}"),
]
_ResultLimit: TypeAlias = Annotated[
    int,
    Meta(
        ge=RESULT_LIMITS[0],
        le=RESULT_LIMITS[1],
        description="a number of characters, {} to {}".format(*RESULT_LIMITS),
    ),
]
_EXPECTED: dict[Any, str] = {
    str: "a string",
    bool: "true or false",
    tuple[str, ...]: "a list of strings",
    dict[str, str]: "an object of strings",
}
"""The words of messages for types that have no description."""
_UNIONS = (Union, UnionType)
_fields_of = cache(structs.fields)
_NO_MISSPELLINGS = {"scopes"}
"""Other clients' keys within an entry's objects that look like one of ours."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The other keys of an entry. A field that a server has, too, is named as there."""

    type: str = ""
    command: str | None = None
    args: tuple[str, ...] = ()
    cwd: str = ""
    url: str | None = None
    headers: dict[str, str] = {}
    oauth: OAuthClient | None = None
    protocol: Protocol = "auto"
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    pin_tools: tuple[str, ...] = ()
    classes: dict[str, ToolClass] = field(default={}, name="class")
    repairs: dict[str, Repair] = field(default={}, name="tools")
    permissions: Any = None
    """Read by `rules_of`."""
    auto_approve: bool = False
    disabled: bool = False
    start: Start | None = None
    start_timeout_s: _Seconds | None = field(default=None, name="startTimeout")
    call_timeout_s: _Seconds | None = field(default=None, name="callTimeout")
    idle_timeout_s: _IdleSeconds | None = field(default=None, name="idleTimeout")
    is_shared: bool | None = field(default=None, name="share")
    instances: Instances = "each"
    max_concurrent: _Count = 0
    result_limits: dict[str, _ResultLimit] = field(default={}, name="resultLimit")


KEYS = tuple(each.encode_name for kind in (Environment, Entry) for each in _fields_of(kind))
"""The keys of an entry."""
_KNOWN_KEYS = (*KEYS, *ALIASES, *SWITCH_KEYS, *MERGED_KEYS)


_T = TypeVar("_T", bound=msgspec.Struct)


def no_version(secret: str) -> str:
    """Returns the version of a secret if none is stored."""
    del secret
    return ""


@dataclass(frozen=True, slots=True)
class Source:
    """The surroundings of an entry."""

    environ: Mapping[str, str]
    """The variables that it may refer to."""
    base: Path | None = None
    """The folder that its server runs in if it names none or a relative one."""
    folder: Path = Path()
    """The folder of its file."""
    secret_version: Callable[[str], str] = no_version
    """Returns the version of a stored secret; see `SecretStore.version`."""


def server(name: str, raw: Any, source: Source, notes: list[str] | None = None) -> ServerSpec:
    """Returns the server that an entry describes.

    Args:
        name: The server's name.
        raw: The entry.
        source: Its surroundings.
        notes: Collects a line for each thing in its files that is not read.

    Raises:
        EntryError: The entry is wrong.
        SecretStoreError: It names secrets, and these cannot be read.
    """
    _check_name(name)
    if not isinstance(raw, dict):
        raise EntryError(f"the entry is {_show(raw)}; expected an object with command or url")
    raw = cast("dict[str, Any]", raw)
    values = rewrite(raw)
    secrets = set[str]()
    variables = Variables(source.environ, secrets=secrets, folder=source.folder)
    for key, off in SWITCH_KEYS.items():
        if key in values and read(key, values[key], bool) == off:
            # A disabled entry may be unfinished, so nothing else in it is checked.
            return ServerSpec(name=name, transport="stdio", disabled=True)
    if mistake := misspelt(values, _KNOWN_KEYS, UNREAD_KEYS):
        raise EntryError(mistake)
    places = {key: spelling_of(key, value, raw) for key, value in values.items()}
    environment = _struct(Environment, values, places, variables)
    env = environment_of(environment, variables, source.base, [] if notes is None else notes)
    entry = _struct(Entry, values, places, replace(variables, own=env))
    transport = _transport(entry, values, places)
    fields: dict[str, Any] = structs.asdict(entry)
    fields |= {"env": env, "classes": _classes(entry), "is_shared": _is_shared(entry)}
    if transport == "stdio":
        fields |= _process(entry, source.base)
    else:
        fields |= _remote(entry, values["url"], places["url"])
    return ServerSpec(
        name=name,
        transport=transport,
        hidden=tuple(sorted(variables.hidden)),
        secret_versions={each: source.secret_version(each) for each in sorted(secrets)},
        **{key: fields[key] for key in fields if key in ServerSpec.__struct_fields__},
    )


def _struct(
    kind: type[_T], values: dict[str, Any], places: Mapping[str, str], variables: Variables | None
) -> _T:
    """Returns a struct of values by the keys of its fields; ``places`` name them in messages."""
    fields: dict[str, Any] = {}
    for each in _fields_of(kind):
        if (key := each.encode_name) in values:
            named = _variables_for(key, variables)
            fields[each.name] = read(places[key], values[key], each.type, named)
    return kind(**fields)


def _variables_for(key: str, variables: Variables | None) -> Variables | None:
    """Returns the variables that the value of a key may name; None for a value that stays."""
    if variables is None or key in RAW_KEYS:
        return None
    secrets = variables.secrets if key in _WITH_SECRETS else None
    # A shell's or a program's text may be among the arguments.
    return replace(variables, secrets=secrets, may_keep=key == "args")


def read(place: str, raw: Any, kind: Any, variables: Variables | None = None) -> Any:
    """Returns a value as its type, with its variables replaced.

    Args:
        place: The keys on the way to it, for messages.
        raw: The value.
        kind: The type, or a union of one with ``None``.
        variables: The variables that its texts may name; None if texts stay as they are.

    Raises:
        EntryError: It is none of that type, or names a variable that cannot be replaced.
    """
    kind = next((each for each in get_args(kind) if get_origin(kind) in _UNIONS), kind)
    if isinstance(raw, dict):
        raw = cast("dict[str, Any]", raw)
        if get_origin(kind) is dict:
            member = get_args(kind)[1]
            members = ((name, f"{place}.{name:.60}", each) for name, each in raw.items())
            return {name: read(where, each, member, variables) for name, where, each in members}
        if hasattr(kind, "__struct_fields__"):
            return _object(place, raw, kind, variables)
    try:
        return msgspec.convert(_expand(raw, variables), kind)
    except VariableError as mistake:
        raise EntryError(f"{place} {mistake}") from None
    except (msgspec.ValidationError, UnicodeEncodeError):
        shown = _show(raw, is_telling=kind not in _EXPECTED)
        raise EntryError(f"{place} is {shown}; expected {_expected(kind)}") from None


def _expand(raw: Any, variables: Variables | None) -> Any:
    """Returns a string or a list with the variables in it replaced; any other value as it is."""
    if variables is None:
        return raw
    if isinstance(raw, list):
        return [_expand(each, variables) for each in cast("list[Any]", raw)]
    return variables.expand(raw) if isinstance(raw, str) else raw


def _object(place: str, raw: dict[str, Any], kind: Any, variables: Variables | None) -> Any:
    """Returns an object within an entry as its struct."""
    fields = {each.encode_name: each.required for each in _fields_of(kind)}
    if mistake := misspelt(raw, fields, _NO_MISSPELLINGS):
        raise EntryError(f"in {place} {mistake}")
    if missing := [key for key, required in fields.items() if required and not raw.get(key)]:
        found = f"found {listed(raw)}"
        raise EntryError(f"{place} has no {missing[0]} ({found}); state it, or leave {place} out")
    try:
        return _struct(kind, raw, {key: f"{place}.{key}" for key in fields}, variables)
    except ValueError as mistake:
        raise EntryError(f"{place} {mistake}") from None


def _expected(kind: Any) -> str:
    """Returns the words of a message for a type."""
    if get_origin(kind) is Annotated:
        return kind.__metadata__[0].description
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    return _EXPECTED.get(kind, "an object")


def _show(value: object, *, is_telling: bool = False) -> str:
    """Returns a value for a message, as the file has it; of one that may be a secret, its type.

    Of a choice or an address ``is_telling``, more is shown: a secret seldom stands there.
    """
    if isinstance(value, str):
        if is_harmless(value) or (is_telling and _TELLING.fullmatch(value)):
            return repr(redact(value, redactable(url_secrets(value))))[:60]
        return "a string"
    kinds: dict[type, str] = {
        dict: "an object",
        list: "a list",
        type(None): "null",
        bool: "true or false",
    }
    return kinds.get(type(value)) or repr(value)[:60]


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


def _transport(entry: Entry, values: dict[str, Any], places: Mapping[str, str]) -> Transport:
    """Returns the transport that an entry states, or that its command or address stands for."""
    found = f"(found {listed(values)})"
    if entry.type:
        stated = f"{places['type']} is {_show(values['type'], is_telling=True)}"
        known = _TRANSPORTS.get(entry.type.casefold())
        if known is None:
            raise EntryError(f"{stated}; expected stdio, http or sse")
        if (needed := "command" if known == "stdio" else "url") not in values:
            raise EntryError(f"{stated}, but no {needed} is given {found}")
        return known
    url = (entry.url or "").strip()
    if url and entry.command is not None:
        raise EntryError("both command and url are given; keep the one that is meant")
    if url:
        return "sse" if url.split("?", maxsplit=1)[0].rstrip("/").endswith("/sse") else "http"
    if entry.command is None:
        if values.get("source") == "extension":
            raise EntryError("an extension of Zed starts it; state its command to use it here")
        raise EntryError(f"neither command nor url is given {found}")
    return "stdio"


def _classes(entry: Entry) -> dict[str, ToolClass]:
    """Returns the classes of tools. The hints of a repair are one if the entry states no other."""
    hinted: dict[str, ToolClass] = {
        name: hint for name, repair in entry.repairs.items() if (hint := repair.tool_class)
    }
    return hinted | entry.classes


def _is_shared(entry: Entry) -> bool:
    """Whether all sessions use one instance: as the entry says, or unless it is a browser."""
    if entry.is_shared is not None:
        return entry.is_shared
    started = [entry.command or "", *entry.args]
    return not any(browser in text for text in started for browser in BROWSERS)


def _process(entry: Entry, base: Path | None) -> dict[str, Any]:
    """Returns the fields of a process that differ from its entry's."""
    command = (entry.command or "").strip()
    if not command:
        raise EntryError("command is empty; expected the program that starts the server")
    directory = (base or Path()) / expanded(entry.cwd) if entry.cwd else base
    if entry.cwd.startswith(PROJECT):
        directory = Path(entry.cwd)
    return {
        "command": str(expanded(command)) if command.startswith("~") else command,
        "cwd": str(directory) if directory else None,
        "url": "",
        "headers": {},
        "oauth": None,
    }


def _remote(entry: Entry, written: Any, place: str) -> dict[str, Any]:
    """Returns the fields of a server with an address that differ from its entry's.

    Args:
        entry: The entry.
        written: The address as the file has it, for messages.
        place: Its key there.
    """
    if entry.instances == "one":
        raise EntryError("instances is 'one', which is for servers with a command; leave it out")
    url = (entry.url or "").strip()
    if not re.match(r"https?://[^\s/]", url):
        shown = _show(written, is_telling=True)
        raise EntryError(f"{place} is {shown}; expected http://… or https://…")
    try:
        parts = urlsplit(url)
        is_readable = bool(parts.hostname) and parts.port != 0
    except ValueError:  # whose message may quote a password
        is_readable = False
    if not is_readable:
        raise EntryError(
            f"{place} has a host or port that cannot be read; in a password write / as %2F, "
            "# as %23 and ? as %3F"
        )
    return {"url": url, "command": "", "args": (), "env": {}, "cwd": None}


def is_itself(spec: ServerSpec, environ: Mapping[str, str]) -> bool:
    """Whether a server is started as ``toolscript mcp``, or is the gateway on this machine."""
    words = re.sub("[\"']", " ", " ".join([spec.command, *spec.args])).split()
    if any(_PROGRAM.fullmatch(one) and other == "mcp" for one, other in pairwise(words)):
        return True
    address, port = urlsplit(spec.url), environ.get("TOOLSCRIPT_PORT") or OPTION["port"].default
    is_here = address.hostname in _LOOPBACK and str(address.port) == str(port)
    return is_here and f"{address.path}/".startswith("/mcp/")
