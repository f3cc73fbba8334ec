"""Whoever has servers in the files of twelve clients moves in by one command, and out by one."""

import difflib
import json
import os
import pty
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import launcher
from tests.stdio_sessions import session
from tests.support import ROOT, Cli
from tests.users.homes import SECRETS, backups, contents, furnish
from toolscript.config.file_parser import parsed

PROGRAM = str(Path(sys.executable).with_name("toolscript"))
BARE = {"command": PROGRAM, "args": ["mcp"]}
SEARCHING = ["search_tools", "describe_tools", "read_result"]
APPROVED = {"tools": {tool: {"approval_mode": "approve"} for tool in [*SEARCHING, "read_tool"]}}
STORAGE = ".config/Code/User/globalStorage"
CLINE = f"{STORAGE}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
ROO = f"{STORAGE}/rooveterinaryinc.roo-cline/settings/mcp_settings.json"
MOVED: dict[str, tuple[tuple[str, ...], dict[str, Any], set[str]]] = {
    ".claude.json": (("mcpServers",), {**BARE, "alwaysLoad": True}, set()),
    ".config/Claude/claude_desktop_config.json": (
        ("mcpServers",),
        BARE,
        set(),
    ),
    ".cursor/mcp.json": (("mcpServers",), BARE, set()),
    ".config/Code/User/mcp.json": (("servers",), {**BARE, "type": "stdio"}, {"tracker"}),
    ".config/Code - Insiders/User/mcp.json": (("servers",), {**BARE, "type": "stdio"}, set()),
    ".codeium/windsurf/mcp_config.json": (("mcpServers",), BARE, set()),
    ".codex/config.toml": (("mcp_servers",), {**BARE, **APPROVED}, set()),
    ".gemini/settings.json": (("mcpServers",), BARE, set()),
    ".copilot/mcp-config.json": (
        ("mcpServers",),
        {**BARE, "type": "local", "tools": ["*"], "deferTools": "never"},
        set(),
    ),
    ".config/opencode/opencode.json": (
        ("mcp",),
        {"type": "local", "command": [PROGRAM, "mcp"], "enabled": True},
        set(),
    ),
    ".config/zed/settings.json": (("context_servers",), BARE, set()),
    CLINE: (("mcpServers",), {**BARE, "autoApprove": SEARCHING}, set()),
    ROO: (("mcpServers",), {**BARE, "alwaysAllow": SEARCHING}, set()),
}
"""Where the servers of each file are, toolscript's entry, and the servers that stay."""
TAKEN: dict[str, dict[str, Any]] = {
    "notes": {"type": "stdio", "env": {}, "args": ["notes"]},
    "github": {
        "type": "stdio",
        "args": ["github"],
        "env": {"GITHUB_TOKEN": SECRETS[0]},
        "callTimeout": 90.0,
    },
    "orders": {"type": "stdio", "env": {}, "args": ["orders"], "cwd": "~/shop"},
    "github-cursor": {"args": ["github"], "env": {"GITHUB_TOKEN": SECRETS[1]}},
    "calendar": {"type": "stdio", "args": ["calendar"]},
    "wiki": {
        "url": "@URL@",
        "headers": {"Authorization": f"Bearer {SECRETS[2]}"},
        "disabled": True,
    },
    "files": {"args": ["files"], "excludeTools": ["files_write"]},
    "mail": {
        "args": ["mail"],
        "env": {"MAIL_USER": "ana"},
        "startTimeout": 20,
        "callTimeout": 45,
        "includeTools": ["mail_read"],
        "permissions": {"*": "allow"},
    },
    "paused": {"command": "paused", "disabled": True},
    "weather": {
        "args": ["weather"],
        "env": {"WEATHER_HOME": "${HOME}"},
        "callTimeout": 15.0,
        "permissions": {"*": "allow"},
    },
    "maps": {"args": ["maps"], "disabled": True},
    "tickets": {"type": "local", "args": ["tickets"], "includeTools": ["tickets_read"]},
    "memory": {"type": "local", "args": ["memory"], "env": {"MEMORY_SIZE": "10"}},
    "clock": {"env": {}, "args": ["clock"]},
    "shell": {"args": ["shell"], "permissions": {"shell_read": "allow"}},
    "search": {"type": "streamable-http", "url": "@URL@", "callTimeout": 30},
}
"""Every entry in toolscript's file; the command is that of `furnish` unless it is stated."""


