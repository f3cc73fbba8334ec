"""Stores which project configuration files the user trusts, by path and content digest.

A project's file names programs that run with the user's rights, and variables that are sent to
addresses. Anyone may have written it, so it is not used before the user has agreed. A decision
holds for one content at one path; the data directory has one record for each file.
"""

import hashlib
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from toolscript.config.entry_aliases import rewrite
from toolscript.config.file_parser import entries_of, parsed
from toolscript.config.locations import placed, trust_record
from toolscript.errors import ConfigSyntaxError, ConfigUntrustedError
from toolscript.storage.atomic_files import resolved, write_atomically
from toolscript.text.display import encodable, printable
from toolscript.text.json_values import as_list, as_object
from toolscript.text.redaction import redact
from toolscript.text.timestamps import utc_timestamp
from toolscript.types import SECRET_VARIABLE

MAX_FILE_BYTES = 4 * 1024 * 1024
_VERSION = 1
_MAX_SHOWN_CHARS = 300
_RUNS_CODE = (
    r"(?i)(?:LD|DYLD|GIT|NPM_CONFIG|PIP|UV)_\w+|\w+_OPTIONS|(?:PERL5|RUBY)(?:OPT|LIB)|PATH|BROWSER"
    r"|PYTHON\w+|NODE_PATH|BASH_ENV|ENV|SHELL|EDITOR|PAGER"
)
"""Variables by which a program loads other code than its own, or starts another program."""
"""Characters of each part of an entry that the user is shown: a long one hides no other."""
_SHOWN_KEYS = (
    *("cwd", "envFile", "envVars", "disabled", "autoApprove"),
    *("class", "permissions", "tools"),
)
"""The keys of an entry that the user sees beside its command and the names of its variables."""
_MAX_NAMED = 3
"""Servers that a message names; a list names all."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The user's decision about one file, as it is stored."""

    version: int = _VERSION
    path: str
    sha256: str
    trusted: bool
    decided: str
    """ISO 8601, UTC."""
    servers: dict[str, str] = {}
    """Name to SHA-256 of each entry, to show which of them change later."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A configuration file, read once, so that the judged content is used."""

    path: Path
    """Its path, the directory resolved; the servers are started in that directory."""
    data: bytes
    flaw: str
    """Which other users could have written it; empty for none."""

    @classmethod
    def read(cls, path: Path) -> "ProjectFile":
        """Reads a file; raises `ConfigSyntaxError` if that is not possible."""
        place = placed(path)
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
        """The SHA-256 of the content, in hex digits."""
        return hashlib.sha256(self.data).hexdigest()

    def servers(self) -> dict[str, Any]:
        """Returns the raw entries by name; raises `ConfigSyntaxError`."""
        return entries_of(self.path, parsed(self.path, self.data))

    def lines(self, before: Decision | None = None) -> Iterator[tuple[str, str, str]]:
        """Yields "new", "changed", "same" or "gone", the name and the description of each entry.

        The first is the change of the entry since the decision ``before``. Raises
        `ConfigSyntaxError`: the user is asked about nothing that cannot be shown.
        """
        known = before.servers if before else {}
        servers = self.servers()
        for name, digest in _digests(servers).items():
            state = "new" if name not in known else "same" if known[name] == digest else "changed"
            yield state, _show(name), describe(servers[name])
        for name in known.keys() - servers.keys():
            yield "gone", _show(name), ""
        document = parsed(self.path, self.data)
        for key in ("skills", "permissions", "profiles"):
            if document.get(key):
                yield "", f"({key})", _show(json.dumps(document[key]))


