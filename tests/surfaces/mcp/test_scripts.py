"""Scripts of models, run by a gateway for the SDK's own client."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client
from tests.support import (
    FUZZY,
    WRITES,
    Cli,
    Scripted,
    create_token,
    fetch,
    tool,
)
from tests.surfaces.mcp.test_mcp import MODES, Mode, talk

READS = {"annotations": {"readOnlyHint": True}}
DELETES = {"annotations": {"destructiveHint": True}}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ROWS = [{"id": number, "name": f"row {number}"} for number in range(5000)]
LARGE = {"content": [{"type": "text", "text": json.dumps({"rows": ROWS})}]}


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    """A gateway with scripts, over a server that notes each call that it gets."""
    home = tmp_path_factory.mktemp("scripts")
    cli = Cli(home, FUZZY)
    failure = {"content": [{"type": "text", "text": "no disk"}], "isError": True}
    (home / "fate.json").write_text(json.dumps({"results": {"rows": LARGE, "fails": failure}}))
    server = Scripted(home)(
        tool("echo", inputSchema=NUMBER) | READS,
        tool("rows") | READS,
        tool("fails") | READS,
        tool("save", inputSchema=NUMBER) | WRITES,
        tool("wipe") | DELETES,
        tool("secret") | READS,
        fate=str(home / "fate.json"),
        calls=str(home / "calls"),
    )
    config = cli.configure(my_files=server)
    profiles = {"careful": {"permissions": {"my_files__secret": "deny", "my_files__save": "deny"}}}
    value = json.loads(config.read_text("utf-8"))
    config.write_text(json.dumps({**value, "profiles": profiles}), "utf-8")
    done = cli("gateway", "start", "--open", "--port", "0", "--scripts")
    assert cli.record()["scripts"]
    assert done.returncode == 0, done.stderr
    with cli:
        yield cli


@pytest.fixture
def calls(cli: Cli) -> Callable[[], list[Any]]:
    """Returns the names of the tools that were called since the test began."""
    file = cli.home / "calls"
    file.write_text("")
    return lambda: [json.loads(line)["name"] for line in file.read_text("utf-8").splitlines()]


def run(cli: Cli, script: str, mode: Mode = "legacy", **client: Any) -> tuple[str, bool]:
    """Returns the texts of the answer to a script, and whether it has failed."""
    answers: list[types.CallToolResult] = []

    async def work(session: Client) -> None:
        answers.append(await session.call_tool("run_script", {"script": script}))

    talk(f"{cli.record()['url']}/mcp/search", work, mode, **client)
    [answer] = answers
    texts = [block.text for block in answer.content if isinstance(block, types.TextContent)]
    return "\n".join(texts), bool(answer.is_error)


def test_it_is_listed_as_a_tool_that_may_destroy(cli: Cli) -> None:
    async def work(client: Client) -> None:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        assert listed["run_script"].annotations.destructive_hint  # type: ignore[union-attr]
        assert not listed["run_script"].annotations.read_only_hint  # type: ignore[union-attr]

    for exposure in ("search", "all"):
        talk(f"{cli.record()['url']}/mcp/{exposure}", work)


@pytest.mark.parametrize("mode", MODES)
def test_a_script_counts_rows_that_no_model_could_read(cli: Cli, mode: Mode) -> None:
    script = 'rows = (await tools.my_files.rows())["rows"]\nsum(r["id"] for r in rows), len(rows)'
    assert run(cli, script, mode=mode) == ("[12497500,5000]", False)


def test_what_it_returns_obeys_the_limit_of_results(cli: Cli) -> None:
    script = '(await tools.my_files.rows())["rows"]'
    said, failed = run(cli, script)
    assert not failed
    assert "too long to be shown whole" in said
    assert "query (such as '[0:20]')" in said
    said, failed = run(cli, "for number in range(90_000):\n    print('line', number)\n1 / 0")
    assert failed
    assert "\nline 3: ZeroDivisionError: division by zero\nline 0\n" in said

    async def work(client: Client) -> None:
        first = await client.call_tool("run_script", {"script": script})
        [handle] = re.findall(r"handle '(\w+)'", first.content[0].text)  # type: ignore[union-attr]
        second = f'(await result("{handle}", "[4999].id")), len(await result("{handle}"))'
        done = await client.call_tool("run_script", {"script": second})
        assert done.content[0].text == "[4999,5000]"  # type: ignore[union-attr]
        gone = await client.call_tool("run_script", {"script": 'await result("gone")'})
        assert "no result 'gone'" in gone.content[0].text  # type: ignore[union-attr]

    talk(f"{cli.record()['url']}/mcp/search", work)


def test_calls_take_the_way_of_every_call(cli: Cli, calls: Callable[[], list[Any]]) -> None:
    script = """
