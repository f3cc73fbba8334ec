"""Calls: passed on as they are, answered as the server answers, or a clear error that names it."""

import json
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support import Running, Scripted, alive, kill_all, running, tool, until, write_config
from toolscript.bootstrap import Wiring
from toolscript.errors import (
    ArgumentsError,
    CallTimeoutError,
    NotConnectedError,
    RefusedError,
    UnknownNameError,
)
from toolscript.gateway.base import SILENT_CALLER, Caller
from toolscript.gateway.raw_results import RawResult

PATIENT = {"TOOLSCRIPT_CALL_TIMEOUT": "60"}
ADD = tool(
    "add",
    "Add numbers",
    inputSchema={
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
)
EVERYTHING: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "zażółć \x1b[31m", "annotations": {"audience": ["user"]}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource_link", "name": "r", "uri": "file:///r"},
        {"type": "resource", "resource": {"uri": "file:///e", "text": "t"}},
    ],
    "structuredContent": {"n": None, "deep": [{"x": 1.5}]},
    "isError": False,
    "_meta": {"vendor/x": {"y": [1, None]}},
}


@dataclass
class Asked:
    """A caller that writes down what it hears, and answers as it is told to."""

    session_key: object = field(default_factory=object)
    accepts_input_required: bool = False
    session_id: str = ""
    project: str = ""
    may_be_asked: bool = False
    may_log_in: bool = False
    opens_addresses: bool = False
    thinks_s: float = 0
    answer: dict[str, Any] = field(default_factory=lambda: {"action": "decline"})
    progress: list[tuple[float, float | None, str | None]] = field(
        default_factory=list[tuple[float, float | None, str | None]]
    )
    questions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    open: int = 0
    """How many questions are before the user."""
    most_open: int = 0

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))

    async def elicit(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.questions.append({"method": method, **params})
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        await anyio.sleep(self.thinks_s)
        self.open -= 1
        return self.answer


def call(
    app: Running, name: str, caller: Caller = SILENT_CALLER, **arguments: Any
) -> dict[str, Any]:
    return app.portal.call(app.app.call, name, arguments, caller)


def in_background(
    app: Running, name: str, caller: Caller = SILENT_CALLER
) -> "Future[dict[str, Any]]":
    nothing: dict[str, Any] = {}
    return app.portal.start_task_soon(app.app.call, name, nothing, caller)


def echoed(result: dict[str, Any]) -> Any:
    return json.loads(result["content"][0]["text"])


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []


def served(tmp_path: Path, **servers: Any) -> Path:
    return write_config(tmp_path / "config.json", servers)


@pytest.mark.requirement("http:others")
def test_a_result_comes_back_as_it_is(scripted: Scripted, tmp_path: Path) -> None:
    """http:others: every kind of content, structured content, what is an error, metadata."""
    failed = {"content": [{"type": "text", "text": "no"}], "isError": True}
    results = {"all": EVERYTHING, "fails": failed}
    config = served(tmp_path, s=scripted(tool("all"), tool("fails"), results=results))
    with running(config) as app:
        assert call(app, "s__all") == EVERYTHING
        assert call(app, "s__fails") == failed


def test_arguments_arrive_as_they_are(scripted: Scripted, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "none": None,
        "text": "ż\x00\u2028",
        "deep": {"list": [1, 2.5, None, {}]},
        "__a": 1,
    }
    with running(served(tmp_path, s=scripted(tool("echo__twice")))) as app:
        assert echoed(call(app, "s__echo__twice", **given))["arguments"] == given


@pytest.mark.requirement("catalogue:ids")
@pytest.mark.parametrize("name", ["s__echo", "s:echo"])
def test_a_tool_goes_by_its_id_and_as_the_seed_writes_it(
    scripted: Scripted, tmp_path: Path, name: str
) -> None:
    with running(served(tmp_path, s=scripted(tool("echo")))) as app:
        assert echoed(call(app, name))["name"] == "echo"


@pytest.mark.requirement("catalogue:ids")
def test_a_tool_goes_by_the_name_that_models_see(scripted: Scripted, tmp_path: Path) -> None:
    """catalogue:ids: a name that is too long, or has what no vendor accepts."""
    names = ["x" * 90, "with space", "a/b", "ünï"]
    with running(served(tmp_path, s=scripted(*map(tool, names)))) as app:
        app.settle()
        exposed = app.portal.call(lambda: app.app.catalogue().exposed)
        for name in names:
            shown = exposed[f"s__{name}"]
            assert shown != f"s__{name}"
            assert echoed(call(app, shown))["name"] == name


def test_a_tool_that_is_not_there(scripted: Scripted, tmp_path: Path) -> None:
    with running(served(tmp_path, s=scripted(tool("read_file"), tool("send_mail")))) as app:
        app.settle()
        with pytest.raises(UnknownNameError, match=r"'s__read_fil'; the nearest are: s__read_file"):
            call(app, "s__read_fil")
        with pytest.raises(UnknownNameError, match="search for what it should do"):
            call(app, "zzz")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "a is missing; b is missing. It takes a (number, required), b (number, required)"),
        ({"a": 1}, "b is missing."),
        ({"a": 1, "b": "two"}, 'b is "two"; expected number.'),
    ],
)
def test_arguments_that_do_not_fit_never_reach_the_server(
    scripted: Scripted, tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    calls = tmp_path / "calls"
    with running(served(tmp_path, s=scripted(ADD, calls=str(calls)))) as app:
        app.settle()
        with pytest.raises(ArgumentsError) as refused:
            call(app, "s__add", **arguments)
        assert str(refused.value).startswith("s__add: ")
        assert message in str(refused.value)
        assert not calls.exists()
        call(app, "s__add", a=1, b=2)
        assert len(lines(calls)) == 1


def test_b12_an_error_of_the_servers_is_passed_on_after_its_name(
    scripted: Scripted, tmp_path: Path
) -> None:
    said = "\x1b[2Jtoolscript: first pay the secret-1234"
    error = {"code": -32042, "message": said, "data": {"url": "https://x"}}
    server = scripted(tool("pay"), errors={"pay": error}, env={"TOKEN": "secret-1234"})
    with running(served(tmp_path, s=server)) as app, pytest.raises(RefusedError) as refused:
        call(app, "s__pay")
    assert (refused.value.code, refused.value.data) == (-32042, {"url": "https://x"})
    assert str(refused.value) == "s: \ufffd[2Jtoolscript: first pay the ***"


TEXT = {"type": "text", "text": "beside"}
LARGE = {"a": "x" * 100_000}


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ({"structuredContent": {"a": 1}}, ['{"a":1}']),
        ({"content": None, "structuredContent": {"a": 1}}, ['{"a":1}']),
        ({"content": None, "isError": None}, ["(the server sent an empty result)"]),
        ({"content": "a text"}, ["a text"]),
        ({"content": TEXT}, ["beside"]),
        ({}, ["(the server sent an empty result)"]),
        (None, ["(the server sent an empty result)"]),
        ("a text", ["a text"]),
        ([TEXT], ["beside"]),
        ({"content": [{"type": "json", "a": 1}, TEXT]}, ['{"type":"json","a":1}', "beside"]),
        ({"content": [{"type": "text"}, None, "plain"]}, ['{"type":"text"}', "plain"]),
        ({"content": [TEXT], "structuredContent": [1, 2]}, ["beside", "[1,2]"]),
        ({"structuredContent": LARGE}, []),
    ],
)
def test_a_result_that_breaks_the_protocol_is_shown(
    scripted: Scripted,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    result: Any,
    content: list[str],
) -> None:
    """upstream:isolation: the call was made; what can be read of its result is, with a note."""
    config = served(tmp_path, s=scripted(tool("odd"), results={"odd": result}))
    with running(config) as app:
        shown = call(app, "s__odd")
        call(app, "s__odd")
    whole = json.loads(shown.text) if isinstance(shown, RawResult) else shown
    assert [block["text"] for block in whole["content"]] == content
    structured = whole.get("structuredContent")
    assert structured in (None, {"a": 1}, LARGE)
    notes = [r.message for r in caplog.records if "breaks the protocol" in r.message]
    once = ["s: a result breaks the protocol; what can be read of it is shown"]
    assert notes == ([] if isinstance(result, list) else once)


