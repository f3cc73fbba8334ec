"""``toolscript search`` and the listings, each run as a process."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.servers.in_thread import serve_in_thread
from tests.support import (
    FUZZY,
    READ_FILE,
    SEND_MAIL,
    Cli,
    Scripted,
    on_a_terminal,
    processes,
    tool,
    until,
    write_config,
)

MOVE_FILE = tool("move_file", "Move or rename a file")
ESCAPES = "\x1b[31mred\x1b]0;title\x07\x1b[2J \u202eright-to-left"


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    """A command line whose snapshot knows two servers; the starts of one are written down."""
    cli = Cli(tmp_path_factory.mktemp("home"), FUZZY)
    scripted = Scripted(cli.home)
    files = scripted(READ_FILE, MOVE_FILE, starts=str(cli.home / "starts"))
    cli.configure(files=files, mail=scripted(SEND_MAIL))
    assert cli("list-tools").returncode == 0
    assert starts(cli) == 1
    yield cli
    assert not processes(str(cli.home))


@pytest.fixture
def served(cli: Cli, scripted: Scripted) -> Cli:
    """A command line with a gateway."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE, MOVE_FILE))
    cli.start_gateway()
    return cli


def starts(cli: Cli) -> int:
    return len((cli.home / "starts").read_text("utf-8").split())


def refusal(cli: Cli, *arguments: str, code: int = 2, env: dict[str, str] | None = None) -> str:
    """The one line on stderr of a command that is refused."""
    done = cli(*arguments, env=env)
    assert done.returncode == code, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def line(cli: Cli, *arguments: str, code: int = 2, env: dict[str, str] | None = None) -> str:
    """The same, when it is one line of ours."""
    [only] = refusal(cli, *arguments, code=code, env=env).splitlines()
    assert only.startswith("toolscript: ")
    return only.removeprefix("toolscript: ")


# Answers


@pytest.mark.requirement("cli:search")
def test_a_table(cli: Cli, scripted: Scripted) -> None:
    """cli:search: columns as in the seed, and nothing else, when piped."""
    cli.configure(files=scripted(READ_FILE, MOVE_FILE))
    done = cli("search", "read what is in a file")
    assert (done.returncode, done.stderr) == (0, "")
    header, first, *_ = done.stdout.splitlines()
    assert re.split(r"  +", header) == ["Tool", "Confidence", "Reason"]
    name, confidence, reason = re.split(r"  +", first)
    assert name == "files__read_file"
    assert re.fullmatch(r"0\.\d\d|1\.00", confidence)
    assert reason.startswith("Semantic similarity (")
    for column in ("Confidence", "Reason"):
        at = header.index(column)
        assert all(row[at - 1] == " " != row[at] for row in done.stdout.splitlines())


@pytest.mark.requirement("cli:search")
def test_plain_when_piped(known: Cli) -> None:
    """cli:search: no colour, no progress, though servers are connected to."""
    done = known("search", "read_file", "--refresh", env={"FORCE_COLOR": "", "TERM": "xterm"})
    assert "\x1b" not in done.stdout + done.stderr
    notes = done.stderr.splitlines()
    assert all(note.startswith("toolscript: ") for note in notes)
    assert all("none-such" in note for note in notes)


@pytest.mark.requirement("cli:search", "http:search")
def test_json_is_what_the_gateway_answers(cli: Cli, scripted: Scripted) -> None:
    """cli:search, http:search: in-process and from a gateway, the same."""
    cli.configure(files=scripted(READ_FILE, MOVE_FILE))
    here = cli.json("search", "read a file", "--limit", "2", "--threshold", "0.1")
    url = cli.start_gateway()
    there = cli.json("search", "read a file", "--limit", "2", "--threshold", "0.1")
    assert here == there
    assert (there["limit"], there["threshold"], there["totalResults"]) == (2, 0.1, 2)
    assert cli.json("search", "read a file", "--limit", "2", env={"TOOLSCRIPT_GATEWAY_URL": url})


