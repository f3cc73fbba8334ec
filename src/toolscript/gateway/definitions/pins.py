"""The accepted definitions of every tool: a changed one is held until a person approves it.

The first definition that a server lists is accepted (trust on first use), unless new tools are
to be reviewed. There is one file per server. It is written before its tools can be found or
called, and a second file elsewhere remembers that there was one: a lost or damaged file means
that all tools of its server are held, and never that all are new.
"""

import hashlib
import logging
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from toolscript.gateway.definitions.comparison import (
    ChangePolicy,
    Comparison,
    HeldTool,
    Pin,
    Reviewed,
    Version,
    launch_of,
    pin_of,
)
from toolscript.gateway.definitions.normal_form import normal_form
from toolscript.storage.atomic_files import (
    file_name,
    storing_decision,
    write_failure,
)
from toolscript.storage.base import LostRecordError, Records
from toolscript.storage.file_records import FileRecords
from toolscript.text.timestamps import utc_timestamp
from toolscript.types import ServerSpec, ToolSpec, sha256_of

log = logging.getLogger(__name__)
VERSION = 1


class _PinFile(msgspec.Struct, frozen=True):
    version: int
    server: str
    lost: bool
    """Whether an earlier file was lost: then no tool is accepted at first sight."""
    pins: dict[str, Pin]


class _Sealed(msgspec.Struct, frozen=True):
    """The content of a file: a `_PinFile`, and the SHA-256 of its bytes."""

    sha256: str
    content: msgspec.Raw


def pin_files(data_dir: Path, config_key: str) -> FileRecords:
    """Returns the files of a configuration's pins, and the marks that there were some."""
    markers = data_dir / "run" / f"pins-{config_key}"
    return FileRecords(data_dir / "pins" / config_key, marker=markers.joinpath)