def section(document: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Takes the object of servers out of a document and returns it."""
    for key in keys[:-1]:
        document = document[key]
    return document.pop(keys[-1], {})


@pytest.mark.requirement("setup:move")
def test_one_command_moves_in_and_one_moves_out(cli: Cli) -> None:
    script = ROOT / "tests" / "servers" / "sdk.py"
    with launcher.helper(script, "http", env=cli.environment()) as (url, _):
        before = furnish(cli.home, url)
        done = cli("setup", "--yes", cwd=cli.home / "shop")
        assert done.returncode == 0, done.stderr
        after = contents(cli.home)
        own = json.loads((cli.home / ".toolscript.json").read_text("utf-8"))["mcpServers"]
        assert own == expected(cli.home, url)
        for name, (keys, entry, staying) in MOVED.items():
            check_client(cli.home, name, keys, entry, staying, before, after)
        untouched = before.keys() - {cli.home / name for name in MOVED}
        assert {path: after[path] for path in untouched} == {
            path: before[path] for path in untouched
        }
        listed = cli.json("list-servers", "--refresh")["servers"]
        states = {server["name"]: server["state"] for server in listed}
        off = {"wiki", "paused", "maps"}
        assert states == {name: "disabled" if name in off else "ready" for name in own} or (
            states == {name: "disabled" if name in off else "resting" for name in own}
        )
    again = cli("setup", "--yes", cwd=cli.home / "shop")
    assert (again.returncode, contents(cli.home)) == (0, after)
    assert again.stdout.endswith("nothing to change\n")
    assert "alwaysLoad" not in again.stdout, "it is an entry that setup has written"
    undone = cli("setup", "--undo", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert contents(cli.home) == before
    assert not backups(cli.home)
    assert not (cli.home / ".toolscript" / "setup.json").exists()


def expected(home: Path, url: str) -> dict[str, Any]:
    server = {"command": str(home / "bin" / "server")}
    entries = {
        name: entry if "command" in entry or "@URL@" in entry.values() else {**server, **entry}
        for name, entry in TAKEN.items()
    }
    return json.loads(json.dumps(entries).replace("@URL@", url).replace("~", str(home)))


def check_client(  # noqa: PLR0913, PLR0917 - a file before and after, and the difference there should be
    home: Path,
    name: str,
    keys: tuple[str, ...],
    entry: dict[str, Any],
    staying: set[str],
    before: dict[Path, bytes],
    after: dict[Path, bytes],
) -> None:
    path = home / name
    old = parsed(path, before[path]) if before[path] else {}
    new = parsed(path, after[path])
    taken, servers = section(old, keys), section(new, keys)
    entry = json.loads(json.dumps(entry).replace("~", str(home)))
    assert servers == {"toolscript": entry, **{each: taken[each] for each in staying}}, name
    if name == ".claude.json":
        assert section(new, ("projects", str(home / "shop"), "mcpServers")) == {}
        assert section(old, ("projects", str(home / "shop"), "mcpServers")).keys() == {"orders"}
    if name == ".gemini/settings.json":
        assert new.pop("tools") == {"allowed": [f"mcp_toolscript_{tool}" for tool in SEARCHING]}
    assert new == old, name
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    for comment in (b"// the same", b"// another", b'/* "old"', b"# How", b"// Zed", b"// not yet"):
        assert (comment in before[path]) == (comment in after[path])


@pytest.mark.requirement("setup:move")
def test_a_file_keeps_its_comments_and_its_indentation(cli: Cli) -> None:
    furnish(cli.home)
    names = ("cursor", "codex", "vscode")
    done = cli("setup", "--yes", *(word for name in names for word in ("--client", name)))
    assert done.returncode == 0, done.stderr
    assert (cli.home / ".cursor/mcp.json").read_text("utf-8") == CURSOR.replace("@", PROGRAM)
    assert (cli.home / ".codex/config.toml").read_text("utf-8") == CODEX.replace("@", PROGRAM)
    vscode = (cli.home / ".config/Code/User/mcp.json").read_text("utf-8")
    assert '\n\t\t"toolscript": {\n\t\t\t"command": ' in vscode
    assert '\n\t\t// VS Code asks for the key\n\t\t"tracker": {\n' in vscode
    own = json.loads((cli.home / ".toolscript.json").read_text("utf-8"))["mcpServers"]
    assert [*own] == ["my-notes", "github", "calendar", "mail", "paused"]


CURSOR = """{
  "mcpServers": {
    // the same as in Claude Code

    // another account
    /* "old": { "command": "old" }, */
    "toolscript": {
      "command": "@",
      "args": [
        "mcp"
      ]
    },
  },
}
"""
CODEX = """# How Codex works
model = "gpt-5" # the large one
approval_policy = "on-request"

[mcp_servers.toolscript]
command = "@"
args = ["mcp"]

[mcp_servers.toolscript.tools.search_tools]
approval_mode = "approve"

[mcp_servers.toolscript.tools.describe_tools]
approval_mode = "approve"

[mcp_servers.toolscript.tools.read_result]
approval_mode = "approve"

[mcp_servers.toolscript.tools.read_tool]
approval_mode = "approve"

[tui]
theme = "dark"
"""


@pytest.mark.requirement("setup:safe")
def test_a_dry_run_writes_nothing_and_shows_no_secret(cli: Cli) -> None:
    before = furnish(cli.home)
    done = cli("setup", "--dry-run")
    assert (done.returncode, contents(cli.home)) == (0, before)
    assert not backups(cli.home)
    assert not [secret for secret in SECRETS if secret in done.stdout + done.stderr]
    table, _, diffs = done.stdout.partition("\n--- ")
    assert "github-cursor  Cursor (as github)" in table
    assert "switched off)" in table
    assert "Claude Code, Claude Desktop, Cursor (as my-notes)" in table
    assert "env.TRACKER_KEY has ${input:tracker-key}, which is no variable here" in table
    cursor = diffs[diffs.index(f"{cli.home}/.cursor/mcp.json") :]
    after = CURSOR.replace("@", PROGRAM).splitlines()
    path = cli.home / ".cursor/mcp.json"
    shown = [*difflib.unified_diff(before[path].decode().splitlines(), after, lineterm="")][2:]
    expected = "\n".join(shown).replace(SECRETS[1], "***")
    assert expected in cursor


@pytest.mark.requirement("setup:safe")
def test_nobody_is_surprised(cli: Cli) -> None:
    before = furnish(cli.home)
    done = cli("setup")
    assert (done.returncode, done.stdout, contents(cli.home)) == (2, "", before)
    assert done.stderr == (
        "toolscript: nobody can be asked here; look with toolscript setup --dry-run, "
        "then write with toolscript setup --yes\n"
    )
    done = cli("setup", "--yes", "--client", "cursr")
    assert done.returncode == 2
    assert done.stderr.startswith("toolscript: no client is called 'cursr'; expected claude-code, ")
    done = cli("setup", "--undo", "--dry-run")
    assert (done.returncode, contents(cli.home)) == (2, before)
    done = cli("setup", "--yes", env={"HOME": str(cli.home / "none")})
    assert (done.returncode, done.stderr) == (
        2,
        "toolscript: there is no home directory; set HOME\n",
    )


def test_secrets_leave_the_files(cli: Cli) -> None:
    before = furnish(cli.home)
    done = cli("setup", "--yes", "--secrets")
    assert done.returncode == 0, done.stderr
    after = contents(cli.home)
    kept = {path.name for path, data in after.items() for each in SECRETS if each.encode() in data}
    assert not kept
    own = json.loads(after[cli.home / ".toolscript.json"])["mcpServers"]
    assert own["github"]["env"] == {"GITHUB_TOKEN": "${secret:github_GITHUB_TOKEN}"}
    assert own["wiki"]["headers"] == {"Authorization": "Bearer ${secret:wiki_Authorization}"}
    again = cli("setup", "--yes")
    assert (again.returncode, contents(cli.home)) == (0, after)
    states = {each["name"]: each["state"] for each in cli.json("list-servers")["servers"]}
    assert {states["github"], states["github-cursor"]} <= {"ready", "resting"}
    undone = cli("setup", "--undo", "--yes")
    assert "the secrets stay" in undone.stderr
    assert contents(cli.home) == before
    renewed = cli("setup", "--yes", "--secrets")
    assert (renewed.returncode, contents(cli.home)) == (0, after)


def test_variables_of_other_clients_are_no_secrets_and_keep_their_meaning(cli: Cli) -> None:
    furnish(cli.home)
    path = cli.home / ".config/opencode/opencode.json"
    path.with_name("key").write_text(" from-a-file\n", "utf-8")
    words = ["sh", "-c", f"env > {cli.home}/got; exec {cli.home}/bin/server own"]
    variables = {"A_KEY": "{file:key}", "B_KEY": "{env:KEY}", "C_KEY": "key-Tt1Uu2Vv3Ww4"}
    entry = {"type": "local", "command": words, "environment": variables}
    remote = {"type": "remote", "url": "http://h/mcp", "headers": {"X-Key": "Bearer {file:~/key}"}}
    path.write_text(json.dumps({"mcp": {"own": entry, "far": remote}}), "utf-8")
    asked = ("setup", "--yes", "--secrets", "--client", "opencode")
    done = cli(*asked, env={"KEY": "from-outside"})
    assert done.returncode == 0, done.stderr
    own = json.loads((cli.home / ".toolscript.json").read_text("utf-8"))["mcpServers"]
    assert own["own"]["env"] == {
        "A_KEY": f"{{file:{path.with_name('key')}}}",
        "B_KEY": "{env:KEY}",
        "C_KEY": "${secret:own_C_KEY}",
    }
    assert "far" not in own, "the file of its key is not there, so it stays"
    assert [*parsed(path, path.read_bytes())["mcp"]] == ["far", "toolscript"]
    listed = cli.json("list-servers", "--refresh", env={"KEY": "from-outside"})["servers"]
    assert [server["state"] for server in listed] in (["ready"], ["resting"])
    got = (cli.home / "got").read_text("utf-8").splitlines()
    assert {"A_KEY=from-a-file", "B_KEY=from-outside", "C_KEY=key-Tt1Uu2Vv3Ww4"} <= {*got}


@pytest.mark.requirement("setup:safe")
def test_a_file_that_may_not_change_stays_and_the_others_go_on(cli: Cli) -> None:
    before = furnish(cli.home)
    link, only = cli.home / ".cursor/mcp.json", cli.home / ".gemini/settings.json"
    wrong = cli.home / ".config/zed/settings.json"
    link.rename(cli.home / "mcp.json")
    link.symlink_to(cli.home / "mcp.json")
    only.chmod(0o440)
    wrong.write_text('{"context_servers": {', "utf-8")
    done = cli("setup", "--yes")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert f"toolscript: {link} is not changed: it is a symbolic link" in lines
    assert f"toolscript: {only} is not changed: it is read-only" in lines
    assert any(line.startswith(f"toolscript: {wrong} is not valid JSON: ") for line in lines)
    assert link.is_symlink()
    assert (link.read_bytes(), only.read_bytes()) == (before[link], before[only])
    assert b"toolscript" in (cli.home / ".codex/config.toml").read_bytes()
    if os.geteuid() == 0:
        os.chown(cli.home / ".codex/config.toml", 65534, -1)
        done = cli("setup", "--yes", "--client", "codex")
        assert "config.toml is not changed: it belongs to another user" in done.stderr
        os.chown(cli.home / ".codex/config.toml", 0, -1)
    (cli.home / ".toolscript.json").chmod(0o400)
    done = cli("setup", "--yes")
    assert done.returncode == 2
    assert done.stderr.endswith(".toolscript.json is not changed: it is read-only\n")


@pytest.mark.requirement("setup:safe")
def test_undo_leaves_what_has_changed_and_nobody_without_servers(cli: Cli) -> None:
    """A file that stays needs the servers in toolscript's own."""
    before = furnish(cli.home)
    assert cli("setup", "--yes", "--client", "windsurf").returncode == 0
    assert cli("setup", "--yes", "--client", "cursor").returncode == 0
    after = contents(cli.home)
    path, own = cli.home / ".cursor/mcp.json", cli.home / ".toolscript.json"
    edited = path.read_bytes().replace(b"another account", b"of the house")
    path.write_bytes(edited)
    backup = path.with_name("mcp.json.bak")
    assert (backup.read_bytes(), stat.S_IMODE(backup.stat().st_mode)) == (before[path], 0o600)
    asked = cli("setup", "--undo")
    assert (asked.returncode, contents(cli.home)) == (2, after | {path: edited})
    assert asked.stderr.endswith("with toolscript setup --undo --yes\n")
    done = cli("setup", "--undo", "--yes")
    assert done.returncode == 1
    assert done.stderr == (
        f"toolscript: {path} stays: it has changed since setup wrote it\n"
        f"toolscript: take it back with: cp {backup} {path}\n"
        f"toolscript: {own} stays: files that stay need it\n"
    )
    assert "-    // of the house" in done.stdout
    assert "GITHUB_TOKEN" in done.stdout
    assert not [secret for secret in SECRETS if secret in done.stdout]
    assert contents(cli.home) == before | {path: edited, own: after[own]}
    path.write_bytes(backup.read_bytes())
    assert cli("setup", "--undo", "--yes").returncode == 0
    assert (contents(cli.home), backups(cli.home)) == (before, set())
    assert cli("setup", "--undo", "--yes").stdout == "nothing to take back\n"


@pytest.mark.requirement("setup:safe")
def test_undo_stops_the_gateway_of_the_file_that_it_deletes(cli: Cli) -> None:
    assert cli("setup", "--yes", "--client", "cursor").returncode == 0
    assert cli("gateway", "start").returncode == 0
    pid = cli.record()["pid"]
    done = cli("setup", "--undo", "--yes")
    assert (done.returncode, contents(cli.home)) == (0, {}), done.stderr
    assert done.stdout.endswith(f"stopped its gateway (process {pid})\n")
    own = str(cli.home / ".toolscript.json")
    assert cli("gateway", "status", "--config", own).stdout == "not running\n"


@pytest.mark.requirement("setup:move")
def test_a_project_has_to_be_named_and_gives_no_rights(cli: Cli) -> None:
    before = furnish(cli.home)
    shop = cli.home / "shop"
    done = cli("setup", "--yes", cwd=shop)
    assert done.returncode == 0
    assert f"{shop}/.mcp.json is the project's, so it stays; --client claude-code-project" in (
        done.stderr
    )
    assert (shop / ".mcp.json").read_bytes() == before[shop / ".mcp.json"]
    named = ("--client", "claude-code-project", "--client", "vscode-workspace")
    assert cli("setup", "--yes", *named, cwd=shop).returncode == 0
    own = json.loads((cli.home / ".toolscript.json").read_text("utf-8"))["mcpServers"]
    server = {"command": str(cli.home / "bin/server")}
    assert own["stock"] == {**server, "args": ["stock"], "cwd": str(shop)}
    document = json.loads((shop / ".mcp.json").read_text("utf-8"))
    assert document == {"mcpServers": {"toolscript": {**BARE, "alwaysLoad": True}}}


@pytest.mark.requirement("setup:move")
def test_a_projects_server_still_means_its_project(cli: Cli) -> None:
    furnish(cli.home)
    shop = cli.home / "shop"
    (shop / ".env").write_text("KEY=from-the-project # a comment\nno variable\n", "utf-8")
    script = f'echo "$0 $KEY $ROOT" > {cli.home}/got; exec {cli.home}/bin/server own'
    entry = {
        "command": "sh",
        "args": ["-c", script, "${workspaceFolder}/data"],
        "env": {"ROOT": "${workspaceFolder}"},
        "envFile": "${workspaceFolder}/.env",
    }
    (shop / ".vscode/mcp.json").write_text(json.dumps({"servers": {"own": entry}}), "utf-8")
    done = cli("setup", "--yes", "--client", "vscode-workspace", cwd=shop)
    assert done.returncode == 0, done.stderr
    skipped = f"envFile: not NAME=value, so not read: line 2 of {shop}/.env"
    assert skipped in done.stdout
    [server] = cli.json("list-servers", "--refresh")["servers"]
    assert server["state"] in {"ready", "resting"}
    assert server["unread"] == [skipped]
    got = (cli.home / "got").read_text("utf-8")
    assert got == f"{shop}/data from-the-project {shop}\n"


@pytest.mark.requirement("setup:move")
def test_a_client_without_a_file_gets_one(cli: Cli) -> None:
    config = cli.home / "mine.json"
    done = cli("setup", "--yes", "--client", "cursor", "--config", "mine.json", "--hook")
    assert done.returncode == 0, done.stderr
    entry = {"command": PROGRAM, "args": ["mcp", "--config", str(config)]}
    document = json.loads((cli.home / ".cursor/mcp.json").read_text("utf-8"))
    assert document == {"mcpServers": {"toolscript": entry}}
    assert json.loads(config.read_bytes()) == {"mcpServers": {}}
    assert cli("list-servers", "--config", "mine.json").returncode == 0
    settings = json.loads((cli.home / ".claude/settings.json").read_text("utf-8"))
    hook = {"type": "command", "command": f"{PROGRAM} hook --config {config}"}
    assert settings == {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
    assert cli("setup", "--undo", "--yes").returncode == 0
    assert contents(cli.home) == {}


@pytest.mark.requirement("setup:move")
def test_a_client_without_servers_can_start_toolscript(cli: Cli) -> None:
    path = cli.home / ".config/opencode/opencode.jsonc"
    path.parent.mkdir(parents=True)
    path.write_text('{\n  // mine\n  "model": "m"\n}\n', "utf-8")
    done = cli("setup", "--yes")
    assert done.returncode == 0, done.stderr
    document = parsed(path, path.read_bytes())
    own = cli.home / ".toolscript.json"
    assert json.loads(own.read_bytes()) == {"mcpServers": {}}
    assert document["mcp"]["toolscript"]["command"] == [PROGRAM, "mcp"]
    with session(cli) as client:
        assert client.ask("tools/list")["tools"]
    assert cli("setup", "--yes").stdout.endswith("nothing to change\n")
    assert cli("setup", "--undo", "--yes").returncode == 0
    assert [*contents(cli.home)] == [path]


def test_a_hook_stands_beside_others(cli: Cli) -> None:
    before = furnish(cli.home)
    assert cli("setup", "--yes", "--client", "cursor", "--hook").returncode == 0
    path = cli.home / ".claude/settings.json"
    settings, was = json.loads(path.read_bytes()), json.loads(before[path])
    hooks = settings["hooks"]["UserPromptSubmit"]
    assert hooks == [
        *was["hooks"]["UserPromptSubmit"],
        {"hooks": [{"type": "command", "command": f"{PROGRAM} hook"}]},
    ]
    assert cli("setup", "--yes", "--client", "cursor", "--hook").returncode == 0
    assert json.loads(path.read_bytes()) == settings
    assert before[path].splitlines()[:10] == path.read_bytes().splitlines()[:10]


@pytest.mark.requirement("setup:safe")
def test_a_user_chooses_and_confirms(cli: Cli) -> None:
    before = furnish(cli.home)
    named = ("--client", "cursor", "--client", "windsurf")
    answers = "my-notes, wiki\ny\ny\ny\nn\n"  # servers, secrets, and each file
    code, _ = at_a_terminal(cli, answers, "setup", *named)
    assert code == 0
    own = json.loads((cli.home / ".toolscript.json").read_text("utf-8"))["mcpServers"]
    assert own.keys() == {"my-notes", "wiki"}
    assert own["wiki"]["headers"] == {"Authorization": "Bearer ${secret:wiki_Authorization}"}
    changed = {path for path, data in contents(cli.home).items() if before.get(path) != data}
    assert changed == {cli.home / ".toolscript.json", cli.home / ".cursor/mcp.json"}
    assert cli("setup", "--undo", "--yes").returncode == 0
    code, shown = at_a_terminal(cli, "all\nn\nn\nn\nn\ny\ny\n", "setup", *named)
    assert (code, contents(cli.home)) == (2, before)
    assert "nothing is written: the clients need the servers in" in shown


def at_a_terminal(cli: Cli, answers: str, *arguments: str) -> tuple[int, str]:
    """Runs a command that asks at a terminal; returns its exit code and what it shows."""
    main, side = pty.openpty()
    command, env = cli.command(*arguments), cli.environment({"TERM": "xterm"})
    with subprocess.Popen(
        command, env=env, cwd=cli.home, stdin=side, stdout=side, stderr=side
    ) as process:
        os.close(side)
        os.write(main, answers.encode())
        shown = b""
        while data := _read(main):
            shown += data
    os.close(main)
    return process.returncode, shown.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""  # how Linux says that the other side is closed