@pytest.mark.requirement("search:none")
def test_nothing_found(known: Cli) -> None:
    """search:none: the advice, and the nearest with its confidence; that is no failure."""
    done = known("search", "raed_fil", "--threshold", "0.99")
    assert done.returncode == 0
    first, advice, nearest = done.stdout.splitlines()
    assert first == "No tools found matching query"
    assert advice == "Try other words, in English, or a lower --threshold (now 0.99)."
    assert re.fullmatch(r"The nearest was files__read_file with 0\.\d\d\.", nearest)


@pytest.mark.requirement("search:threshold", "search:limit")
def test_limit_and_threshold_from_flag_and_environment(known: Cli) -> None:
    """search:limit, search:threshold: a flag wins over the environment, that over the default."""
    env = {"TOOLSCRIPT_SEARCH_LIMIT": "2", "TOOLSCRIPT_SEARCH_THRESHOLD": "0"}
    assert len(known.json("search", "file", env=env)["results"]) == 2
    answer = known.json("search", "file", "--limit", "1", "--threshold", "0.2", env=env)
    assert (answer["limit"], answer["threshold"]) == (1, 0.2)
    answer = known.json("search", "file")
    assert (answer["limit"], answer["threshold"]) == (3, 0.35)


@pytest.mark.requirement("search:filter")
def test_only_some_servers(known: Cli) -> None:
    """search:filter: repeatable."""
    everything = ["search", "send_mail", "--threshold", "0", "--server"]
    found = known.json(*everything, "files", "--server", "mail")["results"]
    assert {hit["serverName"] for hit in found} == {"files", "mail"}
    found = known.json(*everything, "files")["results"]
    assert {hit["serverName"] for hit in found} == {"files"}


@pytest.mark.requirement("search:degraded")
def test_degraded_is_told(known: Cli) -> None:
    """search:degraded: on stderr for people, in the answer for programs."""
    done = known("search", "read_file")
    assert "degraded: semantic: searching without meaning: the embedding server" in done.stderr
    assert known.json("search", "read_file")["degraded"]


@pytest.mark.requirement("cli:search")
def test_terminal_escapes_are_neutralised(cli: Cli, scripted: Scripted) -> None:
    """cli:search: what a server says cannot steer the terminal."""
    cli.configure(evil=scripted(tool("read_file", ESCAPES), tool(f"bad{ESCAPES}")))
    for command in (["search", "read_file"], ["list-tools"], ["list-servers"]):
        done = cli(*command)
        assert done.returncode == 0
        assert not set(done.stdout + done.stderr) & {"\x1b", "\x07", "\u202e"}
    assert "left out bad[31mred" in cli("list-servers").stdout
    assert cli.json("list-tools")["tools"][0]["description"] == ESCAPES


def test_json_cannot_steer_a_terminal(cli: Cli, scripted: Scripted) -> None:
    """cli:search: it is escaped, and the same when it is read."""
    text = f"{ESCAPES}\x7f\x9b31m\u200f\u2028\U000e0041 ünd\n mehr 日本"
    cli.configure(evil=scripted(tool("read_file", text)))
    done = cli("list-tools", "--output", "json")
    assert json.loads(done.stdout)["tools"][0]["description"] == text
    assert all(line.isprintable() for line in done.stdout.split("\n"))
    assert "ünd" in done.stdout
    assert "日本" in done.stdout


def test_errors_cannot_steer_a_terminal(cli: Cli) -> None:
    """cli:search: neither ours nor those of the command line."""
    escape = "a\x1b]0;pwned\x07\x9b\u202e"
    (cli.home / ".toolscript.json").write_text(json.dumps({escape: {}}), "utf-8")
    assert "it has a]0;pwned" in line(cli, "search", "a")
    for arguments in (["search", "a", "--output", escape], ["search", "a", escape], [escape]):
        for said in refusal(cli, *arguments).split("\n"):
            assert said.isprintable()


# What is refused