class TrustStore:
    """The user's decisions, in files below the data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    def record(self, path: Path) -> Path:
        """Returns the path of the record about a file."""
        return trust_record(self.data_dir, path)

    def decision(self, path: Path) -> Decision | None:
        """Returns the decision about a file, of any content; None without one."""
        stored = _read_decision(self.record(path))
        return stored if stored and stored.path == encodable(str(placed(path))) else None

    def read(self, path: Path) -> bytes:
        """Returns the content of a trusted file; raises `ConfigUntrustedError` for any other.

        Raises `ConfigSyntaxError` for a file that cannot be read.
        """
        file = ProjectFile.read(path)
        before = self.decision(path)
        if file.flaw or not (before and before.trusted and before.sha256 == file.sha256):
            raise ConfigUntrustedError(refusal(file, before))
        return file.data

    def is_open(self, file: ProjectFile) -> bool:
        """Whether the user has not decided about this content yet, and may."""
        before = self.decision(file.path)
        return not file.flaw and (before is None or before.sha256 != file.sha256)

    def decide(self, file: ProjectFile, *, trusted: bool) -> None:
        """Stores a decision; raises `ConfigUntrustedError` for trust in a file open to others."""
        if trusted and file.flaw:
            raise ConfigUntrustedError(refusal(file))
        made = Decision(
            path=encodable(str(file.path)),
            sha256=file.sha256,
            trusted=trusted,
            decided=utc_timestamp(),
            servers=_digests(file.servers()),
        )
        write_atomically(self.record(file.path), msgspec.json.encode(made))

    def forget(self, path: Path) -> bool:
        """Deletes the decision about a file; returns whether there was one."""
        known = self.decision(path) is not None
        self.record(path).unlink(missing_ok=True)
        return known

    def all(self) -> list[Decision]:
        """Returns every decision, by path."""
        decisions = map(_read_decision, (self.data_dir / "trust").glob("trust-*.json"))
        return sorted(filter(None, decisions), key=lambda decision: decision.path)


def read_file(path: Path) -> tuple[bytes, os.stat_result]:
    """Returns a file's bytes and the status of the same file; raises `ConfigSyntaxError`.

    Never blocks on a pipe that has replaced the file.
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
    """Returns the message about a file that is not used: why, its programs, and the remedy."""
    if file.flaw:
        return (
            f"{file.path} is not used: {file.flaw}; put that right, "
            "or name the file with --config if you want it all the same"
        )
    try:
        lines = [line for line in file.lines(before) if line[0] != "same"]
    except ConfigSyntaxError as error:
        return f"{file.path} is not trusted, so it is not used; it could not be, either: {error}"
    known = before is not None and before.trusted
    entries = [
        f"{state + ' ' if known else ''}{name}: {what}" for state, name, what in lines[:_MAX_NAMED]
    ]
    entries += [f"and {len(lines) - _MAX_NAMED} more"] if len(lines) > _MAX_NAMED else []
    why = "has changed since you trusted it" if known else "is not trusted"
    asks = f" (it asks for {'; '.join(entries)})" if entries else ""
    return (
        f"{file.path} {why}, so it is not used{asks}; "
        f"read it, then: toolscript trust {shlex.quote(str(file.path))}"
    )


def describe(entry: object) -> str:
    """Returns the command of an entry, for the user to judge: all its arguments, as written."""
    if not isinstance(entry, dict):
        return "(no entry)"
    raw = rewrite(cast("dict[str, Any]", entry))
    secrets = sorted({*SECRET_VARIABLE.findall(json.dumps(raw))})
    named = f"with your secrets {', '.join(secrets)}" if secrets else ""
    words = [raw.get("command"), *as_list(raw.get("args"))]
    command = shlex.join(str(word) for word in words if word is not None)
    parts = [
        named,
        " ".join(filter(None, [command, redact(str(raw.get("url", "")), ())])),
        *(f"{key} {_names(raw[key])}" for key in ("env", "headers") if raw.get(key)),
        *(f"{key} {json.dumps(raw[key])}" for key in _SHOWN_KEYS if raw.get(key)),
    ]
    return "; ".join(map(_show, filter(None, parts))) or "(nothing)"


def _names(values: object) -> str:
    """Returns the names of variables or headers; the values may be secret."""
    return ", ".join(
        f"{each} (can run code)" if re.fullmatch(_RUNS_CODE, each) else each
        for each in as_object(values)
    )


def writable_by_others(path: Path) -> str:
    """Returns which other users could write a file; empty for none, or if that is unknown."""
    try:
        return _flaw(path.stat())
    except OSError:
        return ""


def _flaw(status: os.stat_result, folder: Path | None = None) -> str:
    """Returns which users beside this one and root could write a file or replace it in a folder."""
    if not hasattr(os, "geteuid"):
        return ""
    what = f"its directory {folder}" if folder else "it"
    if status.st_uid not in {0, os.geteuid()}:
        return f"{what} belongs to the user {_owners(status)[0]}"
    if folder and status.st_mode & stat.S_ISVTX:  # as /tmp: only owners replace their files
        return ""
    if status.st_mode & stat.S_IWOTH:
        return f"{what} can be written by every user (chmod o-w)"
    if status.st_mode & stat.S_IWGRP and status.st_gid:
        _, group, is_private = _owners(status)
        return "" if is_private else f"{what} can be written by the group {group} (chmod g-w)"
    return ""


def _owners(status: os.stat_result) -> tuple[str, str, bool]:
    """Returns a file's user, its group, and whether the user is the group's only member.

    Linux makes such a group for each user.
    """
    import grp  # noqa: PLC0415 - not on Windows, and seldom needed
    import pwd  # noqa: PLC0415 - the same

    try:
        user, group = pwd.getpwuid(status.st_uid).pw_name, grp.getgrgid(status.st_gid)
    except KeyError:
        return str(status.st_uid), str(status.st_gid), False
    return user, group.gr_name, user == group.gr_name and set(group.gr_mem) <= {user}


def _read_decision(path: Path) -> Decision | None:
    """Returns a decision; None if it cannot be read or another user could have written it."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if _flaw(status) or (os.name == "posix" and status.st_mode & 0o077):
                return None
            decision = msgspec.json.decode(file.read(), type=Decision)
            return decision if decision.version == _VERSION else None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _digests(servers: Mapping[str, Any]) -> dict[str, str]:
    return {
        encodable(name): hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
        for name, entry in servers.items()
    }


def _show(text: str) -> str:
    """Returns a part of an entry on one line: a long one without its middle."""
    shown, half = printable(encodable(text)), _MAX_SHOWN_CHARS // 2
    return shown if len(shown) <= 2 * half else f"{shown[:half]} … {shown[-half:]}"
