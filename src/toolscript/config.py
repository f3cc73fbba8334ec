"""The configuration: ``mcpServers`` as every MCP client writes it.

A mistake in one server disables that server and is kept as a `Problem` that
names file, server, key and what was expected. Only a file that cannot be read
at all raises.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import msgspec

from toolscript.errors import ConfigMissingError, ConfigSyntaxError
from toolscript.files import expanded, is_file, stamp
from toolscript.secret import telling, url_secrets
from toolscript.text import encodable, printable, redact
from toolscript.types import (
    SEPARATOR,
    OAuthClient,
    Protocol,
    ServerSpec,
    Transport,
)

FILE_NAME = ".toolscript.json"
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_TIMEOUT_S = 86_400
MAX_PORT = 65_535

_SECTIONS = ("mcpServers", "servers")  # the second is how VS Code spells it
_URL_KEYS = ("url", "serverUrl", "httpUrl")  # the field's, Windsurf's, Gemini's
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
_OPEN = {
    *("HOME", "PATH", "USER", "LOGNAME", "PWD", "OLDPWD", "SHELL", "LANG", "HOSTNAME"),
    *("TMPDIR", "TMP", "TEMP", "USERPROFILE", "USERNAME", "APPDATA", "LOCALAPPDATA"),
}
"""Variables that are no secret; of any other nobody knows."""
EXAMPLE = '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'


@dataclass(frozen=True, slots=True)
class Problem:
    """Why one server of the configuration cannot be used."""

    source: Path
    server: str
    message: str

    def __str__(self) -> str:
        """One line: the file, the server, the mistake."""
        return f"{encodable(str(self.source))}: server {self.server!r}: {self.message}"


@dataclass(frozen=True, slots=True)
class Config:
    """The servers to connect to, and those that cannot be."""

    sources: tuple[Path, ...]
    servers: tuple[ServerSpec, ...] = ()
    problems: tuple[Problem, ...] = ()
    stamp: str = ""
    """Of the files, from before they were read; see `files.stamp`."""
    skills: tuple[Path, ...] | None = None
    """The folders of skills that are named; None where nothing is said of them."""
    skills_problem: str = ""
    """Why what is said of them cannot be used."""

    @property
    def key(self) -> str:
        """See `key_of`."""
        return key_of(self.sources)

    @property
    def servers_hash(self) -> str:
        """First 16 hex digits of SHA-256 over the compact JSON list of sorted server names."""
        names = sorted(spec.name for spec in self.servers if not spec.disabled)
        compact = json.dumps(names, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(compact.encode()).hexdigest()[:16]


def load(path: Path | None, cwd: Path, environ: Mapping[str, str]) -> Config:
    """The configuration at ``path``, or the project's over the user's.

    A server that both define is the project's. Raises `ConfigMissingError` and
    `ConfigSyntaxError`.
    """
    sources = locate(path, cwd, environ)
    if path is not None and not is_file(sources[0]):
        raise ConfigMissingError(
            f"configuration file {path} does not exist; name another with --config"
        )
    seen = stamp(sources)
    home = sources[0] if path is not None else _home(environ)
    configs = [_read(p, environ, None if p == home else p.parent) for p in sources]
    found = configs[0] if len(configs) == 1 else _merge(configs[0], configs[1])
    return replace(found, stamp=seen)


def locate(path: Path | None, cwd: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that `load` reads, unread: ``path``, or else the project's and the user's.

    Without a path, ``.toolscript.json`` is looked for in ``cwd`` and the
    directories above it, then in the home directory; `ConfigMissingError` when
    there is none.
    """
    if path is not None:
        return ((cwd / path).absolute(),)
    home = _home(environ)
    parents = (directory / FILE_NAME for directory in (cwd, *cwd.parents))
    project = next((p for p in parents if p != home and is_file(p)), None)
    found = tuple(p for p in (project, home) if p is not None and is_file(p))
    if not found:
        raise ConfigMissingError(
            f"no {FILE_NAME} in {cwd}, above it or in the home directory; "
            f"create one, such as {EXAMPLE}, or name a file with --config"
        )
    return found


def key_of(sources: tuple[Path, ...]) -> str:
    """16 hex digits that stand for a configuration: one gateway and one snapshot per key.

    The first file decides, however its path is spelled: a file of the user's
    that appears beside a project's makes no other configuration of it.
    """
    return hashlib.sha256(os.fsencode(os.path.realpath(sources[0]))).hexdigest()[:16]


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home()) / FILE_NAME


