"""A person's answer about a call: what counts as a yes, and what is remembered."""

import json
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from toolscript.app.argument_display import shown_arguments
from toolscript.app.call_approvals import (
    MAX_PENDING,
    MAX_PENDING_OF_OTHERS,
    Approvals,
    CallRequest,
    PersonsAnswer,
    RememberedAnswers,
)
from toolscript.errors import (
    DecisionStorageError,
    DeniedError,
    InputError,
    RefusedError,
    UnknownNameError,
)
from toolscript.gateway.base import SILENT_CALLER, Caller
from toolscript.storage.file_records import FileRecords
from toolscript.types import ToolSpec

PUSH = ToolSpec(server="git", name="push")


class Answering(Caller):
    """A caller whose user gives these answers, one after the other."""

    may_be_asked = True

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    async def elicit(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert method == "elicitation/create"
        self.asked.append(params)
        answer: Any = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer == "silence":
            await anyio.sleep_forever()
        return cast("dict[str, Any]", answer)


def accepting(answer: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"allow": answer}}


def request(  # noqa: PLR0913 - the parts of a call
    tool: ToolSpec,
    caller: Caller,
    *,
    session: str = "",
    holder: str = "owner",
    arguments: object = None,
    secrets: tuple[str, ...] = (),
) -> CallRequest:
    return CallRequest(
        tool=tool,
        arguments=arguments or {},
        caller=caller,
        holder=holder,
        session=session,
        why="a rule",
        secrets=secrets,
    )


def approvals(folder: Path, timeout_s: float = 30) -> Approvals:
    return Approvals(RememberedAnswers(FileRecords(folder)), timeout_s)


async def is_allowed(
    asker: Approvals, caller: Caller, session: str = "", holder: str = "owner"
) -> bool:
    arguments = {"remote": "origin", "key": "sk-secret-1234"}
    try:
        await asker.ask(
            request(
                PUSH,
                caller,
                session=session,
                holder=holder,
                arguments=arguments,
                secrets=("sk-secret-1234",),
            )
        )
    except DeniedError:
        return False
    return True


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "decline", "content": {"allow": "always"}},
        {"action": "accept"},
        {"action": "accept", "content": None},
        accepting("no"),
        accepting("yes"),
        accepting(1),
        accepting(["once"]),
        {},
        RefusedError("the client has gone"),
        "silence",
    ],
    ids=str,
)
def test_whatever_is_no_clear_yes_is_a_no(tmp_path: Path, answer: Any) -> None:
    asker = approvals(tmp_path, 0.05 if answer == "silence" else 30)
    assert not anyio.run(is_allowed, asker, Answering(answer), "session")
    assert asker.remembered.all() == ()
    assert not anyio.run(is_allowed, asker, Answering(accepting("no")), "session")


@pytest.mark.parametrize(
    ("answer", "again"), [("once", 2), ("session", 1), ("server", 1), ("always", 1)]
)
def test_an_answer_counts_for_as_long_as_it_says(tmp_path: Path, answer: str, again: int) -> None:
    asker = approvals(tmp_path)
    caller = Answering(accepting(answer), accepting("no"))
    assert anyio.run(is_allowed, asker, caller, "one")
    assert anyio.run(is_allowed, asker, caller, "one") == (again == 1)
    assert len(caller.asked) == again
    others = Answering(accepting("no"))
    assert anyio.run(is_allowed, asker, others, "two") == (answer == "always")
    assert not anyio.run(is_allowed, asker, Answering(accepting("no")), "one", "another holder")
    asker.end_session("one")
    last = Answering(accepting("no"))
    assert anyio.run(is_allowed, asker, last, "one") == (answer == "always")


def test_a_whole_server_can_be_allowed_for_a_session(tmp_path: Path) -> None:
    """Its tools up to the class that was asked about, and no other server's."""
    asker = approvals(tmp_path)
    hints = {"read": {"readOnlyHint": True}, "write": {"destructiveHint": False}}
    write, read = (ToolSpec(server="git", name=n, annotations=hints[n]) for n in ("write", "read"))
    push, other = PUSH, ToolSpec(server="github", name="push")

    async def allowed(tool: ToolSpec, answer: str, session: str = "one") -> bool:
        caller = Answering(accepting(answer))
        try:
            await asker.ask(request(tool, caller, session=session))
        except DeniedError:
            return False
        return not caller.asked

    async def session() -> None:
        assert not await allowed(write, "server")
        assert [await allowed(each, "no") for each in (read, write, push)] == [True, True, False]
        assert not await allowed(push, "server")
        assert [await allowed(each, "no") for each in (push, other)] == [True, False]
        assert not await allowed(push, "no", "two")
        asker.end_session("one")
        assert not await allowed(read, "no")

    anyio.run(session)


def test_the_question_names_the_tool_and_shows_no_secret(tmp_path: Path) -> None:
    caller = Answering(accepting("once"))
    assert anyio.run(is_allowed, approvals(tmp_path), caller)
    message = caller.asked[0]["message"]
    assert message.startswith("toolscript asks: may git__push be called?")
    assert "origin" in message
    assert "sk-secret-1234" not in message


