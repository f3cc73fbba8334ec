"""Compares a server's tools with the accepted ones: each is accepted, or held and why."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from toolscript.gateway.definitions.normal_form import (
    DIGEST_CHARS,
    Definition,
    in_order,
    normal_form,
    words_of,
)
from toolscript.gateway.definitions.wordless_changes import adds_words
from toolscript.text.redaction import redact
from toolscript.text.timestamps import utc_timestamp
from toolscript.types import (
    WEAK_CONFIDENCE,
    SearchResult,
    ServerSpec,
    ToolClass,
    ToolSpec,
    Trust,
    sha256_of,
)

RECENT = timedelta(hours=24)
"""For how long a tool that no person has approved is called new, or changed."""
MAX_COMPARED = 1_000_000
"""If a listing has more pairs of a new and a vanished tool, its new tools are held unseen."""
NEAR = 0.1
"""A held tool is reported if its score is less than this below the best result's."""
MAX_EARLIER = 5
"""Earlier definitions of a tool that are kept."""
MAX_PINS = 40_000
"""The maximum number of pins of one server, old ones included; further new tools are held."""
MIN_KEPT_WORDS = 0.8
"""A new tool with such a share of a vanished tool's words is that tool under another name.

Added words do not count: a long addition does not hide the origin of a text.
"""
MIN_WORDS = 4
"""Texts with fewer words are alike by chance."""

ChangePolicy: TypeAlias = Literal["hold", "note", "trust", "review"]
"""The use of tools that have changed: hold those with new words, use all of them and say so, or
without a word; ``review`` holds every one, and new tools as well."""
AcceptedBy: TypeAlias = Literal["first sight", "no new words", "setting", "autoApprove", "person"]
HoldReason: TypeAlias = Literal["changed", "renamed", "new", "server", "lost", "withdrawn"]


def launch_of(spec: ServerSpec) -> str:
    """Returns how a server is started or reached, without secrets: a change is another server."""
    return " ".join(redact(part, spec.secrets) for part in spec.launch if part)


class Version(msgspec.Struct, frozen=True):
    """A definition of a tool, and how it was accepted."""

    definition: Definition
    accepted_by: AcceptedBy
    since: str
    """When: ISO 8601, UTC."""


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
    is_held: bool = False
    """Whether a person has approved others and not this one, which was never accepted."""
    earlier: tuple[Version, ...] = ()
    """The definitions that were accepted before it, the oldest first; at most `MAX_EARLIER`."""
    first: str = ""
    """When the tool's first definition was accepted; empty if that was the oldest kept one."""

    @property
    def versions(self) -> tuple[Version, ...]:
        """All definitions that were accepted, as far as they are kept; this one is the last."""
        return (*self.earlier, Version(self.definition, self.accepted_by, self.since))

    @property
    def accepted_since(self) -> str:
        """When the tool was first accepted, whatever its definition was; empty if it never was."""
        return (self.first or self.versions[0].since) if self.definition else ""


def pin_of(
    definition: Definition, launch: str, by: AcceptedBy, former: Pin | None, *, is_change: bool
) -> Pin:
    """Returns the pin of a definition that is accepted now, with the versions of the former pin."""
    earlier: tuple[Version, ...] = ()
    if former is not None and former.definition:
        is_same = former.definition == definition
        earlier = former.earlier if is_same else former.versions[-MAX_EARLIER:]
    return Pin(
        definition=definition,
        launch=launch,
        accepted_by=by,
        since=utc_timestamp(),
        is_change=is_change,
        earlier=earlier,
        first=former.accepted_since if former else "",
    )


class HeldTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that is neither found nor callable until its definition is approved."""

    tool: ToolSpec
    reason: HoldReason
    before: Definition | None = None
    """The definition that was accepted; of a renamed tool, under its former name."""
    launch_before: str = ""
    launch: str = ""
    """How the server was started or reached then, and is now, if that has changed."""
    rejected: bool = False
    """Whether a person has rejected this definition."""

    @property
    def digest(self) -> str:
        """Stands for the reviewed facts: the definition, and how its server is started.

        Long enough that no server can make two definitions with the same one.
        """
        return sha256_of([normal_form(self.tool), self.launch])[:DIGEST_CHARS]

    @property
    def pinned(self) -> ToolSpec:
        """The tool with its accepted texts, or with its name alone."""
        tool, pinned = self.tool, self.before or {}
        title, about = pinned.get("title", ""), pinned.get("description", "")
        named = ToolSpec(server=tool.server, name=tool.name, title=title, description=about)
        return msgspec.structs.replace(named, input_schema=pinned.get("inputSchema", {}))

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
            "withdrawn": "its approval was taken back",
        }[self.reason] + (", and was rejected" if self.rejected and not self.is_withdrawn else "")

    @property
    def is_withdrawn(self) -> bool:
        """Whether it was accepted as it is, and then rejected."""
        return self.reason == "withdrawn"


def find_near_held(
    result: SearchResult, every: SearchResult, is_held: Callable[[str], bool]
) -> tuple[str, ...]:
    """Returns the server of each held tool that would be among the best results.

    Args:
        result: The result of a search.
        every: The result as it would be if nothing were held.
        is_held: Whether the id is one of those that a person may approve.
    """
    best = result.hits[0].score if result.hits else 0.0
    sure = [hit for hit in every.hits if hit.score >= WEAK_CONFIDENCE]
    near = [hit.document for hit in sure if hit.score > best - NEAR]
    return tuple(each.server for each in near if is_held(each.id))


def held_message(held: HeldTool) -> str:
    """Returns the message for a caller of a held tool."""
    decides = "its owner sees why, and approves it, with: toolscript review"
    return f"{held.tool.id} is held: {held.why}; {decides}"


class RecentChange(msgspec.Struct, frozen=True):
    """That a tool is new, or has changed, and when; no person has approved it."""

    kind: Literal["new", "changed"]
    since: str


class Reviewed(msgspec.Struct, frozen=True):
    """A server's tools after the comparison with the accepted ones."""

    accepted: tuple[ToolSpec, ...]
    held: tuple[HeldTool, ...]
    recent: dict[str, RecentChange]
    """Recent changes by the names of accepted tools."""
    first_accepted: dict[str, int]
    """When the tools that were ever accepted were so first, by name: Unix times."""


def trust_of(change: RecentChange | None) -> Trust:
    """Returns the trust in an accepted tool, as models are told."""
    if change is None or datetime.now(UTC) - datetime.fromisoformat(change.since) > RECENT:
        return "pinned"
    return change.kind


class _Vanished(NamedTuple):
    """A tool that its server does not list any more, as new ones are compared with it."""

    definition: Definition
    words: frozenset[str]


