"""``toolscript gateway start|status|stop``: the process, its record, and what is left of it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support import (
    FUZZY,
    READ_FILE,
    SEND_MAIL,
    Cli,
    Scripted,
    alive,
    fetch,
    processes,
    stop_all,
    tool,
    until,
)

from toolscript.config import servers as config
from toolscript.surfaces.server.gateway_file import GatewayFile

SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
SECRET = "hunter2-correct-horse"  # noqa: S105 - looked for where it must not be


@pytest.fixture
def home(cli: Cli, scripted: Scripted) -> Cli:
    """A command line with two servers."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))
    return cli


@contextmanager
def foreground(cli: Cli, *arguments: str) -> Generator["subprocess.Popen[bytes]"]:
    """A gateway in the foreground, with its servers up."""
    command = cli.command("gateway", "start", "--open", "--foreground", "--port", "0", *arguments)
    with subprocess.Popen(command, env=cli.environment(), cwd=cli.home) as process:
        try:
            until(lambda: cli.records, "the gateway has left its record")
            until(lambda: ready(cli), "the gateway is ready")
            yield process
        finally:
            process.kill()


def ready(cli: Cli) -> bool:
    try:
        return fetch(cli.record()["url"], "/health")[1]["status"] == "ready"
    except OSError:
        return False


@pytest.mark.requirement("cli:others")
@pytest.mark.both_storages
def test_start_status_stop(home: Cli) -> None:
    """cli:others: the whole life of a gateway."""
    done = home("gateway", "status")
    assert (done.returncode, done.stdout) == (3, "not running\n")

    done = home("gateway", "start", "--port", "0")
    url, pid = home.record()["url"], home.record()["pid"]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"running at {url}: 2 tools of 2 servers\n"

    done = home("gateway", "status")
    assert (done.returncode, done.stdout) == (0, f"running at {url} (process {pid}), 2 tools\n")
    status = home.json("gateway", "status")
    assert (status["status"], status["url"], status["pid"]) == ("ready", url, pid)

    done = home("gateway", "stop")
    assert (done.returncode, done.stdout) == (0, "stopped\n")
    assert not alive(pid)
    assert home.records == []
    done = home("gateway", "status", "--output", "json")
    assert (done.returncode, json.loads(done.stdout)) == (3, {"status": "stopped", "url": None})
    assert home("gateway", "stop").stdout == "not running\n"


@pytest.mark.requirement("cli:others")
def test_starting_twice_is_refused(home: Cli) -> None:
    """cli:others: with the one that runs, and how to stop it."""
    url = home.start_gateway()
    for more in ([], ["--foreground"]):
        done = home("gateway", "start", "--port", "0", *more)
        assert done.returncode == 1
        [said] = done.stderr.splitlines()
        assert f"a gateway is running already at {url}" in said
        assert said.endswith("stop it with: toolscript gateway stop")
    assert home.record()["url"] == url


