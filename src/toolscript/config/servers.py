"""Reads configuration files: ``mcpServers``, as every MCP client writes it.

A mistake in one entry disables that server only: it becomes a `ServerProblem`, which names the
file, the server, the key and the expected value.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import structs

from toolscript.config.entry import REASON, EntryError, Source, is_itself, no_version, read, server
from toolscript.config.entry_aliases import describe_unread, misspelt
from toolscript.config.file_parser import TOP_LEVEL_KEYS, entries_of, parsed
from toolscript.config.issuer import Issuer, issuer_of
from toolscript.config.locations import home_file, key_of, locate, watched
from toolscript.config.permission_rules import (
    PermissionProfile,
    RuleError,
    rules_of,
    selection_of,
    sources_of,
)
from toolscript.config.secret_store import SecretStore
from toolscript.config.trust import TrustStore, read_file
from toolscript.config.variables import Variables
from toolscript.errors import (
    ConfigMissingError,
    ConfigSyntaxError,
    ConfigUntrustedError,
    SecretStoreError,
)
from toolscript.storage.atomic_files import expanded, is_dir, is_file, stamp
from toolscript.text.display import encodable
from toolscript.text.json_values import as_object
from toolscript.types import PermissionRule, ServerSpec

_RULES = ("permissions", "profiles")
"""The keys of a file that limit calls."""
_PROFILE_KEYS = ("permissions", "tools")
_Rules: TypeAlias = tuple[tuple[PermissionRule, ...], ...]
"""Rules by their source."""


@dataclass(frozen=True, slots=True)
class ServerProblem:
    """A server of the configuration that cannot be used, and why."""

    source: Path
    server: str
    message: str

    def __str__(self) -> str:
        """The file, the server and the mistake, on one line."""
        return f"{encodable(str(self.source))}: server {self.server!r}: {self.message}"


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that was read."""

    sources: tuple[Path, ...]
    """The files that it was read from."""
    servers: tuple[ServerSpec, ...] = ()
    """The servers to connect to, the disabled ones included."""
    problems: tuple[ServerProblem, ...] = ()
    """The servers that cannot be used."""
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """A line for each key of another client that is not read, by server; why one is left out."""
    stamp: str = ""
    """The stamp of the files that `watched` returns, made before they were read."""
    skills: tuple[Path, ...] | None = None
    """The folders of skills; None if the configuration does not mention skills."""
    skills_problem: str = ""
    """Why the folders of skills cannot be used; empty if they can."""
    permissions: _Rules = ()
    """The rules of each file, those of its servers' entries included."""
    profiles: Mapping[str, PermissionProfile] = field(default_factory=dict[str, PermissionProfile])
    """Further limits by name; a caller or a token chooses them."""
    issuer: Issuer | None = None
    """The provider that logs people in; None if the user's own file names none."""
    key_problems: tuple[str, ...] = ()
    """Mistakes in keys beside the section of servers, one line for each file."""
    refused: str = ""
    """Why the project's file was not read; empty unless it is not trusted."""

    @property
    def key(self) -> str:
        """The key of the configuration; see `key_of`."""
        return key_of(self.sources)

    @property
    def servers_hash(self) -> str:
        """First 16 hex digits of SHA-256 over the sorted server names as compact JSON."""
        names = sorted(spec.name for spec in self.servers if not spec.disabled)
        compact = json.dumps(names, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(compact.encode()).hexdigest()[:16]


def load_config(
    path: Path | None, cwd: Path, environ: Mapping[str, str], trust: TrustStore | None = None
) -> Config:
    """Returns the configuration at ``path``; if that is None, the project's over the user's.

    The project's file is looked for from ``cwd`` upwards, the user's in the home directory that
    ``environ`` names. A server that both define is the project's. A project's file counts only
    if ``trust`` has its content; otherwise the user's is read alone, and `Config.refused` says
    why. Raises `ConfigMissingError`, `ConfigSyntaxError`, and `ConfigUntrustedError` if there
    is no other file.
    """
    sources = locate(path, cwd, environ)
    if path is not None and not is_file(sources[0]):
        why = "is a directory" if is_dir(sources[0]) else "does not exist"
        raise ConfigMissingError(f"configuration file {path} {why}; name another with --config")
    own = sources[0] if path is not None else home_file(environ)
    try:
        return _load(sources, own, environ, trust)
    except ConfigUntrustedError as error:
        if len(sources) == 1:
            raise
        return replace(_load(sources[1:], own, environ, trust), refused=str(error))


def _load(
    sources: tuple[Path, ...], own: Path, environ: Mapping[str, str], trust: TrustStore | None
) -> Config:
    """Returns the files merged. All but the user's ``own`` have to be trusted."""
    before = stamp(watched(sources, trust.data_dir if trust is not None else None))
    version = SecretStore(trust.data_dir).version if trust is not None else no_version
    configs = [
        config_of(p, read_file(p)[0], environ, None, version)
        if p == own
        else config_of(p, _read_trusted(p, trust), environ, p.parent, version)
        for p in sources
    ]
    config = configs[0] if len(configs) == 1 else _merge(configs[0], configs[1])
    return replace(config, stamp=before)


def _read_trusted(path: Path, trust: TrustStore | None) -> bytes:
    if trust is None:
        raise ConfigUntrustedError(f"{path} is not trusted; name it as the configuration to use")
    return trust.read(path)


def _merge(project: Config, user: Config) -> Config:
    own_names = {spec.name for spec in project.servers} | {p.server for p in project.problems}
    return Config(
        sources=project.sources + user.sources,
        servers=project.servers + tuple(s for s in user.servers if s.name not in own_names),
        problems=project.problems + tuple(p for p in user.problems if p.server not in own_names),
        unread={
            **{name: lines for name, lines in user.unread.items() if name not in own_names},
            **project.unread,
        },
        skills=None
        if project.skills is user.skills
        else (project.skills or ()) + (user.skills or ()),
        skills_problem=project.skills_problem or user.skills_problem,
        permissions=(
            *(_limit(rules, own_names) for rules in project.permissions),
            *user.permissions,
        ),
        profiles={
            **{
                name: structs.replace(profile, rules=_limit(profile.rules, own_names))
                for name, profile in project.profiles.items()
            },
            **user.profiles,
        },
        issuer=user.issuer,
        key_problems=project.key_problems + user.key_problems,
    )


def _limit(
    rules: tuple[PermissionRule, ...], servers: AbstractSet[str]
) -> tuple[PermissionRule, ...]:
    """Returns a project's rules, which allow calls of the project's ``servers`` only.

    Else a project could spare the user the question before a destructive tool of another server.
    """
    only = tuple(sorted(servers))
    return tuple(
        structs.replace(rule, servers=only) if rule.decision == "allow" else rule for rule in rules
    )


def config_of(
    path: Path,
    data: bytes,
    environ: Mapping[str, str],
    base: Path | None,
    version: Callable[[str], str],
) -> Config:
    """Returns the configuration that one file's content is; raises `ConfigSyntaxError`.

    Args:
        path: The file.
        data: Its content.
        environ: The variables that entries may refer to.
        base: The folder in which a project's servers run; None for the user's own file, which
            leaves that to the process.
        version: Returns the version of a stored secret.
    """
    document = parsed(path, data)
    entries = entries_of(path, document)
    source = Source(environ, base, path.parent, version)
    servers: list[ServerSpec] = []
    problems: list[ServerProblem] = []
    unread: dict[str, tuple[str, ...]] = {}
    rules: list[PermissionRule] = []
    for name, raw in entries.items():
        if _is_comment(name, raw):
            continue
        try:
            spec, notes, stated = _read_entry(name, raw, source)
        except (EntryError, RuleError, SecretStoreError) as mistake:
            problems.append(ServerProblem(path, encodable(name), encodable(str(mistake))))
            continue
        servers.append(spec)
        rules += stated
        if notes or not spec.disabled:
            unread[name] = notes
    try:
        (*stricter, top), profiles = _limits(document)
    except RuleError as mistake:  # it might have denied something
        raise ConfigSyntaxError(encodable(f"{path}: {mistake}")) from None
    config = Config(
        (path,),
        tuple(servers),
        tuple(problems),
        unread,
        permissions=(*stricter, (*top, *rules)),
        profiles=profiles,
        issuer=issuer_of(path, document, environ) if base is None else None,
        key_problems=_find_key_problems(path, document, is_own=base is None),
    )
    try:
        return replace(config, skills=_skills(path, document, environ))
    except EntryError as mistake:
        return replace(config, skills_problem=encodable(f"{path}: {mistake}"))


def _read_entry(
    name: str, raw: Any, source: Source
) -> tuple[ServerSpec, tuple[str, ...], tuple[PermissionRule, ...]]:
    """Returns the server of an entry, a line for each thing that is not read, and its rules."""
    notes = [*describe_unread(as_object(raw))]
    spec = server(name, raw, source, notes)
    rules = rules_of(as_object(raw).get("permissions"), f"{name}.permissions", name)
    if is_itself(spec, source.environ):
        return ServerSpec(name=name, transport="stdio", disabled=True), (REASON,), rules
    if name.casefold().startswith("toolscript") and not spec.disabled:
        raise EntryError("toolscript asks users in names that begin with its; rename the server")
    return spec, () if spec.disabled else tuple(map(encodable, notes)), rules


def _find_key_problems(path: Path, document: dict[str, Any], *, is_own: bool) -> tuple[str, ...]:
    mistake = misspelt(document, TOP_LEVEL_KEYS)
    if "issuer" in document and not is_own:
        mistake = "issuer counts in your own file alone, so this one is not read"
    return (encodable(f"{path}: {mistake}"),) if mistake else ()


def _is_comment(name: str, raw: Any) -> bool:
    return not isinstance(raw, dict) and name[:1] in {"_", "/", "#", "$"}


def _skills(
    path: Path, document: dict[str, Any], environ: Mapping[str, str]
) -> tuple[Path, ...] | None:
    """Returns the folders of skills; None if a file does not mention any. Raises `EntryError`."""
    if document.get("skills") is None:
        return None
    folders = read("skills", document["skills"], tuple[str, ...], Variables(environ))
    return tuple(path.parent / expanded(each) for each in folders)


def _limits(document: dict[str, Any]) -> tuple[_Rules, dict[str, PermissionProfile]]:
    """Returns the sources of the rules at the top of a file, and its profiles by name.

    Raises `RuleError`.
    """
    if mistake := misspelt(document, _RULES, TOP_LEVEL_KEYS):
        raise RuleError(mistake)
    profiles: Any = document.get("profiles", {})
    if not isinstance(profiles, dict):
        raise RuleError("profiles must be an object of profiles by name")
    named = cast("dict[str, Any]", profiles).items()
    return (
        sources_of(document.get("permissions"), "permissions"),
        {name: _profile(f"profiles.{name}", value) for name, value in named},
    )


def _profile(place: str, value: Any) -> PermissionProfile:
    """Returns a profile; raises `RuleError`, also for a key that its author took for a limit."""
    if not isinstance(value, list | dict):
        raise RuleError(
            f"{place} must be a list of servers and tools, "
            'or an object such as {"tools": ["git"], "permissions": {}}'
        )
    profile = cast("dict[str, Any]", {"tools": value} if isinstance(value, list) else value)
    for key in (key for key in profile if key not in _PROFILE_KEYS):
        expected = f"the key {key[:60]!r} is not known; use {' or '.join(_PROFILE_KEYS)}"
        raise RuleError(f"{place}: {misspelt([key], _PROFILE_KEYS) or expected}")
    names = profile.get("tools")
    return PermissionProfile(
        rules_of(profile.get("permissions"), f"{place}.permissions"),
        None if names is None else selection_of(names, f"{place}.tools"),
    )
