"""Who may do what: the table in `docs/explanation/security.md`, asked of a gateway."""

import json
import re
from typing import Any, cast

import pytest

from tests.skills.sample import put
from tests.stdio_sessions import said
from tests.support import (
    FUZZY,
    READ_FILE,
    ROOT,
    SEND_MAIL,
    Cli,
    Scripted,
    create_token,
    fetch,
    tool,
)
from toolscript.surfaces.http.routes import every_endpoint

_PAGE = ROOT / "docs" / "explanation" / "security.md"
_REFUSED = {401, 403}
_BODIES: dict[str, Any] = {
    "/message": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    "/graph/import": {"workflows": [{"steps": ["files__read_file", "mail__send_mail"]}]},
}
_ADDED = {
    "/tools": "",
    "/search": "?q=send_mail&threshold=0",
    "/skills/search": "?q=roll+back&threshold=0",
    "/skills/read": "?name=pdf-forms",
    "/servers": "?resources=true",
    "/graph/related": "?tool=files__read_file",
    "/servers/log": "?server=files",
    "/servers/restart": "?server=files",
}
_FOLDER = "the header `Toolscript-Project`"


def table() -> dict[str, list[str]]:
    """The verdicts of the page, for each role in turn, by what is asked."""
    rows = re.findall(
        r"^\| [^|]+ \| ([^|]+) ((?:\| (?:yes|part|no) ){5})\|$",
        _PAGE.read_text("utf-8"),
        re.MULTILINE,
    )
    return {asked: verdicts.replace("|", " ").split() for asked, verdicts in rows}


class Role:
    """A caller, with what it shows."""

    def __init__(self, url: str, bearer: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}

    def ask(self, method: str, path: str, value: Any = None, **headers: str) -> tuple[int, Any]:
        """The answer to a request; a form's for the page."""
        sent = {**self._headers, **headers}
        if method == "GET":
            return fetch(self._url, path, headers=sent)
        body = json.dumps(value or {}).encode()
        sent["Content-Type"] = "application/json"
        if path.startswith("/ui/") and path != "/ui/link":
            sent |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._url}
            body = b"x=y"
        return fetch(self._url, path, method=method, headers=sent, body=body)

    def shape(self, method: str, path: str) -> set[str]:
        """What an answer consists of; nothing of one that is refused."""
        asked = path.replace("{id}", "none").replace("{name}", "files") + _ADDED.get(path, "")
        status, answer = self.ask(method, asked, _BODIES.get(path))
        if status in _REFUSED or (method == "GET" and status == 404):
            return set()
        is_listing = method == "GET" or path in {"/message", "/skills/update"}
        if not is_listing or "<html" in str(answer):
            return {"done"}
        assert status == 200, (method, asked, status, answer)
        if path == "/metrics":
            return {*re.findall(r"^# HELP (\w+)", answer, re.MULTILINE)}
        return {*(answer.split() if isinstance(answer, str) else _paths(answer))}

    def calls(self, folder: str) -> set[str]:
        """The tools that the caller may call, and whether it may choose their folder."""
        done = set[str]()
        for name in ("files__where", "mail__send_mail"):
            path = f"/tools/{name}"
            status, answer = self.ask("POST", path, {}, **{"Toolscript-Project": folder})
            if status == 200:
                done.add(name)
                done |= {"folder"} if said(answer).get("cwd") == folder else set()
        return done


def _paths(value: Any, place: str = "") -> list[str]:
    """The keys of JSON with their places; of lists but the record, also how long they are."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        return [place, *(path for key in items for path in _paths(items[key], f"{place}.{key}"))]
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        lengths = [] if place == ".calls" else [f"{place}[{n}]" for n in range(len(entries))]
        return [*lengths, *(path for each in entries for path in _paths(each, place))]
    return [place]


def verdict(mine: set[str], owners: set[str]) -> str:
    return "no" if not mine else "yes" if mine >= owners else "part"


@pytest.mark.requirement("http:others")
def test_the_table_of_roles_is_true(cli: Cli, scripted: Scripted) -> None:
    """Each row is asked as each role; a token is limited by servers, by a rule or by a profile."""
    cli.env = FUZZY
    path = cli.configure(
        files={**scripted(tool("where"), READ_FILE, tells=True), "cwd": "${PROJECT}"},
        mail=scripted(SEND_MAIL),
    )
    written = json.loads(path.read_text("utf-8"))
    written["profiles"] = {"reader": {"permissions": {"*": "deny", "files__*": "allow"}}}
    path.write_text(json.dumps(written), "utf-8")
    put(cli.home / ".agents" / "skills")
    folder = cli.home / "other"
    folder.mkdir()
    url = cli.start_gateway()
    owner = Role(url, cli.record()["key"])
    assert owner.ask("POST", "/skills/update")[0] == 200

    documented = table()
    asked = [each for each in documented if each != _FOLDER]
    routes = {tuple(route.split()) for each in asked for route in re.findall(r"`([^`]+)`", each)}
    assert {(each.method, each.path.replace(":path", "")) for each in every_endpoint()} <= routes

    def measured(role: Role) -> dict[str, str]:
        result = dict[str, str]()
        calls, owners_calls = role.calls(str(folder)), owner.calls(str(folder))
        for each in asked:
            verdicts = set[str]()
            for method, path in (route.split() for route in re.findall(r"`([^`]+)`", each)):
                if path == "/tools/{tool}":
                    verdicts.add(verdict(calls - {"folder"}, owners_calls - {"folder"}))
                    continue
                owner.ask("POST", "/graph/import", _BODIES["/graph/import"])
                mine, owners = role.shape(method, path), owner.shape(method, path)
                verdicts.add(verdict(mine, owners))
            result[each] = " or ".join(sorted(verdicts))
        result[_FOLDER] = verdict(calls & {"folder"}, {"folder"})
        return result

    roles = {"owner": [measured(owner)], "anyone": [measured(Role(url, ""))]}
    made = create_token(cli)["token"]
    limits = (
        ("--server", "files"),
        ("--permission", "*=deny", "--permission", "files__*=allow"),
        ("--profile", "reader"),
    )
    tokens = [create_token(cli, *limit)["token"] for limit in limits]
    roles |= {"token for all servers": [measured(Role(url, made))]}
    roles |= {"limited token": [measured(Role(url, each)) for each in tokens]}
    monitor = Role(url, create_token(cli, "--permission", "*=deny")["token"])
    assert "toolscript_server_up" in monitor.shape("GET", "/metrics")
    assert not monitor.calls(str(folder))
    roles |= {"nobody": [measured(Role(url, ""))]}
    order = ("owner", "token for all servers", "limited token", "anyone", "nobody")
    for number, role in enumerate(order):
        expected = {each: documented[each][number] for each in documented}
        for found in roles[role]:
            assert found == expected, role
