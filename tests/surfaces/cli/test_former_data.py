"""A home directory that the program wrote before this version's removals works on.

``former_data.tar.gz`` was written by commit 7e0ad38c: a server with three tools, of which one was
rejected, one is allowed for always, calls, a token, the graph and the vectors.
"""

import json
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.support import HELPERS, Cli, fetch

from toolscript.config.locations import key_of

PACKED = Path(__file__).with_name("former_data.tar.gz")
KEY = "0b51c408bc85b468"
TOKEN = "ts_BiLDu9Hbag9LsR8yGyMYVIUSwGiWEMOXNeNVAt6x6rs"  # noqa: S105 - made up


@pytest.fixture
def former(cli: Cli) -> Cli:
    """The unpacked home; names of files have the key of the configuration's path in them."""
    with tarfile.open(PACKED) as packed:
        packed.extractall(cli.home, filter="data")
    key = key_of((cli.home / ".toolscript.json",))
    for path in sorted(cli.home.rglob(f"*{KEY}*"), reverse=True):
        path.rename(path.with_name(path.name.replace(KEY, key)))
    for path in (cli.home / ".toolscript").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (cli.home / ".toolscript").chmod(0o700)
    cli.env = {"PROGRAM": f"{sys.executable} -S -E {HELPERS / 'scripted.py'}"}
    return cli


@pytest.mark.files
def test_former_data_counts_and_names_its_leftovers(former: Cli) -> None:
    vectors = next(former.home.rglob("embeddings-*.json"))
    before = json.loads(vectors.read_bytes())["embeddings"]
    url = former.start_gateway()
    with former:
        tools = {each["toolId"] for each in former.json("list-tools")["tools"]}
        assert tools == {"notes__read_note", "notes__write_note"}
        [held] = former.json("review")["held"]
        assert (held["toolId"], held["rejected"]) == ("notes__list_notes", True)
        assert former("call", "notes__write_note", "{}").returncode == 0, "allowed for always"
        calls = former.json("activity")["calls"]
        assert [each["tool"] for each in calls].count("notes__write_note") == 2
        assert len(calls) == 8
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert fetch(url, "/tools", headers=headers)[0] == 200
        assert former.json("graph", "show")["stats"]["calls"] >= 7
        found = former.json("search", "read a note")["results"]
        assert found[0]["toolId"] == "notes__read_note"
        after = json.loads(vectors.read_bytes())["embeddings"]
        kept = before.keys() & after.keys()
        assert kept
        assert all(after[name]["timestamp"] == before[name]["timestamp"] for name in kept)
        names = ("questions", "scripts", "setup", "switches")
        folders = [former.home / ".toolscript" / name for name in names]
        folders[2].mkdir()  # it had the former contents of clients' files
        told = json.loads(former("doctor", "--output", "json").stdout)  # a held tool is wrong
        findings = {each["what"]: each for each in told["findings"]}
        advice = findings["former data"]["advice"]
        assert all(each in advice for each in (*map(str, folders), "session-"))
        subprocess.run(shlex.split(advice.removeprefix("delete them: ")), check=True)
        assert "former data" not in former("doctor").stdout
