"""``toolscript secret``: values come in unseen, and never come out."""

import os
import pty
import stat
import subprocess

import pytest
from tests import file_keyring
from tests.support import PATIENCE_S, ROOT, Cli

from toolscript.config.secret_store import MAX_CHARS, SecretStore

NO_KEYRING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
VALUE = "hunter2-correct-horse"


@pytest.fixture
def store(cli: Cli) -> SecretStore:
    return SecretStore(cli.home / ".toolscript")


@pytest.fixture
def ring(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The same, with a keyring that is a file."""
    names = {**file_keyring.ENVIRON, file_keyring.VARIABLE: str(cli.home / "ring")}
    cli.env = {**cli.env, **names, "PYTHONPATH": str(ROOT)}
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    return cli


def files_with(cli: Cli, text: str) -> list[str]:
    files = (path for path in cli.home.rglob("*") if path.is_file())
    return sorted(path.name for path in files if text.encode() in path.read_bytes())


def test_a_value_comes_from_standard_input_and_is_in_one_private_file(
    cli: Cli, store: SecretStore
) -> None:
    done = cli("secret", "set", "api.key", given=f"{VALUE}\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "set: api.key\n", "")
    assert cli("secret", "set", "multi_line", given="one\ntwo\r\n").returncode == 0
    assert store.get("api.key") == VALUE
    assert store.get("multi_line") == "one\ntwo"
    assert store.get("other") is None
    assert files_with(cli, VALUE) == [store.path.name]
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    listed = cli.json("secret", "list")
    names = [{"name": "api.key", "place": "file"}, {"name": "multi_line", "place": "file"}]
    assert listed == {"secrets": names}
    done = cli("secret", "rm", "api.key")
    assert (done.returncode, done.stdout) == (0, "removed: api.key\n")
    assert not files_with(cli, VALUE)
    done = cli("secret", "rm", "api.key")
    assert done.returncode == 2
    assert done.stderr == "toolscript: no secret is called 'api.key'; there are: multi_line\n"


def test_a_value_is_typed_without_echo(cli: Cli, store: SecretStore) -> None:
    main, side = pty.openpty()
    with subprocess.Popen(
        cli.command("secret", "set", "typed"),
        env=cli.environment(),
        cwd=cli.home,
        stdin=side,
        stdout=side,
        stderr=side,
        start_new_session=True,
    ) as process:
        shown = b""
        while b"Value of typed" not in shown:
            shown += os.read(main, 1024)
        os.write(main, f"{VALUE}\n".encode())
        process.wait(PATIENCE_S)
        os.set_blocking(main, False)
        shown += os.read(main, 4096)
    os.close(main)
    os.close(side)
    assert b"set: typed" in shown
    assert b"hunter" not in shown
    assert store.get("typed") == VALUE


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("a b", "x", "the name of a secret has 1 to 64 letters, digits, '.', '-' and '_'"),
        ("x" * 65, "x", "the name of a secret has"),
        (f"NAME={VALUE}", "", "the name of a secret has"),
        ("a", "", "the value has 0 characters; expected 1 to 32768"),
        ("a", f"{VALUE}\0", "the value has 22 characters"),
        ("a", "x" * (MAX_CHARS + 1), "the value has 32769 characters"),
    ],
)
def test_a_mistake_is_named_and_no_value_shown(
    cli: Cli, name: str, value: str, message: str
) -> None:
    done = cli("secret", "set", name, given=value)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"toolscript: {message}")
    assert VALUE not in done.stderr
    assert cli("secret", "list").stdout == "no secrets are stored\n"


def test_the_keyring_takes_values_once_it_is_asked_for(ring: Cli, store: SecretStore) -> None:
    assert ring("secret", "set", "one", given="first-value").returncode == 0
    assert ring("secret", "set", "--keyring", "two", given=VALUE).returncode == 0
    assert ring("secret", "set", "one", given="one-value").returncode == 0
    assert [store.get("one"), store.get("two")] == ["one-value", VALUE]
    assert files_with(ring, VALUE) == files_with(ring, "one-value") == ["ring"]
    assert not files_with(ring, "first-value")
    assert {each["place"] for each in ring.json("secret", "list")["secrets"]} == {"keyring"}
    assert ring("secret", "rm", "one").returncode == 0
    assert ring("secret", "set", "--file", "two", given="in-a-file").returncode == 0
    assert files_with(ring, "in-a-file") == [store.path.name]
    assert not files_with(ring, VALUE)
    assert store.names() == ["two"]


def test_a_keyring_that_is_locked_or_missing_is_an_error(ring: Cli, store: SecretStore) -> None:
    (ring.home / "ring").mkdir()
    locked = ring("secret", "set", "--keyring", "one", given=VALUE)
    assert locked.returncode == 2
    assert locked.stderr.startswith("toolscript: the system's keyring cannot be used (KeyringL")
    assert store.names() == []
    missing = ring("secret", "set", "--keyring", "one", given=VALUE, env=NO_KEYRING)
    assert missing.returncode == 2
    assert "the system's keyring cannot be used (NoKeyringError)" in missing.stderr


def test_a_damaged_file_is_an_error_that_shows_nothing(cli: Cli, store: SecretStore) -> None:
    assert cli("secret", "set", "one", given=VALUE).returncode == 0
    store.path.write_text(store.path.read_text("utf-8")[:-3], "utf-8")
    done = cli("secret", "list")
    assert done.returncode == 2
    assert done.stderr == (
        f"toolscript: {store.path} is damaged; delete it, and set the secrets again\n"
    )


def test_each_value_has_another_version(store: SecretStore) -> None:
    versions = [store.version("a")]
    for value in ("x", "x", "y"):
        store.set("a", value)
        versions.append(store.version("a"))
    store.remove("a")
    assert versions[0] == store.version("a") == ""
    assert len({*versions}) == 4