def test_what_was_allowed_for_always_can_be_taken_back(tmp_path: Path) -> None:
    remembered = RememberedAnswers(FileRecords(tmp_path))
    remembered.add(PUSH, "owner")
    remembered.add(PUSH, "owner")
    [kept] = remembered.all()
    with pytest.raises(UnknownNameError, match=f"no answer has the id 'x'; there are: {kept.id}"):
        remembered.revoke("x")
    assert remembered.revoke(kept.id) == kept
    assert remembered.all() == ()


def test_an_answer_that_cannot_be_deleted_is_an_error_and_still_counts(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    answers = RememberedAnswers(FileRecords(folder))
    answers.add(PUSH, "owner")
    (folder / "answers.lock").unlink()
    (folder / "answers.lock").mkdir()
    with pytest.raises(DecisionStorageError, match="cannot be written"):
        answers.revoke(answers.all()[0].id)
    assert [each.tool_id for each in answers.all()] == ["git__push"]


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"version": 1, "answers": 5}', b"\xff"])
def test_a_damaged_file_allows_nothing(tmp_path: Path, damage: bytes) -> None:
    remembered = RememberedAnswers(FileRecords(tmp_path))
    remembered.add(PUSH, "owner")
    (tmp_path / "answers.json").write_bytes(damage)
    assert remembered.all() == ()


async def _answered(asker: Approvals, answer: PersonsAnswer) -> bool:
    allowed: list[bool] = []

    async def call() -> None:
        allowed.append(await is_allowed(asker, SILENT_CALLER))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        with anyio.fail_after(30):
            while not asker.pending:  # noqa: ASYNC110 - a test looks from outside
                await anyio.sleep(0.01)
        asker.answer(asker.pending[0].id, answer)
    return allowed[0]


@pytest.mark.parametrize(("answer", "expected"), [("once", True), ("no", False)])
def test_a_call_whose_caller_cannot_be_asked_waits_for_the_owner(
    tmp_path: Path, answer: PersonsAnswer, *, expected: bool
) -> None:
    asker = approvals(tmp_path)
    assert anyio.run(_answered, asker, answer) == expected
    assert asker.pending == []
    with pytest.raises(UnknownNameError, match="no call 'x' waits for an answer; there are: none"):
        asker.answer("x", "once")


@pytest.mark.parametrize(
    ("holder", "most"), [("owner", MAX_PENDING), ("t1", MAX_PENDING_OF_OTHERS)]
)
@pytest.mark.anyio
async def test_no_holder_has_more_calls_wait_than_it_may(
    tmp_path: Path, holder: str, most: int
) -> None:
    """Those of one holder keep no other holder's from waiting."""
    asker = approvals(tmp_path)

    async def wait(number: int) -> None:
        with anyio.fail_after(30):
            while len(asker.pending) < number:  # noqa: ASYNC110 - the same
                await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        for _ in range(most):
            tasks.start_soon(is_allowed, asker, SILENT_CALLER, "", holder)
        await wait(most)
        with pytest.raises(DeniedError, match=f"{most} calls of this caller wait"):
            await asker.ask(request(PUSH, SILENT_CALLER, holder=holder))
        tasks.start_soon(is_allowed, asker, SILENT_CALLER, "", "another holder")
        await wait(most + 1)
        tasks.cancel_scope.cancel()
    assert asker.pending == []


@pytest.mark.parametrize("holder", ["t1", "anyone"])
@pytest.mark.parametrize("answer", ["session", "always"])
def test_what_a_bearer_answers_itself_counts_once(tmp_path: Path, holder: str, answer: str) -> None:
    """More than once is not offered, and is a no when it is sent all the same."""
    asker = approvals(tmp_path)
    caller = Answering(accepting(answer), accepting("once"), accepting("no"))
    assert not anyio.run(is_allowed, asker, caller, "one", holder)
    assert anyio.run(is_allowed, asker, caller, "one", holder)
    assert not anyio.run(is_allowed, asker, caller, "one", holder)
    offered = [asked["requestedSchema"]["properties"]["allow"]["enum"] for asked in caller.asked]
    assert offered == [["once", "no"]] * 3
    assert asker.remembered.all() == ()


CHANGED = ToolSpec(server="git", name="push", description="Push by force.")
DESTROYS_NOTHING = ToolSpec(server="git", name="push", annotations={"destructiveHint": False})
CLASSIFIED = ToolSpec(server="git", name="push", config_class="write")
REPORTS = ToolSpec(server="git", name="git_status")


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (PUSH, "By its name it may change or destroy something; its server does not say."),
        (DESTROYS_NOTHING, "Its server says that it changes something, and destroys nothing."),
        (REPORTS, "By its name it only reads; its server does not say."),
        (CLASSIFIED, "The configuration says that it changes something, and destroys nothing."),
    ],
)
def test_a_person_is_told_who_says_what_a_tool_may_do(
    tmp_path: Path, tool: ToolSpec, said: str
) -> None:
    caller = Answering(accepting("once"))
    anyio.run(approvals(tmp_path).ask, request(tool, caller, session="one"))
    [asked] = caller.asked
    assert asked["message"] == f"toolscript asks: may {tool.id} be called? {said} Arguments: {{}}"


