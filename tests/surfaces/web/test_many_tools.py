"""The screens with 14,191 tools of every shape: they stay small, and keep their layout.

The tools are made here; ``TOOLSCRIPT_TEST_TOOLS=DIR/tools.jsonl`` takes those of a dataset.
"""

import json
import os
import random
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.support import FUZZY, Cli, Scripted, until
from tests.surfaces.web.browser import Browser
from tests.surfaces.web.chromium import SIZES, Chromium, launched, overflow
from tests.surfaces.web.real_site import put

from toolscript.surfaces.web.rendering import NAVIGATION

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
COUNT = 14_191
PER_SERVER = 1000
MAX_BYTES = 60_000
WORDS = (
    *("read", "file", "search", "create", "user", "list", "GetAllTheThings", "delete-by-id"),
    *(
        "Überweisung",
        "検索する",
        "поиск",
        "بحث",
        "🔍",
        "a" * 60,
        "W" * 40,
        "x_" * 30,
        "<b>",
        "&amp;",
    ),
    *("https://example.com/" + "path/" * 12, "|---|---|", "`code`", "{{name}}", "\\n", "C:\\Temp"),
)


def made_tools(chance: random.Random) -> list[dict[str, Any]]:
    """Tools whose names, texts and schemas have every length and many scripts."""

    def words(most: int) -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(0, most)))

    def schema(depth: int) -> dict[str, Any]:
        kind = chance.choice(["string", "integer", "boolean", "array", "object"])
        made: dict[str, Any] = {"type": kind, "description": words(12)}
        if kind == "object" and depth:
            made["properties"] = {words(3) or "x": schema(depth - 1) for _ in range(4)}
        return made

    return [
        {
            "name": words(4),
            "description": words(60),
            "inputSchema": {
                "type": "object",
                "properties": {words(3) or "x": schema(2) for _ in range(chance.randint(0, 6))},
            },
        }
        for _ in range(COUNT)
    ]


def dataset_tools(path: Path) -> list[dict[str, Any]]:
    rows = map(json.loads, path.read_text("utf-8").splitlines())
    return [
        {
            "name": row["name"],
            "description": row.get("description") or "",
            "inputSchema": row.get("input_schema") or {"type": "object"},
        }
        for row in rows
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Cli, Browser]]:
    """A gateway with all of them, and its owner."""
    home = tmp_path_factory.mktemp("many")
    cli, scripted = Cli(home, FUZZY, patience_s=240), Scripted(home)
    given = os.environ.get("TOOLSCRIPT_TEST_TOOLS")
    tools = dataset_tools(Path(given)) if given else made_tools(random.Random(20))  # noqa: S311 - no secret
    for number, tool in enumerate(tools):
        tool["name"] = f"{number} {tool['name']}"[:64].strip()
    entries: dict[str, Any] = {}
    for start in range(0, len(tools), PER_SERVER):
        listed = home / f"tools-{start}.json"
        put(listed, tuple(tools[start : start + PER_SERVER]))
        entries[f"from-{start}"] = scripted(tools_file=str(listed))
    cli.configure(**entries)
    browser = Browser(cli.start_gateway()).log_in(cli)
    with cli:
        until(lambda: browser.open("/ui/search.json").json["tools"] > COUNT * 0.9, "most are taken")
        yield cli, browser


@pytest.fixture(scope="module")
def asked(site: tuple[Cli, Browser]) -> list[str]:
    """Names of some tools of each server."""
    names: list[str] = []
    for start in range(0, COUNT, PER_SERVER):
        shown = site[1].open(f"/ui/servers/from-{start}.json").json["tools"]
        names += [each["id"] for each in shown[::250]]
    return names


def test_pages_are_small(site: tuple[Cli, Browser], asked: list[str]) -> None:
    browser = site[1]
    paths = [
        *(f"/ui{path}" for path, _ in NAVIGATION),
        "/ui/servers/from-1000",
        *(f"/ui/?q={quote(name.partition('__')[2])}&threshold=0" for name in asked),
    ]
    sizes = {path: len(browser.open(path).body.encode()) for path in paths}
    assert {path: size for path, size in sizes.items() if size > MAX_BYTES} == {}


@pytest.mark.parametrize("size", SIZES)
def test_the_layout_holds(site: tuple[Cli, Browser], asked: list[str], size: str) -> None:
    cli, _ = site
    with launched() as engine:
        browser = Chromium(engine, site[1].url)
        browser.log_in(cli("gateway", "page", "--print").stdout.strip())
        with browser.page("/ui/servers", size) as page:
            for name in asked[::8]:
                question = quote(name.partition("__")[2])
                for path in (
                    f"?q={question}&limit=100&threshold=0&alpha2=0&why={quote(name)}",
                    f"tools/{quote(name)}",
                ):
                    page.goto(f"{browser.url}/ui/{path}")
                    assert overflow(page) <= 0, path
                    assert page.evaluate("[window.ran, window.violations]") == [[], []], path
            page.goto(f"{browser.url}/ui/servers/from-0")
            assert overflow(page) <= 0
