"""M11: only the server that a URI names is asked for a resource, and no other sees its URI."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import Entry, Running, Scripted, running, tool, write_config
from toolscript.errors import UnknownNameError
from toolscript.surfaces.mcp.prompts_and_resources import PromptsAndResources
from toolscript.surfaces.mcp.request_context import RequestContext
from toolscript.surfaces.mcp.resource_uris import qualified, split_qualified


class Two:
    """The resources of two servers, of which ``aaa`` answers whatever it is asked."""

    def __init__(self, app: Running, folder: Path) -> None:
        self._app, self._folder = app, folder
        self._servers = PromptsAndResources(app.app)

    def read(self, uri: str) -> str:
        answer = self._app.portal.call(self._servers.read_resource, {"uri": uri}, RequestContext())
        return answer["contents"][0]["text"]

    def listed(self) -> list[str]:
        nothing: dict[str, Any] = {}
        call, context = self._app.portal.call, RequestContext()
        resources = call(self._servers.list_resources, nothing, context)["resources"]
        templates = call(self._servers.list_templates, nothing, context)["resourceTemplates"]
        return [*(each["uri"] for each in resources), *(each["uriTemplate"] for each in templates)]

    def seen_by(self, server: str) -> list[str]:
        path = self._folder / server
        return path.read_text("utf-8").split() if path.exists() else []


@contextmanager
def two(scripted: Scripted, aaa: Entry, zzz: Entry) -> Generator[Two]:
    folder = scripted.directory

    def server(name: str, will: dict[str, Any]) -> Entry:
        return scripted(tool("t"), says=f"of {name}", reads=str(folder / name), **will)

    servers = {name: server(name, will) for name, will in {"aaa": aaa, "zzz": zzz}.items()}
    with running(write_config(folder / "servers.json", servers)) as app:
        app.settle()
        yield Two(app, folder)


def test_m11_each_is_listed_and_read_under_a_uri_that_names_its_server(scripted: Scripted) -> None:
    """Also one that the server does not list, such as a link in a result, or fits its template."""
    shared = {"resources": ["mem://shared"], "templates": ["t://{id}"]}
    with two(scripted, shared, shared) as now:
        assert now.listed() == [
            *("toolscript:///aaa/mem://shared", "toolscript:///zzz/mem://shared"),
            *("toolscript:///aaa/t://{id}", "toolscript:///zzz/t://{id}"),
        ]
        for uri in ("mem://shared", "t://a%2Fb?c=d#e"):
            assert now.read(f"toolscript:///zzz/{uri}") == "of zzz"
        assert (now.seen_by("aaa"), now.seen_by("zzz")) == ([], ["mem://shared", "t://a%2Fb?c=d#e"])


def test_m11_what_names_no_server_is_asked_of_nobody(scripted: Scripted) -> None:
    with two(scripted, {"resources": ["mem://a"]}, {}) as now:
        advice = "'mem://a' names no server; write it as toolscript:///SERVER/mem://a"
        with pytest.raises(UnknownNameError, match=advice):
            now.read("mem://a")
        with pytest.raises(UnknownNameError, match="no server 'gone'"):
            now.read(qualified("gone", "mem://a"))
        assert now.seen_by("aaa") == now.seen_by("zzz") == []


@pytest.mark.parametrize(
    "own", [qualified("zzz", "mem://zzz"), "toolscript://results/1", "skill://skills/x/SKILL.md"]
)
def test_b14_no_server_has_an_address_of_toolscripts(scripted: Scripted, own: str) -> None:
    """It can neither list one nor answer one, whatever its templates fit."""
    bad = {"resources": [own, "skill://other/x"], "templates": [own, "skill://{+x}"]}
    with two(scripted, bad, {"resources": ["mem://zzz"]}) as now:
        good = qualified("zzz", "mem://zzz")
        fair = [qualified("aaa", "skill://other/x"), good, qualified("aaa", "skill://{+x}")]
        assert now.listed() == fair
        assert now.read(good) == "of zzz"
        with pytest.raises(UnknownNameError, match="names no server"):
            now.read(qualified("aaa", own))
        assert now.seen_by("aaa") == []


@pytest.mark.parametrize("server", ["a", "a/b", "ä %"])
@pytest.mark.parametrize("uri", ["mem://a", "ui://a/b%20c", "", "toolscript:///b/mem://a"])
def test_m11_a_qualified_uri_is_split_as_it_was_made(server: str, uri: str) -> None:
    assert split_qualified(qualified(server, uri)) == (server, uri)