@pytest.mark.parametrize("answer", ["session", "always"])
@pytest.mark.parametrize(
    "changed", [CHANGED, DESTROYS_NOTHING, CLASSIFIED], ids=["text", "hint", "class"]
)
def test_an_answer_is_about_the_definition_that_was_asked_about(
    tmp_path: Path, answer: str, changed: ToolSpec
) -> None:
    asker = approvals(tmp_path)

    async def call(tool: ToolSpec) -> int:
        caller = Answering(accepting(answer))
        await asker.ask(request(tool, caller, session="one"))
        return len(caller.asked)

    assert [anyio.run(call, tool) for tool in (PUSH, PUSH, changed, changed)] == [1, 0, 1, 0]


def test_an_answer_of_before_definitions_were_stored_allows_nothing(tmp_path: Path) -> None:
    asker = approvals(tmp_path)
    old = b'{"version":1,"answers":[{"id":"a","toolId":"git__push","holder":"owner","since":""}]}'
    FileRecords(tmp_path).write("answers", old)
    assert [each.id for each in asker.remembered.all()] == ["a"]
    assert not anyio.run(is_allowed, asker, Answering(accepting("no")))


LONG = "x" * 5000
EMPTY: list[Any] = [[]] * 100_000
EMPTY_INSIDE: list[Any] = [[{}] * 1000] * 100


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"note": LONG, "command": "rm -rf /"}, ['"command":"rm -rf /"', "(4700 more characters)"]),
        ({"a": {"note": LONG, "b": ["rm -rf /"]}}, ["rm -rf /"]),
        ({LONG: 1, "command": "rm -rf /"}, ["rm -rf /"]),
        ({f"k{n}": "v" for n in range(2000)}, ["more keys)"]),
        ({"list": ["value"] * 2000}, ["more values)"]),
        ({"list": EMPTY}, ["more values)"]),
        ({"list": EMPTY_INSIDE}, ["more values)"]),
        ({LONG + "a": "rm -rf /", LONG + "b": "harmless"}, ["rm -rf /", "harmless"]),
        ({LONG: 1}, ["(not all is shown, so this call can be allowed once only)"]),
        ({"a": "\N{RIGHT-TO-LEFT OVERRIDE}" * 301}, ["u202e", "(1 more characters)"]),
    ],
)
@pytest.mark.anyio
async def test_what_is_not_all_shown_can_be_allowed_once(
    tmp_path: Path, arguments: dict[str, Any], shown: list[str]
) -> None:
    """A long value pushes none of the others out of sight, and the person knows of it."""
    asker = approvals(tmp_path)
    async with anyio.create_task_group() as tasks:
        call = request(PUSH, SILENT_CALLER, session="s", arguments=arguments)
        tasks.start_soon(asker.ask, call)
        with anyio.fail_after(30):
            while not asker.pending:  # noqa: ASYNC110 - the same
                await anyio.sleep(0.01)
        [waiting] = asker.pending
        assert waiting.answers == ("once", "no")
        assert all(each in waiting.arguments for each in shown)
        assert len(waiting.arguments) < 6000
        with pytest.raises(InputError, match="always does not count, since some of the arg"):
            asker.answer(waiting.id, "always")
        asker.answer(waiting.id, "once")


@pytest.mark.parametrize(
    ("arguments", "hidden", "shown"),
    [
        ({"a": "x\N{RIGHT-TO-LEFT OVERRIDE}y\U000e0041"}, (), ["\\u202e", "\\udb40\\udc41"]),
        ({"pass-phrase": "rm -rf /", "***": "x"}, ("pass-phrase",), ["rm -rf /", '"x"']),
    ],
)
def test_nothing_is_dropped_without_a_word(
    arguments: dict[str, Any], hidden: tuple[str, ...], shown: list[str]
) -> None:
    text, is_cut = shown_arguments(arguments, hidden)
    assert not is_cut
    assert all(each in text for each in shown), text
    assert not any(secret in text for secret in hidden)


def test_a_hidden_character_is_told_from_its_escape() -> None:
    sent = {"a": "x\N{RIGHT-TO-LEFT OVERRIDE}", "b": "x\\u202e"}
    text, _ = shown_arguments(sent, ())
    assert text == r'{"a":"x\u202e","b":"x\\u202e"}'
    assert json.loads(text) == sent


@pytest.mark.parametrize(
    "command",
    [
        "ls; token=$(rm -rf ~)",
        "ls # cookie: x\nrm -rf ~",
        "echo -----BEGIN PRIVATE KEY-----; rm -rf ~",
    ],
)
@pytest.mark.anyio
async def test_the_question_shows_what_only_looks_like_a_secret(
    tmp_path: Path, command: str
) -> None:
    """The caller has chosen it, who may want to hide what the tool does."""
    caller = Answering(accepting("once"))
    await approvals(tmp_path).ask(request(PUSH, caller, arguments={"c": command}))
    assert "rm -rf ~" in caller.asked[0]["message"]