@pytest.mark.requirement("search:limits")
@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--limit", "0", "--limit is 0; it must be from 1 to 100"),
        ("--limit", "101", "--limit is 101; it must be from 1 to 100"),
        ("--limit", "many", "--limit is 'many'; expected a whole number"),
        ("--threshold", "1.5", "--threshold is 1.5; it must be from 0 to 1"),
        ("--threshold", "-1", "--threshold is -1.0; it must be from 0 to 1"),
        ("--threshold", "nan", "--threshold is nan; it must be from 0 to 1"),
        ("--server", "nobody", "no server is called 'nobody'; configured are: files, mail"),
    ],
)
def test_a_flag_out_of_range(known: Cli, flag: str, value: str, expected: str) -> None:
    """search:limits: exit 2, with the value and the range."""
    said = refusal(known, "search", "read_file", flag, value).splitlines()[-1]
    assert said == f"toolscript: {expected}"


@pytest.mark.requirement("search:limits")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "the query is empty; say what the tool should do"),
        ("  ", "the query is empty; say what the tool should do"),
        ("x" * 8193, "the query has 8193 characters; at most 8192 are searched"),
    ],
    ids=["empty", "blank", "long"],
)
def test_a_query_that_cannot_be_searched(known: Cli, query: str, expected: str) -> None:
    assert refusal(known, "search", query).splitlines()[-1].endswith(expected)


@pytest.mark.requirement("cli:search")
@pytest.mark.parametrize(
    "arguments",
    [
        ["search"],
        ["search", "a", "--output", "xml"],
        ["search", "a", "--nonsense"],
        ["fly"],
        ["gateway", "dance"],
    ],
    ids=" ".join,
)
def test_usage(cli: Cli, arguments: list[str]) -> None:
    """cli:search: a command that is not one."""
    assert "Usage: " in refusal(cli, *arguments)


@pytest.mark.requirement("search:limits")
def test_a_mistake_in_the_environment(cli: Cli) -> None:
    """search:limits: the variable is named."""
    expected = "TOOLSCRIPT_SEARCH_LIMIT is 'x'; expected a whole number"
    assert line(cli, "search", "a", env={"TOOLSCRIPT_SEARCH_LIMIT": "x"}) == expected


# The configuration


@pytest.mark.requirement("config:file")
def test_no_configuration(cli: Cli) -> None:
    """config:file: with an example of one."""
    said = line(cli, "search", "a")
    assert said.startswith(f"no .toolscript.json in {cli.home}, above it or in the home directory")
    assert '{"mcpServers": ' in said
    assert "toolscript setup" in said


@pytest.mark.requirement("config:file")
def test_a_mistake_disables_that_server_only(cli: Cli, scripted: Scripted) -> None:
    """config:file: list-servers says so; the others are searched."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE), odd={"type": "pigeon", "command": "x"})
    done = cli("search", "read_file")
    assert done.returncode == 0
    assert "files__read_file" in done.stdout
    rows = cli("list-servers").stdout.splitlines()
    [odd] = [row for row in rows if row.startswith("odd")]
    assert re.split(r"  +", odd)[1] == "invalid"
    assert odd.endswith("type is 'pigeon'; expected stdio, http or sse")


@pytest.mark.requirement("upstream:isolation")
def test_a_server_that_fails_is_told(cli: Cli, scripted: Scripted) -> None:
    """upstream:isolation: the answer says whom it could not ask."""
    cli.env = FUZZY
    gone = scripted(exit=1, stderr="no key\n")
    cli.configure(files=scripted(READ_FILE), gone=gone)
    done = cli("search", "read_file")
    assert done.returncode == 0
    assert "files__read_file" in done.stdout
    assert "not searched: gone: " in done.stderr
    assert "no key" in done.stderr


@pytest.mark.requirement("catalogue:progressive")
def test_nothing_to_search(cli: Cli, scripted: Scripted) -> None:
    """catalogue:progressive: exit 1, with what is wrong with every server."""
    cli.env = FUZZY
    cli.configure(gone=scripted(exit=1, stderr="no key\n"))
    said = line(cli, "search", "read_file", code=1)
    assert said.startswith("no tools: gone (closed the connection before it was ready; ")


@pytest.mark.requirement("config:file")
def test_a_project_over_the_home_directory(cli: Cli, scripted: Scripted) -> None:
    """config:file: from the directory one is in, or one above it."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))
    inside = cli.home / "project" / "deep"
    inside.mkdir(parents=True)
    write_config(inside.parent / ".toolscript.json", {"files": scripted(MOVE_FILE)})
    assert cli("trust", "--yes", cwd=inside).returncode == 0
    done = cli("list-tools", "--output", "json", cwd=inside)
    names = [each["toolId"] for each in json.loads(done.stdout)["tools"]]
    assert names == ["files__move_file", "mail__send_mail"]


