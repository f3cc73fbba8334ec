"""Requests that no client in its right mind sends: rows A4, L1 and M14."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support import FUZZY, READ_FILE, Cli, Scripted, post, stop_all

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("requests")


@pytest.fixture(scope="module")
def url(home: Path) -> Generator[str]:
    """A gateway of one server, without a token."""
    cli = Cli(home, FUZZY)
    cli.configure(files=Scripted(home)(READ_FILE, calls=str(home / "calls")))
    try:
        yield cli.start_gateway()
    finally:
        stop_all(json.loads(path.read_text("utf-8"))["pid"] for path in cli.records)


def rpc(url: str, method: str, params: Any) -> dict[str, Any]:
    status, answer = post(url, "/message", {"method": method, "params": params, "id": 1})
    assert status == 200
    return answer


# A4, L1


@pytest.mark.parametrize("arguments", ["x", [], ["x"], None, 1, 0, False, ""])
@pytest.mark.parametrize("name", ["search_tools", "describe_tools", "call_tool", "files:read_file"])
def test_a4_arguments_that_are_no_object_are_refused(url: str, name: str, arguments: Any) -> None:
    answer = rpc(url, "tools/call", {"name": name, "arguments": arguments})
    assert answer["error"]["code"] == -32602
    assert "send a JSON object" in answer["error"]["message"]


def test_l1_arguments_of_a_prompt_are_an_object_too(url: str) -> None:
    answer = rpc(url, "prompts/get", {"name": "files__p", "arguments": ["x"]})
    assert answer["error"]["code"] == -32602
