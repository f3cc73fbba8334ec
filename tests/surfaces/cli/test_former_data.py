"""A home directory that a former version wrote works on.

``data_of_COMMIT.tar.gz`` was written by that commit: a server with three tools, of which one was
rejected, one is allowed for always, eight calls, a token, the graph and the vectors.
"""

import json
import shlex
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.support import HELPERS, READ_FILE, Cli, Scripted, fetch, until

from toolscript.config.locations import key_of

KEY = "0b51c408bc85b468"
TOKENS = {
    "b1f7429": "ts_csOlnOnHJjvSPVx0dheFNcafv_8GJGEwj4bf02N2lTw",
    "7e0ad38c": "ts_BiLDu9Hbag9LsR8yGyMYVIUSwGiWEMOXNeNVAt6x6rs",
}
REVOKED = "ts_4F1meI6E4B5vUw5IKb5w6c-KcPzH-lHWkSXLPF4ICnM"


def unpack(cli: Cli, commit: str) -> Cli:
    """The unpacked home; names of files have the key of the configuration's path in them."""
    with tarfile.open(Path(__file__).with_name(f"data_of_{commit}.tar.gz")) as packed:
        packed.extractall(cli.home, filter="data")
    key = key_of((cli.home / ".toolscript.json",))
    for path in sorted(cli.home.rglob(f"*{KEY}*"), reverse=True):
        path.rename(path.with_name(path.name.replace(KEY, key)))
    for path in (cli.home / ".toolscript").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (cli.home / ".toolscript").chmod(0o700)
    cli.env = {
        "PROGRAM": f"{sys.executable} -S -E {HELPERS / 'scripted.py'}",
        "TOOLSCRIPT_APPROVAL_TIMEOUT": "1",
    }
    return cli


@pytest.mark.files
@pytest.mark.parametrize("commit", TOKENS)
def test_former_data_counts_and_names_its_leftovers(cli: Cli, commit: str) -> None:
    former = unpack(cli, commit)
    vectors = next(former.home.rglob("embeddings-*.json"))
    before = json.loads(vectors.read_bytes())["embeddings"]
    url = former.start_gateway()
    with former:
        tools = {each["toolId"] for each in former.json("list-tools")["tools"]}
        assert tools == {"notes__read_note", "notes__write_note"}
        [held] = former.json("review")["held"]
        assert (held["toolId"], held["rejected"]) == ("notes__list_notes", True)
        # Answers did not say about which definition they were, and vectors had another form.
        asked_again = commit == "b1f7429"
        assert former("call", "notes__write_note", "{}").returncode == asked_again
        calls = former.json("activity")["calls"]
        recorded = [(each["tool"], each["outcome"]) for each in calls]
        assert recorded[0] == ("notes__write_note", "denied" if asked_again else "ok")
        assert len(calls) == (9 if asked_again else 8)
        headers = [{"Authorization": f"Bearer {each}"} for each in (TOKENS[commit], REVOKED)]
        assert [fetch(url, "/tools", headers=each)[0] for each in headers] == [200, 401]
        assert former.json("graph", "show")["stats"]["calls"] >= 7
        found = former.json("search", "read a note")["results"]
        assert found[0]["toolId"] == "notes__read_note"
        after = json.loads(vectors.read_bytes())["embeddings"]
        kept = before.keys() & after.keys()
        assert kept
        same = [after[name]["timestamp"] == before[name]["timestamp"] for name in kept]
        assert all(same) or asked_again
        names = ("questions", "scripts", "setup", "switches")
        folders = [former.home / ".toolscript" / name for name in names]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        told = json.loads(former("doctor", "--output", "json").stdout)  # a held tool is wrong
        findings = {each["what"]: each for each in told["findings"]}
        advice = findings["former data"]["advice"]
        assert all(each in advice for each in (*map(str, folders), "session-"))
        subprocess.run(shlex.split(advice.removeprefix("delete them: ")), check=True)
        assert "former data" not in former("doctor").stdout


def test_calls_that_cannot_be_recorded_are_told(cli: Cli, scripted: Scripted) -> None:
    """A file of a later version is left alone; the gateway and ``doctor`` say so."""
    cli.configure(files=scripted(READ_FILE))
    assert cli("call", "files__read_file", "{}").returncode == 0
    [path] = cli.home.rglob("activity-*.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version = 99")
    db.close()

    def finding() -> dict[str, Any]:
        told = json.loads(cli("doctor", "--output", "json").stdout)["findings"]
        return next(each for each in told if each["what"] == "activity")

    assert not finding()["ok"]
    url = cli.start_gateway()
    with cli:
        assert fetch(url, "/health")[1]["tasks"]["activity"] == "running"
        assert cli("call", "files__read_file", "{}").returncode == 0
        failing = "failing: its version is 99"
        until(lambda: failing in str(fetch(url, "/health")[1]["tasks"]), "it is told")
        assert not finding()["ok"]