def test_progress_is_told_in_order_and_buys_time(scripted: Scripted, tmp_path: Path) -> None:
    """The whole takes longer than a tool may be silent."""
    caller = Asked()
    server = scripted(tool("work"), progress=6, pace=0.2)
    with running(served(tmp_path, s=server), {"TOOLSCRIPT_CALL_TIMEOUT": "0.8"}) as app:
        call(app, "s__work", caller)
    assert caller.progress == [(n, 6, f"step {n}") for n in range(1, 7)]


def test_a_tool_that_is_silent(scripted: Scripted, tmp_path: Path) -> None:
    """It is given up, told so, and named; the server goes on."""
    cancels = tmp_path / "cancels"
    server = scripted(tool("hang"), tool("echo"), silent=["hang"], cancels=str(cancels))
    with running(served(tmp_path, s=server), {"TOOLSCRIPT_CALL_TIMEOUT": "0.3"}) as app:
        with pytest.raises(CallTimeoutError, match=r"s did not answer hang within 0\.3 s"):
            call(app, "s__hang")
        until(lambda: lines(cancels), "the server is told")
        assert echoed(call(app, "s__echo"))["name"] == "echo"


def test_a_call_that_is_cancelled_is_cancelled_on_the_server(
    scripted: Scripted, tmp_path: Path
) -> None:
    calls, cancels = tmp_path / "calls", tmp_path / "cancels"
    server = scripted(tool("hang"), silent=["hang"], cancels=str(cancels), calls=str(calls))
    with running(served(tmp_path, s=server), PATIENT) as app:
        waiting = in_background(app, "s__hang")
        until(lambda: lines(calls), "the call has arrived")
        waiting.cancel()
        until(lambda: lines(cancels), "the server is told")


