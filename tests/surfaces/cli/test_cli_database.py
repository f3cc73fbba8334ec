"""``toolscript database``: tables, state, and copies both ways."""

import json

import pytest
from tests.postgres_server import PostgresServer, free_port
from tests.support import READ_FILE, Cli, Scripted

from toolscript.config.secret_key import SecretKey
from toolscript.postgres import schema
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.key_value_store import DatabaseRecords, SealedRecords

OLD, NEW = "o" * 32, "n" * 32


@pytest.fixture
def sharing(cli: Cli, database_url: str) -> Cli:
    """A command line whose database has the tables."""
    cli.env.update(TOOLSCRIPT_DATABASE=database_url, TOOLSCRIPT_SECRET_KEY=NEW)
    return cli


@pytest.fixture
def bare_url(postgres: PostgresServer) -> str:
    """The address of a database without tables."""
    postgres.execute("drop database if exists bare")
    postgres.execute("create database bare")
    return postgres.url("bare")


EMBEDDED = {"TOOLSCRIPT_DATABASE": "", "TOOLSCRIPT_SECRET_KEY": ""}
"""The environment of a command that does not use the database."""


def test_tables_are_made_and_made_once(cli: Cli, bare_url: str) -> None:
    latest = schema.latest()
    cli.env["TOOLSCRIPT_DATABASE"] = bare_url

    before = cli("database", "status")
    assert before.returncode == 2
    assert f"schema    0, this release needs {latest}" in before.stdout
    assert before.stderr == (
        f"toolscript: the database has schema 0, this release needs {latest}; "
        "run: toolscript database migrate\n"
    )
    assert cli("database", "migrate", "--to", "1").stdout == "schema 1: ran 1 migration\n"
    rest = cli("database", "migrate")
    assert rest.returncode == 0
    assert rest.stdout.startswith(f"schema {latest}: ")
    assert cli("database", "migrate").stdout == f"schema {latest}: nothing to do\n"
    assert cli("database", "status").returncode == 0


def test_migrations_go_past_the_pooler(cli: Cli, bare_url: str) -> None:
    pooler = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    cli.env.update(TOOLSCRIPT_DATABASE=pooler, TOOLSCRIPT_DATABASE_DIRECT=bare_url)
    assert cli("database", "migrate").returncode == 0


@pytest.mark.parametrize("command", ["migrate", "status", "import", "export", "rotate-key"])
def test_a_database_that_cannot_be_used_is_one_line(
    cli: Cli, postgres: PostgresServer, command: str
) -> None:
    cli.configure()
    cli.env["TOOLSCRIPT_SECRET_KEY"] = NEW
    port = free_port()
    for url, code, text in (
        ("", 2, "TOOLSCRIPT_DATABASE is not set"),
        (f"postgresql://u:secret@127.0.0.1:{port}/x", 1, "the database does not answer"),
        (postgres.url("nowhere"), 1, 'database "nowhere" does not exist'),
    ):
        done = cli("database", command, env={"TOOLSCRIPT_DATABASE": url})
        assert done.returncode == code
        assert text in done.stderr
        assert done.stderr.count("\n") == 1
        assert "secret" not in done.stderr
        assert not done.stdout


@pytest.mark.parametrize("command", ["status", "import", "export", "rotate-key"])
def test_tables_of_another_release_are_one_line(sharing: Cli, command: str) -> None:
    sharing.configure()
    later = schema.latest() + 2
    database = Database(sharing.env["TOOLSCRIPT_DATABASE"])
    insert = f"insert into toolscript.schema_version (version) values ({later})"  # noqa: S608 - ours
    database.run(lambda c: c.execute(insert))
    database.close()

    done = sharing("database", command)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"the database has schema {later}" in done.stderr
    assert "install the release" in done.stderr
    assert sharing("database", "migrate", "--to", "1").returncode == 2


def test_a_version_that_is_not_known_is_refused(sharing: Cli) -> None:
    done = sharing("database", "migrate", "--to", "99")
    assert done.returncode == 2
    assert f"--to is 99, but this release knows versions 1 to {schema.latest()}" in done.stderr


def test_a_user_without_rights_is_one_line(
    cli: Cli, bare_url: str, postgres: PostgresServer
) -> None:
    postgres.execute("drop role if exists guest")
    postgres.execute("create role guest login")
    cli.env["TOOLSCRIPT_DATABASE"] = bare_url.replace("postgres:not-needed", "guest")
    done = cli("database", "migrate")
    assert done.returncode == 2
    assert done.stderr.startswith("toolscript: the database refuses that: permission denied")
    assert done.stderr.count("\n") == 1


