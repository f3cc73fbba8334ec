"""Each adapter, with the real framework: a model is shown exactly the tools that we ranked."""

import json
import os
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, Cli, Scripted, tool

PYTHON = ROOT / ".clients" / "frameworks" / "bin" / "python"
PROGRAMS = Path(__file__).with_name("programs")
CALL = ["mow_lawn", 30]

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="scripts/test installs the frameworks")


def run(name: str, home: Path, *arguments: str) -> dict[str, Any]:
    """Runs a program in the frameworks' environment; returns what it prints."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [PYTHON, PROGRAMS / f"use_{name}.py", *arguments],
        env=environ,
        cwd=PROGRAMS,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def test_claude_is_referred_to_the_tools_that_rank_first(tmp_path: Path) -> None:
    seen = run("anthropic", tmp_path)
    assert seen["offered"] == ["search_tools"]
    assert len(seen["deferred"]) == 12
    assert seen["same"], "the list of tools is the same in every request"
    assert seen["loaded"] == ["mow_lawn"]
    assert seen["calls"] == [CALL]
    assert seen["answer"] == "mow_lawn: done"


def test_openai_loads_the_tools_that_rank_first(tmp_path: Path) -> None:
    seen = run("openai", tmp_path)
    assert seen["offered"] == ["tool_search"]
    assert seen["loaded"] == {"tools": ["mow_lawn"]}
    assert seen["calls"] == [CALL]
    assert seen["answer"] == "mow_lawn: done"


def test_pydantic_ai_shows_the_tools_that_rank_first(tmp_path: Path) -> None:
    seen = run("pydantic_ai", tmp_path)
    assert seen["shown"][0] == ["search_tools"]
    assert set(seen["shown"][1]) == {"search_tools", "mow_lawn"}
    assert seen["calls"] == [CALL]


def test_langchain_is_offered_a_list_that_only_grows(tmp_path: Path) -> None:
    shown = run("langchain", tmp_path)["shown"]
    assert shown[0] == shown[1] == ["mow_lawn"]
    assert shown[2][:2] == ["mow_lawn", "pick_apples"]
    assert shown[2] == shown[3]


def test_a_fastmcp_server_finds_its_tools_with_our_ranking(tmp_path: Path) -> None:
    seen = run("fastmcp", tmp_path)
    assert seen["listed"] == ["search_tools", "call_tool"]
    assert seen["loaded"] == ["mow_lawn"]
    assert seen["calls"] == [CALL]


@pytest.fixture
def gateway(cli: Cli, scripted: Scripted) -> str:
    """The address of a gateway that has the garden's tools."""
    descriptions: dict[str, str] = runpy.run_path(str(PROGRAMS / "garden.py"))["DESCRIPTIONS"]
    tools = [
        tool(name, text)
        | {"inputSchema": {"type": "object", "properties": {"amount": {"type": "integer"}}}}
        for name, text in descriptions.items()
    ]
    cli.configure(garden=scripted(*tools, results={"mow_lawn": {"content": [TEXT]}}))
    return cli.start_gateway()


TEXT = {"type": "text", "text": "mown"}


def test_a_gateways_tools_are_ranked_for_claude(gateway: str, tmp_path: Path) -> None:
    seen = run("anthropic", tmp_path, gateway)
    assert len(seen["deferred"]) == 12
    assert seen["loaded"][0] == "garden__mow_lawn"
    assert "mown" in seen["answer"]


@pytest.mark.long  # the usual run has the gateway once, and each adapter over tools of its own
def test_a_gateways_tools_are_ranked_for_openai(gateway: str, tmp_path: Path) -> None:
    seen = run("openai", tmp_path, gateway)
    assert seen["loaded"]["garden"][0] == "garden__mow_lawn"
    assert "mown" in seen["answer"]


@pytest.mark.long
def test_a_gateways_tools_are_ranked_for_pydantic_ai(gateway: str, tmp_path: Path) -> None:
    seen = run("pydantic_ai", tmp_path, gateway)
    assert "garden__mow_lawn" in seen["shown"][1]
    assert seen["calls"] == [CALL]
