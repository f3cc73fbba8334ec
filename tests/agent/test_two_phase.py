"""The executor: phase 1 offers the search, phase 2 what that found, and there is an end to it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from tests.models import Endpoint, calls, endpoint, says
from toolscript.agent.two_phase import MAX_RESULT_CHARS, Executor, Llm, Offer, Outcome, ToolCall
from toolscript.errors import InputError, LlmError, UnknownNameError

TOOLS = {
    name: Offer(name, f"Tool {name} " * 20, {"type": "object", "properties": {}})
    for name in ("read_file", "list_directory", "execute_shell", "send_mail", "get_time")
}


@dataclass
class Box:
    """A toolbox that finds what it is told to, and keeps what it was asked."""

    finds: tuple[str, ...] = ("read_file", "list_directory")
    result: dict[str, Any] = field(
        default_factory=lambda: {"content": [{"type": "text", "text": "contents"}]}
    )
    searched: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    called: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )

    async def every(self) -> Sequence[Offer]:
        return list(TOOLS.values())

    async def search(self, query: str, limit: int) -> Sequence[Offer]:
        self.searched.append((query, limit))
        return [TOOLS[name] for name in self.finds][:limit]

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.called.append((name, arguments))
        if "fail" in arguments:
            raise UnknownNameError("no such file")
        return self.result


def ask(model: Endpoint, box: Box, question: str = "What's in my package.json?") -> Outcome:
    async def work() -> Outcome:
        async with Llm(model.url, "tiny", "sk-secret-1234") as llm:
            return await Executor(llm, box).ask(question)

    return anyio.run(work)


def told(model: Endpoint) -> list[str]:
    """What the model was told of its last calls."""
    return [m["content"] for m in model.asked[-1]["messages"] if m["role"] == "tool"]


SEARCHES = calls(("tool_search", {"query": "read file contents"}))
READS = calls(("read_file", {"path": "package.json"}))


@pytest.mark.requirement("agent:two-phase")
def test_the_flow_of_the_seed() -> None:
    """agent:two-phase: search, then only what was found, then the answer."""
    box = Box()
    with endpoint(SEARCHES, READS, says("It contains…")) as model:
        outcome = ask(model, box)
    assert outcome.answer == "It contains…"
    assert model.offered() == [["tool_search"], [*box.finds], [*box.finds]]
    assert box.searched == [("read file contents", 4)]
    assert box.called == [("read_file", {"path": "package.json"})]
    assert [step.tool for step in outcome.steps] == ["tool_search", "read_file"]
    assert outcome.steps[1] == ToolCall(
        tool="read_file", arguments='{"path": "package.json"}', result="contents"
    )
    assert json.loads(outcome.steps[0].result)["tools"][0] == {"name": "read_file", "score": 0.0}
    assert model.asked[0]["messages"][1]["content"] == "What's in my package.json?"
    assert (model.asked[0]["model"], model.keys[0]) == ("tiny", "Bearer sk-secret-1234")


@pytest.mark.requirement("agent:two-phase")
def test_what_two_phases_save_is_counted() -> None:
    """agent:two-phase: by hand: the definitions that were sent, and all of them each time."""
    with endpoint(SEARCHES, says("done")) as model:
        tokens = ask(model, Box()).tokens
    sent = sum(sum(len(json.dumps(t)) for t in each["tools"]) // 4 for each in model.asked)
    assert (tokens.requests, tokens.prompt, tokens.completion) == (2, 200, 14)
    assert tokens.tools_sent == sent
    assert tokens.tools_all > tokens.tools_sent
    assert tokens.saved == tokens.tools_all - tokens.tools_sent


def test_an_answer_without_tools() -> None:
    with endpoint(says("Hello.")) as model:
        outcome = ask(model, Box())
    assert (outcome.answer, outcome.steps) == ("Hello.", ())


@pytest.mark.requirement("agent:two-phase")
def test_there_is_an_end_to_calls() -> None:
    """agent:two-phase: ten calls, then one more word from the model, without tools."""
    box = Box()
    with endpoint(SEARCHES, *[READS] * 9, says("I give up")) as model:
        outcome = ask(model, box)
    assert len(outcome.steps) == 10
    assert len(box.called) == 9
    assert model.offered()[-1] == []
    assert "last tool call" in model.asked[-1]["messages"][-1]["content"]
    assert outcome.answer == "I give up"


@pytest.mark.requirement("agent:two-phase")
def test_a_model_that_never_stops_is_stopped() -> None:
    """agent:two-phase: also within one message, and when it goes on without being offered any."""
    box = Box()
    wanted: tuple[str, Any] = ("read_file", {})
    with endpoint(SEARCHES, calls(*[wanted] * 50)) as model:
        outcome = ask(model, box)
    assert len(box.called) == 9
    assert outcome.answer == ""
    assert len(model.asked) == 3


WRONG: list[tuple[tuple[str, Any], str]] = [
    (("read_file", "{"), "the arguments are not JSON"),
    (("read_file", "[]"), "the arguments must be a JSON object"),
    (("send_mail", {}), "there is no tool 'send_mail' now; there are: read_file"),
    (("read_file", {"fail": 1}), "no such file"),
]


@pytest.mark.parametrize(("wanted", "expected"), WRONG)
def test_what_goes_wrong_is_told_to_the_model(wanted: tuple[str, Any], expected: str) -> None:
    with endpoint(SEARCHES, calls(wanted), says("sorry")) as model:
        outcome = ask(model, Box())
    assert expected in told(model)[-1]
    assert outcome.steps[-1].failed
    assert outcome.answer == "sorry"


def test_a_failed_tool_and_a_long_result() -> None:
    failed: dict[str, Any] = {
        "content": [{"type": "text", "text": "x" * (MAX_RESULT_CHARS + 5)}, {"type": "image"}],
        "isError": True,
    }
    with endpoint(SEARCHES, READS, says("sorry")) as model:
        outcome = ask(model, Box(result=failed))
    assert outcome.steps[-1].failed
    assert told(model)[-1].endswith("more characters]")
    assert len(told(model)[-1]) < MAX_RESULT_CHARS + 50


def test_another_search_replaces_what_the_first_found() -> None:
    box = Box()

    with endpoint(SEARCHES, calls(("tool_search", {"query": "b", "max_tools": 1})), says(".")) as m:
        ask(m, box)
    assert m.offered() == [["tool_search"], [*box.finds], [box.finds[0]]]
    assert box.searched[1] == ("b", 1)


def test_a_search_that_finds_nothing_can_be_repeated() -> None:
    with endpoint(SEARCHES, says("no")) as model:
        ask(model, Box(finds=()))
    assert model.offered() == [["tool_search"], ["tool_search"]]


@pytest.mark.parametrize("reply", ["no JSON", {"odd": 1}, "[]", '{"choices": []}'])
def test_an_endpoint_that_answers_something_else(reply: Any) -> None:
    status = 200 if isinstance(reply, str) else 500
    raw = reply if isinstance(reply, str) else json.dumps(reply)
    with endpoint(raw, status=status) as model, pytest.raises(LlmError, match="answered HTTP"):
        ask(model, Box())


def test_an_endpoint_that_is_not_there() -> None:
    """The key is in no message."""
    gone = Endpoint([], url="http://127.0.0.1:9/v1")
    with pytest.raises(LlmError, match=r"127\.0\.0\.1:9.* cannot be reached") as refused:
        ask(gone, Box())
    assert "sk-secret" not in str(refused.value)


def test_an_empty_question() -> None:
    with endpoint(says("x")) as model, pytest.raises(InputError, match="the question is empty"):
        ask(model, Box(), "  ")
    assert model.asked == []
