"""The data directory: what is left in it, what cannot be kept in it, and whose it is."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from tests.support import Cli, Scripted, create_token, fetch, tool
from toolscript.config.access_tokens import TokenStore
from toolscript.errors import DataDirectoryError, TokenFileError
from toolscript.skills.folders import AddedFolders
from toolscript.storage.atomic_files import check_owner, write_atomically
from toolscript.storage.blob_store import BlobStore
from toolscript.types import EVERYTHING

# L7: temporary files


def test_l7_temporary_files_of_killed_writers_are_deleted_when_they_are_old(tmp_path: Path) -> None:
    path = tmp_path / "tokens-key.json"
    old = [".tokens-key.json.abcd_123", ".another.json.zzzzzzzz", ".graph.sqlite.abcdefgh-journal"]
    kept = [".tokens-key.json.young123", ".profile", ".hidden.txt", "plain.txt.abcd1234"]
    for name in old + kept:
        (tmp_path / name).write_bytes(b"")
        if name != ".tokens-key.json.young123":
            os.utime(tmp_path / name, (time.time() - 4000, time.time() - 4000))
    write_atomically(path, b"{}")
    assert {each.name for each in tmp_path.iterdir()} == {path.name, *kept}


# L8: fresh starts


def test_l8_a_file_that_is_just_being_made_is_not_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two processes that start together: one makes the file, the other one reads."""
    code = (
        "import sys; from pathlib import Path\n"
        "from toolscript.storage.blob_store import BlobStore\n"
        "for line in sys.stdin:\n"
        "    kept = BlobStore(Path(line.strip()))\n"
        "    print(flush=True)\n"
        "    kept.sync('files', '1', ['key'], lambda _: b'value')\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as maker:
        assert maker.stdin is not None
        assert maker.stdout is not None
        for number in range(50):
            kept = BlobStore(tmp_path / str(number) / "a.sqlite")
            maker.stdin.write(f"{kept.path}\n".encode())
            maker.stdin.flush()
            maker.stdout.readline()
            assert any(kept.load("files", "1") for _ in range(100_000))
        maker.communicate()
    assert not caplog.text


# A stranger's directory: L5


def test_l5_a_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.getuid()
    (tmp_path / "tokens").mkdir()
    check_owner(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:
        check_owner(tmp_path)  # root's may be used by everyone
        os.chown(tmp_path / "tokens", 12345, -1)
    with pytest.raises(DataDirectoryError, match="belongs to user"):
        check_owner(tmp_path)
    with pytest.raises(TokenFileError, match="belongs to user"):
        TokenStore(tmp_path, "key").all()


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@needs_root
@pytest.mark.parametrize(
    ("owner", "mode", "inside", "refused"),
    [
        (0, 0o777, 0, False),  # a volume of a container
        (0, 0o777, 12345, True),  # in which somebody has made tokens
        (12345, 0o755, 12345, False),  # sudo
        (12345, 0o777, 12345, True),
        (12345, 0o1777, 12345, False),
        (12345, 0o755, 54321, True),
    ],
)
def test_l5_root_may_use_what_is_not_open_to_everyone(
    tmp_path: Path, owner: int, mode: int, inside: int, *, refused: bool
) -> None:
    (tmp_path / "tokens").mkdir()
    os.chown(tmp_path / "tokens", inside, -1)
    os.chown(tmp_path, owner, -1)
    tmp_path.chmod(mode)
    with pytest.raises(DataDirectoryError) if refused else nullcontext():
        check_owner(tmp_path)


@needs_root
def test_l5_tokens_that_another_user_made_let_nobody_in(cli: Cli) -> None:
    """Neither commands nor a gateway that runs already."""
    cli.configure()
    url = cli.start_gateway()
    data = cli.home / ".toolscript"
    data.chmod(0o777)
    assert cli("token", "create").returncode == 0
    stolen = data / "tokens"
    os.chown(stolen, 12345, -1)
    [file] = stolen.glob("*.json")
    os.utime(file)
    for command in (["search", "x"], ["token", "list"], ["doctor"]):
        done = cli(*command)
        assert done.returncode in {1, 2}
        assert f"{stolen} belongs to user 12345" in done.stderr + done.stdout.replace("\n", "")
    assert fetch(url, "/tools")[0] >= 400


def test_l5_doctor_says_that_everyone_may_write(cli: Cli) -> None:
    cli.configure()
    (cli.home / ".toolscript").mkdir()
    (cli.home / ".toolscript").chmod(0o777)
    done = cli("doctor", "--output", "json")
    [data] = [each for each in json.loads(done.stdout)["findings"] if each["what"] == "data"]
    assert not data["ok"]
    assert data["advice"].startswith("chmod o-w ")


# What cannot be kept: M19


def without_a_byte(data: Path) -> list[str]:
    """Before a command: it cannot write a byte to any file."""
    del data
    return ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"]


def on_a_full_disk(data: Path) -> list[str]:
    """The same: its data lies on a disk that is full."""
    disk = data.with_name("disk")
    disk.mkdir()
    mounts = (
        f'mount -t tmpfs -o size=1m tmpfs {disk} && cp -a "$0/." {disk} && '
        f'mount --bind {disk} "$0"; cat /dev/zero > "$0/full" 2> /dev/null; exec "$@"'
    )
    return ["unshare", "-m", "sh", "-c", mounts, str(data)]


def read_only(data: Path) -> list[str]:
    """The same: its data lies on a read-only file system."""
    mounts = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    return ["unshare", "-m", "sh", "-c", mounts, str(data)]


def below_a_file(data: Path) -> list[str]:
    """The same: its data directory cannot be made."""
    shutil.rmtree(data)
    data.write_bytes(b"")
    return ["env", f"TOOLSCRIPT_DATA_DIR={data / 'data'}"]


def can_mount() -> bool:
    tried = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    with suppress(OSError):
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    return False


mounts = pytest.mark.skipif(not can_mount(), reason="nothing can be mounted here")


@pytest.mark.parametrize(
    ("spoil", "reason", "lines"),
    [
        (below_a_file, "Not a directory", 1),
        (without_a_byte, "File too large", 2),  # SQLite does not say which of its errors this is
        pytest.param(on_a_full_disk, "No space left on device", 1, marks=mounts),
        pytest.param(read_only, "Read-only file system", 1, marks=mounts),
    ],
)
def test_m19_commands_go_on_without_keeping_and_say_so_in_one_line(
    cli: Cli, scripted: Scripted, spoil: Callable[[Path], list[str]], reason: str, lines: int
) -> None:
    cli.configure(good=scripted(tool("echo")))
    assert cli("call", "good__echo").returncode == 0
    before = spoil(cli.home / ".toolscript")
    for command in (["search", "echo"], ["call", "good__echo"]):
        done = cli.behind(before, *command)
        assert done.returncode == 0, done.stderr
        assert done.stdout
        said = [line for line in done.stderr.splitlines() if "cannot be" in line]
        assert 1 <= len(said) <= lines, said
        assert any(reason in line for line in said)


@mounts
def test_m19_a_token_that_cannot_be_revoked_is_said_with_what_to_do(cli: Cli) -> None:
    """It still counts, so nobody may take it for revoked."""
    cli.configure()
    token = create_token(cli)
    before = on_a_full_disk(cli.home / ".toolscript")
    done = cli.behind(before, "token", "revoke", token["id"])
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("toolscript: ")
    assert line.endswith("No space left on device; make room, then repeat the command")
    assert "/tokens" in line
    assert [each["id"] for each in cli.json("token", "list")["tokens"]] == [token["id"]]


def test_m19_what_cannot_be_kept_for_another_reason_is_said_too() -> None:
    code = (
        "import errno, logging; from toolscript.storage.atomic_files import write_failure\n"
        "from toolscript.surfaces.server import logs\n"
        "logs.set_up()\n"
        "for file, number in enumerate([errno.ENOSPC, errno.ENOSPC, errno.EROFS]):\n"
        "    error = OSError(number, {28: 'full', 30: 'read-only'}[number])\n"
        "    logging.warning('%s: %s', file, error.strerror, extra=write_failure(error))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = [line.split(";")[0] for line in ran.stderr.splitlines()]
    assert said == ["toolscript: 0: full", "toolscript: 2: read-only"]


def test_m19_what_was_derived_from_files_is_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    kept = BlobStore(tmp_path / "file" / "data" / "a.sqlite")
    assert not kept.sync("files", "1", ["key"], lambda _: b"value")
    assert kept.load("files", "1") == {}
    [said] = caplog.messages
    assert "cannot be written" in said


# Out of descriptors: L13


WITHOUT_DESCRIPTORS = """
import resource, sys
from pathlib import Path
from toolscript.errors import ToolscriptError
from toolscript.skills.folders import AddedFolders
from toolscript.skills.vector_pair import VectorPair
from toolscript.config.access_tokens import TokenStore
data = Path(sys.argv[1])
stores = [AddedFolders.of(data).folders, AddedFolders.of(data)._read, TokenStore(data, "key").all]
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
for store in stores:
    try:
        print(store())
    except ToolscriptError as error:
        print(error)
"""


def test_l13_without_a_descriptor_nothing_is_to_be_deleted(tmp_path: Path) -> None:
    TokenStore(tmp_path, "key").create(EVERYTHING)
    (tmp_path / "folder").mkdir()
    added = AddedFolders.of(tmp_path)
    added.add(tmp_path / "folder")
    command = [sys.executable, "-c", WITHOUT_DESCRIPTORS, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.count("Too many open files") == 2
    for advice in ("repair", "delete", "damaged"):
        assert advice not in ran.stdout + ran.stderr
    assert added.folders() == (tmp_path / "folder",)
