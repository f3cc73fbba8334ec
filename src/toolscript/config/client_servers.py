"""Reads the servers in other clients' files, as entries that mean the same in toolscript's own."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import structs

from toolscript.config.clients import ClientFile
from toolscript.config.entry import KEYS, MAX_TIMEOUT_S, EntryError, Source, is_itself, server
from toolscript.config.entry_aliases import (
    MERGED_KEYS,
    SWITCH_KEYS,
    UNREAD_KEYS,
    describe_unread,
    rewrite,
)
from toolscript.config.file_parser import SECTIONS, entries_of, parsed, sections_of
from toolscript.config.imported_rules import StatedRule, decisions, rules_about, settle
from toolscript.config.permission_rules import key_of, literal
from toolscript.config.variables import FILE, has_variable
from toolscript.errors import ConfigSyntaxError
from toolscript.storage.atomic_files import expanded
from toolscript.text.json_values import as_list, as_object
from toolscript.types import DECISIONS, PROJECT, ServerSpec

MODE_KEY = "default_tools_approval_mode"
"""Codex's, for all tools of a server."""
PERMISSION_KEYS = ("trust", MODE_KEY, "alwaysAllow", "autoApprove")
"""The keys that state rules, of Gemini CLI, Codex, and Cline and Roo Code."""
KEPT_KEYS = {*KEYS} - {*SWITCH_KEYS, *PERMISSION_KEYS}
_CHANGES_TOO = ("autoApprove", True)
"""Here it accepts changed definitions, of which other clients know nothing."""
_BARE_VARIABLE = re.compile(r"(?<!\$)\$([A-Za-z_]\w*)")
_PROJECT = re.compile(r"(?<!\$)\$\{(?:workspaceFolder|workspaceRoot|PROJECT)\}")


@dataclass(frozen=True, slots=True)
class ClientServer:
    """A server in a client's file."""

    client: ClientFile | None
    """None for a server of toolscript's own file."""
    keys: tuple[str, ...]
    """The path of keys to its entry; the last one is its name."""
    entry: dict[str, Any]
    """As toolscript's own file has it."""
    spec: ServerSpec | None
    """None if the entry cannot be read."""
    is_toolscript: bool = False
    notes: tuple[str, ...] = ()
    """One line for each thing that is odd; the reason if there is no spec."""

    @property
    def name(self) -> str:
        """The name in the file."""
        return self.keys[-1]

    @property
    def is_off(self) -> bool:
        """Whether its client has it switched off."""
        return "disabled" in self.entry

    @property
    def rules(self) -> dict[str, Any]:
        """The rules about its tools."""
        return as_object(self.entry.get("permissions"))

    @property
    def identity(self) -> str:
        """A text that two servers share if they do the same, under whatever names and rules."""
        if self.is_toolscript:
            return "toolscript"
        if self.spec is None or self.spec.disabled:
            return json.dumps(self.entry, sort_keys=True)
        same = structs.replace(self.spec, name="", hidden=())
        return msgspec.json.encode(same, order="deterministic").decode()


def read_servers(  # noqa: PLR0913, PLR0917 - a file, and all that its meaning depends on
    path: Path,
    data: bytes,
    environ: Mapping[str, str],
    cwd: Path,
    client: ClientFile | None = None,
    stated: Sequence[StatedRule] = (),
) -> Iterator[ClientServer]:
    """Yields the servers of a client's file.

    Args:
        path: The file.
        data: Its content.
        environ: The variables that entries may refer to.
        cwd: The project's folder. Claude Code's file has servers of projects by their folders.
        client: Whose file it is; None for toolscript's own.
        stated: The client's rules about tools.

    Raises:
        ConfigSyntaxError: The file cannot be read.
    """
    document = parsed(path, data) if data.strip() else {}
    base = cwd if client and client.is_project else None
    parts: list[tuple[tuple[str, ...], dict[str, Any], Path | None]] = [((), document, base)]
    if client and client.name == "claude-code":
        local = as_object(as_object(document.get("projects")).get(str(cwd)))
        parts.append((("projects", str(cwd)), local, cwd))
    for place, part, base in parts:
        for keys, raw, is_listed_off in _entries(path, part):
            read = partial(server, keys[-1], source=Source(environ, base, path.parent))
            entry, notes = convert(raw, client, path.parent, base)
            rules, lines = rules_about(keys[-1], stated, may_allow=base is None)
            notes += lines if base is None else [*lines, f"not {base} alone gets it, but all"]
            if rules:
                own = as_object(entry.get("permissions"))
                entry["permissions"] = settle([*own.items(), *rules.items()])
            is_off = is_listed_off
            try:
                _check_characters(keys[-1], raw)
                is_off |= read(raw).disabled
                spec = read(entry, notes=notes)
            except EntryError as mistake:
                unread = ServerSpec(name=keys[-1], transport="stdio", disabled=True)
                spec, notes = (unread, notes) if is_off else (None, [str(mistake)])
            if base is not None and spec is not None and spec.cwd and PROJECT not in spec.cwd:
                entry["cwd"] = spec.cwd
            entry |= {"disabled": True} if is_off else {}
            itself = spec is not None and is_itself(spec, environ)
            shown = () if itself else tuple(notes)  # nothing is taken over of it
            yield ClientServer(client, (*place, *keys), entry, spec, itself, shown)