class DefinitionPins:
    """The pins of one configuration's servers. Any thread and any process may call.

    Args:
        data_dir: The data directory.
        config_key: The key of the configuration.
        policy: The use of tools that have changed.
        records: The storage of the pins instead of the data directory.
    """

    def __init__(
        self,
        data_dir: Path,
        config_key: str,
        policy: ChangePolicy = "hold",
        *,
        records: Records | None = None,
    ) -> None:
        self._records: Records = records or pin_files(data_dir, config_key)
        self._policy: ChangePolicy = policy
        self._lock = threading.Lock()
        self._warned: set[str] = set()
        self._unsaved: dict[str, _PinFile] = {}
        """Pins that could not be stored, by server: they count for as long as this process runs."""

    def review(self, spec: ServerSpec, tools: Sequence[ToolSpec]) -> Reviewed:
        """Returns which of a server's tools are accepted and which are held.

        A first acceptance is on the disk when this returns. If nothing can be
        stored it counts in this process alone, which is logged.
        """
        reviewed: Reviewed | None = None
        kept: _PinFile | None = None
        try:
            with self._locked(spec.name):
                reviewed, kept = self._review(spec, tools)
                if kept is not None:
                    self._write(kept)
        except OSError as error:  # perhaps of the end of the lock, which stores it
            if reviewed is None:
                raise
            if kept is not None:
                self._unsaved[spec.name] = kept
                message = "what was accepted of %s cannot be stored: %s; it is forgotten at the end"
                log.warning(message, spec.name, error, extra=write_failure(error))
        return reviewed

    def _review(
        self, spec: ServerSpec, tools: Sequence[ToolSpec]
    ) -> tuple[Reviewed, _PinFile | None]:
        """Returns the accepted and held tools, and the record to store; None for the stored one."""
        file = self._read(spec.name)
        review = Comparison(
            spec,
            file.pins if file else {},
            self._policy,
            is_lost=file is not None and file.lost,
            tools=tools,
        )
        reviewed = review.run()
        is_same = file is not None and review.pins == file.pins
        if is_same and spec.name not in self._unsaved:
            return reviewed, None
        return reviewed, msgspec.structs.replace(file or _empty(spec.name), pins=review.pins)

    def approve(
        self, spec: ServerSpec, held: Iterable[HeldTool], *, left: Sequence[HeldTool]
    ) -> None:
        """Accepts the definitions of held tools. Those that are ``left`` stay held.

        Raises `DecisionStorageError`.
        """
        with storing_decision(), self._locked(spec.name):
            file = self._read(spec.name) or _empty(spec.name)
            pins = dict(file.pins)
            for each in held:
                former, definition = pins.get(each.tool.name), normal_form(each.tool)
                first = former.accepted_since if former else ""  # no one's under another name
                if each.reason == "renamed" and each.before:
                    former = pins.pop(str(each.before["name"]), None)
                is_change = each.before is not None
                pin = pin_of(definition, launch_of(spec), "person", former, is_change=is_change)
                pins[each.tool.name] = msgspec.structs.replace(pin, first=first)
            for each in left:  # else they could be trusted as new ones, now that the server is
                pins.setdefault(each.tool.name, _never_accepted(is_held=True))
            self._write(
                msgspec.structs.replace(file, pins=pins, lost=file.lost and bool(left)),
            )

    def reject(self, spec: ServerSpec, held: Iterable[HeldTool]) -> None:
        """Remembers that a person has seen these definitions and does not want them.

        Raises `DecisionStorageError`.
        """
        with storing_decision(), self._locked(spec.name):
            file = self._read(spec.name) or _empty(spec.name)
            pins = dict(file.pins)
            for each in held:
                digest = sha256_of(normal_form(each.tool))
                known = pins.get(each.tool.name) or _never_accepted()
                pins[each.tool.name] = msgspec.structs.replace(known, rejected=digest)
            self._write(msgspec.structs.replace(file, pins=pins))

    def versions(self, tool: ToolSpec) -> tuple[Version, ...]:
        """Returns the definitions of a tool that were accepted, the newest last. Blocks."""
        with self._locked(tool.server):
            file = self._read(tool.server)
        pin = file.pins.get(tool.name) if file else None
        return pin.versions if pin and pin.definition else ()

    @contextmanager
    def _locked(self, server: str) -> Generator[None]:
        """Keeps other processes and threads out, if there can be records."""
        with self._lock, ExitStack() as stack:
            with suppress(OSError):
                stack.enter_context(self._records.locked(file_name(server)))
            yield

    def _read(self, server: str) -> _PinFile | None:
        """Returns the record of a server; None if the server was never seen.

        Unsaved pins count if no other process has stored anything since.
        """
        unsaved = self._unsaved.get(server)
        try:
            content = self._records.read(file_name(server))
            if content is None:
                return unsaved
            sealed = msgspec.json.decode(content, type=_Sealed)
            file = msgspec.json.decode(sealed.content, type=_PinFile)
            if sealed.sha256 == _digest(sealed.content) and file.server == server:
                if unsaved is None:
                    return file
                return msgspec.structs.replace(file, pins={**unsaved.pins, **file.pins})
            problem = "its content is not what was written"
        except LostRecordError:
            problem = "it is gone"
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            problem = str(error)
        if unsaved is not None:
            return unsaved
        level = logging.DEBUG if server in self._warned else logging.WARNING
        self._warned.add(server)
        log.log(
            level,
            "the record of accepted definitions cannot be used (%s): "
            "every tool of %s is held; see: toolscript review",
            *(problem, server),
        )
        return _PinFile(VERSION, server, lost=True, pins={})

    def _write(self, file: _PinFile) -> None:
        content = msgspec.Raw(msgspec.json.encode(file))
        sealed = msgspec.json.encode(_Sealed(_digest(content), content))
        self._records.write(file_name(file.server), sealed)
        self._unsaved.pop(file.server, None)


def _never_accepted(*, is_held: bool = False) -> Pin:
    since = utc_timestamp()
    return Pin(definition={}, launch="", accepted_by="person", since=since, is_held=is_held)


def _empty(server: str) -> _PinFile:
    return _PinFile(VERSION, server, lost=False, pins={})


def _digest(content: msgspec.Raw) -> str:
    return hashlib.sha256(content).hexdigest()