def test_what_is_imported_is_shown_and_exported(sharing: Cli, scripted: Scripted) -> None:
    sharing.configure(files=scripted(READ_FILE))
    own = dict(EMBEDDED)
    assert sharing("search", "read a file", env=own).returncode == 0
    assert sharing("call", "files__read_file", '{"path": "x"}', env=own).returncode == 0
    assert sharing("token", "create", "--name", "mine", env=own).returncode == 0

    done = sharing("database", "import")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    copied = dict(line.split() for line in done.stdout.splitlines()[1:])
    assert (copied["tokens"], copied["pins"], copied["servers"], copied["calls"]) == ("1",) * 4
    assert int(copied["vectors"]) > 0

    found = sharing.json("database", "status")
    assert (found["schema"], found["needed"]) == (schema.latest(), schema.latest())
    [catalogue] = found["catalogues"]
    counts = {"servers": 1, "tools": 1, "tokens": 1, "logins": 0, "pins": 1}
    assert counts.items() <= catalogue.items()
    assert (catalogue["name"], catalogue["replicas"]) == ("default", [])
    shown = sharing("database", "status").stdout
    assert "PostgreSQL" in shown
    assert "default" in shown

    refused = sharing("database", "import")
    assert refused.returncode == 2
    assert "the catalogue default is not empty" in refused.stderr
    assert sharing("database", "import", "--replace").stdout == done.stdout

    assert sharing("database", "export").returncode == 2
    other = sharing.home / "other"
    exported = sharing("database", "export", "--data-dir", str(other))
    assert exported.returncode == 0, exported.stderr
    own["TOOLSCRIPT_DATA_DIR"] = str(other)
    [token] = sharing.json("token", "list", env=own)["tokens"]
    assert token["name"] == "mine"
    assert len(sharing.json("activity", env=own)["calls"]) == 1
    before, after = (
        json.loads(next(folder.glob("cache/embeddings/*.json")).read_bytes())
        for folder in (sharing.home / ".toolscript", other)
    )
    assert after["model"] == before["model"]
    tools = [
        {each: row["embedding"] for each, row in f["embeddings"].items()} for f in (before, after)
    ]
    assert tools[0] == tools[1]


def test_commands_on_two_machines_share_what_they_learn(sharing: Cli, scripted: Scripted) -> None:
    config = sharing.configure(files=scripted(READ_FILE))
    other = {"TOOLSCRIPT_DATA_DIR": str(sharing.home / "other"), "TOOLSCRIPT_CONFIG": str(config)}
    done = sharing("call", "files__read_file", '{"path": "x"}')
    assert done.returncode == 0, done.stderr

    [call] = sharing.json("activity", env=other)["calls"]
    assert call["tool"] == "files__read_file"
    assert sharing.json("graph", "stats", env=other)["calls"] == 1
    assert sharing("graph", "clear", env=other).returncode == 0
    assert sharing.json("graph", "stats")["calls"] == 0
    assert not list(sharing.home.rglob("*.sqlite"))


def test_logins_are_sealed_with_the_current_key(sharing: Cli) -> None:
    database = Database(sharing.env["TOOLSCRIPT_DATABASE"])
    records = DatabaseRecords(database, ChangeFeed(database, "default"), "default", "logins")
    SealedRecords(records, SecretKey("x" * 32), "login").write("a", b"lost")
    for name in ("b", "c"):
        SealedRecords(records, SecretKey(OLD), "login").write(name, b"token")
    lost = records.read("a")

    done = sharing("database", "rotate-key", env={"TOOLSCRIPT_SECRET_KEY_PREVIOUS": OLD})
    assert done.stdout == "2 logins encrypted with the current key\n", done.stderr
    assert done.returncode == 2
    assert "neither secret key has sealed 1 login: a; log in" in done.stderr
    assert done.stderr.count("\n") == 1
    for name in ("b", "c"):
        assert SealedRecords(records, SecretKey(NEW), "login").read(name) == b"token"
    assert records.read("a") == lost
    assert records.delete("a")
    done = sharing("database", "rotate-key")
    assert (done.returncode, done.stderr) == (0, "")
    assert sharing.json("database", "status")["catalogues"][0]["logins"] == 2
    database.close()