def _merge(project: Config, user: Config) -> Config:
    taken = {spec.name for spec in project.servers} | {p.server for p in project.problems}
    return Config(
        sources=project.sources + user.sources,
        servers=project.servers + tuple(s for s in user.servers if s.name not in taken),
        problems=project.problems + tuple(p for p in user.problems if p.server not in taken),
        skills=None
        if project.skills is user.skills
        else (project.skills or ()) + (user.skills or ()),
        skills_problem=project.skills_problem or user.skills_problem,
    )


def _read(path: Path, environ: Mapping[str, str], base: Path | None) -> Config:
    servers: list[ServerSpec] = []
    problems: list[Problem] = []
    document = _document(path)
    for name, raw in _section(path, document).items():
        try:
            servers.append(_server(name, raw, environ, base))
        except _Mistake as mistake:
            problems.append(Problem(path, encodable(name), encodable(str(mistake))))
    found = Config((path,), tuple(servers), tuple(problems))
    try:
        return replace(found, skills=_skills(path, document, environ))
    except _Mistake as mistake:
        return replace(found, skills_problem=encodable(f"{path}: {mistake}"))


def _skills(
    path: Path, document: dict[str, Any], environ: Mapping[str, str]
) -> tuple[Path, ...] | None:
    """The folders of skills that a file names, from where it lies."""
    named = _Reader(document, environ).texts("skills")
    return None if named is None else tuple(path.parent / expanded(each) for each in named)


