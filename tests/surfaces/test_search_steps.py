"""``--steps none`` and TOOLSCRIPT_SEARCH_STEPS=none: the formula is the score, at every door."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support import READ_FILE, SEND_MAIL, Cli, Scripted, fetch, post, tool

from toolscript.config.settings import OPTION

QUERY = "read_file"
TOOLS = [
    READ_FILE,
    SEND_MAIL,
    tool("list_files", "List the files of a directory"),
    tool("recall", "Remembers what you like, such as a file"),
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    """A gateway whose searches have no steps."""
    home: Path = tmp_path_factory.mktemp("steps")
    cli = Cli(home, {"TOOLSCRIPT_SEARCH_STEPS": "none", "TOOLSCRIPT_SEARCH_MODEL": "bundled"})
    cli.configure(s=Scripted(home)(*TOOLS))
    with cli:
        cli.start_gateway()
        yield cli


def formula(hit: dict[str, Any]) -> float:
    alpha, signals = OPTION["alpha"].default, hit["signals"]
    return alpha * signals["semantic"] + (1 - alpha) * signals["fuzzy"]


def record(cli: Cli) -> str:
    [path] = cli.records
    return json.loads(path.read_text("utf-8"))["url"]


@pytest.mark.requirement("search:fusion")
def test_the_formula_is_the_confidence_over_http(gateway: Cli) -> None:
    """search:fusion: an exact name has no privilege then; with the steps it has."""
    url = record(gateway)
    _, answer = fetch(url, f"/search?q={QUERY}&threshold=0&limit=10")
    hits = answer["results"]
    assert len(hits) == len(TOOLS)
    assert all(hit["confidence"] == hit["fused"] < 1 for hit in hits)
    assert all(hit["fused"] == pytest.approx(formula(hit), abs=1e-5) for hit in hits)
    assert [h["toolId"] for h in hits] == [
        h["toolId"] for h in sorted(hits, key=lambda h: (-h["fused"], h["toolId"]))
    ]
    _, answer = fetch(url, f"/search?q={QUERY}&threshold=0&steps=all")
    first = answer["results"][0]
    assert first["confidence"] == 1
    assert first["fused"] == hits[0]["fused"]


@pytest.mark.requirement("mcp:search_tools", "mcp:tool_search")
def test_the_formula_is_the_score_for_models(gateway: Cli) -> None:
    """mcp:search_tools, mcp:tool_search: a context of tools changes nothing either."""
    url = record(gateway)
    call = {"name": "search_tools", "arguments": {"query": QUERY, "context_tools": ["s:recall"]}}
    _, answer = post(url, "/message", {"id": 1, "method": "tools/call", "params": call})
    tools = json.loads(answer["result"]["content"][0]["text"])["tools"]
    assert len(tools) == len(TOOLS)
    assert all(each["score"] == each["fused"] == each["semantic_score"] for each in tools)


@pytest.mark.requirement("cli:search", "cli:per-call")
def test_a_command_states_the_steps_for_its_call(gateway: Cli) -> None:
    """cli:search, cli:per-call: what it does not state is the gateway's."""

    def search(*flags: str) -> dict[str, Any]:
        done = gateway("search", QUERY, "--output", "json", *flags)
        return json.loads(done.stdout)["results"][0]

    gateway.env = {**gateway.env, "TOOLSCRIPT_SEARCH_STEPS": ""}
    own = search()
    assert own["confidence"] == own["fused"]
    assert search("--steps", "all")["confidence"] == 1
    assert search("--steps", "none")["confidence"] == own["fused"]
    done = gateway("search", QUERY, "--steps", "some")
    assert done.returncode == 2
    assert "choose one of all, none" in done.stderr
