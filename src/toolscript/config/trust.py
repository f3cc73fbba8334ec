"""Stores which project configuration files the user trusts, by path and content digest.

A project's file names programs that run with the user's rights, and variables
that are sent to addresses. Anybody may have written it, so nothing in it counts
until the user has said so. A decision holds for one content at one place; it is
kept in the data directory, one record per file.
"""

import hashlib
import json
import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from toolscript.config.server_entry import SECTIONS, URL_KEYS
from toolscript.errors import ConfigSyntaxError, ConfigUntrustedError
from toolscript.storage.atomic_files import resolved, write_atomically
from toolscript.text import encodable, printable, redact

MAX_FILE_BYTES = 4 * 1024 * 1024
_VERSION = 1
_SHOWN = 300
"""Characters of one entry that a person is shown."""
_NAMED = 3
"""Servers that a message names; a list names all."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What the user has decided about one file, as it is stored."""

    version: int = _VERSION
    path: str
    sha256: str
    trusted: bool
    decided: str
    """ISO 8601, UTC."""
    servers: dict[str, str] = {}
    """The SHA-256 of each entry, by its name: tells which entries changed later."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A configuration file as it was read, once: what was judged is what is used."""

    path: Path
    """Where it was found; its directory is resolved, and servers are started there."""
    data: bytes
    flaw: str
    """Who else could have written it; empty where nobody else could."""

    @classmethod
    def read(cls, path: Path) -> "ProjectFile":
        """Raises `ConfigSyntaxError` for a file that cannot be read."""
        place = _place(path)
        data, status = read_file(place)
        target = resolved(place)
        folders = dict.fromkeys((place.parent, target.parent))
        try:
            flaws = [_flaw(status), *(_flaw(each.stat(), each) for each in folders)]
        except OSError as error:  # taken away just now
            raise ConfigSyntaxError(f"{path} cannot be read: {error}") from None
        return cls(place, data, next(filter(None, flaws), ""))

    @property
    def sha256(self) -> str:
        """Of the content."""
        return hashlib.sha256(self.data).hexdigest()

    def servers(self) -> dict[str, Any]:
        """The entries as they are written; none where the content is no configuration."""
        return _objects(self._document(), *SECTIONS)

    def lines(self, before: Decision | None = None) -> Iterator[tuple[str, str, str]]:
        """What changed since a decision: "new", "changed", "same" or "gone"; name; description."""
        known = before.servers if before else {}
        servers = self.servers()
        for name, digest in _digests(servers).items():
            state = "new" if name not in known else "same" if known[name] == digest else "changed"
            yield state, _shown(name), describe(servers[name])
        for name in known.keys() - servers.keys():
            yield "gone", _shown(name), ""
        skills = self._document().get("skills")
        if skills:
            yield "", "(skills)", _shown(json.dumps(skills))

    def _document(self) -> dict[str, Any]:
        try:
            document: Any = json.loads(self.data)
        except (ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


class TrustStore:
    """The user's decisions, below the data directory. Holds nothing between calls."""

    def __init__(self, data_dir: Path) -> None:
        self._directory = data_dir / "trust"

    def record(self, path: Path) -> Path:
        """Where the decision about a file is stored."""
        digest = hashlib.sha256(os.fsencode(_place(path))).hexdigest()
        return self._directory / f"trust-{digest[:16]}.json"

    def decision(self, path: Path) -> Decision | None:
        """The decision about a file, whatever its content was; None where there is none."""
        found = _stored(self.record(path))
        return found if found and found.path == encodable(str(_place(path))) else None

    def read(self, path: Path) -> bytes:
        """The content of a trusted file; raises `ConfigUntrustedError` for any other.

        Raises `ConfigSyntaxError` for a file that cannot be read.
        """
        file = ProjectFile.read(path)
        before = self.decision(path)
        if file.flaw or not (before and before.trusted and before.sha256 == file.sha256):
            raise ConfigUntrustedError(refusal(file, before))
        return file.data

    def is_open(self, file: ProjectFile) -> bool:
        """Whether the user has still to decide about this content."""
        before = self.decision(file.path)
        return not file.flaw and (before is None or before.sha256 != file.sha256)

    def decide(self, file: ProjectFile, *, trusted: bool) -> None:
        """Remember a decision; raises `ConfigUntrustedError` to trust what others could write."""
        if trusted and file.flaw:
            raise ConfigUntrustedError(refusal(file))
        made = Decision(
            path=encodable(str(file.path)),
            sha256=file.sha256,
            trusted=trusted,
            decided=datetime.now(UTC).isoformat(timespec="seconds"),
            servers=_digests(file.servers()),
        )
        write_atomically(self.record(file.path), msgspec.json.encode(made))

    def forget(self, path: Path) -> bool:
        """Take a decision back; False where there was none."""
        known = self.decision(path) is not None
        self.record(path).unlink(missing_ok=True)
        return known

    def all(self) -> list[Decision]:
        """Every decision, by path."""
        found = map(_stored, self._directory.glob("trust-*.json"))
        return sorted((each for each in found if each), key=lambda each: each.path)


def read_file(path: Path) -> tuple[bytes, os.stat_result]:
    """A configuration's bytes, and the status of the very file that they come from.

    Raises `ConfigSyntaxError`. A pipe that took the file's place is not waited for.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(MAX_FILE_BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise ConfigSyntaxError(f"{path} cannot be read: {error}") from None
    if len(data) > MAX_FILE_BYTES:
        size = max(status.st_size, len(data))
        raise ConfigSyntaxError(f"{path} has {size} bytes; at most {MAX_FILE_BYTES} are read")
    return data, status


def refusal(file: ProjectFile, before: Decision | None = None) -> str:
    """Why a file is not used, what it would start, and what to do."""
    if file.flaw:
        return (
            f"{file.path} is not used: {file.flaw}; put that right, "
            "or name the file with --config if you want it all the same"
        )
    lines = [(state, name, what) for state, name, what in file.lines(before) if state != "same"]
    known = before is not None and before.trusted
    told = [f"{state + ' ' if known else ''}{name}: {what}" for state, name, what in lines[:_NAMED]]
    told += [f"and {len(lines) - _NAMED} more"] if len(lines) > _NAMED else []
    why = "has changed since you trusted it" if known else "is not trusted"
    asks = f" (it asks for {'; '.join(told)})" if told else ""
    return (
        f"{file.path} {why}, so it is not used{asks}; "
        f"read it, then: toolscript trust {shlex.quote(str(file.path))}"
    )


def describe(entry: object) -> str:
    """What an entry starts, for a person to judge: as it is written, its variables not put in.

    Arguments are shown whole, since a stranger's command is to be judged by them.
    """
    if not isinstance(entry, dict):
        return "(no entry)"
    raw = cast("dict[str, Any]", entry)
    args: object = raw.get("args")
    words = [raw.get("command"), *(cast("list[Any]", args) if isinstance(args, list) else ())]
    urls = [str(raw[key]) for key in URL_KEYS if key in raw]
    command = shlex.join(str(word) for word in words if word is not None)
    what = " ".join(filter(None, [command, *(redact(url, ()) for url in urls)]))
    more = [f"{key} {', '.join(_objects(raw, key))}" for key in ("env", "headers") if raw.get(key)]
    more += [f"in {raw['cwd']}"] if raw.get("cwd") else []
    more += ["disabled"] if raw.get("disabled") is True else []
    return _shown("; ".join(filter(None, [what, *more]))) or "(nothing)"


def writable_by_others(path: Path) -> str:
    """Who else could write a file; empty where nobody else could, or it cannot be told."""
    try:
        return _flaw(path.stat())
    except OSError:
        return ""


def _place(path: Path) -> Path:
    """A file's path with its directory resolved, but not the file, where that is a link."""
    return resolved(path.parent) / path.name


def _flaw(status: os.stat_result, folder: Path | None = None) -> str:
    """Who else than the user and root could write a file, or put another into a folder."""
    if not hasattr(os, "geteuid"):
        return ""
    what = f"its directory {folder}" if folder else "it"
    if status.st_uid not in {0, os.geteuid()}:
        return f"{what} belongs to the user {_name(status)[0]}"
    if folder and status.st_mode & stat.S_ISVTX:  # as /tmp: only owners replace their files
        return ""
    if status.st_mode & stat.S_IWOTH:
        return f"{what} can be written by every user (chmod o-w)"
    if status.st_mode & stat.S_IWGRP and status.st_gid and not _is_private(status):
        return f"{what} can be written by the group {_name(status)[1]} (chmod g-w)"
    return ""


def _name(status: os.stat_result) -> tuple[str, str]:
    import grp  # noqa: PLC0415 - not on Windows, and seldom needed
    import pwd  # noqa: PLC0415 - the same

    names = [str(status.st_uid), str(status.st_gid)]
    try:
        names[0] = pwd.getpwuid(status.st_uid).pw_name
        names[1] = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        pass
    return names[0], names[1]


def _is_private(status: os.stat_result) -> bool:
    """Whether a group is its user's own, with no other member, as most Linux systems make them."""
    import grp  # noqa: PLC0415 - see _name

    user, group = _name(status)
    try:
        return user == group and set(grp.getgrgid(status.st_gid).gr_mem) <= {user}
    except KeyError:
        return False


def _stored(path: Path) -> Decision | None:
    """A decision; None for one that cannot be read, or that another user could have written."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if _flaw(status) or (os.name == "posix" and status.st_mode & 0o077):
                return None
            found = msgspec.json.decode(file.read(), type=Decision)
            return found if found.version == _VERSION else None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _objects(raw: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The object at the first of these keys that is there; none where that is none."""
    found: object = next((raw[key] for key in keys if key in raw), None)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _digests(servers: Mapping[str, Any]) -> dict[str, str]:
    return {
        encodable(name): hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
        for name, entry in servers.items()
    }


def _shown(text: str) -> str:
    return printable(encodable(text), _SHOWN)
