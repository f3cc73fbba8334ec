"""Types of the requests and responses of the routes for approvals and permissions."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolscript.app.call_approvals import PendingApproval, RememberedAnswer
from toolscript.gateway.definitions.comparison import HoldReason
from toolscript.gateway.definitions.word_diff import Change
from toolscript.surfaces.http.field_types import Count, about
from toolscript.text.wire_constants import PersonsAnswer
from toolscript.types import Decision, ToolClass

MAX_TOOLS = 20_000
"""Tools about which one request may decide: as many as a server may have."""


class RuleAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rule about calls."""

    pattern: Annotated[str, about("Ids of tools.")]
    decision: Decision
    tool_class: Annotated[ToolClass | None, about("The class that it is about; null for all.")]
    origin: Annotated[str, about("Where it is written.")]


class PermissionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided about calls without asking anybody."""

    rules: list[RuleAnswer]
    profiles: dict[str, list[RuleAnswer]]
    selections: Annotated[
        dict[str, list[str]],
        about("By profile: the servers and tools, or patterns, that its callers find; else all."),
    ]
    remembered: Annotated[list[RememberedAnswer], about("What was allowed for always.")]
    outdated: Annotated[list[str], about("Ids of those whose tool has changed: they ask again.")]


class RevokedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer for always that does not count any more."""

    revoked: RememberedAnswer


class PendingCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that wait for an answer."""

    pending: list[PendingApproval]


class PendingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How a call that waited was answered."""

    call: PendingApproval
    answer: PersonsAnswer


class HeldAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool whose definition waits for approval."""

    tool_id: str
    server_name: str
    own_name: Annotated[
        str | UnsetType, about("If the configuration repairs it: what its server calls it.")
    ] = UNSET
    digest: Annotated[str, about("Stands for this definition in a decision about it.")]
    reason: HoldReason
    why: Annotated[str, about("The reason as a clause.")]
    rejected: Annotated[bool, about("Whether someone rejected this definition.")]
    launch_before: Annotated[str, about("How its server was started when it was accepted.")]
    launch: Annotated[str, about("How it is started now, where that has changed.")]
    changes: Annotated[list[Change], about("What differs from the definition accepted.")]


class ReviewAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tools that wait for approval, by id."""

    held: list[HeldAnswer]
    total_held: Count
    changed: Annotated[list[str], about("Ids of tools that have changed lately and are not held.")]


class ReviewDone(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided, by tools' ids."""

    approved: list[str]
    rejected: list[str]
    skipped: Annotated[list[str], about("Rejected tools of `approveServer`: they stay held.")]


class ReviewDecision(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """What is decided about tools that wait for approval, by their ids."""

    approve: Annotated[list[str], Meta(max_length=MAX_TOOLS)] = []
    reject: Annotated[list[str], Meta(max_length=MAX_TOOLS)] = []
    approve_server: Annotated[
        str | UnsetType, about("Approve the held tools of this server; not those you rejected.")
    ] = UNSET
    seen: Annotated[
        dict[str, str] | UnsetType,
        about(
            "The `digest` of each tool that was looked at, by the tool's id. Where one is another "
            "by now, nothing is decided."
        ),
    ] = UNSET


class CallDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a call that waits."""

    answer: PersonsAnswer


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """Which answer for always is taken back."""

    id: Annotated[str, about("See `GET /permissions`.")]
