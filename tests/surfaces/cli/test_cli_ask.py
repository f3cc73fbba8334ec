"""``toolscript ask``, run as a process, with a model's endpoint on this machine."""

import json

import pytest
from tests.models import calls, endpoint, says
from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted


@pytest.fixture
def asking(cli: Cli, scripted: Scripted) -> Cli:
    """A command line with two servers."""
    cli.env = FUZZY
    destroying = READ_FILE | {"annotations": {"destructiveHint": True}}
    cli.configure(files=scripted(destroying), mail=scripted(SEND_MAIL))
    return cli


SEARCHES = calls(("tool_search", {"query": "read_file", "max_tools": 1}))
READS = calls(("files__read_file", {"path": "package.json"}))


@pytest.mark.requirement("agent:two-phase")
@pytest.mark.parametrize("gateway", [False, True])
def test_a_question(asking: Cli, *, gateway: bool) -> None:
    """agent:two-phase: the answer on standard output, how it came about and its cost beside it."""
    if gateway:
        asking.start_gateway()
    with endpoint(SEARCHES, READS, says("Your package.json…")) as model:
        flags = ("--llm-url", model.url, "--llm-model", "tiny")
        done = asking("ask", "What's in my package.json?", "--class", "destructive", *flags)
    assert (done.returncode, done.stdout) == (0, "Your package.json…\n")
    assert model.offered() == [["tool_search"], ["files__read_file"], ["files__read_file"]]
    sent = json.loads(model.asked[-1]["messages"][-1]["content"])
    assert sent["arguments"] == {"path": "package.json"}
    assert "files__read_file" in done.stderr
    assert "all of them would have taken" in done.stderr
    assert "3 requests: 300 tokens read, 21 written" in done.stderr


def test_where_nobody_watches_nothing_is_destroyed(asking: Cli) -> None:
    with endpoint(SEARCHES, READS, says("I may not.")) as model:
        done = asking("ask", "x", "--llm-url", model.url, "--llm-model", "tiny")
    assert done.stdout == "I may not.\n"
    refused = model.asked[-1]["messages"][-1]["content"]
    assert "is a destructive tool, and this call is for read or write tools" in refused


@pytest.mark.requirement("agent:two-phase")
def test_as_json_with_settings_from_the_environment(asking: Cli) -> None:
    with endpoint(SEARCHES, READS, says("done")) as model:
        env = {"TOOLSCRIPT_LLM_URL": model.url, "TOOLSCRIPT_LLM_MODEL": "tiny"}
        answer = asking.json(
            "ask", "x", "--class", "destructive", env={**env, "TOOLSCRIPT_LLM_KEY": "sk-1234567"}
        )
    assert answer["answer"] == "done"
    assert [step["tool"] for step in answer["steps"]] == ["tool_search", "files__read_file"]
    assert answer["tokens"]["requests"] == 3
    assert set(model.keys) == {"Bearer sk-1234567"}


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ([], 2, "no model to ask; give --llm-url, or set TOOLSCRIPT_LLM_URL"),
        (["--llm-url", "http://127.0.0.1:9"], 2, "no model to ask; give --llm-model"),
        (["--llm-url", "localhost", "--llm-model", "x"], 2, "--llm-url is 'localhost'; expected"),
        (["--llm-url", "http://127.0.0.1:9", "--llm-model", "x"], 1, "cannot be reached"),
    ],
)
def test_no_model(asking: Cli, flags: list[str], code: int, message: str) -> None:
    done = asking("ask", "x", *flags)
    [line] = [each for each in done.stderr.splitlines() if message in each]
    assert line.startswith("toolscript: ")
    assert (done.returncode, done.stdout) == (code, "")
