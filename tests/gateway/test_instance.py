"""Servers that start when they are needed and stop when they are idle, over real processes."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.upstream.test_request_router import Asked, call, echoed, in_background, lines
from tests.support import Running, Scripted, alive, kill_all, running, tool, until, write_config
from toolscript.surfaces.mcp.prompts_and_resources import PromptsAndResources
from toolscript.surfaces.mcp.request_context import RequestContext

IDLE = {"TOOLSCRIPT_IDLE_TIMEOUT": "0.2"}
NEVER = {"TOOLSCRIPT_IDLE_TIMEOUT": "0"}


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    return tmp_path / "starts"


def known(config: Path) -> Path:
    """The configuration, once the snapshot knows its servers."""
    with running(config, NEVER) as app:
        app.settle()
        until(lambda: known_lists(app), "its prompts and resources are known")
    return config


def known_lists(app: Running) -> bool:
    """Whether every server's other lists are known."""
    servers = app.app.catalogue().gateway.catalogue.servers
    return all(entry.lists is not None for entry in servers.values())


def served(scripted: Scripted, tmp_path: Path, starts: Path, **script: Any) -> Path:
    """A configuration with the server ``s``, which writes down its starts, and is known."""
    more = script.pop("entry", {})
    entry = scripted(tool("echo"), tool("hang"), starts=str(starts), **script)
    return known(write_config(tmp_path / "config.json", {"s": {**entry, **more}}))


def stopped(app: Running, starts: Path) -> None:
    app.wait_for("s", "resting")
    until(lambda: not any(alive(int(pid)) for pid in lines(starts)), "its process has ended")


@pytest.mark.requirement("upstream:lazy")
def test_a_known_server_starts_with_its_first_call(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    config, hears = served(scripted, tmp_path, starts), Asked()
    with running(config, NEVER) as app:
        app.settle()
        assert (app.status("s").state, app.status("s").snapshot) == ("resting", True)
        assert app.finds("echo") == ["s__echo"]
        assert app.tool_ids() == ["s__echo", "s__hang"]
        assert len(lines(starts)) == 1, "searches and lists answer from the snapshot"
        assert echoed(call(app, "s__echo", hears))["name"] == "echo"
        assert hears.progress == [(0, None, "starting s…")]
        assert (app.status("s").state, app.status("s").snapshot) == ("ready", False)
        call(app, "s__echo", hears)
        assert len(hears.progress) == 1
    assert len(lines(starts)) == 2


@pytest.mark.requirement("upstream:lazy")
def test_an_eager_server_starts_at_once(scripted: Scripted, tmp_path: Path, starts: Path) -> None:
    config = served(scripted, tmp_path, starts, entry={"start": "eager"})
    with running(config, NEVER) as app:
        app.wait_for("s", "ready")
    assert len(lines(starts)) == 2


@pytest.mark.requirement("upstream:lazy")
def test_calls_at_once_start_one_process(scripted: Scripted, tmp_path: Path, starts: Path) -> None:
    config = served(scripted, tmp_path, starts)
    with running(config, NEVER) as app:
        app.settle()
        answers = [in_background(app, "s__echo") for _ in range(20)]
        assert all(echoed(answer.result(60))["name"] == "echo" for answer in answers)
    assert len(lines(starts)) == 2


@pytest.mark.requirement("upstream:idle")
def test_an_idle_server_stops_and_starts_again(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    config = served(scripted, tmp_path, starts)
    with running(config, IDLE) as app:
        for number in (2, 3, 4):
            assert echoed(call(app, "s__echo"))["name"] == "echo"
            assert len(lines(starts)) == number
            stopped(app, starts)
            assert app.finds("echo") == ["s__echo"]


@pytest.mark.requirement("upstream:idle")
def test_a_server_seen_for_the_first_time_stops_once_it_is_listed(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    config = write_config(
        tmp_path / "config.json", {"s": scripted(tool("echo"), starts=str(starts))}
    )
    with running(config, IDLE) as app:
        stopped(app, starts)
        assert (app.tool_ids(), len(lines(starts))) == (["s__echo"], 1)


@pytest.mark.requirement("upstream:idle")
def test_no_server_is_stopped_in_the_middle_of_a_call(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    config = served(scripted, tmp_path, starts, slow=1.0)
    with running(config, {"TOOLSCRIPT_IDLE_TIMEOUT": "0.1"}) as app:
        answers = [in_background(app, "s__echo") for _ in range(3)]
        assert all(echoed(answer.result(60))["name"] == "echo" for answer in answers)
        assert len(lines(starts)) == 2
        stopped(app, starts)


@pytest.mark.requirement("upstream:idle")
def test_calls_that_meet_a_stopping_server_are_answered(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    """Each call comes about when the idle time ends."""
    config = served(scripted, tmp_path, starts)
    with running(config, {"TOOLSCRIPT_IDLE_TIMEOUT": "0.001"}) as app:
        for _ in range(30):
            assert echoed(call(app, "s__echo"))["name"] == "echo"


def test_a_server_that_fails_is_tried_again_and_does_not_rest(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    config = served(scripted, tmp_path, starts)
    with running(config, IDLE) as app:
        call(app, "s__echo")
        waiting = in_background(app, "s__hang")
        until(lambda: app.status("s").state == "ready", "the call is under way")
        kill_all(int(pid) for pid in lines(starts)[-1:])
        waiting.cancel()
        until(lambda: len(lines(starts)) > 2, "it is started again without a call")
        stopped(app, starts)


@pytest.mark.requirement("upstream:lazy")
def test_prompts_and_resources_of_a_resting_server_are_listed(
    scripted: Scripted, tmp_path: Path, starts: Path
) -> None:
    others = {
        "prompts/list": {"prompts": [{"name": "greet", "description": "d"}]},
        "resources/list": {"resources": [{"name": "r", "uri": "file:///r"}]},
    }
    config = served(scripted, tmp_path, starts, others=others)
    with running(config, NEVER) as app:
        app.settle()
        listing, context = PromptsAndResources(app.app), RequestContext()
        nothing: dict[str, Any] = {}
        prompts = app.portal.call(listing.list_prompts, nothing, context)
        assert prompts == {"prompts": [{"name": "s__greet", "description": "d"}]}
        resources = app.portal.call(listing.list_resources, nothing, context)
        uri = "toolscript:///s/file:///r"
        assert resources == {"resources": [{"name": "r", "uri": uri}]}
        assert app.portal.call(listing.list_templates, nothing, context) == {
            "resourceTemplates": []
        }
    assert len(lines(starts)) == 1