import asyncio
a, b = await asyncio.gather(tools.my_files.echo(n=1), tools.my_files.echo(n=2))
await tools.my_files.save(n=a["arguments"]["n"] + b["arguments"]["n"])
"""
    said, failed = run(cli, script)
    assert not failed
    assert json.loads(said)["arguments"] == {"n": 3}
    assert calls() == ["echo", "echo", "save"]
    rows = fetch(cli.record()["url"], "/activity", {"limit": 3})[1]["calls"]
    assert [row["tool"] for row in rows] == ["my_files__save", *["my_files__echo"] * 2]
    assert all(row["outcome"] == "ok" for row in rows)


def test_a_search_answers_with_ids_and_signatures(cli: Cli) -> None:
    said, failed = run(cli, '[t["tool"] + t["signature"] for t in await search("echo")]')
    assert not failed
    assert "my_files__echo(n: integer)" in json.loads(said)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", ["once", "no"])
def test_a_script_waits_for_a_person(
    cli: Cli, calls: Callable[[], list[Any]], mode: Mode, answer: str
) -> None:
    """What it has computed stays; a no ends it, whatever it catches."""
    asked: list[str] = []

    async def ask(context: Any, params: Any) -> types.ElicitResult:
        del context
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"allow": answer})

    script = """
before = await tools.my_files.echo(n=7)
try:
    await tools.my_files.wipe()
except BaseException:
    pass
await tools.my_files.save(n=before["arguments"]["n"])
"""
    said, failed = run(cli, script, mode=mode, elicitation_callback=ask)
    [question] = asked
    assert "my_files__wipe" in question
    if answer == "no":
        assert failed
        assert "did not allow this call" in said
        assert calls() == ["echo"]
    else:
        assert not failed
        assert json.loads(said)["arguments"] == {"n": 7}
        assert calls() == ["echo", "wipe", "save"]


def test_exec_runs_a_file_in_python_by_the_gateway(cli: Cli) -> None:
    """As a model's script, but its outcome is printed whole."""
    (cli.home / "count.py").write_text(
        'rows = (await tools.my_files.rows())["rows"]\nprint("\\x1b[1mcounted\\x1b[0m")\nlen(rows)'
    )
    done = cli("exec", "count.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "\x1b[1mcounted\x1b[0m\n5000\n", "")
    (cli.home / "wrong.py").write_text("await tools.my_files.echo()")
    done = cli("exec", "wrong.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert "line 1: No argument provided for required parameter `n`" in done.stderr
    assert cli("exec", "-", given="1 + 1").stdout == "2\n"
    done = cli("exec", "nothing.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "toolscript: nothing.py cannot be read: No such file or directory\n"


def test_scripts_are_off_unless_turned_on(tmp_path: Path) -> None:
    cli = Cli(tmp_path, FUZZY)
    cli.configure(s=Scripted(tmp_path)(tool("echo")))
    with cli:
        url = cli.start_gateway()
        said = (
            "scripts are off here; the user turns them on with: toolscript gateway start --scripts"
        )
        (tmp_path / "one.py").write_text("1")
        assert cli("exec", "one.py").stderr.strip() == said

        async def work(client: Client) -> None:
            assert "run_script" not in [each.name for each in (await client.list_tools()).tools]
            done = await client.call_tool("run_script", {"script": "1"})
            assert said in done.content[0].text  # type: ignore[union-attr]

        talk(f"{url}/mcp/search", work)


def test_a_gateway_without_the_extra_says_so_at_its_start(tmp_path: Path) -> None:
    cli = Cli(tmp_path, FUZZY)
    cli.configure()
    words = ["toolscript", "gateway", "start", "--foreground", "--scripts", "--port", "0"]
    start = (
        "import sys; sys.modules['pydantic_monty'] = None; "  # as if it were not installed
        f"sys.argv = {words}; from toolscript.surfaces.cli.main import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", start],
        env=cli.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "which is not installed; install it with: " in line
    assert " -m pip install 'pydantic-monty" in line


def test_a_script_has_the_rights_of_its_caller(cli: Cli, calls: Callable[[], list[Any]]) -> None:
    """What a token or a profile cannot call is not there, under no name.

    The last test of the gateway, which a token closes to callers without one.
    """
    made = create_token(cli, "--name", "few", "--tool", "my_files__echo")
    url, key = cli.record()["url"], cli.record()["key"]
    dynamic = """
import json
async def steal():
    return await tools.my_files.secret()
await steal()
"""
    for headers in (
        {"Authorization": f"Bearer {made['token']}"},
        {"Authorization": f"Bearer {key}", "Toolscript-Profile": "careful"},
    ):
        params = {"name": "run_script", "arguments": {"script": dynamic}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers |= {"Content-Type": "application/json"}
        body = json.dumps(call).encode()
        answer = fetch(url, "/message", method="POST", headers=headers, body=body)[1]
        assert answer["result"]["isError"]
        assert "has no attribute `secret`" in answer["result"]["content"][0]["text"]
    assert calls() == []
