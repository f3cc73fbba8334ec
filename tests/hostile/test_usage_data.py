"""Nothing is told to anybody: what a real session leaves on disk, and to whom it connects."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateways import configure, scripted

PROGRAM = [sys.executable, "-P", "-m", "toolscript"]
SESSION = (
    ["search", "send a mail"],
    ["gateway", "start", "--port", "0"],
    ["search", "send a mail"],
    ["call", "mail__send_mail", "{}"],
    ["gateway", "stop"],
)
LOCAL = re.compile(
    r"AF_UNIX|AF_NETLINK|AF_UNSPEC"
    r'|AF_INET, .*inet_addr\("127\.'
    r'|AF_INET6, .*inet_pton\(AF_INET6, "(::1|::ffff:127\.[\d.]+)"'
)


def run_session(tmp_path: Path, wrap: list[str]) -> Path:
    """Run a session of a new user, as outside of a CI; returns the home directory."""
    home, data = tmp_path / "home", tmp_path / "data"
    home.mkdir()
    data.mkdir()
    configure(
        data,
        {
            "mail": scripted(
                tools=[
                    {
                        "name": "send_mail",
                        "description": "Sends a mail.",
                        "inputSchema": {"type": "object"},
                        "annotations": {"readOnlyHint": True},
                    }
                ]
            )
        },
    )
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TOOLSCRIPT_DATA_DIR": str(data),
        "TOOLSCRIPT_CONFIG": str(data / "config.json"),
    }
    for arguments in SESSION:
        command = [*wrap, *PROGRAM, *arguments]
        # strace holds its output open for as long as the gateway runs, so that is no pipe.
        subprocess.run(command, env=environ, cwd=home, check=True, stdout=subprocess.DEVNULL)
    return home


def test_a_session_leaves_no_file_outside_the_data_directory(tmp_path: Path) -> None:
    home = run_session(tmp_path, [])

    assert [path for path in home.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_a_session_connects_to_this_machine_alone(tmp_path: Path) -> None:
    """Covers every connection and datagram of all processes, of native libraries, too."""
    traces = tmp_path / "traces"
    traces.mkdir()
    calls = "trace=connect,sendto,sendmsg,sendmmsg"
    wrap = ["strace", "-D", "-ff", "-qq", "-e", calls, "-o", str(traces / "of")]

    run_session(tmp_path, wrap)

    lines = [line for path in traces.iterdir() for line in path.read_text().splitlines()]
    connections = [line for line in lines if "sa_family=" in line]
    assert any("127.0.0.1" in line for line in connections)
    assert [line for line in connections if not LOCAL.search(line)] == []
