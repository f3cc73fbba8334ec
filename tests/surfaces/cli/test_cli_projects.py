"""Two projects behind one gateway, with servers of others."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.stdio_sessions import Session, session
from tests.support import FUZZY, Cli, child_processes

pytestmark = pytest.mark.servers
COMMITS = 5


def repository(folder: Path) -> Path:
    """A new repository with an author."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "config", "user.name", folder.name)
    git(folder, "config", "user.email", f"{folder.name}@example.org")
    return folder


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words],  # noqa: S607 - the one that the server uses
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def commit_all(one: Session, folder: Path) -> None:
    """Write and commit one file after the other, through the server."""
    for number in range(COMMITS):
        name = f"{folder.name}-{number}.txt"
        (folder / name).write_text(name, "utf-8")
        for tool, more in (("git_add", {"files": [name]}), ("git_commit", {"message": name})):
            answer = one.call(f"git:{tool}", repo_path=str(folder), **more)
            assert not answer.get("isError"), answer


@pytest.mark.requirement("upstream:instances")
def test_each_project_commits_in_its_own_repository(
    cli: Cli, real_servers: dict[str, Any], tmp_path: Path
) -> None:
    """upstream:instances: at the same time; an entry that names no project is one process."""
    cli.env = FUZZY
    entry = {**real_servers["git"], "args": ["--repository", "${PROJECT}"]}
    cli.configure(git=entry, time=real_servers["time"])
    folders = [repository(tmp_path / name) for name in ("apples", "pears")]
    with ExitStack() as stack:
        sessions = [stack.enter_context(session(cli, cwd=folder)) for folder in folders]
        with ThreadPoolExecutor() as pool:
            list(pool.map(commit_all, sessions, folders))
        for one in sessions:
            now = one.call("time:get_current_time", timezone="UTC")
            assert json.loads(now["content"][0]["text"])["timezone"] == "UTC"
        foreign = sessions[0].call("git:git_log", repo_path=str(folders[1]))
        assert foreign.get("isError"), "its server is that of the other project"
        running = list(child_processes(int(cli.record()["pid"])).values())
        table = cli("doctor").stdout
        assert f"your servers start in {cli.home}, with the variables of its start" in table
        for folder in folders:  # one more runs in the home directory, whose tools are listed
            assert len([words for words in running if f"--repository {folder}" in words]) == 1
        assert len([words for words in running if "mcp-server-time" in words]) == 1
    for folder in folders:
        wanted = [f"{folder.name}-{number}.txt" for number in range(COMMITS)]
        assert git(folder, "log", "--reverse", "--format=%s").split() == wanted
