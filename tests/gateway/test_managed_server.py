"""Instances per project and per session, over real processes."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.upstream.test_request_router import Asked, call, in_background, lines
from tests.support import Running, Scripted, alive, running, tool, until, write_config
from toolscript.bootstrap import Wiring

IDLE = {"TOOLSCRIPT_IDLE_TIMEOUT": "0.3"}
NEVER = {"TOOLSCRIPT_IDLE_TIMEOUT": "0"}


From = Asked
"""A caller that works in a folder, or in a session."""


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    return tmp_path / "starts"


def answered(app: Running, caller: From) -> int:
    """The id of the process that answers."""
    return int(json.loads(call(app, "s__where", caller)["content"][0]["text"])["pid"])


def configured(scripted: Scripted, tmp_path: Path, starts: Path, **entry: Any) -> Path:
    own = scripted(tool("where"), starts=str(starts), tells=True)
    return write_config(tmp_path / "config.json", {"s": {**own, **entry}})


@pytest.mark.requirement("upstream:instances")
@pytest.mark.parametrize("place", ["env", "cwd", "args"])
def test_a_server_that_names_the_project_has_an_instance_for_each(
    scripted: Scripted, tmp_path: Path, starts: Path, place: str
) -> None:
    entry: dict[str, Any] = {
        "env": {"env": {"WHERE": "${PROJECT}"}},
        "cwd": {"cwd": "${PROJECT}"},
        "args": {},
    }[place]
    config = configured(scripted, tmp_path, starts, **entry)
    if place == "args":
        written = json.loads(config.read_text("utf-8"))
        written["mcpServers"]["s"]["args"].append("${PROJECT}")
        write_config(config, written["mcpServers"])
    one, other = (tmp_path / name for name in ("one", "other"))
    one.mkdir()
    other.mkdir()
    with running(config, NEVER) as app:
        app.settle()
        at_one = [answered(app, From(project=str(one))) for _ in range(2)]
        at_other = answered(app, From(project=str(other)))
        default = answered(app, From())
        assert at_one[0] == at_one[1]
        assert len({at_one[0], at_other, default}) == 3
        assert app.tool_ids() == ["s__where"], "the ids are the same in every project"
    assert len(lines(starts)) == 3


@pytest.mark.requirement("upstream:instances")
def test_a_server_that_does_not_is_shared(scripted: Scripted, tmp_path: Path, starts: Path) -> None:
    with running(configured(scripted, tmp_path, starts), NEVER) as app:
        app.settle()
        callers = [From(project=str(tmp_path)), From(session_id="a"), From()]
        assert len({answered(app, caller) for caller in callers}) == 1
    assert len(lines(starts)) == 1


@pytest.mark.requirement("upstream:instances")
def test_a_server_that_is_not_shared_has_an_instance_for_each_session(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    config = configured(scripted, tmp_path, starts, share=False)
    with running(config, NEVER) as app:
        app.settle()
        a, b = (answered(app, From(session_id=each)) for each in "ab")
        assert a != b
        app.portal.call(app.app.end_session, "a")
        until(lambda: not alive(a), "the instance of the session that has ended is stopped")
        assert answered(app, From(session_id="b")) == b
        assert app.tool_ids() == ["s__where"]


@pytest.mark.requirement("upstream:instances")
def test_the_instance_of_a_session_that_ends_in_a_call_stops_after_it(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    own = scripted(tool("hang"), starts=str(starts), calls=str(tmp_path / "calls"), silent=["hang"])
    config = write_config(tmp_path / "config.json", {"s": {**own, "share": False}})
    with running(config, NEVER) as app:
        app.settle()
        under_way = in_background(app, "s__hang", From(session_id="a"))
        until((tmp_path / "calls").exists, "it is called")
        pid = int(lines(starts)[-1])
        app.portal.call(app.app.end_session, "a")
        assert alive(pid)
        under_way.cancel()
        until(lambda: not alive(pid), "it is stopped")


@pytest.mark.requirement("upstream:limits")
def test_servers_that_fail_do_not_take_each_others_room_all_the_time(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    failing = scripted(tool("where"), starts=str(starts), exit=3)
    config = write_config(tmp_path / "config.json", {f"s{n}": failing for n in range(3)})
    with running(config, {**NEVER, "TOOLSCRIPT_MAX_PROCESSES": "2"}) as app:
        app.settle()
        time.sleep(2)
        assert len(lines(starts)) < 15


@pytest.mark.requirement("upstream:instances")
def test_the_instance_of_a_project_stops_when_it_is_idle(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    config = configured(scripted, tmp_path, starts, env={"WHERE": "${PROJECT}"})
    with running(config, IDLE) as app:
        app.settle()
        first = answered(app, From(project=str(tmp_path)))
        until(lambda: not alive(first), "it is stopped")
        app.wait_for("s", "resting")
        assert answered(app, From(project=str(tmp_path))) != first


@pytest.mark.requirement("upstream:instances")
def test_a_call_while_an_instance_ends_waits_for_the_next_one(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    """It takes a while to end a process that ignores the signals."""
    own = scripted(tool("where"), starts=str(starts), tells=True, stubborn=True)
    config = write_config(tmp_path / "config.json", {"s": {**own, "share": False}})
    with running(config, NEVER) as app:
        app.settle()
        first = answered(app, From(session_id="a"))
        app.portal.call(app.app.end_session, "a")
        assert answered(app, From(session_id="a")) != first
        assert not alive(first)


@pytest.mark.requirement("upstream:instances")
def test_an_instance_that_fails_takes_no_tools_away(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    """A folder that the server cannot use costs the callers there only."""
    config = configured(scripted, tmp_path, starts, cwd="${PROJECT}")
    with running(config, NEVER) as app:
        app.settle()
        with pytest.raises(Exception, match="does not exist"):
            answered(app, From(project=str(tmp_path / "none")))
        assert app.tool_ids() == ["s__where"]
        assert app.status("s").state == "ready"
        answered(app, From())


@pytest.mark.requirement("upstream:instances")
def test_a_project_lists_what_the_default_could_not(
    scripted: Scripted, tmp_path: Path, starts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    config = configured(scripted, tmp_path, starts, cwd="${PROJECT}/sub")
    monkeypatch.chdir(here)
    with running(config, NEVER) as app:
        app.wait_for("s", "failed")
        (tmp_path / "sub").mkdir()
        app.portal.call(app.app.meet, From(project=str(tmp_path)))
        app.wait_for("s", "ready")
        assert app.tool_ids() == ["s__where"]


@pytest.mark.requirement("upstream:instances")
def test_a_project_lists_what_a_later_entry_could_not(
    scripted: Scripted, tmp_path: Path, starts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the project is known already is no reason not to try the entry there."""
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "sub").mkdir()
    caller = From(project=str(tmp_path))
    config = configured(scripted, tmp_path, starts)
    monkeypatch.chdir(here)
    with running(config, NEVER, Wiring(follow=True)) as app:
        app.settle()
        app.portal.call(app.app.meet, caller)
        configured(scripted, tmp_path, starts, cwd="${PROJECT}/sub")
        app.wait_for("s", "failed")
        app.portal.call(app.app.meet, caller)
        app.wait_for("s", "ready")


