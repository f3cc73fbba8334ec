"""The application over real servers: searchable while it starts, and from a snapshot."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import (
    FUZZY,
    READ_FILE,
    SEND_MAIL,
    Entry,
    Scripted,
    running,
    tool,
    until,
    write_config,
)
from toolscript.bootstrap import Wiring
from toolscript.errors import NotReadyError, UnknownNameError
from toolscript.types import EVERYTHING, Grant, SearchRequest

OFFLINE = Wiring(start="needed")
FOREVER = {"TOOLSCRIPT_CONNECT_TIMEOUT": "600"}


class Counted:
    """Servers that write down when they are started."""

    def __init__(self, scripted: Scripted) -> None:
        self.config = scripted.directory / "servers.json"
        self._scripted = scripted

    def server(self, name: str, *tools: object, **will: Any) -> Entry:
        return self._scripted(*tools, starts=str(self._file(name)), **will)

    def starts(self, name: str) -> int:
        file = self._file(name)
        return len(file.read_text("utf-8").split()) if file.exists() else 0

    def _file(self, name: str) -> Path:
        return self._scripted.directory / f"starts-{name}"


@pytest.fixture
def counted(scripted: Scripted) -> Counted:
    """Two servers, ready to be connected to."""
    counted = Counted(scripted)
    files, mail = counted.server("files", READ_FILE), counted.server("mail", SEND_MAIL)
    write_config(counted.config, {"files": files, "mail": mail})
    return counted


@pytest.fixture
def known(counted: Counted) -> Counted:
    """The same, after an application has connected to both, once."""
    with running(counted.config) as now:
        now.settle()
        assert now.tool_ids() == ["files__read_file", "mail__send_mail"]
    assert (counted.starts("files"), counted.starts("mail")) == (1, 1)
    return counted


# While it starts


@pytest.mark.requirement("catalogue:progressive")
def test_tools_are_searchable_as_their_server_connects(scripted: Scripted) -> None:
    """catalogue:progressive: nobody waits for a server that hangs."""
    servers = {"hangs": scripted(hang=True), "files": scripted(READ_FILE)}
    with running(write_config(scripted.directory / "servers.json", servers), FOREVER) as now:
        until(lambda: now.portal.call(now.app.health).tools, "a tool is indexed")
        assert now.finds("read_file") == ["files__read_file"]
        health = now.portal.call(now.app.health)
        assert (health.ready, health.waiting_for) == (False, ("hangs",))


@pytest.mark.requirement("catalogue:progressive")
def test_nothing_to_search_yet(scripted: Scripted) -> None:
    """catalogue:progressive: an error says who is waited for."""
    servers = {"one": scripted(hang=True), "two": scripted(hang=True)}
    with (
        running(write_config(scripted.directory / "servers.json", servers), FOREVER) as now,
        pytest.raises(NotReadyError, match="no tools yet: waiting for one, two; try again"),
    ):
        now.search("read_file")


@pytest.mark.requirement("catalogue:progressive")
def test_nothing_to_search_at_all(scripted: Scripted) -> None:
    """catalogue:progressive: an error says what is wrong with every server."""
    servers = {
        "gone": {"command": "no-such-program"},
        "ends": scripted(exit=1, stderr="no key\n"),
        "odd": {"type": "carrier pigeon"},
        "off": scripted() | {"disabled": True},
    }
    with running(write_config(scripted.directory / "servers.json", servers)) as now:
        now.settle()
        with pytest.raises(NotReadyError) as raised:
            now.search("read_file")
    message = str(raised.value)
    assert message.startswith("no tools: ")
    for part in ("gone (its command", "last words: no key", "carrier pigeon", "off (disabled)"):
        assert part in message


@pytest.mark.requirement("catalogue:progressive")
def test_servers_without_tools(scripted: Scripted) -> None:
    with running(write_config(scripted.directory / "servers.json", {"bare": scripted()})) as now:
        now.settle()
        with pytest.raises(NotReadyError, match="the configured servers offer none"):
            now.search("read_file")


@pytest.mark.requirement("config:file")
def test_a_mistake_disables_that_server_only(scripted: Scripted) -> None:
    """config:file: the others are connected; the status names file, key and what was expected."""
    servers = {"odd": {"type": "pigeon", "command": "x"}, "files": scripted(READ_FILE)}
    config = write_config(scripted.directory / "servers.json", servers)
    with running(config) as now:
        now.settle()
        assert now.finds("read_file") == ["files__read_file"]
        status = now.status("odd")
    assert status.state == "invalid"
    assert status.error == f"{config}: type is 'pigeon'; expected stdio, http or sse"


# Searching


@pytest.mark.requirement("search:filter")
def test_a_search_can_be_kept_to_servers(known: Counted) -> None:
    """search:filter: and a name that is not configured is refused, with those that are."""
    with running(known.config, wiring=OFFLINE) as now:
        now.settle()
        everywhere = now.finds("send_mail", threshold=0.0)
        assert everywhere == ["mail__send_mail", "files__read_file"]
        assert now.finds("send_mail", threshold=0.0, servers=("files",)) == ["files__read_file"]
        with pytest.raises(UnknownNameError, match="'male'; configured are: files, mail"):
            now.search("send_mail", servers=("male",))


def test_what_is_not_granted_is_not_known(known: Counted) -> None:
    """http:others: neither found nor listed, counted or named in an error."""
    grant = Grant(tools=("files__*",))
    with running(known.config, wiring=OFFLINE) as now:
        now.settle()
        assert now.finds("send_mail", threshold=0.0, grant=grant) == ["files__read_file"]
        nearest = now.search("send_mail", threshold=1.0, grant=grant).nearest
        assert {hit.document.server for hit in nearest} <= {"files"}
        [tool] = now.portal.call(now.app.catalogue(grant).tools)
        assert tool.id == "files__read_file"
        [status] = now.portal.call(now.app.catalogue(grant).servers)
        assert (status.name, status.tools) == ("files", 1)
        assert now.portal.call(now.app.health, grant).tools == 1
        with pytest.raises(UnknownNameError, match=r"'mail'; configured are: files$"):
            now.search("send_mail", servers=("mail",), grant=grant)
        with pytest.raises(UnknownNameError, match=r"configured are: files$"):
            now.portal.call(now.app.catalogue(grant).tools, "mail")
        assert now.finds("send_mail", threshold=0.0, grant=Grant()) == []


@pytest.mark.requirement("upstream:isolation")
def test_many_searches_at_once(known: Counted) -> None:
    """upstream:isolation: each gets its own answer."""
    with running(known.config, wiring=OFFLINE) as now, ThreadPoolExecutor(16) as pool:
        now.settle()
        asked = ["send_mail", "read_file"] * 50
        answers = [found[0] for found in pool.map(now.finds, asked)]
    assert answers == ["mail__send_mail", "files__read_file"] * 50


# From the snapshot


@pytest.mark.requirement("catalogue:snapshot")
def test_what_is_known_is_not_connected_to(known: Counted) -> None:
    """catalogue:snapshot: it is searched as it was."""
    with running(known.config, wiring=OFFLINE) as now:
        now.settle()
        assert now.finds("send_mail") == ["mail__send_mail"]
        assert now.status("mail").state == "resting"
    assert (known.starts("files"), known.starts("mail")) == (1, 1)


@pytest.mark.requirement("catalogue:snapshot")
def test_only_what_was_configured_anew_is_connected_to(known: Counted) -> None:
    """catalogue:snapshot: one entry changed and one added, one left alone."""
    changed = known.server("mail", tool("fax", "Send a fax"), again=True)
    added = known.server("draw", tool("draw_picture", "Draw a picture"))
    files = json.loads(known.config.read_text("utf-8"))["mcpServers"]["files"]
    write_config(known.config, {"files": files, "mail": changed, "draw": added})
    with running(known.config, wiring=OFFLINE) as now:
        now.settle()
        assert now.tool_ids() == ["draw__draw_picture", "files__read_file", "mail__fax"]
    assert [known.starts(name) for name in ("files", "mail", "draw")] == [1, 2, 1]


def test_a_server_with_a_colon_in_its_name_is_waited_for(scripted: Scripted) -> None:
    program = scripted.directory / "program.py"
    entry = scripted(tool("t"))
    late = f"import runpy, time\ntime.sleep(1)\nrunpy.run_path({entry['args'][2]!r})\n"
    program.write_text(late, "utf-8")
    entry["args"][2] = str(program)
    config = write_config(scripted.directory / "servers.json", {"plugin:x": entry, "plugin": entry})
    with running(config) as now:
        found = now.portal.call(now.app.catalogue().tool_when_ready, "plugin:x__t")
        assert found.server == "plugin:x"


def test_a_denied_skill_is_in_no_answer_whatever_the_grant_says(tmp_path: Path) -> None:
    """`App.skills` is the one way to skills, and scoped: no surface can forget the rules."""
    for name in ("secret", "plain"):
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Bake bread\n---\nBake bread with {name}.\n"
        (folder / "SKILL.md").write_text(text, "utf-8")
    config = tmp_path / "servers.json"
    document = {
        "mcpServers": {},
        "skills": [str(tmp_path / "skills")],
        "permissions": {"skills__secret": "deny"},
    }
    config.write_text(json.dumps(document), "utf-8")
    question = SearchRequest(text="bake bread", threshold=0.0, skills=True)
    with running(config, FUZZY, Wiring(skills="scan_once")) as now:
        now.portal.call(now.app.skills().settle)
        assert not [name for name in vars(now.app) if "skill" in name and name[0] != "_"]
        skills = now.app.skills(EVERYTHING)
        assert [skill.name for skill in skills.all()] == ["plain"]
        assert [skill.name for skill in skills.report().skills] == ["plain"]
        with pytest.raises(UnknownNameError):
            now.portal.call(skills.read, "secret")
        for hits in (
            now.portal.call(skills.search, question).hits,
            now.portal.call(now.app.search, question).hits,
        ):
            assert {hit.document.parent_id for hit in hits} == {"skills__plain"}


def test_a_skill_that_is_called_like_a_pattern_opens_no_other(tmp_path: Path) -> None:
    for number, name in enumerate(("secret", "plain", "s*t", "secre?")):
        folder = tmp_path / "skills" / str(number)
        folder.mkdir(parents=True)
        text = f'---\nname: "{name}"\ndescription: {name}\n---\nText of {name}.\n'
        (folder / "SKILL.md").write_text(text, "utf-8")
    config = tmp_path / "servers.json"
    document = {
        "mcpServers": {},
        "skills": [str(tmp_path / "skills")],
        "permissions": {"skills__secret": "deny"},
    }
    config.write_text(json.dumps(document), "utf-8")
    with running(config, {}, Wiring(skills="scan_once")) as now:
        now.portal.call(now.app.skills().settle)
        with pytest.raises(UnknownNameError):
            now.portal.call(now.app.skills().read, "secret")
        page = now.portal.call(now.app.skills().read, "secre?")
        assert "Text of secre?." in page.text
