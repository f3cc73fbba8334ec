"""Edits of the configuration reach a running application: upstream:live."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import READ_FILE, SEND_MAIL, Entry, Running, Scripted, running, until
from tests.support import write_config as write
from toolscript.bootstrap import Wiring

FOLLOW = Wiring(follow=True)
BUNDLED = {"TOOLSCRIPT_SEARCH_MODEL": "bundled"}


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    return tmp_path / "starts"


@pytest.fixture
def files(scripted: Scripted, starts: Path) -> Entry:
    """A server that notes its starts."""
    return scripted(READ_FILE, starts=str(starts))


@pytest.fixture
def now(tmp_path: Path, files: Entry) -> Generator[Running]:
    """An application with that server, followed."""
    with running(write(tmp_path / "servers.json", {"files": files}), BUNDLED, FOLLOW) as now:
        now.wait_for("files", "ready")
        now.settle()
        yield now


def embedded(now: Running) -> object:
    return now.portal.call(now.app.stats)["documentsEmbedded"]


@pytest.mark.requirement("upstream:live")
def test_a_server_that_is_added_is_found_and_only_its_tools_embedded(
    tmp_path: Path, scripted: Scripted, now: Running, files: Entry, starts: Path
) -> None:
    assert embedded(now) == 1
    write(tmp_path / "servers.json", {"files": files, "mail": scripted(SEND_MAIL)})
    until(lambda: "mail__send_mail" in now.finds("send_mail"), "the new tool is found")
    now.settle()
    assert embedded(now) == 2
    assert len(starts.read_text("utf-8").splitlines()) == 1, "the other was left alone"
    caches = list((tmp_path / "data" / "cache" / "embeddings").glob("*.json"))
    assert len(caches) == 2, "one for each set of servers"


def test_a_server_that_is_removed_is_gone(tmp_path: Path, now: Running) -> None:
    """upstream:live: and its process has ended."""
    write(tmp_path / "servers.json", {})
    until(lambda: not now.statuses(), "the server is gone")
    assert now.tool_ids() == []
    until(lambda: not now.portal.call(now.app.health).tools, "nothing is indexed")


@pytest.mark.requirement("upstream:live")
def test_a_server_that_is_changed_is_started_anew(
    tmp_path: Path, scripted: Scripted, now: Running, starts: Path
) -> None:
    """upstream:live: with its new environment, here."""
    entry = scripted(READ_FILE, SEND_MAIL, starts=str(starts))
    write(tmp_path / "servers.json", {"files": entry})
    until(lambda: now.finds("send_mail") == ["files__send_mail"], "it is found")
    assert len(starts.read_text("utf-8").splitlines()) == 2


def test_a_mistake_costs_only_its_server_and_a_broken_file_nothing(
    tmp_path: Path, now: Running, files: Entry
) -> None:
    write(tmp_path / "servers.json", {"files": files, "odd": {"type": "pigeon"}})
    until(lambda: "odd" in now.statuses(), "the mistake is shown")
    assert now.status("odd").state == "invalid"
    (tmp_path / "servers.json").write_text("{", "utf-8")
    until(lambda: now.portal.call(now.app.health).configuration_problem, "it is told")
    assert now.status("files").state == "ready"
    assert now.finds("read_file")[0] == "files__read_file"