# The snapshot


@pytest.mark.requirement("catalogue:snapshot")
def test_the_second_search_starts_no_server(known: Cli) -> None:
    before = starts(known)
    assert known.json("search", "read_file")["results"][0]["toolId"] == "files__read_file"
    assert starts(known) == before
    assert "--refresh connects again" in known("list-servers").stderr


@pytest.mark.requirement("catalogue:snapshot")
def test_refresh_connects_again(known: Cli) -> None:
    before = starts(known)
    assert known.json("search", "read_file", "--refresh")["results"]
    assert starts(known) == before + 1


@pytest.mark.requirement("catalogue:snapshot")
def test_a_server_that_failed_can_be_tried_again(cli: Cli, scripted: Scripted) -> None:
    """catalogue:snapshot: what failed is known too, and --refresh tries it again."""
    cli.env = FUZZY
    program = cli.home / "program"
    cli.configure(files=scripted(READ_FILE), late=scripted(SEND_MAIL) | {"command": str(program)})
    assert "late" in cli("search", "read_file").stderr
    program.symlink_to(sys.executable)
    assert cli.json("search", "send_mail")["results"] == []
    found = cli.json("search", "send_mail", "--refresh")["results"]
    assert found[0]["toolId"] == "late__send_mail"


@pytest.mark.requirement("cli:per-call")
def test_a_data_directory_of_its_own(known: Cli, tmp_path: Path) -> None:
    """cli:per-call: caches and snapshots are kept there and read from there."""
    other = tmp_path / "other"
    before = starts(known)
    assert known.json("search", "read_file", "--data-dir", str(other))["results"]
    assert starts(known) == before + 1
    assert list((other / "cache" / "catalogue").iterdir())
    assert known.json("search", "read_file", env={"TOOLSCRIPT_DATA_DIR": str(other)})["results"]
    assert starts(known) == before + 1


# A terminal


@pytest.mark.requirement("cli:search")
def test_progress_on_a_terminal(cli: Cli, scripted: Scripted) -> None:
    """cli:search: servers and their state while they are waited for, then the table."""
    cli.env = FUZZY | {"TOOLSCRIPT_CONNECT_TIMEOUT": "1"}
    cli.configure(files=scripted(READ_FILE), moon=scripted(hang=True))
    shown = on_a_terminal(cli, "search", "read_file")
    before, _, table = shown.partition("Tool  ")
    assert "files" in before
    assert "moon" in before
    assert "connecting" in before
    assert "\x1b" in before
    assert "files__read_file" in table


@pytest.mark.requirement("cli:search")
def test_a_long_description_is_cut_to_the_terminal(cli: Cli, scripted: Scripted) -> None:
    cli.env = FUZZY
    cli.configure(files=scripted(tool("read_file", "reads " * 100)))
    rows = [r for r in on_a_terminal(cli, "list-tools").splitlines() if "files__read_file" in r]
    assert len(rows) == 1
    assert rows[0].endswith("…")
    assert len(rows[0]) <= 100


# A gateway by its address