class Comparison:
    """One comparison of a listing with the accepted definitions of its server.

    Args:
        spec: The server.
        pins: The accepted definitions, by the tools' names.
        policy: The use of tools that have changed, unless the server's entry approves them.
        is_lost: Whether an earlier record of it was lost: then nothing is accepted.
        tools: The tools that the server lists.
    """

    def __init__(
        self,
        spec: ServerSpec,
        pins: Mapping[str, Pin],
        policy: ChangePolicy,
        *,
        is_lost: bool,
        tools: Sequence[ToolSpec],
    ) -> None:
        self._spec = spec
        self._is_lost = is_lost
        self._tools = tools
        self._policy = "note" if spec.auto_approve and policy != "trust" else policy
        self._trusts_new = policy != "review" and not is_lost
        self._launch = launch_of(spec)
        self._former_launch = min((pin.launch for pin in pins.values() if pin.launch), default="")
        self.pins = dict(pins)
        """The accepted definitions after `run`."""

    def run(self) -> Reviewed:
        """Compares each tool."""
        accepted: list[ToolSpec] = []
        held: list[HeldTool] = []
        vanished = self._find_vanished()
        reason_for_new = self._reason_for_new()
        for tool in self._tools:
            definition = normal_form(tool)
            reason, before = self._compare(tool, definition, vanished)
            reason = reason_for_new if reason == "new" else reason
            by = None if reason is None else self._acceptance(tool, definition, reason, before)
            if by is not None:
                former, is_change = self.pins.get(tool.name), reason != "new"
                self.pins[tool.name] = pin_of(
                    definition, self._launch, by, former, is_change=is_change
                )
            if reason is None or by is not None:
                accepted.append(tool)
            else:
                held.append(self._hold(tool, definition, reason, before))
        times = self._first_accepted()
        return Reviewed(tuple(accepted), tuple(held), self._recent(accepted), times)

    def _find_vanished(self) -> list[_Vanished]:
        """Returns the tools that are not listed any more; trusts no new one if they are many."""
        listed = {tool.name for tool in self._tools}
        vanished = [
            _Vanished(pin.definition, found)
            for name, pin in self.pins.items()
            if name not in listed and len(found := words_of(pin.definition)) >= MIN_WORDS
        ]
        if len(listed - self.pins.keys()) * len(vanished) > MAX_COMPARED:
            self._trusts_new = False
            return []
        return vanished

    def _reason_for_new(self) -> HoldReason:
        """Returns the reason why a tool that was never seen may be held."""
        if self._is_lost:
            return "lost"
        is_other_launch = bool(self.pins) and all(
            pin.launch != self._launch for pin in self.pins.values() if pin.definition
        )
        return "server" if is_other_launch else "new"

    def _acceptance(
        self,
        tool: ToolSpec,
        definition: Definition,
        reason: HoldReason,
        before: Definition | None,
    ) -> AcceptedBy | None:
        """Returns the reason to accept a definition without a person; None if there is none."""
        pin = self.pins.get(tool.name)
        if self._is_rejected(tool.name, definition):
            return None
        is_trusted = reason == "new" and self._trusts_new and not (pin and pin.is_held)
        if is_trusted and len(self.pins) < MAX_PINS:
            return "first sight"
        if self._policy == "trust" or (self._policy == "note" and reason != "lost"):
            return "autoApprove" if self._spec.auto_approve else "setting"
        is_wordless = (
            self._policy == "hold"
            and reason == "changed"
            and before is not None
            and not (pin and pin.rejected)
            and not adds_words(before, definition)
            and _own_class(tool, before) == _own_class(tool, definition)
        )
        return "no new words" if is_wordless else None

    def _is_rejected(self, name: str, definition: Definition) -> bool:
        pin = self.pins.get(name)
        return pin is not None and pin.rejected == sha256_of(definition)

    def _compare(
        self, tool: ToolSpec, definition: Definition, vanished: Sequence[_Vanished]
    ) -> tuple[HoldReason | None, Definition | None]:
        """Returns why a tool is not accepted as it is, and the definition that was."""
        pin = self.pins.get(tool.name)
        if pin is None or not pin.definition:
            former = self._former(definition, vanished)
            return ("renamed", former) if former else ("new", None)
        if pin.launch != self._launch:
            return "server", pin.definition
        # An older version's pin may not be in order.
        if definition not in (pin.definition, in_order(pin.definition)):
            return "changed", pin.definition
        return ("withdrawn" if self._is_rejected(tool.name, definition) else None), pin.definition

    def _former(self, definition: Definition, vanished: Sequence[_Vanished]) -> Definition | None:
        """Returns the definition of a vanished tool that this one is nearly the same as."""
        if not vanished:
            return None
        found = words_of(definition)
        kept = [len(former.words & found) / len(former.words) for former in vanished]
        most = max(kept)
        return vanished[kept.index(most)].definition if most >= MIN_KEPT_WORDS else None

    def _hold(
        self,
        tool: ToolSpec,
        definition: Definition,
        reason: HoldReason,
        before: Definition | None,
    ) -> HeldTool:
        pin = self.pins.get(tool.name)
        former = (pin.launch if pin else "") or self._former_launch
        is_server = reason == "server"
        return HeldTool(
            tool=tool,
            reason=reason,
            before=before,
            launch_before=former if is_server else "",
            launch=self._launch if is_server else "",
            rejected=self._is_rejected(tool.name, definition),
        )

    def _first_accepted(self) -> dict[str, int]:
        pins = ((tool.name, self.pins.get(tool.name)) for tool in self._tools)
        times = {name: pin.accepted_since for name, pin in pins if pin is not None}
        return {
            name: int(datetime.fromisoformat(time).timestamp())
            for name, time in times.items()
            if time
        }

    def _recent(self, accepted: Iterable[ToolSpec]) -> dict[str, RecentChange]:
        if self._policy == "trust":
            return {}
        pins = ((tool.name, self.pins[tool.name]) for tool in accepted)
        changes = (
            (name, RecentChange("changed" if pin.is_change else "new", pin.since))
            for name, pin in pins
            if pin.accepted_by != "person"
        )
        return {name: change for name, change in changes if trust_of(change) != "pinned"}


def _own_class(tool: ToolSpec, definition: Definition) -> ToolClass:
    """Returns the class that a tool's server, or its name, gives it by a definition."""
    return msgspec.structs.replace(
        tool,
        config_class=None,
        input_schema=definition.get("inputSchema", {}),
        annotations=definition.get("annotations"),
    ).tool_class
