"""The accepted definitions of every tool: a changed one is held until a person approves it.

The first definition that a server lists is accepted (trust on first use), unless new tools are
to be reviewed. There is one file per server. It is written before its tools can be found or
called, and a second file elsewhere remembers that there was one: a lost or damaged file means
that all tools of its server are held, and never that all are new.
"""

import hashlib
import logging
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from toolscript.gateway.definitions.normal_form import (
    Definition,
    digest_of,
    kept_words,
    launch_of,
    normal_form,
    text_of,
)
from toolscript.storage.atomic_files import (
    file_name,
    locked,
    make_private,
    write_atomically,
    write_failure,
)
from toolscript.types import ServerSpec, ToolSpec, Trust

log = logging.getLogger(__name__)
VERSION = 1
RECENT = timedelta(hours=24)
"""For how long a tool that no person has approved is called new, or changed."""
MAX_PINS = 40_000
"""Of one server, those of tools that it no longer lists included; further new tools are held."""
MIN_KEPT_WORDS = 0.8
"""A new tool with such a share of a vanished tool's words is that tool under another name."""
MIN_SIMILARITY = 0.9
"""The same for the cosine of the vectors of both texts, with `MIN_KEPT_BESIDE` of the words."""
MIN_KEPT_BESIDE = 0.4

AcceptedBy: TypeAlias = Literal["first sight", "autoApprove", "person"]
HoldReason: TypeAlias = Literal["changed", "renamed", "new", "server", "lost"]
Similarity: TypeAlias = Callable[[Sequence[str]], Sequence[float]]
"""Returns the cosine of the first text with each of the others; nothing without a model."""


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that was accepted."""

    definition: Definition
    launch: str
    """How its server was started or reached then."""
    accepted_by: AcceptedBy
    since: str
    """When: ISO 8601, UTC."""
    is_change: bool = False
    """Whether another definition was accepted before it."""
    rejected: str = ""
    """The digest of the definition that a person has rejected."""


class HeldTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that is neither found nor callable until its definition is approved."""

    tool: ToolSpec
    reason: HoldReason
    before: Definition | None = None
    """The definition that was accepted; of a renamed tool, under its former name."""
    launch_before: str = ""
    launch: str = ""
    """How the server was started or reached then, and is now, where that has changed."""
    rejected: bool = False
    """Whether a person has rejected this definition."""

    @property
    def why(self) -> str:
        """One clause that says why it is held."""
        former = str((self.before or {}).get("name", ""))
        return {
            "changed": "its definition has changed since it was accepted",
            "renamed": f"it is nearly the same as {former!r}, which its server no longer lists",
            "new": "it is new, and new tools are reviewed",
            "server": "its server's command or address has changed since it was accepted",
            "lost": "what was accepted of its server is lost or damaged",
        }[self.reason] + (", and was rejected" if self.rejected else "")


def held_message(held: HeldTool) -> str:
    """Returns what a caller of a held tool is told."""
    return f"{held.tool.id} is held: {held.why}; its owner approves it with: toolscript review"


class RecentChange(msgspec.Struct, frozen=True):
    """That a tool is new, or has changed, and when; no person has approved it."""

    kind: Literal["new", "changed"]
    since: str


class Reviewed(msgspec.Struct, frozen=True):
    """A server's tools after the comparison with what was accepted."""

    accepted: tuple[ToolSpec, ...]
    held: tuple[HeldTool, ...]
    recent: dict[str, RecentChange]
    """By the names of accepted tools."""


def trust_of(change: RecentChange | None) -> Trust:
    """Returns what a model is told of an accepted tool."""
    if change is None or datetime.now(UTC) - datetime.fromisoformat(change.since) > RECENT:
        return "pinned"
    return change.kind


class _PinFile(msgspec.Struct, frozen=True):
    version: int
    server: str
    lost: bool
    """Whether an earlier file was lost: then no tool is accepted at first sight."""
    pins: dict[str, Pin]


class _Sealed(msgspec.Struct, frozen=True):
    """What stands in a file: a `_PinFile`, and the SHA-256 of its bytes."""

    sha256: str
    content: msgspec.Raw


