"""``/runtime/tools.ts`` and ``.py``: modules of a running gateway, run against real servers."""

import http.client
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.compilers import DENO, OFFLINE, deno_check, node, pyright, tsc
from tests.docs.pages import DOCS, fences
from tests.support import FUZZY, Cli, Scripted, fetch, tool

GUIDE = DOCS / "guides" / "typed-clients.md"
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
DENIED = {"content": [{"type": "text", "text": "the disk is full"}], "isError": True}
RUN = [DENO, "run", "--no-prompt", *OFFLINE, "--allow-net=127.0.0.1", "--allow-env"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("types")


@pytest.fixture(scope="module")
def url(home: Path) -> Generator[str]:
    """A gateway with two servers."""
    cli, scripted = Cli(home, FUZZY), Scripted(home)
    odd = scripted(
        *(tool(name) for name in ("echo", "fails", "a/b c")),
        tool("counts", outputSchema=OUTPUT),
        tool("breaks_its_word", outputSchema=OUTPUT),
        results={
            "fails": DENIED,
            "counts": {"content": [], "structuredContent": {"n": 3}},
            "breaks_its_word": {"content": []},
        },
    )
    cli.configure(odd=odd, two=scripted(tool("echo", "Says it again")), none=scripted())
    with cli:
        yield cli.start_gateway()


def ask(url: str, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers and text."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, text


def module(url: str, query: str = "", language: str = "ts") -> str:
    status, _, text = ask(url, f"/runtime/tools.{language}?{query}")
    assert status == 200, text
    return text


def ids(text: str) -> list[str]:
    """The tools that a TypeScript module has."""
    return [line.split('"')[1] for line in text.splitlines() if "return await answer(" in line]


@pytest.mark.requirement("http:types")
def test_every_tool(url: str) -> None:
    """http:types: without a filter."""
    status, headers, text = ask(url, "/runtime/tools.ts")
    assert (status, headers["content-type"]) == (200, "application/typescript; charset=utf-8")
    every = [each["toolId"] for each in fetch(url, "/tools")[1]["tools"]]
    assert ids(text) == every
    assert len(every) == 6


@pytest.mark.requirement("http:types")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("filter=two", ["two__echo"]),
        ("filter=odd__echo", ["odd__echo"]),
        ("filter=odd:echo", ["odd__echo"]),
        ("filter=two,odd__counts,odd__echo", ["odd__counts", "odd__echo", "two__echo"]),
        ("filter=two&filter=%20odd__echo%20", ["odd__echo", "two__echo"]),
        ("filter=two,two__echo,", ["two__echo"]),
    ],
)
def test_a_filter(url: str, query: str, expected: list[str]) -> None:
    """http:types: servers and tools, several in one call."""
    assert ids(module(url, query)) == expected


@pytest.mark.requirement("http:types")
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("nope", "no server is called 'nope'; configured are: none, odd, two"),
        ("odd:ecko", "no tool is called 'odd:ecko'; the nearest are: odd__echo"),
        ("odd__ecko,two", "no tool is called 'odd__ecko'; the nearest are: odd__echo"),
        ("none", "the server 'none' has no tools (ready)"),
        ("a,b", "no server is called 'b'"),
    ],
)
def test_names_that_choose_nothing_are_reported(url: str, names: str, expected: str) -> None:
    """http:types: every one of them, and nothing is generated."""
    status, value = fetch(url, "/runtime/tools.ts", {"filter": names})
    assert (status, value["type"]) == (404, "UnknownNameError")
    assert expected in value["error"]


@pytest.mark.requirement("http:types")
def test_a_parameter_that_is_neither(url: str) -> None:
    status, value = fetch(url, "/runtime/tools.ts", {"json": "maybe"})
    assert (status, value["error"]) == (400, "json is 'maybe'; expected true or false")


@pytest.mark.requirement("http:types")
@pytest.mark.parametrize("language", ["ts", "py"])
def test_what_is_known_is_not_sent_again(url: str, language: str) -> None:
    """http:types: ETag."""
    path = f"/runtime/tools.{language}?filter=two"
    _, headers, text = ask(url, path)
    tag = headers["etag"]
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        assert ask(url, path, **{"If-None-Match": known})[0::2] == (304, "")
    assert ask(url, path, **{"If-None-Match": '"x"'})[2] == text
    assert ask(url, f"/runtime/tools.{language}")[1]["etag"] != tag


@pytest.mark.requirement("types:typescript")
def test_names_do_not_depend_on_the_filter(url: str) -> None:
    """types:typescript: code written with one module works with another."""
    assert "odd: {" in module(url, "filter=odd__echo")
    assert module(url).count("OddEchoParams") == module(url, "filter=odd").count("OddEchoParams")


