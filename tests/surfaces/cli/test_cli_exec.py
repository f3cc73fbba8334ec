"""``toolscript exec``: a script in the real sandbox, against a real gateway."""

import json
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support import FUZZY, Cli, Scripted, processes, stop_all, tool, until

DENIED = {"content": [{"type": "text", "text": "the disk is full"}], "isError": True}
IMPORT = 'import { text, ToolError, tools } from "toolscript";\n'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    """A command line with a gateway of one server; its calls are written down."""
    cli = Cli(tmp_path_factory.mktemp("exec"), FUZZY)
    scripted = Scripted(cli.home)
    server = scripted(
        tool("echo"), tool("fails"), results={"fails": DENIED}, calls=str(cli.home / "calls")
    )
    cli.configure(s=server)
    cli.start_gateway()
    (cli.home / "secret.json").write_text('{"a": 1}', "utf-8")
    yield cli
    stop_all([cli.record()["pid"]])
    assert not processes(str(cli.home))


def run(
    cli: Cli, script: str, *flags: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script that is handed over on standard input."""
    return cli("exec", "-", *flags, env=env, given=script)


@pytest.mark.requirement("types:typescript")
def test_calls_are_chained_in_one_go(served: Cli) -> None:
    """types:typescript: each call's arguments come from the answer before."""
    script = """
    let said = { n: 1 };
    for (let at = 0; at < 5; at++) {
      const answer = JSON.parse(text(await tools.s.echo({ n: said.n * 2 })));
      said = answer.arguments as { n: number };
    }
    console.log(said.n);
    """
    done = run(served, IMPORT + script)
    assert (done.stdout, done.stderr, done.returncode) == ("32\n", "", 0)
    assert (served.home / "calls").read_text("utf-8").count('"n":') == 5


def test_a_file_and_its_standard_input(served: Cli) -> None:
    """types:typescript: the exit code is the script's."""
    script = served.home / "script.ts"
    script.write_text(
        "const said = await new Response(Deno.stdin.readable).text();\n"
        "console.log(said.toUpperCase());\nDeno.exit(7);\n",
        "utf-8",
    )
    done = served("exec", "script.ts", given="hello")
    assert (done.stdout, done.stderr, done.returncode) == ("HELLO\n", "", 7)


def test_a_script_does_no_more_than_its_user_says(served: Cli) -> None:
    """The server says nothing of its tools, so they may be destructive."""
    script = f"{IMPORT}\nawait tools.s.echo({{}});\n"
    done = run(served, script, "--class", "write")
    assert done.returncode == 1
    assert "s__echo is a destructive tool, and this call is for read or write tools" in done.stderr
    assert run(served, script, "--class", "destructive").returncode == 0


def test_what_is_said_is_the_scripts_own(served: Cli) -> None:
    """Other requests than those of calls are answered, and nothing is logged of them."""
    done = run(served, "console.log((await fetch(globalThis.TOOLSCRIPT_GATEWAY_URL)).status);")
    assert (done.stdout, done.stderr) == ("501\n", "")


def test_a_tool_that_fails(served: Cli) -> None:
    """types:typescript: one line with the tool's message, and where in the script it was."""
    done = run(served, f"{IMPORT}\nawait tools.s.fails({{}});\n")
    assert done.returncode == 1
    assert done.stderr == (
        "ToolError: Tool call failed: the disk is full\n    at async script:3:1\n"
    )


@pytest.mark.requirement("types:typescript")
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("Deno.readTextFileSync('/etc/passwd')", "Requires read access"),
        ("Deno.writeTextFileSync('x', 'y')", "Requires write access"),
        ("Deno.env.get('HOME')", "Requires env access"),
        ("new Deno.Command('/bin/ls').outputSync()", "Requires run access"),
        ("await fetch('http://127.0.0.1:1234')", "Requires net access"),
        ("await fetch('http://example.com')", "Requires net access"),
        ("Deno.listen({ port: 0 })", "Requires net access"),
        ("Deno.readTextFileSync('/proc/self/environ')", "Requires"),
        ("Deno.env.toObject()", "Requires env access"),
        ("Deno.hostname()", "Requires sys access"),
        ("import x from 'file://HOME/secret.json' with { type: 'json' }; x", "read access"),
        ("await import('file://HOME/secret.json', { with: { type: 'json' } })", "read access"),
        ("await import('file://' + 'HOME/secret.json', { with: { type: 'json' } })", "read access"),
        ("import 'https://example.com/x.ts'", "Requires import access"),
        ("import 'npm:lodash'", "--no-npm"),
        ("import fs from 'node:fs'; fs.readFileSync('/etc/passwd')", "Requires read access"),
    ],
    ids=lambda value: value[:40],
)
def test_what_a_script_may_not(served: Cli, script: str, expected: str) -> None:
    """types:typescript: nothing but calls of tools."""
    done = run(served, script.replace("HOME", str(served.home)))
    assert done.returncode == 1
    assert done.stdout == ""
    assert expected in done.stderr
    assert "--allow" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.requirement("types:typescript")