@pytest.mark.requirement("upstream:limits")
def test_no_more_servers_run_than_may(scripted: Scripted, tmp_path: Path, starts: Path) -> None:
    """The longest unused one makes room; all are listed, and all can be called."""
    names = [f"s{number}" for number in range(5)]
    entries = {name: scripted(tool("where"), starts=str(starts), tells=True) for name in names}
    config = write_config(tmp_path / "config.json", entries)
    with running(config, {**NEVER, "TOOLSCRIPT_MAX_PROCESSES": "2"}) as app:
        app.settle()
        assert app.tool_ids() == [f"{name}__where" for name in names]
        for name in (*names, *names):
            call(app, f"{name}__where")
            until(lambda: sum(alive(int(pid)) for pid in lines(starts)) <= 2, "at most two run")
        ready = [name for name in names if app.status(name).state == "ready"]
        assert ready == names[-2:]


@pytest.mark.requirement("upstream:limits")
def test_a_server_gets_no_more_requests_at_once_than_it_may(
    scripted: Scripted, tmp_path: Path
) -> None:
    """A session with many waits behind another's single one."""
    calls = tmp_path / "calls"
    entry = scripted(tool("work"), calls=str(calls), slow=0.2)
    config = write_config(tmp_path / "config.json", {"s": {**entry, "maxConcurrent": 1}})
    with running(config, NEVER) as app:
        app.settle()
        many, one = From(session_id="many"), From(session_id="one")

        def begin(caller: From, number: int) -> Any:
            arguments = {"session": caller.session_id, "number": number}
            return app.portal.start_task_soon(app.app.call, "s__work", arguments, caller)

        waiting = [begin(many, number) for number in range(6)]
        until(lambda: len(lines(calls)) == 1, "the first is under way")
        waiting.append(begin(one, 0))
        for each in waiting:
            each.result(60)
    order = [json.loads(line)["arguments"] for line in lines(calls)]
    assert [each["number"] for each in order if each["session"] == "many"] == list(range(6))
    assert [each["session"] for each in order].index("one") <= 2