def _check_characters(name: str, entry: dict[str, Any]) -> None:
    """Raises `EntryError` for half of a surrogate pair, which no file can hold."""
    try:
        json.dumps([name, entry], ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise EntryError(f"it has half a character, {half!a}; write the whole one") from None


def _entries(
    path: Path, document: dict[str, Any]
) -> Iterator[tuple[tuple[str, ...], dict[str, Any], bool]]:
    """Yields the keys of each server in a part of a file, its entry, and if a list has it off."""
    if not any(key in document for key in SECTIONS):
        return
    merged = entries_of(path, document)
    for keys, servers in sections_of(document):
        if not isinstance(servers, dict):
            section = ".".join(keys)
            raise ConfigSyntaxError(f"{path}: {section} is a list; make it an object by name")
        for name, raw in cast("dict[str, Any]", servers).items():
            if isinstance(raw, dict):  # else it is a comment
                entry = cast("dict[str, Any]", raw)
                yield (*keys, name), entry, entry != merged[name]


def convert(
    raw: dict[str, Any], client: ClientFile | None, folder: Path, project: Path | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Returns an entry as toolscript's own without switches, and notes about it.

    Every key is kept, rewritten, a switch, a rule or a timeout, or a note names it.

    Args:
        raw: The entry in the client's file.
        client: The client; None for toolscript's own file, whose entries stay.
        folder: That of the file.
        project: The project that states it, whose rules do not hold for the user's file.
    """
    if client is None:
        return {k: value for k, value in raw.items() if k not in SWITCH_KEYS}, []
    raw = as_object(_map_texts(raw, partial(_relocate, client, folder, project)))
    entry, rules = rewrite(raw), dict(_rules(raw))
    tools = as_object(raw.get("tools")).items()
    unread = {name: value for name, value in tools if key_of(literal(name)) not in rules}
    notes = [*describe_unread(raw | {"tools": unread})]
    limit: Any = raw.get("timeout")
    is_limit = client.timeout_s and isinstance(limit, int | float) and limit > 0
    if is_limit and "callTimeout" not in entry:
        entry["callTimeout"] = min(limit * client.timeout_s, MAX_TIMEOUT_S)
        notes = [line for line in notes if not line.startswith("timeout ")]
    stated = entry.get("envFile")
    if isinstance(stated, str) and not has_variable(stated):
        entry["envFile"] = str(folder / expanded(stated))
    if project and "allow" in rules.values():
        notes.append("the rules by which its project allows something are not taken over")
        rules = {key: decision for key, decision in rules.items() if decision != "allow"}
    kept = {key: entry[key] for key in entry if key in KEPT_KEYS - {"permissions"}}
    kept |= {"permissions": rules} if rules else {}
    if isinstance(kept.get("tools"), dict):  # Codex's rules, no list
        del kept["tools"]
    mapped = {*KEPT_KEYS, *MERGED_KEYS, *SWITCH_KEYS, *UNREAD_KEYS, *PERMISSION_KEYS}
    others = [key for key in entry if key not in mapped or (key, raw.get(key)) == _CHANGES_TOO]
    if others:
        notes.append(f"not taken over: {', '.join(sorted(others))}")
    return kept, notes


def _rules(raw: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the rules that an entry states in other clients' words; its own come last."""
    if raw.get("trust") is True:
        yield "*", "allow"
    tools = as_object(raw.get("tools")).items()
    modes = {name: as_object(value).get("approval_mode") for name, value in tools}
    lists = {key: as_list(raw.get(key)) for key in ("alwaysAllow", "autoApprove")}
    for key, stated in {MODE_KEY: raw.get(MODE_KEY), **lists, "tools": modes}.items():
        for name, decision in decisions(key, stated):
            yield "*" if name == "*" else key_of(literal(name)), decision
    own = as_object(raw.get("permissions")).items()
    yield from ((key, decision) for key, decision in own if decision in DECISIONS)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a value with other strings in it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {key: _map_texts(each, change) for key, each in pairs}
    if isinstance(value, list):
        return [_map_texts(each, change) for each in cast("list[Any]", value)]
    return value


def _relocate(client: ClientFile, folder: Path, project: Path | None, text: str) -> str:
    """Returns a string of an entry as it means the same in the user's file.

    ``$NAME`` becomes ``${NAME}`` if it is the client's, a relative path that of a file, and the
    variable of a project's folder its path.
    """
    if client.has_bare_variables:
        text = _BARE_VARIABLE.sub(r"${\1}", text)
    text = FILE.sub(lambda match: f"{{file:{folder / expanded(match['path'])}}}", text)
    if project is None:
        return text
    return _PROJECT.sub(lambda _: str(project).replace("${", "$${"), text)