class DefinitionPins:
    """The pins of one configuration's servers. Any thread and any process may call.

    Args:
        data_dir: The data directory.
        config_key: The key of the configuration.
        review_new: Whether a person has to approve a tool that was never seen, too.
        similarity: Compares a new tool with those that have vanished.
    """

    def __init__(
        self,
        data_dir: Path,
        config_key: str,
        *,
        review_new: bool = False,
        similarity: Similarity = lambda _: (),
    ) -> None:
        self._folder = data_dir / "pins" / config_key
        self._markers = data_dir / "run" / f"pins-{config_key}"
        self._review_new = review_new
        self._similarity = similarity
        self._lock = threading.Lock()
        self._warned: set[str] = set()
        self._unsaved: dict[str, _PinFile] = {}
        """What could not be stored, by server: it counts for as long as this process runs."""

    def review(self, spec: ServerSpec, tools: Sequence[ToolSpec]) -> Reviewed:
        """Returns which of a server's tools are accepted and which are held.

        What is accepted for the first time is on the disk when this returns. Where nothing can be
        stored it counts in this process alone, which is logged.
        """
        with self._locked(spec.name):
            file = self._read(spec.name)
            review = _Review(spec, file or _empty(spec.name), tools, self._similarity)
            is_lost = file is not None and file.lost
            reviewed = review.run(trusts_new=not (self._review_new or is_lost))
            if file is None or review.pins != file.pins:
                self._keep(msgspec.structs.replace(file or _empty(spec.name), pins=review.pins))
            elif not is_lost:  # a kill may have come between file and marker
                with suppress(OSError):
                    self._mark(spec.name)
        return reviewed

    def approve(self, spec: ServerSpec, held: Iterable[HeldTool], *, whole: bool) -> None:
        """Accepts the definitions of held tools; ``whole`` says that these are all that are held.

        Raises `OSError` where that cannot be stored.
        """
        with self._locked(spec.name):
            file = self._read(spec.name) or _empty(spec.name)
            pins = dict(file.pins)
            for each in held:
                if each.reason == "renamed" and each.before:
                    pins.pop(str(each.before["name"]), None)
                pins[each.tool.name] = Pin(
                    definition=normal_form(each.tool),
                    launch=launch_of(spec),
                    accepted_by="person",
                    since=_now(),
                    is_change=each.before is not None,
                )
            self._write(
                msgspec.structs.replace(file, pins=pins, lost=file.lost and not whole),
            )

    def reject(self, spec: ServerSpec, held: Iterable[HeldTool]) -> None:
        """Remembers that a person has seen these definitions and does not want them."""
        with self._locked(spec.name):
            file = self._read(spec.name) or _empty(spec.name)
            pins = dict(file.pins)
            for each in held:
                digest = digest_of(normal_form(each.tool))
                known = pins.get(each.tool.name) or Pin(
                    definition={}, launch="", accepted_by="person", since=_now()
                )
                pins[each.tool.name] = msgspec.structs.replace(known, rejected=digest)
            self._write(msgspec.structs.replace(file, pins=pins))

    @contextmanager
    def _locked(self, server: str) -> Generator[None]:
        """Keeps other processes and threads out, where there can be files."""
        with self._lock, ExitStack() as stack:
            with suppress(OSError):
                stack.enter_context(locked(self._path(server).with_suffix(".lock")))
            yield

    def _path(self, server: str) -> Path:
        return self._folder / f"{file_name(server)}.json"

    def _marker(self, server: str) -> Path:
        return self._markers / file_name(server)

    def _read(self, server: str) -> _PinFile | None:
        """Returns what is stored of a server; None where it was never seen."""
        path = self._path(server)
        if server in self._unsaved:
            return self._unsaved[server]
        try:
            sealed = msgspec.json.decode(path.read_bytes(), type=_Sealed)
            file = msgspec.json.decode(sealed.content, type=_PinFile)
            if sealed.sha256 == _digest(sealed.content) and file.server == server:
                return file
            problem = "its content is not what was written"
        except (FileNotFoundError, NotADirectoryError):
            if not _exists(self._marker(server)):
                return None
            problem = "it is gone"
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            problem = str(error)
        level = logging.DEBUG if server in self._warned else logging.WARNING
        self._warned.add(server)
        log.log(
            level,
            "%s cannot be used (%s): every tool of %s is held; see: toolscript review",
            *(path, problem, server),
        )
        return _PinFile(VERSION, server, lost=True, pins={})

    def _keep(self, file: _PinFile) -> None:
        """Stores a file, or remembers it where that is impossible."""
        try:
            self._write(file)
        except OSError as error:
            self._unsaved[file.server] = file
            message = "what was accepted of %s cannot be stored: %s; it is forgotten at the end"
            log.warning(message, file.server, error, extra=write_failure(error))

    def _write(self, file: _PinFile) -> None:
        content = msgspec.Raw(msgspec.json.encode(file))
        sealed = msgspec.json.encode(_Sealed(_digest(content), content))
        write_atomically(self._path(file.server), sealed)
        self._unsaved.pop(file.server, None)
        self._mark(file.server)

    def _mark(self, server: str) -> None:
        marker = self._marker(server)
        if not _exists(marker):
            make_private(marker.parent)
            marker.touch(mode=0o600)