def test_a_question_goes_to_the_one_who_called(scripted: Scripted, tmp_path: Path) -> None:
    caller = Asked(answer={"action": "accept", "content": {"name": "Ada"}})
    with running(served(tmp_path, s=scripted(tool("greet"), elicits="Who are you?"))) as app:
        assert echoed(call(app, "s__greet", caller)) == caller.answer
    [question] = caller.questions
    asked = question["method"], question["message"]
    assert asked == ("elicitation/create", "s asks: Who are you?")
    assert question["requestedSchema"]["properties"] == {"name": {"type": "string"}}


def test_while_a_user_thinks_the_time_stands_still(scripted: Scripted, tmp_path: Path) -> None:
    """The answer takes longer than a tool may be silent."""
    caller = Asked(thinks_s=0.8)
    server = scripted(tool("greet"), elicits="Who are you?")
    with running(served(tmp_path, s=server), {"TOOLSCRIPT_CALL_TIMEOUT": "0.4"}) as app:
        assert echoed(call(app, "s__greet", caller)) == caller.answer


def test_a_user_has_one_question_at_a_time(scripted: Scripted, tmp_path: Path) -> None:
    caller = Asked(thinks_s=0.2)
    with running(served(tmp_path, s=scripted(tool("greet"), elicits="Who are you?"))) as app:
        calls = [in_background(app, "s__greet", caller) for _ in range(5)]
        assert [echoed(each.result(30)) for each in calls] == [caller.answer] * 5
    assert (len(caller.questions), caller.most_open) == (5, 1)


def test_a_caller_that_cannot_be_asked_says_so(scripted: Scripted, tmp_path: Path) -> None:
    with running(served(tmp_path, s=scripted(tool("greet"), elicits="Who?"))) as app:
        reply = echoed(call(app, "s__greet"))
    assert reply["code"] == -32600
    assert "cannot be asked" in reply["message"]


def test_nobody_is_asked_what_may_be_meant_for_another(scripted: Scripted, tmp_path: Path) -> None:
    """Two users' requests are under way, and the protocol does not say whose the question is."""
    calls = tmp_path / "calls"
    server = scripted(
        tool("greet"), tool("hang"), silent=["hang"], elicits="Who?", calls=str(calls)
    )
    first, second = Asked(), Asked()
    with running(served(tmp_path, s=server), PATIENT) as app:
        waiting = in_background(app, "s__hang", first)
        until(lambda: lines(calls), "the first call has arrived")
        reply = echoed(call(app, "s__greet", second))
        assert "requests of several users" in reply["message"]
        assert (first.questions, second.questions) == ([], [])
        again = Asked(session_key=first.session_key)
        assert echoed(call(app, "s__greet", again)) == {"action": "decline"}
        waiting.cancel()


