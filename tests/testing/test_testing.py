"""The shipped helpers for users' tests, used as the guide shows."""

import subprocess
import sys
from pathlib import Path

from toolscript import testing
from toolscript.testing import WordEncoder, running_client, scripted_server, tool

ADD = tool("add", "Add two numbers")


def test_an_application_answers_in_this_process(tmp_path: Path) -> None:
    result = {"content": [{"type": "text", "text": "3"}]}
    server = scripted_server(ADD, tool("fail"), results={"add": result})
    with running_client(tmp_path, {"math": server}) as client:
        client.wait_until_ready()
        assert [status.state for status in client.servers()] == ["ready"]
        assert [spec.id for spec in client.tools("math")] == ["math__add", "math__fail"]
        assert client.search("add numbers").hits[0].document.id == "math__add"
        assert client.call("math__add", {"a": 1})["content"] == result["content"]


def test_the_same_words_are_similar_in_every_process() -> None:
    encoder = WordEncoder()
    near, far = encoder.documents(["read a file", "water the plants"]) @ encoder.query("read file")
    assert near > 0.5 > far
    program = (
        "from toolscript import testing as t; print(t.WordEncoder().query('a').tobytes().hex())"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == encoder.query("a").tobytes().hex()


def test_every_name_can_be_imported() -> None:
    assert all(getattr(testing, name).__doc__ for name in testing.__all__)