@pytest.mark.parametrize(
    ("script", "flags", "expected"),
    [
        ("for (;;) {}", ("--timeout", "2"), "ran longer than 2 s and was stopped"),
        ("await new Promise(() => setInterval(() => {}, 1))", ("--timeout", "2"), "than 2 s"),
        ("const a = []; for (;;) a.push(new Array(1e6).fill(1.5))", ("--memory", "64"),
         "took more memory than 64 MiB"),
        ("const a = []; for (;;) a.push(new Uint8Array(1e8).fill(1))", (), "memory than 256 MiB"),
        ("for (;;) console.log('x'.repeat(100000))", (), "said more than 4000000 bytes"),
        ("for (;;) console.error('x'.repeat(100000))", (), "said more than 4000000 bytes"),
    ],
)  # fmt: skip
def test_a_limit(served: Cli, script: str, flags: tuple[str, ...], expected: str) -> None:
    """types:typescript: one line that says which, and no process is left."""
    done = run(served, script, *flags)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("toolscript: the script ")
    assert expected in last
    assert "Last few GCs" not in done.stderr
    until(lambda: not processes("toolscript-exec-"), "the sandbox has ended")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("const a: = 3", "script:1:10"),
        ("null.x", "TypeError"),
        ("throw 'text'", "thrown: text"),
        ("Promise.reject(new Error('loose'))", "Error: loose"),
        ("import './other.ts'", 'Requires read access to "other.ts"'),
        ("console.error('\\x1b[31mred'); Deno.exit(1)", "�[31mred"),
    ],
)
def test_what_goes_wrong_in_a_script(served: Cli, script: str, expected: str) -> None:
    """types:typescript: told in the script's terms."""
    done = run(served, script)
    assert done.returncode == 1
    assert expected in done.stderr
    assert "toolscript-exec-" not in done.stderr


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xff", "script is not UTF-8 at byte 0"),
        (b" " * 1_000_001, "is longer than 1000000 bytes"),
    ],
)
def test_what_is_no_script(served: Cli, data: bytes, expected: str) -> None:
    """types:typescript."""
    command = served.command("exec", "-")
    done = subprocess.run(
        command, env=served.environment(), input=data, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert expected in done.stderr.decode()


def test_a_file_that_is_not_there(served: Cli) -> None:
    """types:typescript."""
    done = served("exec", "nothing.ts")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "toolscript: nothing.ts cannot be read: No such file or directory\n"


@pytest.mark.both_storages
def test_a_gateway_that_asks_for_a_token(cli: Cli, scripted: Scripted) -> None:
    """types:typescript: calls carry it, and the script cannot read it."""
    cli.env = FUZZY
    cli.configure(s=scripted(tool("echo")), t=scripted(tool("echo")))
    created = cli("token", "create", "--server", "s", "--output", "json")
    token = json.loads(created.stdout)["token"]
    given = {"TOOLSCRIPT_GATEWAY_URL": cli.start_gateway(), "TOOLSCRIPT_GATEWAY_TOKEN": token}
    script = """
    console.log(Object.keys(tools).join(), JSON.parse(text(await tools.s.echo({ n: 1 }))).name);
    const seen = Object.values(globalThis).map(String);
    for (const name of ["main.js", "script.ts"]) {
      try {
        seen.push(Deno.readTextFileSync(new URL(name, import.meta.url)));
      } catch (error) {
        seen.push(String(error));
      }
    }
    console.log(seen.join());
    """
    for env in (given, {}):
        done = run(cli, IMPORT + script, env=env)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("s echo\n" if env else "s,t echo\n")
        assert token not in done.stdout
        assert cli.record()["key"] not in done.stdout
    done = run(cli, "1", env={**given, "TOOLSCRIPT_GATEWAY_TOKEN": "wrong"})
    assert (done.returncode, done.stdout) == (1, "")


def test_without_a_gateway(cli: Cli) -> None:
    """types:typescript."""
    cli.configure()
    done = run(cli, "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "toolscript: no gateway is running for this configuration; "
        "start one with: toolscript gateway start\n"
    )


def test_without_deno(served: Cli, tmp_path: Path) -> None:
    """types:typescript: what to install."""
    venv.create(tmp_path / "env")
    site = next((tmp_path / "env").rglob("site-packages"))
    paths = [sysconfig.get_path("purelib"), str(Path(__file__).parents[3] / "src")]
    (site / "ours.pth").write_text("\n".join(paths), "utf-8")
    done = subprocess.run(
        [tmp_path / "env" / "bin" / "python", "-m", "toolscript", "exec", "-"],
        cwd=served.home,
        env=served.environment({"PATH": str(tmp_path)}),
        input="1",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith("install it with: pip install 'toolscript[deno]'\n")


def test_no_more_is_imported_than_for_a_search(served: Cli) -> None:
    """types:typescript: a command is quick to start."""
    code = "import sys, toolscript.surfaces.cli.exec_command as e; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "mcp", "starlette"} & set(done.stdout.split())