class _Review:
    """One comparison of a listing with a server's pins."""

    def __init__(
        self,
        spec: ServerSpec,
        file: _PinFile,
        tools: Sequence[ToolSpec],
        similarity: Similarity,
    ) -> None:
        self._spec = spec
        self._file = file
        self._tools = tools
        self._similarity = similarity
        self._launch = launch_of(spec)
        self.pins = dict(file.pins)
        """What is accepted after `run`."""

    def run(self, *, trusts_new: bool) -> Reviewed:
        """Compare each tool."""
        accepted: list[ToolSpec] = []
        held: list[HeldTool] = []
        listed = {tool.name for tool in self._tools}
        vanished = [p for name, p in self.pins.items() if name not in listed and p.definition]
        is_other_launch = bool(self.pins) and all(
            pin.launch != self._launch for pin in self.pins.values() if pin.definition
        )
        for tool in self._tools:
            definition = normal_form(tool)
            reason, before = self._compared(tool, definition, vanished)
            if reason == "new":
                reason = "lost" if self._file.lost else "server" if is_other_launch else "new"
            by = None if reason is None else self._acceptance(tool, definition, reason, trusts_new)
            if by is not None:
                self._accept(tool.name, definition, by, is_change=reason != "new")
            if reason is None or by is not None:
                accepted.append(tool)
            else:
                held.append(self._held(tool, definition, reason, before))
        return Reviewed(tuple(accepted), tuple(held), self._recent(accepted))

    def _acceptance(
        self,
        tool: ToolSpec,
        definition: Definition,
        reason: HoldReason,
        trusts_new: bool,  # noqa: FBT001 - the one policy
    ) -> AcceptedBy | None:
        """Returns what accepts a definition without a person; None where nothing does."""
        if reason == "lost" or self._is_rejected(tool.name, definition):
            return None
        if self._spec.auto_approve:
            return "autoApprove"
        return (
            "first sight" if reason == "new" and trusts_new and len(self.pins) < MAX_PINS else None
        )

    def _is_rejected(self, name: str, definition: Definition) -> bool:
        pin = self.pins.get(name)
        return pin is not None and pin.rejected == digest_of(definition)

    def _compared(
        self, tool: ToolSpec, definition: Definition, vanished: Collection[Pin]
    ) -> tuple[HoldReason | None, Definition | None]:
        """Returns why a tool is not accepted as it is, and the definition that was."""
        pin = self.pins.get(tool.name)
        if pin is None or not pin.definition:
            former = self._former(definition, vanished)
            return ("renamed", former) if former else ("new", None)
        if pin.launch != self._launch:
            return "server", pin.definition
        return (None if pin.definition == definition else "changed"), pin.definition

    def _former(self, definition: Definition, vanished: Collection[Pin]) -> Definition | None:
        """Returns the definition of a vanished tool that this one is nearly the same as."""
        if not vanished:
            return None
        text = text_of(definition)
        others = [text_of(pin.definition) for pin in vanished]
        kept = [kept_words(other, text) for other in others]
        cosines = self._similarity([text, *others]) if max(kept) < MIN_KEPT_WORDS else ()
        for number, pin in enumerate(vanished):
            near = cosines[number] if cosines else 0.0
            alike = near >= MIN_SIMILARITY and kept[number] >= MIN_KEPT_BESIDE
            if kept[number] >= MIN_KEPT_WORDS or alike:
                return pin.definition
        return None

    def _accept(
        self, name: str, definition: Definition, by: AcceptedBy, *, is_change: bool = False
    ) -> None:
        self.pins[name] = Pin(
            definition=definition,
            launch=self._launch,
            accepted_by=by,
            since=_now(),
            is_change=is_change,
        )

    def _held(
        self,
        tool: ToolSpec,
        definition: Definition,
        reason: HoldReason,
        before: Definition | None,
    ) -> HeldTool:
        pin = self.pins.get(tool.name)
        launches = {pin.launch for pin in self.pins.values() if pin.launch}
        former = (pin.launch if pin else "") or min(launches, default="")
        is_server = reason == "server"
        return HeldTool(
            tool=tool,
            reason=reason,
            before=before,
            launch_before=former if is_server else "",
            launch=self._launch if is_server else "",
            rejected=self._is_rejected(tool.name, definition),
        )

    def _recent(self, accepted: Iterable[ToolSpec]) -> dict[str, RecentChange]:
        limit = datetime.now(UTC) - RECENT
        recent: dict[str, RecentChange] = {}
        for tool in accepted:
            pin = self.pins[tool.name]
            if pin.accepted_by != "person" and datetime.fromisoformat(pin.since) > limit:
                kind = "changed" if pin.is_change else "new"
                recent[tool.name] = RecentChange(kind, pin.since)
        return recent


def _empty(server: str) -> _PinFile:
    return _PinFile(VERSION, server, lost=False, pins={})


def _digest(content: msgspec.Raw) -> str:
    return hashlib.sha256(content).hexdigest()


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