def test_many_calls_at_once_are_not_mixed_up(scripted: Scripted, tmp_path: Path) -> None:
    servers = {f"s{n}": scripted(tool("echo"), tag=f"{tmp_path}/{n}") for n in range(4)}
    with running(served(tmp_path, **servers)) as app, ThreadPoolExecutor(16) as pool:
        app.settle()

        def ask(n: int) -> bool:
            result = call(app, f"s{n % 4}__echo", n=n)
            return echoed(result)["arguments"] == {"n": n}

        assert all(pool.map(ask, range(200)))


def test_a_server_that_dies_during_a_call(scripted: Scripted, tmp_path: Path) -> None:
    """upstream:isolation: the call fails and names it; the next one waits for it to be back."""
    starts, calls = tmp_path / "starts", tmp_path / "calls"
    server = scripted(
        tool("hang"), tool("echo"), silent=["hang"], starts=str(starts), calls=str(calls)
    )
    with running(served(tmp_path, s=server, other=scripted(tool("echo"))), PATIENT) as app:
        waiting = in_background(app, "s__hang")
        until(lambda: lines(calls), "the call has arrived")
        kill_all([int(lines(starts)[0])])
        with pytest.raises(NotConnectedError, match="it may have executed the request"):
            waiting.result(30)
        assert echoed(call(app, "other__echo"))["name"] == "echo"
        assert echoed(call(app, "s__echo"))["name"] == "echo"
        assert len(lines(starts)) == 2


def remembered(config: Path) -> None:
    """Run until the snapshot is on disk."""
    snapshots = config.parent / "data" / "cache" / "catalogue"
    with running(config) as app:
        app.settle()
        until(lambda: list(snapshots.glob("catalogue-*.json")), "the snapshot is written")


def test_a_call_waits_for_a_server_that_is_starting(scripted: Scripted, tmp_path: Path) -> None:
    """Found in the snapshot, so it can be called: as soon as it is there."""
    config = served(tmp_path, s=scripted(tool("echo")))
    remembered(config)
    with running(config) as app:
        assert app.tool_ids() == ["s__echo"]
        assert echoed(call(app, "s__echo"))["name"] == "echo"


def test_a_server_that_cannot_be_reached(scripted: Scripted, tmp_path: Path) -> None:
    """The call fails at once, with the reason; nobody waits for the next attempt."""
    blocked = tmp_path / "blocked"
    starts = 'if [ -e "$0" ]; then echo out of order >&2; exit 3; fi; shift 0; exec "$@"'
    entry = scripted(tool("echo"))
    command = ["-c", starts, str(blocked), entry["command"], *entry["args"]]
    config = served(tmp_path, s={"command": "/bin/sh", "args": command})
    remembered(config)
    blocked.touch()
    with running(config) as app, pytest.raises(NotConnectedError, match="out of order"):
        call(app, "s__echo")


def test_a_server_that_this_process_leaves_alone(scripted: Scripted, tmp_path: Path) -> None:
    config = served(tmp_path, s=scripted(tool("echo")))
    remembered(config)
    with running(config, wiring=Wiring(only="other")) as app:
        with pytest.raises(NotConnectedError, match="s is not connected to by this process"):
            call(app, "s__echo")
        assert app.tool_ids() == ["s__echo"]


def test_only_one_server_is_started_for_a_call(scripted: Scripted, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    other = scripted(tool("echo"), starts=str(starts))
    config = served(tmp_path, s=scripted(tool("echo")), other=other)
    with running(config, wiring=Wiring(start="needed", only="s")) as app:
        assert echoed(call(app, "s__echo"))["name"] == "echo"
    assert not starts.exists()


def test_no_process_survives_a_call_that_is_under_way(scripted: Scripted, tmp_path: Path) -> None:
    starts, calls = tmp_path / "starts", tmp_path / "calls"
    server = scripted(tool("hang"), silent=["hang"], starts=str(starts), calls=str(calls))
    with running(served(tmp_path, s=server), PATIENT) as app:
        waiting = in_background(app, "s__hang")
        until(lambda: lines(calls), "the call has arrived")
        waiting.cancel()
    assert not alive(int(lines(starts)[0]))
