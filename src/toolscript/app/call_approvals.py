"""Asks a person whether a call may be made, and remembers the answers.

A caller whose user can be asked is asked there; the answer of anybody but the owner counts once.
Any other call waits until the owner answers among the pending calls. No answer, a wrong one and an
error all mean no.
"""

import logging
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import anyio
import anyio.to_thread
import msgspec
from msgspec import Meta

from toolscript.app.argument_display import shown_arguments
from toolscript.errors import DeniedError, InputError, UnknownNameError, UpstreamError
from toolscript.gateway.base import Caller
from toolscript.gateway.definitions.normal_form import definition_digest
from toolscript.storage.atomic_files import storing_decision
from toolscript.storage.base import Records
from toolscript.text.display import printable
from toolscript.text.json_values import as_object
from toolscript.text.timestamps import utc_timestamp
from toolscript.text.wire_constants import ANSWERS, PersonsAnswer
from toolscript.types import EVERYTHING, TOOL_CLASSES, ClassSource, ToolClass, ToolSpec

log = logging.getLogger(__name__)
_ONCE: tuple[PersonsAnswer, ...] = ("once", "no")
_TITLES = {
    "once": "Once",
    "session": "For this session",
    "server": "For this session, with every tool of the server that does no more",
    "always": "Always",
    "no": "No",
}
MAX_PENDING, MAX_PENDING_OF_OTHERS = 200, 20
"""Calls of the owner, and of any other holder, that wait at a time; a further one is denied."""
_MAX_SESSION_ANSWERS = 10_000
OWNER = EVERYTHING.holder
_VERSION = 1
_NAME = "answers"
"""The name of the record that stores the answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """A call that a person is asked about."""

    tool: ToolSpec
    arguments: object
    """The arguments, which the person sees."""
    caller: Caller
    """Its user is asked, if it has one that can be."""
    holder: str
    """Who calls: a token's id, ``owner`` or ``anyone``."""
    session: str
    """The caller's session; empty for a call by itself."""
    why: str
    """Which rule asks."""
    secrets: tuple[str, ...]
    """Texts that must not be shown."""