@pytest.mark.requirement("cli:others")
def test_a_port_that_is_taken(home: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = home("gateway", "start", "--port", port)
    assert done.returncode == 1
    [said] = done.stderr.splitlines()
    assert said.startswith(f"toolscript: cannot listen on 127.0.0.1 port {port}: ")
    assert said.endswith("choose another with --port (0 picks a free one)")


@pytest.mark.requirement("cli:others")
def test_a_configuration_that_cannot_be_used(cli: Cli) -> None:
    done = cli("gateway", "start")
    assert done.returncode == 2
    assert "no .toolscript.json" in done.stderr


@pytest.mark.requirement("upstream:isolation")
def test_failures_are_told_at_the_start(home: Cli, scripted: Scripted) -> None:
    """upstream:isolation: and nothing secret is in the log."""
    gone = scripted(exit=1, stderr_env="TOKEN", env={"TOKEN": SECRET})
    files = scripted(READ_FILE, SEND_MAIL)
    home.configure(files=files, more=scripted(READ_FILE), gone=gone, odd={"type": "pigeon"})
    done = home("gateway", "start", "--port", "0")
    assert done.returncode == 0
    assert "3 tools of 2 servers" in done.stdout
    assert "gone: closed the connection before it was ready; its last words: ***" in done.stderr
    assert "server 'odd': type is 'pigeon'" in done.stderr
    logs = list((home.home / ".toolscript" / "logs").glob("*.log"))
    assert logs
    said = "".join(log.read_text("utf-8") for log in logs)
    said += json.dumps(fetch(home.record()["url"], "/servers")[1])
    said += "".join(str(path.read_bytes()) for path in home.home.rglob("catalogue-*.json"))
    assert SECRET not in said + done.stderr


# One at a time


def test_two_that_start_at_once_are_one(home: Cli) -> None:
    """cli:others: the other says so and leaves no process."""
    data = str(home.home / ".toolscript")
    command = home.command("gateway", "start", "--port", "0", "--data-dir", data)
    both = [
        subprocess.Popen(
            command,
            env=home.environment(),
            cwd=home.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    ended = [(*process.communicate(timeout=60), process.returncode) for process in both]
    assert sorted(code for *_, code in ended) == [0, 1], ended
    [(said, _)] = [(stderr, code) for _, stderr, code in ended if code == 1]
    assert len(said.splitlines()) == 1
    assert "running" in said or "starting" in said
    assert len([args for args in processes(data).values() if "gateway" in args]) == 1
    assert home("gateway", "status").returncode == 0
    [log] = (home.home / ".toolscript" / "logs").glob("*.log")
    assert "listening on" in log.read_text("utf-8")
    assert home("gateway", "stop").stdout == "stopped\n"
    assert not processes(str(home.home.parent))


def test_one_that_does_not_answer_still_runs(home: Cli) -> None:
    """cli:others: a suspended gateway is told, not doubled, worked around, and can be stopped."""
    url, pid = home.start_gateway(), home.record()["pid"]
    os.kill(pid, signal.SIGSTOP)
    done = home("gateway", "status")
    expected = f"running at {url} (process {pid}), but it does not answer\n"
    assert (done.returncode, done.stdout) == (1, expected)
    done = home("gateway", "status", "--output", "json")
    silent = {"status": "silent", "pid": pid, "url": url}
    assert (done.returncode, json.loads(done.stdout)) == (1, silent)

    done = home("gateway", "start", "--port", "0")
    assert done.returncode == 1
    assert f"running already at {url} (process {pid}), but it does not answer" in done.stderr
    assert home.record()["pid"] == pid

    done = home("search", "read_file")
    assert "files__read_file" in done.stdout
    assert f"the gateway (process {pid}) does not answer; this process does" in done.stderr

    assert home("gateway", "stop").stdout == "stopped\n"
    assert not alive(pid)
    assert not processes(str(home.home.parent))


def test_one_that_is_just_starting(home: Cli) -> None:
    """cli:others: it is the only one already, but nobody knows where it is."""
    key = config.load_config(None, home.home, {"HOME": str(home.home)}).key
    with GatewayFile(home.home / ".toolscript", key).lock():
        for command in ("start", "status", "stop"):
            done = home("gateway", command)
            assert done.returncode == 1
            [said] = done.stderr.splitlines()
            assert said == "toolscript: a gateway is just starting; try again in a moment"


def test_another_address_of_this_machine(home: Cli) -> None:
    """cli:others: answers for itself, and for no other name."""
    url = home.start_gateway("--host", "127.0.0.2")
    assert url.startswith("http://127.0.0.2:")
    assert fetch(url, "/health")[0] == 200
    assert fetch(url, "/health", headers={"host": "evil.example"})[0] == 400


def test_a_start_that_fails_leaves_no_process(home: Cli) -> None:
    """cli:others: here by Ctrl-C, while a server hangs."""
    started = home.home / "starts"
    data = str(home.home / ".toolscript")
    moon = Scripted(home.home)(hang=True, starts=str(started))
    home.configure(moon=moon)
    with subprocess.Popen(
        home.command("gateway", "start", "--port", "0", "--data-dir", data),
        env=home.environment(),
        cwd=home.home,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until(started.exists, "the server is started")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not processes(str(home.home))
    assert home.records == []


def test_a_projects_modules_are_not_imported(home: Cli) -> None:
    """cli:others: a gateway in the background is the installed program, wherever it is started."""
    (home.home / "click.py").write_text("raise SystemExit('shadowed')\n", "utf-8")
    done = subprocess.run(
        [Path(sys.executable).with_name("toolscript"), "gateway", "start", "--port", "0"],
        env=home.environment(),
        cwd=home.home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (home.home / "click.py").unlink()
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("place", ["/dev/null/x", "/proc/foo"])
def test_a_data_directory_that_cannot_be(home: Cli, place: str) -> None:
    """cli:others: one line with the path."""
    for more in ([], ["--foreground"]):
        done = home("gateway", "start", "--port", "0", "--data-dir", place, *more)
        assert done.returncode == 1
        [said] = done.stderr.splitlines()
        assert said.startswith("toolscript: /dev/null: " if "null" in place else "toolscript: /p")


# Stale records


@pytest.mark.requirement("cli:others")
def test_a_record_of_a_dead_gateway_is_ignored(home: Cli) -> None:
    """cli:others: killed, so it could not take its record away."""
    home.start_gateway()
    [path], pid = home.records, home.record()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "it is gone")
    until(lambda: not processes(str(home.home.parent)), "its servers have noticed")
    assert path.exists()
    assert home("gateway", "status").returncode == 3
    assert home.json("search", "read_file")["results"]
    assert home("gateway", "stop").stdout == "not running\n"
    home.start_gateway()
    assert home("gateway", "status").returncode == 0
    assert home.record()["pid"] != pid


@pytest.mark.requirement("cli:others")
def test_a_record_whose_port_is_somebody_elses(home: Cli) -> None:
    """cli:others: another server answers there, and is neither asked nor stopped."""
    home.start_gateway()
    [path], record = home.records, home.record()
    assert home("gateway", "stop").returncode == 0
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(
        command, cwd=home.home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as other:
        try:
            assert other.stdout
            port = other.stdout.readline().split(" port ")[1].split()[0]
            record |= {"url": f"http://127.0.0.1:{port}", "pid": other.pid}
            path.write_text(json.dumps(record), "utf-8")
            assert home("gateway", "status").returncode == 3
            assert home.json("search", "read_file")["results"]
            assert home("gateway", "stop").stdout == "not running\n"
            assert other.poll() is None
        finally:
            other.kill()
    path.unlink()


def test_a_record_whose_port_is_another_gateways(home: Cli, tmp_path: Path) -> None:
    """cli:others: that gateway has another process id, and is neither asked nor stopped."""
    home.start_gateway()
    [path], record = home.records, home.record()
    assert home("gateway", "stop").returncode == 0
    other = Cli(tmp_path / "other", FUZZY)
    other.home.mkdir()
    other.configure(odd={"command": "no-such-program"})
    url = other.start_gateway()
    try:
        path.write_text(json.dumps(record | {"url": url}), "utf-8")
        assert home("gateway", "status").returncode == 3
        assert home.json("search", "read_file")["results"]
        assert home("gateway", "stop").stdout == "not running\n"
        assert fetch(url, "/health")[0] == 200
    finally:
        path.unlink()
        stop_all([other.record()["pid"]])


@pytest.mark.requirement("cli:others")
@pytest.mark.parametrize("damage", ["", "{", "[]", '{"url": "x"}', '{"stamps": 5}', "\x00" * 9])
def test_a_damaged_record_is_ignored(home: Cli, damage: str) -> None:
    directory = home.home / ".toolscript" / "run"
    directory.mkdir(parents=True)
    key = config.load_config(None, home.home, {"HOME": str(home.home)}).key
    record = directory / f"gateway-{key}.json"
    record.write_text(damage, "utf-8")
    assert home("gateway", "status").stdout == "not running\n"
    assert home.json("search", "read_file")["results"]
    record.unlink()


# What holds for a call


@pytest.mark.requirement("cli:per-call")
def test_a_data_directory_holds_for_the_call(home: Cli, tmp_path: Path) -> None:
    """cli:per-call: with a gateway running, another directory is another application."""
    home.start_gateway()
    other = tmp_path / "other"
    assert home.json("search", "read_file", "--data-dir", str(other))["results"]
    assert list((other / "cache" / "catalogue").iterdir())


@pytest.mark.requirement("cli:per-call")
def test_a_model_holds_for_the_call(home: Cli) -> None:
    """cli:per-call: the gateway has no model; this call has the bundled one."""
    home.start_gateway()
    assert home.json("search", "look inside a document")["degraded"]
    answer = home.json("search", "read what is in a file", "--model", "bundled")
    assert answer["degraded"] == []
    assert "semantic" in answer["results"][0]["signals"]
    assert home.json("search", "read_file")["degraded"], "the gateway is what it was"


@pytest.mark.requirement("model:select")
def test_a_model_from_the_environment_holds_for_the_gateway(home: Cli) -> None:
    """model:select: what the gateway was started with."""
    home.env = {}
    home.start_gateway()
    assert home.json("search", "read what is in a file")["degraded"] == []


@pytest.mark.requirement("upstream:live")
def test_an_edited_configuration_is_followed(home: Cli, scripted: Scripted) -> None:
    """upstream:live: a command that comes after the edit is answered after it."""
    home.start_gateway()
    home.configure(files=scripted(READ_FILE))
    done = home("list-servers")
    assert (done.returncode, done.stderr) == (0, "")
    assert "mail" not in done.stdout
    home.configure(files=scripted(READ_FILE), draw=scripted(tool("draw_picture", "Draw")))
    until(lambda: home.json("search", "draw_picture")["results"], "the new tool is found")


def test_a_configuration_that_cannot_be_followed_is_told(home: Cli) -> None:
    """upstream:live: the gateway goes on with what it has."""
    home.start_gateway()
    (home.home / ".toolscript.json").write_text('{"mcpServers": {', "utf-8")
    done = home("list-tools")
    assert "files__read_file" in done.stdout
    [said] = done.stderr.splitlines()
    assert said.startswith("toolscript: the gateway keeps its old configuration: ")
    assert "is not valid JSON: line 1" in said


def test_two_configurations_have_two_gateways(home: Cli, scripted: Scripted) -> None:
    """cli:others: each command finds its own."""
    project = home.home / "project"
    project.mkdir()
    other = project / "mcp.json"
    servers = {"mcpServers": {"draw": scripted(tool("draw_picture", "Draw a picture"))}}
    other.write_text(json.dumps(servers), "utf-8")
    home.start_gateway()
    done = home("gateway", "start", "--port", "0", "--config", str(other))
    assert done.returncode == 0, done.stderr
    assert len(home.records) == 2
    found = home.json("search", "draw_picture", "--config", str(other))["results"]
    assert found[0]["toolId"] == "draw__draw_picture"
    assert home.json("search", "draw_picture")["results"] == []


@pytest.mark.both_storages
@pytest.mark.requirement("catalogue:snapshot")
def test_a_gateway_answers_before_its_servers_are_up(home: Cli, scripted: Scripted) -> None:
    """catalogue:snapshot: what hangs at the second start is found all the same."""
    program = home.home / "program"
    program.symlink_to(sys.executable)
    entry = scripted(READ_FILE) | {"command": str(program), "start": "eager"}
    home.configure(files=entry)
    assert home.json("search", "read_file")["results"]
    if home.storage:  # a gateway knows it from the database, which commands do not write to
        home.start_gateway()
        until(lambda: home.json("database", "status")["catalogues"][0]["servers"], "it is stored")
        assert home("gateway", "stop").returncode == 0
        shutil.rmtree(home.home / ".toolscript" / "cache" / "catalogue")
    program.unlink()
    program.write_text("#!/bin/sh\nexec sleep 600\n", "utf-8")
    program.chmod(0o755)
    command = home.command("gateway", "start", "--open", "--foreground", "--port", "0")
    with subprocess.Popen(command, env=home.environment(), cwd=home.home) as process:
        try:
            until(lambda: home.records, "the gateway has left its record")
            until(lambda: finds(home), "it answers from the snapshot")
            until(lambda: state(home) == "connecting", "it hangs")
            assert finds(home)
        finally:
            process.terminate()


def state(cli: Cli) -> str:
    """That of the only server."""
    [server] = fetch(cli.record()["url"], "/servers")[1]["servers"]
    return server["state"]


def finds(cli: Cli) -> bool:
    try:
        status, answer = fetch(cli.record()["url"], "/search", {"q": "read_file"})
    except OSError:
        return False
    return status == 200 and bool(answer["results"])


def test_whoever_is_told_where_it_listens_is_not_refused(home: Cli) -> None:
    """cli:others: who comes before it can answer waits."""
    command = home.command("gateway", "start", "--foreground", "--port", "0")
    with subprocess.Popen(
        command, env=home.environment(), cwd=home.home, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert "listening on http://127.0.0.1:" in said
            assert fetch(said.split()[-1], "/health")[0] == 200
        finally:
            process.terminate()
            process.communicate(timeout=60)


# The end


@pytest.mark.requirement("upstream:isolation")
@pytest.mark.parametrize("how", SIGNALS, ids=lambda how: how.name)
def test_no_process_is_left_after_a_signal(home: Cli, scripted: Scripted, how: int) -> None:
    """upstream:isolation: not even of a hung server and what it started."""
    child = scripted.directory / "child"
    hung = scripted(SEND_MAIL, child=str(child), stubborn=True)
    home.configure(files=scripted(READ_FILE), hung=hung)
    with foreground(home) as process:
        assert len(processes(str(scripted.directory))) == 3, "two servers and a child"
        process.send_signal(how)
        process.wait(30)
        assert processes(str(scripted.directory)) == {}
        assert home.records == []
        assert process.returncode == 0


@pytest.mark.requirement("upstream:isolation")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere servers see that their input ends")
def test_no_process_is_left_after_a_kill(home: Cli, scripted: Scripted) -> None:
    """upstream:isolation: SIGKILL; hung servers, what they started, and daemons of theirs end."""
    child, daemon = (scripted.directory / name for name in ("child", "daemon"))
    hung = scripted(SEND_MAIL, child=str(child), daemon=str(daemon), stubborn=True)
    home.configure(files=scripted(READ_FILE), hung=hung, silent=scripted(hang=True, stubborn=True))
    home.env = FUZZY | {"TOOLSCRIPT_CONNECT_TIMEOUT": "2"}
    with foreground(home) as process:
        until(daemon.exists, "the daemon has begun")
        assert len(processes(str(scripted.directory))) >= 4
        [reaper] = [pid for pid in processes("reap.py") if parent(pid) == process.pid]
        process.kill()
        process.wait()
        until(lambda: not processes(str(scripted.directory)), "every process has ended", 10)
        until(lambda: not alive(reaper), "and so has what ended them", 10)


def parent(pid: int) -> int:
    asked = ["ps", "-o", "ppid=", "-p", str(pid)]
    return int(subprocess.run(asked, capture_output=True, check=False).stdout or 0)


@pytest.mark.requirement("upstream:isolation")
def test_no_process_is_left_after_stop(home: Cli, scripted: Scripted) -> None:
    child = scripted.directory / "child"
    hung = scripted(SEND_MAIL, child=str(child), stubborn=True)
    silent = scripted(hang=True, stubborn=True)
    home.env = FUZZY | {"TOOLSCRIPT_CONNECT_TIMEOUT": "1"}
    home.configure(files=scripted(READ_FILE), hung=hung, silent=silent)
    home.start_gateway()
    assert home("gateway", "stop").stdout == "stopped\n"
    assert processes(str(scripted.directory)) == {}


@pytest.mark.requirement("upstream:isolation")
def test_no_process_is_left_after_a_search(home: Cli, scripted: Scripted) -> None:
    """upstream:isolation: nor of a command that connected by itself."""
    child = scripted.directory / "child"
    home.configure(files=scripted(READ_FILE), hung=scripted(child=str(child), stubborn=True))
    assert home("search", "read_file").returncode == 0
    assert processes(str(scripted.directory)) == {}


@pytest.mark.requirement("upstream:isolation")
@pytest.mark.parametrize("how", SIGNALS, ids=lambda how: how.name)
@pytest.mark.parametrize("command", [["search", "a"], ["list-servers", "--refresh"]], ids=" ".join)
def test_an_interrupted_search(
    home: Cli, scripted: Scripted, command: list[str], how: signal.Signals
) -> None:
    """upstream:isolation: an end while a server hangs leaves nothing, and says so in one line."""
    started = scripted.directory / "starts"
    home.configure(moon=scripted(hang=True, starts=str(started)))
    with subprocess.Popen(
        home.command(*command),
        env=home.environment(),
        cwd=home.home,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until(started.exists, "the server is started")
        process.send_signal(how)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + how
    assert said.split() == ["toolscript:", "interrupted"]
    assert processes(str(scripted.directory)) == {}


def test_what_is_ignored_stays_ignored(home: Cli, scripted: Scripted) -> None:
    """upstream:isolation: as under nohup."""
    started = scripted.directory / "starts"
    home.env = FUZZY | {"TOOLSCRIPT_CONNECT_TIMEOUT": "3"}
    home.configure(files=scripted(READ_FILE), moon=scripted(hang=True, starts=str(started)))
    with subprocess.Popen(
        ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *home.command("search", "read_file")],
        env=home.environment(),
        cwd=home.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until(started.exists, "the server is started")
        process.send_signal(signal.SIGHUP)
        found, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "files__read_file" in found
