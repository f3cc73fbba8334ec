"""M11: a resource is answered by the server that lists it, and no other sees its URI."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import Entry, Running, Scripted, running, tool, write_config
from toolscript.errors import UnknownNameError
from toolscript.surfaces.mcp.prompts_and_resources import PromptsAndResources, qualified
from toolscript.surfaces.mcp.request_context import RequestContext


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
        answer = self._app.portal.call(self._servers.list_resources, nothing, RequestContext())
        return [each["uri"] for each in answer["resources"]]

    def completed(self, uri: str) -> str:
        ref = {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "x", "value": ""}}
        answer = self._app.portal.call(self._servers.complete, ref, RequestContext())
        return answer["completion"]["values"][0]

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


def test_m11_what_one_server_lists_is_read_there_before_any_listing(scripted: Scripted) -> None:
    with two(scripted, {"resources": ["mem://aaa"]}, {"resources": ["mem://zzz"]}) as now:
        assert now.read("mem://zzz") == "of zzz"
        assert now.seen_by("aaa") == []
        assert now.read("mem://aaa") == "of aaa"


def test_m11_a_template_that_fits_decides_for_what_nobody_lists(scripted: Scripted) -> None:
    aaa = {"templates": ["tmpl-aaa://{id}", "{+everything}", "{broken"]}
    zzz = {"templates": ["tmpl-zzz://invoice-{id}"]}
    with two(scripted, aaa, zzz) as now:
        assert now.read("tmpl-zzz://invoice-5") == "of zzz"
        assert now.completed("tmpl-zzz://invoice-{id}") == "of zzz"
        assert now.seen_by("aaa") == []


def test_m11_a_listed_uri_is_before_a_template(scripted: Scripted) -> None:
    with two(scripted, {"templates": ["mem://{+any}"]}, {"resources": ["mem://zzz"]}) as now:
        assert now.read("mem://zzz") == "of zzz"
        assert now.seen_by("aaa") == []


def test_m11_what_several_offer_is_refused_with_their_names(scripted: Scripted) -> None:
    """And each is listed, and read, under a URI that names its server."""
    shared = {"resources": ["mem://shared"], "templates": ["t://{id}"]}
    with two(scripted, shared, shared) as now:
        for uri in ("mem://shared", "t://1"):
            with pytest.raises(UnknownNameError, match=r"\(aaa, zzz\); name the one meant: tool"):
                now.read(uri)
        assert now.seen_by("aaa") == now.seen_by("zzz") == []
        assert now.listed() == [qualified(name, "mem://shared") for name in ("aaa", "zzz")]
        assert now.read(qualified("zzz", "mem://shared")) == "of zzz"
        assert (now.seen_by("aaa"), now.seen_by("zzz")) == ([], ["mem://shared"])


def test_m11_what_nobody_lists_is_asked_of_nobody(scripted: Scripted) -> None:
    """Unless a server is named, as for a link in a tool's result that its server does not list."""
    with two(scripted, {"resources": ["mem://a"]}, {}) as now:
        with pytest.raises(UnknownNameError, match="no server has 'mem://secret-path'"):
            now.read("mem://secret-path")
        assert now.seen_by("aaa") == now.seen_by("zzz") == []
        assert now.read(qualified("zzz", "mem://secret-path")) == "of zzz"
        with pytest.raises(UnknownNameError, match="no server 'gone'"):
            now.read(qualified("gone", "mem://a"))


def test_m11_a_uri_that_names_another_server_is_not_taken_over(scripted: Scripted) -> None:
    forged = qualified("zzz", "mem://zzz")
    with two(scripted, {"resources": [forged]}, {"resources": ["mem://zzz"]}) as now:
        assert now.listed() == [qualified("aaa", forged), "mem://zzz"]
        assert now.read(forged) == "of zzz"
        assert now.seen_by("aaa") == []