class PendingApproval(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A call that waits for its owner's answer."""

    id: str
    tool_id: str
    server: Annotated[str, Meta(description="Whose tool it is.")]
    tool_class: ToolClass
    class_source: Annotated[ClassSource, Meta(description="Who says of which class it is.")]
    holder: Annotated[str, Meta(description="Who calls: a token's id, owner or anyone.")]
    arguments: Annotated[
        str, Meta(description="As JSON, without known secrets, each long value cut by itself.")
    ]
    answers: Annotated[
        tuple[PersonsAnswer, ...],
        Meta(description="The answers that count: once and no, if something was cut."),
    ]
    since: str
    why: Annotated[str, Meta(description="Which rule asks.")]


class RememberedAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A call that a person has allowed for always."""

    id: str
    tool_id: str
    holder: Annotated[str, Meta(description="Whose calls are allowed.")]
    since: str
    digest: Annotated[
        str, Meta(description="Stands for the definition that was asked about; no other is.")
    ] = ""
    tool_class: ToolClass | None = None

    def allows(self, tool: ToolSpec, holder: str) -> bool:
        """Whether a holder may call a tool as it is defined now."""
        about = (tool.id, holder, tool.tool_class)
        is_about = (self.tool_id, self.holder, self.tool_class) == about
        return is_about and self.digest == definition_digest(tool)


class _AnswerFile(msgspec.Struct, frozen=True):
    version: int
    answers: tuple[RememberedAnswer, ...]


class RememberedAnswers:
    """The answers that count for always, in one record. One that cannot be read allows nothing.

    Args:
        records: Where the answers are.
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    def all(self) -> tuple[RememberedAnswer, ...]:
        """Returns every answer, the oldest first."""
        try:
            content = self._records.read(_NAME)
            return () if content is None else msgspec.json.decode(content, type=_AnswerFile).answers
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            log.warning("the answers for always cannot be read (%s): none counts", error)
            return ()

    def add(self, tool: ToolSpec, holder: str) -> None:
        """Stores that a holder may call a tool as it is defined now; raises `OSError`."""
        with self._records.locked(_NAME):
            kept = [each for each in self.all() if (each.tool_id, each.holder) != (tool.id, holder)]
            made = RememberedAnswer(
                id=secrets.token_hex(4),
                tool_id=tool.id,
                holder=holder,
                since=utc_timestamp(),
                digest=definition_digest(tool),
                tool_class=tool.tool_class,
            )
            self._write((*kept, made))

    def revoke(self, identifier: str) -> RememberedAnswer:
        """Deletes an answer and returns it.

        Raises `UnknownNameError` and `DecisionStorageError`.
        """
        with storing_decision(), self._records.locked(_NAME):
            answers = self.all()
            found = next((each for each in answers if each.id == identifier), None)
            if found is None:
                known = ", ".join(each.id for each in answers) or "none"
                shown = printable(identifier, 40)
                raise UnknownNameError(f"no answer has the id {shown!r}; there are: {known}")
            self._write(tuple(each for each in answers if each is not found))
        return found

    def _write(self, answers: tuple[RememberedAnswer, ...]) -> None:
        self._records.write(_NAME, msgspec.json.encode(_AnswerFile(_VERSION, answers)))


@dataclass(eq=False)
class _Waiting:
    shown: PendingApproval
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: PersonsAnswer = "no"


class Approvals:
    """Asks about the calls of one application.

    Args:
        remembered: The answers that count for always.
        timeout_s: How long a person has to answer.
    """

    def __init__(self, remembered: RememberedAnswers, timeout_s: float) -> None:
        self.remembered = remembered
        self._timeout_s = timeout_s
        self._pending: dict[str, _Waiting] = {}
        self._sessions: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        """Holder, session and subject of an answer: a definition with its class, or the tools of
        a server up to a class."""

    @property
    def pending(self) -> list[PendingApproval]:
        """The calls that wait for an answer, the oldest first."""
        return [each.shown for each in self._pending.values()]

    def answer(self, identifier: str, answer: PersonsAnswer) -> PendingApproval:
        """Answers a call that waits, and returns it.

        Raises `UnknownNameError`, and `InputError` for an answer that does not count here.
        """
        waiting = self._pending.get(identifier)
        if waiting is None:
            known = ", ".join(self._pending) or "none"
            shown = printable(identifier, 40)
            raise UnknownNameError(f"no call {shown!r} waits for an answer; there are: {known}")
        if answer not in waiting.shown.answers:
            raise InputError(
                f"{answer} does not count, since some of the arguments are not shown; "
                f"answer with: {' or '.join(waiting.shown.answers)}"
            )
        del self._pending[identifier]
        waiting.answer = answer
        waiting.answered.set()
        return waiting.shown

    def end_session(self, session: str) -> None:
        """Forgets the answers for a session."""
        for key in [key for key in self._sessions if key[1] == session]:
            del self._sessions[key]

    async def ask(self, call: CallRequest) -> None:
        """Returns once a person has allowed a call; raises `DeniedError` for any other answer."""
        tool, holder = call.tool, call.holder
        if self._is_allowed_in_session(call):
            return
        remembered = await anyio.to_thread.run_sync(self.remembered.all)
        if any(answer.allows(tool, holder) for answer in remembered):
            return
        may_ask, shown = call.caller.may_be_asked, _pending(call)
        answer = await (self._elicit(shown, call.caller) if may_ask else self._wait(shown))
        if answer in {"session", "server"} and call.session:
            self._allow_in_session(call, answer)
        elif answer == "always":
            await self._remember(tool, holder)
        elif answer == "no":
            ending = (
                "its user did not allow this call; whoever wants no question makes the rule "
                f'"{tool.id}": "allow" (see: toolscript permissions)'
                if may_ask
                else f"nobody allowed this call in {self._timeout_s:g} s; the owner can answer "
                "with: toolscript review"
                if self._timeout_s
                else "nobody can be asked without a gateway; start one: toolscript gateway start"
            )
            raise DeniedError(f"{tool.id} was not allowed: {call.why}, and {ending}")

    def _is_allowed_in_session(self, call: CallRequest) -> bool:
        tool = call.tool
        most = TOOL_CLASSES[TOOL_CLASSES.index(tool.tool_class) :]
        allowed = (_definition(tool), *(f"{tool_class} {tool.server}" for tool_class in most))
        return bool(call.session) and any(
            (call.holder, call.session, subject) in self._sessions for subject in allowed
        )

    def _allow_in_session(self, call: CallRequest, answer: PersonsAnswer) -> None:
        tool = call.tool
        of_server = f"{tool.tool_class} {tool.server}"
        subject = _definition(tool) if answer == "session" else of_server
        self._sessions[call.holder, call.session, subject] = None
        if len(self._sessions) > _MAX_SESSION_ANSWERS:
            self._sessions.popitem(last=False)

    async def _remember(self, tool: ToolSpec, holder: str) -> None:
        try:
            await anyio.to_thread.run_sync(self.remembered.add, tool, holder)
        except OSError as error:
            log.warning("an answer for always counts once, as it cannot be stored: %s", error)

    async def _elicit(self, shown: PendingApproval, caller: Caller) -> PersonsAnswer:
        """Returns the answer of the caller's user."""
        params = {
            "mode": "form",
            "message": _question(shown),
            "requestedSchema": _schema(shown.answers),
        }
        answer: dict[str, Any] = {}
        with anyio.move_on_after(self._timeout_s):
            try:
                answer = await caller.elicit("elicitation/create", params)
            except UpstreamError as error:
                raise DeniedError(
                    f"{shown.tool_id} was not allowed: {shown.why}, and the question was not "
                    f"answered: {error}"
                ) from None
        given = as_object(answer.get("content")).get("allow")
        is_valid = answer.get("action") == "accept" and given in shown.answers
        return cast("PersonsAnswer", given) if is_valid else "no"

    async def _wait(self, shown: PendingApproval) -> PersonsAnswer:
        """Returns the owner's answer among the pending calls."""
        most = MAX_PENDING if shown.holder == OWNER else MAX_PENDING_OF_OTHERS
        if sum(each.shown.holder == shown.holder for each in self._pending.values()) >= most:
            raise DeniedError(
                f"{shown.tool_id} was not allowed: {shown.why}, and {most} calls of this caller "
                "wait for an answer already"
            )
        waiting = self._pending[shown.id] = _Waiting(shown)
        try:
            with anyio.move_on_after(self._timeout_s):
                await waiting.answered.wait()
        finally:
            self._pending.pop(shown.id, None)
        return waiting.answer


def _pending(call: CallRequest) -> PendingApproval:
    """Returns a call as it is shown; if something of it is cut, it can be allowed once only."""
    text, is_cut = shown_arguments(call.arguments, call.secrets)
    if is_cut:
        text += " (not all is shown, so this call can be allowed once only)"
    is_final = is_cut or (call.caller.may_be_asked and call.holder != OWNER)
    return PendingApproval(
        id=secrets.token_hex(4),
        tool_id=call.tool.id,
        server=call.tool.server,
        tool_class=call.tool.tool_class,
        class_source=call.tool.class_source,
        holder=call.holder,
        arguments=text,
        answers=_ONCE if is_final else ANSWERS,
        since=utc_timestamp(),
        why=call.why,
    )


def _definition(tool: ToolSpec) -> str:
    """Returns a key for a tool's definition with its class."""
    return f"{definition_digest(tool)} {tool.tool_class}"


def _schema(answers: tuple[PersonsAnswer, ...]) -> dict[str, Any]:
    """Returns the form that a client shows its user."""
    allow = {
        "type": "string",
        "title": "Allow this call?",
        "enum": list(answers),
        "enumNames": [_TITLES[each] for each in answers],
    }
    return {"type": "object", "properties": {"allow": allow}, "required": ["allow"]}


def _question(shown: PendingApproval) -> str:
    effect = {
        "read": "only reads",
        "write": "changes something, and destroys nothing",
        "destructive": "may change or destroy something",
    }[shown.tool_class]
    judgement = {
        "config": f"The configuration says that it {effect}.",
        "server": f"Its server says that it {effect}.",
        "guess": f"By its name it {effect}; its server does not say.",
    }[shown.class_source]
    name = printable(shown.tool_id, 200)
    return f"toolscript asks: may {name} be called? {judgement} Arguments: {shown.arguments}"