def _document(path: Path) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        text = path.read_text(encoding="utf-8-sig") if size <= MAX_FILE_BYTES else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigSyntaxError(f"{path} cannot be read: {error}") from None
    if size > MAX_FILE_BYTES:
        raise ConfigSyntaxError(f"{path} has {size} bytes; at most {MAX_FILE_BYTES} are read")
    try:
        data: Any = json.loads(text, object_pairs_hook=_unique(path))
    except json.JSONDecodeError as error:
        raise ConfigSyntaxError(
            f"{path} is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise ConfigSyntaxError(f"{path} is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigSyntaxError(f"{path} cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise ConfigSyntaxError(f"{path} must hold a JSON object, such as {EXAMPLE}")
    return cast("dict[str, Any]", data)


def _section(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    section = next((document[key] for key in _SECTIONS if key in document), None)
    if section is None and "skills" in document:
        return {}
    if not isinstance(section, dict):
        raise ConfigSyntaxError(
            f"{path} has no object 'mcpServers' (it has {_listed(document)}); expected {EXAMPLE}"
        )
    return cast("dict[str, Any]", section)


def _unique(path: Path) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigSyntaxError(f"{path} has the key {twice!r} twice in one object")
        return made

    return build


class _Mistake(Exception):  # noqa: N818 - never leaves this module
    """One server's mistake."""


@dataclass(slots=True)
class _Reader:
    """Typed access to one server's raw entry, with variables expanded."""

    raw: dict[str, Any]
    environ: Mapping[str, str]
    hidden: set[str] = field(default_factory=set[str])
    """What was put in from the environment and may be secret."""

    def text(self, key: str) -> str:
        value = self.raw.get(key, "")
        if not isinstance(value, str):
            raise _Mistake(f"{key} is {_shown(value)}; expected a string")
        return self.expand(key, value)

    def written(self, key: str) -> str:
        """What the file says there, for a message: its variables have not been put in."""
        value = self.raw.get(key, "")
        return _shown(
            redact(value, telling(url_secrets(value))) if isinstance(value, str) else value
        )

    def flag(self, key: str) -> bool:
        value = self.raw.get(key, False)
        if not isinstance(value, bool):
            raise _Mistake(f"{key} is {_shown(value)}; expected true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        value: object = self.raw.get(key)
        if value is None:
            return None
        items = cast("list[Any]", value) if isinstance(value, list) else None
        if items is None or not all(isinstance(item, str) for item in items):
            raise _Mistake(f"{key} is {_shown(self.raw[key])}; expected a list of strings")
        return tuple(self.expand(key, item) for item in items)

    def seconds(self, *keys: str) -> float | None:
        """How long something may take: the first of these keys that is there."""
        key = next((key for key in keys if key in self.raw), None)
        if key is None:
            return None
        value = self.raw[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _Mistake(f"{key} is {_shown(value)}; expected seconds, such as 60")
        if not 0 < value <= MAX_TIMEOUT_S:
            raise _Mistake(f"{key} is {_shown(value)}; expected seconds, at most {MAX_TIMEOUT_S}")
        return float(value)

    def mapping(self, key: str) -> dict[str, str]:
        value = self.raw.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise _Mistake(f"{key} is {_shown(value)}; expected an object of strings")
        entries = cast("dict[str, Any]", value)
        return {name: self._entry(f"{key}.{name}", item) for name, item in entries.items()}

    def _entry(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise _Mistake(f"{key} is {_shown(value)}; expected a string")
        return self.expand(key, str(value))

    def within(self, key: str) -> "_Reader | None":
        """The object at this key, to be read in the same way."""
        value: object = self.raw.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _Mistake(f"{key} is {_shown(value)}; expected an object")
        return _Reader(cast("dict[str, Any]", value), self.environ, self.hidden)

    def expand(self, key: str, text: str) -> str:
        def replace(match: re.Match[str]) -> str:
            name, default = match["name"], match["default"]
            value = self.environ.get(name)
            if value is None and default is None:
                raise _Mistake(f"{key} needs ${{{name}}}, which is not set in the environment")
            if value and name not in _OPEN:
                self.hidden.add(value)
            return value or default or ""

        return _VARIABLE.sub(replace, text)


def _shown(value: object) -> str:
    kinds: dict[type, str] = {
        dict: "an object",
        list: "a list",
        type(None): "null",
        bool: "true or false",
    }
    return kinds.get(type(value)) or repr(value)[:60]


def _listed(keys: Iterable[str]) -> str:
    """The keys that were found, for a message."""
    return printable(encodable(", ".join(sorted(keys))), 200) or "nothing"


def _server(name: str, raw: Any, environ: Mapping[str, str], base: Path | None) -> ServerSpec:
    _check_name(name)
    if not isinstance(raw, dict):
        raise _Mistake(f"the entry is {_shown(raw)}; expected an object with command or url")
    reader = _Reader(cast("dict[str, Any]", raw), environ)
    disabled = reader.flag("disabled")
    if disabled:
        # What is switched off may be unfinished: nothing else in it is looked at.
        return ServerSpec(name=name, transport="stdio", disabled=True)
    url_key = next((key for key in _URL_KEYS if key in reader.raw), "url")
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
        raise _Mistake("the name is empty; give the server a name")
    if SEPARATOR in name or name.endswith("_"):
        raise _Mistake(
            f"a name may not contain {SEPARATOR!r} or end in '_' (tools are called "
            f"server{SEPARATOR}tool); rename the server"
        )
    if any(not character.isprintable() for character in name):
        raise _Mistake("the name has characters that cannot be shown; rename the server")


def _transport(reader: _Reader, url: str) -> Transport:
    key = "type" if reader.text("type") else "transport"
    stated = reader.text(key)
    if stated:
        known = _TRANSPORTS.get(stated.casefold())
        if known is None:
            raise _Mistake(f"{key} is {reader.written(key)}; expected stdio, http or sse")
        return known
    if url and "command" in reader.raw:
        raise _Mistake("both command and url are given; keep the one that is meant")
    if url:
        return "sse" if url.split("?", maxsplit=1)[0].rstrip("/").endswith("/sse") else "http"
    if "command" not in reader.raw:
        raise _Mistake(f"neither command nor url is given (found {_listed(reader.raw)})")
    return "stdio"


def _protocol(reader: _Reader) -> Protocol:
    stated = reader.text("protocol") or "auto"
    if stated not in {"auto", "legacy"}:
        raise _Mistake(f"protocol is {reader.written('protocol')}; expected auto or legacy")
    return cast("Protocol", stated)


def _stdio(spec: ServerSpec, reader: _Reader, base: Path | None) -> ServerSpec:
    command = reader.text("command")
    if not command.strip():
        raise _Mistake("command is empty; expected the program that starts the server")
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


def _remote(spec: ServerSpec, reader: _Reader, url_key: str) -> ServerSpec:
    url = reader.text(url_key)
    if not re.match(r"https?://[^\s/]", url):
        written = reader.written(url_key)
        raise _Mistake(f"{url_key} is {written}; expected http://… or https://…")
    stated = reader.text("type") or reader.text("transport")
    return msgspec.structs.replace(
        spec,
        url=url,
        headers=reader.mapping("headers"),
        oauth=_oauth(reader),
        sse_fallback=spec.transport == "http" and not stated,
    )


def _oauth(reader: _Reader) -> OAuthClient | None:
    client = reader.within("oauth")
    if client is None:
        return None
    if not client.text("clientId"):
        raise _Mistake(
            f"oauth has no clientId (found {_listed(client.raw)}); leave oauth out "
            "where the server registers clients by itself"
        )
    port = client.raw.get("callbackPort", 0)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= MAX_PORT:
        raise _Mistake(f"oauth.callbackPort is {_shown(port)}; expected a port, 1 to {MAX_PORT}")
    return OAuthClient(
        client_id=client.text("clientId"),
        client_secret=client.text("clientSecret"),
        scope=client.text("scope"),
        callback_port=port,
    )