CALLS = """
const { tools, text, ToolError } = await import(MODULE);
const told = [];
told.push(JSON.parse(text(await tools.two.echo({ a: "é", n: [1, null] }))).arguments);
told.push(await tools.odd.counts());
told.push(JSON.parse(text(await tools.odd["a/b c"]({ x: 1 }))).arguments);
for (const name of ["fails", "breaks_its_word"]) {
  try {
    await tools.odd[name]({});
  } catch (error) {
    told.push([error instanceof ToolError, error.message, error.tool, error.type]);
  }
}
console.log(JSON.stringify(told));
"""
TOLD = [
    {"a": "é", "n": [1, None]},
    {"n": 3},
    {"x": 1},
    [True, "Tool call failed: the disk is full", "odd__fails", "ToolError"],
    [
        True,
        "Tool call failed: the answer lacks what the tool's output schema promises",
        "odd__breaks_its_word",
        "OutputError",
    ],
]


@pytest.mark.requirement("types:typescript")
def test_calls_under_deno(url: str, tmp_path: Path) -> None:
    """types:typescript: the module is imported from the gateway, and its calls work."""
    script = tmp_path / "script.mjs"
    where = json.dumps(f"{url}/runtime/tools.ts")
    script.write_text(CALLS.replace("MODULE", where), "utf-8")
    run = [*(word for word in RUN if word != "--no-remote"), "--allow-import=127.0.0.1", script]
    environ = {**os.environ, "TOOLSCRIPT_GATEWAY_URL": f"{url}/", "DENO_DIR": str(tmp_path)}
    done = subprocess.run(run, env=environ, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert json.loads(done.stdout) == TOLD


BOUNDED = """
import { text, tools } from "./tools.ts";

console.log(JSON.parse(text(await tools.two.echo({ n: 1 }))).arguments.n);
for (const reach of [
  () => Deno.readTextFile("/etc/passwd"),
  () => Deno.writeTextFile("x", "y"),
  () => Deno.env.get("HOME"),
  () => new Deno.Command("ls").output(),
  () => fetch("http://127.0.0.1:8000"),
]) {
  try {
    await reach();
  } catch (error) {
    console.log(error.name);
  }
}
"""


def test_the_flags_of_the_guide_bound_a_script(url: str, tmp_path: Path) -> None:
    [command] = [line for f in fences(GUIDE) for line in f.text.split("\n") if "deno run" in line]
    words = shlex.split(command.replace("127.0.0.1:7337", urlsplit(url).netloc))
    (tmp_path / "tools.ts").write_text(module(url, "filter=two"), "utf-8")
    (tmp_path / "script.ts").write_text(BOUNDED, "utf-8")
    done = subprocess.run(
        [DENO, words[1], "--no-prompt", *OFFLINE, *words[2:]],
        cwd=tmp_path,
        env={**os.environ, "TOOLSCRIPT_GATEWAY_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "1\n" + 5 * "NotCapable\n", done.stderr


@pytest.mark.requirement("types:typescript")
def test_calls_under_node(url: str, tmp_path: Path) -> None:
    """types:typescript: Node reads the same file, and a global says where the gateway is."""
    file = tmp_path / "tools.ts"
    file.write_text(module(url), "utf-8")
    here = f"globalThis.TOOLSCRIPT_GATEWAY_URL = {json.dumps(url)};"
    assert json.loads(node(here + CALLS.replace("MODULE", json.dumps(str(file))))) == TOLD


PYTHON_CALLS = """
import asyncio, json
from tools import ToolError, text, tools

async def main():
    said, counted, odd = await asyncio.gather(
        tools.two.echo({"a": "é", "n": [1, None]}),
        tools.odd.counts({}),
        tools.odd.a_b_c({"x": 1}),
    )
    told = [json.loads(text(said))["arguments"], counted, json.loads(text(odd))["arguments"]]
    for name in ("fails", "breaks_its_word"):
        try:
            await getattr(tools.odd, name)({})
        except ToolError as error:
            told.append([True, str(error), error.tool, error.type])
    print(json.dumps(told))

asyncio.run(main())
"""


@pytest.mark.requirement("types:python")
def test_calls_from_python(url: str, tmp_path: Path) -> None:
    """types:python: the same calls, with nothing but the standard library."""
    (tmp_path / "tools.py").write_text(module(url, "", "py"), "utf-8")
    (tmp_path / "script.py").write_text(PYTHON_CALLS, "utf-8")
    done = subprocess.run(
        [sys.executable, "-S", "script.py"],
        cwd=tmp_path,
        env={"TOOLSCRIPT_GATEWAY_URL": url, "http_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    assert json.loads(done.stdout) == TOLD


@pytest.mark.requirement("types:python")
@pytest.mark.parametrize(
    ("gateway", "expected"),
    [("", "TOOLSCRIPT_GATEWAY_URL not set"), ("http://127.0.0.1:9", "no gateway answers at 127")],
)
def test_without_a_gateway(url: str, tmp_path: Path, gateway: str, expected: str) -> None:
    """types:python, types:typescript: said in one line."""
    (tmp_path / "tools.py").write_text(module(url, "filter=two", "py"), "utf-8")
    (tmp_path / "tools.ts").write_text(module(url, "filter=two"), "utf-8")
    environ = {"TOOLSCRIPT_GATEWAY_URL": gateway}
    code = "import asyncio, tools; asyncio.run(tools.tools.two.echo({}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert expected in done.stderr.splitlines()[-1]
    if not gateway:
        code = 'import { tools } from "./tools.ts"; await tools.two.echo({});'
        (tmp_path / "script.ts").write_text(code, "utf-8")
        done = subprocess.run(
            [*RUN, tmp_path / "script.ts"],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        assert expected in done.stderr


REAL = """
import { text, ToolError, tools } from "./tools.ts";

const read = await tools.filesystem.read_text_file({ path: Deno.args[0] });
const content: string = read.content;
const status = await tools.git.git_status({ repo_path: Deno.args[1] });
let failure = "";
try {
  await tools.filesystem.read_text_file({ path: "/etc/none-such" });
} catch (error) {
  failure = error instanceof ToolError ? `${error.tool}: ${error.message}` : "?";
}
console.log(JSON.stringify([content, text(status), failure]));
"""
REAL_PYTHON = """
import asyncio
import json
import sys

from tools import ToolError, text, tools


async def main() -> None:
    read = await tools.filesystem.read_text_file({"path": sys.argv[1]})
    status = await tools.git.git_status({"repo_path": sys.argv[2]})
    failure = ""
    try:
        await tools.filesystem.read_text_file({"path": "/etc/none-such"})
    except ToolError as error:
        failure = f"{error.tool}: {error}"
    content: str = read["content"]
    print(json.dumps([content, text(status), failure]))


asyncio.run(main())
"""


@pytest.mark.requirement("types:typescript", "types:python")
@pytest.mark.servers
def test_real_servers(real_servers: dict[str, Any], cli: Cli, tmp_path: Path) -> None:
    """types:typescript, types:python: typed scripts, checked and run, against real servers."""
    given = [Path(word) for entry in real_servers.values() for word in entry["args"]]
    [root] = {path.parent for path in given if path.name == "repo"}
    work = tmp_path / "workspace"
    shutil.copytree(root, work)
    text = json.dumps(real_servers).replace(str(root), str(work))
    cli.env = FUZZY
    cli.configure(**{name: json.loads(text)[name] for name in ("filesystem", "git", "everything")})
    url = cli.start_gateway()
    (tmp_path / "tools.ts").write_text(module(url), "utf-8")
    (tmp_path / "script.ts").write_text(REAL, "utf-8")
    (tmp_path / "tools.py").write_text(module(url, "", "py"), "utf-8")
    (tmp_path / "script.py").write_text(REAL_PYTHON, "utf-8")
    shown = [f.text for f in fences(GUIDE) if f.language == "typescript"]
    guides = [tmp_path / f"guide{at}.ts" for at in range(len(shown))]
    for path, text in zip(guides, shown, strict=True):
        path.write_text(text.replace('"toolscript"', '"./tools.ts"'), "utf-8")
    [script] = [f.text for f in fences(GUIDE) if f.file == "script.py"]
    (tmp_path / "guide.py").write_text(script, "utf-8")
    assert not tsc([tmp_path / "tools.ts"])
    assert not deno_check([tmp_path / "script.ts", *guides])
    assert not pyright(tmp_path)
    arguments = [work / "notes.txt", work / "repo"]
    environ = {**os.environ, "TOOLSCRIPT_GATEWAY_URL": url}
    commands = [[*RUN, tmp_path / "script.ts"], [sys.executable, tmp_path / "script.py"]]
    for command in commands:
        done = subprocess.run(
            [*command, *arguments], env=environ, capture_output=True, text=True, check=False
        )
        assert not done.returncode, done.stderr
        content, status, failure = json.loads(done.stdout)
        assert content == (work / "notes.txt").read_text("utf-8")
        assert "greet.py" in status
        assert failure.startswith("filesystem__read_text_file: Tool call failed: ")
        assert "denied" in failure
