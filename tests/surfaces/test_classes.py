"""What a tool may do is stated by the user, its server, or nobody; who it is, is shown."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from tests.support import FUZZY, Cli, Scripted, fetch, tool, until
from tests.surfaces.web.browser import Browser

TOOLS = (
    tool("list_rows", "List the rows"),
    tool("frobnicate", "Do something to rows"),
    tool("add_row", "Add a row"),
    tool("wipe_rows", "Wipe the rows", annotations={"readOnlyHint": True}),
)
GUESSED = {
    "s__add_row": ("write", "guess"),
    "s__frobnicate": ("destructive", "guess"),
    "s__list_rows": ("read", "guess"),
    "s__wipe_rows": ("read", "server"),
}


@pytest.fixture
def cli(scripted: Scripted) -> Generator[Cli]:
    cli = Cli(scripted.directory, FUZZY)
    cli.configure(s=scripted(*TOOLS))
    with cli:
        yield cli


def classes(url: str) -> dict[str, tuple[str, str]]:
    tools: list[dict[str, Any]] = fetch(url, "/tools")[1]["tools"]
    return {each["toolId"]: (each["toolClass"], each["classSource"]) for each in tools}


def calls(url: str, name: str, identifier: str) -> tuple[bool, str]:
    """Whether one of the tools for calling refuses a tool, and its words."""
    params: dict[str, Any] = {"name": name, "arguments": {"tool": identifier}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {"Content-Type": "application/json"}
    _, answer = fetch(url, "/message", method="POST", headers=headers, body=body.encode())
    result = answer["result"]
    return bool(result.get("isError")), result["content"][0]["text"]


def test_a_class_and_who_states_it_are_shown_and_follow_the_configuration(
    cli: Cli, scripted: Scripted
) -> None:
    url = cli.start_gateway()
    until(lambda: classes(url) == GUESSED, "tools with their classes")
    assert not calls(url, "read_tool", "s__list_rows")[0]
    assert calls(url, "read_tool", "s__add_row")[1].endswith("call it with call_tool")
    assert calls(url, "call_tool", "s__frobnicate")[1].endswith("with call_destructive_tool")
    found = fetch(url, "/search?q=list_rows")[1]["results"][0]
    assert (found["toolClass"], found["classSource"]) == ("read", "guess")
    shown = cli("list-tools").stdout
    assert "read, by its name" in shown
    page = Browser(url).log_in(cli).page("/ui/tools/s__frobnicate")
    assert "guessed from its name" in page.one("p", class_="facts").text

    stated = {"*": "read", "*_rows": "write", "wipe_rows": "destructive"}
    cli.configure(s=scripted(*TOOLS) | {"class": stated})
    until(
        lambda: (
            classes(url)
            == {
                "s__add_row": ("read", "config"),
                "s__frobnicate": ("read", "config"),
                "s__list_rows": ("write", "config"),
                "s__wipe_rows": ("destructive", "config"),
            }
        ),
        "the classes of the configuration",
    )
    assert not calls(url, "read_tool", "s__frobnicate")[0]
    assert calls(url, "read_tool", "s__wipe_rows")[1].endswith("with call_destructive_tool")
    assert "destructive, as configured" in cli("list-tools").stdout