def test_a_gateway_by_its_address(served: Cli, tmp_path: Path) -> None:
    """cli:search: no configuration is needed where it is asked from."""
    stranger = Cli(tmp_path / "stranger", {"TOOLSCRIPT_GATEWAY_URL": served.record()["url"]})
    stranger.home.mkdir()
    assert stranger.json("search", "read_file")["results"][0]["toolId"] == "files__read_file"
    assert [s["name"] for s in stranger.json("list-servers")["servers"]] == ["files"]


@pytest.mark.parametrize("where", ["closed", "nonsense"])
def test_no_gateway_at_its_address(cli: Cli, where: str) -> None:
    """cli:search: one clear line, exit 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    urls = {"closed": f"http://127.0.0.1:{port}", "nonsense": "http://[::::"}
    url = urls[where]
    said = line(cli, "search", "a", code=1, env={"TOOLSCRIPT_GATEWAY_URL": url})
    assert said.startswith(f"no gateway answers at {url} (from TOOLSCRIPT_GATEWAY_URL): ")


def test_something_else_at_its_address(cli: Cli) -> None:
    """cli:search: an answer that is not a gateway's."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(
        command, cwd=cli.home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout
            port = process.stdout.readline().split(" port ")[1].split()[0]
            url = {"TOOLSCRIPT_GATEWAY_URL": f"http://127.0.0.1:{port}"}
            assert "HTTP 404" in line(cli, "search", "a", code=1, env=url)
        finally:
            process.kill()


@pytest.mark.parametrize("url", ["localhost:7337", "ftp://127.0.0.1", "nonsense"])
def test_an_address_that_is_none(cli: Cli, url: str) -> None:
    """cli:search: exit 2, with what was expected."""
    said = line(cli, "search", "a", env={"TOOLSCRIPT_GATEWAY_URL": url})
    assert said == f"TOOLSCRIPT_GATEWAY_URL is {url!r}; expected http://… or https://…"


def test_a_password_in_an_address_is_not_shown(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = {"TOOLSCRIPT_GATEWAY_URL": f"http://ana:secret@127.0.0.1:{port}"}
    said = line(cli, "search", "a", code=1, env=url)
    assert said.startswith(f"no gateway answers at http://***@127.0.0.1:{port} ")
    assert "secret" not in said


@contextmanager
def somebody(says: bytes) -> Generator[str]:
    """Another program that speaks HTTP, and answers every question with the same JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(says)))
            self.end_headers()
            self.wfile.write(says)

    with serve_in_thread(Handler) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("says", [b"{}", b'{"results": 1, "servers": null, "tools": "many"}'])
def test_another_programs_json(cli: Cli, says: bytes) -> None:
    """cli:search: one clear line for every command."""
    with somebody(says) as url:
        for command in (["search", "a"], ["list-tools"], ["list-servers"]):
            said = line(cli, *command, code=1, env={"TOOLSCRIPT_GATEWAY_URL": url})
            assert said == (
                f"{url} (from TOOLSCRIPT_GATEWAY_URL) answered something that is not toolscript's"
            )


# What the system refuses


def test_a_full_disk_is_told_in_one_line(known: Cli) -> None:
    """cli:search: and not once more when the interpreter ends."""
    for command in (["search", "read_file"], ["list-tools", "--output", "json"], ["--help"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                known.command(*command),
                env=known.environment(),
                cwd=known.home,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                check=False,
            )
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == "toolscript: No space left on device"
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("arguments", [["\udcff"], ["read_file", "--server", "\udcff"]])
def test_bytes_that_are_no_text(served: Cli, arguments: list[str]) -> None:
    """cli:search: with a gateway and without one."""
    for more in ([], ["--refresh"]):
        done = served("search", *arguments, *more)
        assert done.returncode == (2 if "--server" in arguments else 0), done
        assert "Traceback" not in done.stderr


def test_an_alphabet_that_lacks_characters(cli: Cli, scripted: Scripted) -> None:
    """cli:search: people read question marks; JSON loses nothing."""
    cli.configure(files=scripted(tool("read_file", "Reads 日本")))
    cli.env = FUZZY | {"PYTHONIOENCODING": "latin-1"}
    done = cli("list-tools")
    assert (done.returncode, "Reads ??" in done.stdout) == (0, True), done.stderr
    assert cli.json("list-tools")["tools"][0]["description"] == "Reads 日本"


def test_a_working_directory_that_is_gone(known: Cli, tmp_path: Path) -> None:
    """config:file: a configuration is found by its whole path only."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD" && exec "$@"'

    def ask(*arguments: str) -> "subprocess.CompletedProcess[str]":
        gone.mkdir(exist_ok=True)
        return subprocess.run(
            ["/bin/sh", "-c", script, "sh", *known.command(*arguments)],
            env=known.environment(),
            cwd=gone,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    for command in (["search", "read_file"], ["gateway", "start"], ["gateway", "stop"]):
        done = ask(*command)
        assert done.returncode == 2
        [said] = done.stderr.splitlines()
        assert said.startswith("toolscript: the working directory does not exist any more; ")
    done = ask("search", "read_file", "--config", str(known.home / ".toolscript.json"))
    assert (done.returncode, "files__read_file" in done.stdout) == (0, True), done.stderr


# Startup is a feature


HEAVY = ["numpy", "onnxruntime", "mcp", "mcp_types", "starlette", "uvicorn", "rich", "pydantic"]
LOCK = "filelock"
"""Takes longer to import than it takes to ask a gateway that answers."""


def imported(cli: Cli, *arguments: str) -> set[str]:
    """The top-level packages that a command imports."""
    command = [sys.executable, "-X", "importtime", "-m", "toolscript", *arguments]
    done = subprocess.run(
        command,
        env=cli.environment(),
        cwd=cli.home,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    rows = [row for row in done.stderr.splitlines() if row.startswith("import time:")]
    return {row.rsplit("|", 1)[1].strip().split(".")[0] for row in rows}


def test_help_imports_nothing_heavy(cli: Cli) -> None:
    """cli:search: the table is not empty, and nothing heavy is in it."""
    found = imported(cli, "--help")
    assert {"click", "toolscript"} <= found
    assert not found & set(HEAVY)


def test_asking_a_gateway_imports_nothing_heavy(served: Cli) -> None:
    for command in (["search", "read_file"], ["list-tools"], ["gateway", "status"]):
        found = imported(served, *command)
        assert "socket" in found
        assert not found & {*HEAVY, LOCK, "msgspec", "http", "email", "ssl", "tempfile"}


@pytest.mark.requirement("catalogue:snapshot")
def test_searching_a_snapshot_imports_no_mcp(known: Cli) -> None:
    """catalogue:snapshot: an MCP client takes most of a second to import."""
    found = imported(known, "search", "read_file")
    assert "starlette" in found
    assert not found & {"mcp", "mcp_types", "pydantic", "rich", "uvicorn"}


def test_a_pipe_that_is_closed_early(known: Cli) -> None:
    """cli:search: ``toolscript list-tools | head -0``."""
    command = known.command("list-tools", "--output", "json")
    with subprocess.Popen(
        command,
        env=known.environment(),
        cwd=known.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        said = process.stderr.read()
    until(lambda: process.poll() is not None, "it has ended")
    assert "Traceback" not in said
    assert process.returncode in {0, 1}


# Why


def test_an_explanation_follows_the_table(known: Cli) -> None:
    """search:reason: each signal with weight and evidence, typos repaired included."""
    done = known("search", "move the fiel", "--explain", "--limit", "1", "--threshold", "0")
    table, explained = done.stdout.split("\n\n")
    assert table.splitlines()[1].startswith("files__move_file ")
    first, fuzzy, mean, *steps = explained.splitlines()
    assert re.fullmatch(r"files__move_file  0\.\d\d", first)
    assert re.fullmatch(r"  fuzzy       0\.\d\d × 1\.00  move \d\d%; fiel → file \d\d%", fuzzy)
    assert re.fullmatch(r"  mean        0\.\d\d", mean)
    assert re.fullmatch(r"  name boost  0\.\d\d +the query says \d+% of its name", steps[0])


@pytest.mark.parametrize(
    ("tool", "options", "verdict"),
    [
        ("files__move_file", [], r"files__move_file: it is shown, as number 1"),
        (
            "send_mail",
            [],
            r"mail__send_mail: its confidence 0\.00 is below the threshold 0\.35; .*",
        ),
        (
            "send_mail",
            ["--server", "files"],
            r"mail__send_mail: it is not among the servers .* mail",
        ),
        (
            "files__read_file",
            ["--limit", "1", "--threshold", "0"],
            r"files__read_file: it is number 2, and 1 are shown; a limit of 2 would show it",
        ),
        ("files__nonesuch", [], r"files__nonesuch: the server files offers no tool of that name"),
        ("mvoe_file", [], r"mvoe_file: no tool is called 'mvoe_file'; .*files__move_file.*"),
    ],
)
def test_why_a_tool_is_where_it_is(known: Cli, tool: str, options: list[str], verdict: str) -> None:
    """search:reason: for a tool that did not appear, too."""
    done = known("search", "move a file", "--why", tool, *options)
    assert re.search(f"\n\n{verdict}\n", done.stdout), done.stdout


def test_why_a_tool_that_is_kept_out_or_whose_server_is_down_is_missing(
    cli: Cli, scripted: Scripted
) -> None:
    cli.env = FUZZY
    files = scripted(READ_FILE, MOVE_FILE) | {"excludeTools": ["move_*"]}
    cli.configure(
        files=files, broken={"command": "/nonesuch/program"}, off={"command": "x", "disabled": True}
    )
    back = "(back: toolscript enable 'files__move_*')"
    for asked, verdict in (
        ("files__move_file", f"files__move_file is turned off {back}"),
        ("broken:x", "its server broken is failed: "),
        ("off__x", "off is turned off (back: toolscript enable off)"),
    ):
        assert f"{asked}: {verdict}" in cli("search", "move a file", "--why", asked).stdout


def test_explanations_for_programs(known: Cli) -> None:
    """search:reason: the shares' weighted mean is what is called fused."""
    answer = known.json("search", "move a file", "--explain", "--why", "read_file")
    for hit in (*answer["results"], answer["why"]["hit"]):
        shares = hit["explanation"]["shares"]
        mean = sum(share["score"] * share["weight"] for share in shares)
        assert hit["explanation"]["fused"] == pytest.approx(mean, abs=2e-6)
        last = hit["explanation"]["steps"][-1:]
        assert hit["confidence"] == (last[0]["score"] if last else hit["explanation"]["fused"])
    assert answer["why"]["toolId"] == "files__read_file"
    plain = known.json("search", "move a file")
    assert "why" not in plain
    assert "explanation" not in plain["results"][0]


def test_a_question_needs_no_quotes(cli: Cli, scripted: Scripted) -> None:
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE))
    assert "files__read_file" in cli("search", "read", "a", "file", "--limit", "1").stdout
    assert cli("search").returncode == 2


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("serch", "Did you mean search or secret?"),
        ("list", "Did you mean list-tools or list-servers?"),
        ("uninstall", "Undo `toolscript setup` first, see docs/guides/everyday.md."),
        ("approve", "Did you mean review --approve?"),
        ("xqzv", "See toolscript --help."),
        ("\x1b[31mx", "See toolscript --help."),
    ],
)
def test_a_command_that_does_not_exist_has_near_ones(cli: Cli, written: str, advice: str) -> None:
    done = cli(written)
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith(advice)
    assert "\x1b" not in done.stderr


def test_definitions_are_printed_for_a_model(known: Cli) -> None:
    done = known.json("search", "read_file")
    printed = json.loads(known("search", "read_file", "--output", "tools").stdout)
    assert [tool["name"] for tool in printed["tools"]] == [h["toolId"] for h in done["results"]]
    assert printed["tools"][0]["inputSchema"]["type"] == "object"
