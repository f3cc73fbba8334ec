"""Commands whose values are in a database that several gateways share."""

import pytest
from tests.postgres_server import PostgresServer, free_port
from tests.support import READ_FILE, Cli, Scripted

KEY = "k" * 32


@pytest.fixture
def sharing(cli: Cli, database_url: str) -> Cli:
    """A command line with a database."""
    cli.env.update(TOOLSCRIPT_DATABASE=database_url, TOOLSCRIPT_SECRET_KEY=KEY)
    return cli


def test_a_database_that_cannot_be_used_is_one_line(sharing: Cli, postgres: PostgresServer) -> None:
    sharing.configure()
    address = f"postgresql://u:secret@127.0.0.1:{free_port()}/x"
    for changed, code, text in (
        ({"TOOLSCRIPT_SECRET_KEY": ""}, 2, "TOOLSCRIPT_SECRET_KEY is not set"),
        ({"TOOLSCRIPT_DATABASE": address}, 1, "the database does not answer"),
        ({"TOOLSCRIPT_DATABASE": postgres.url("nowhere")}, 1, 'database "nowhere" does not exist'),
    ):
        done = sharing("token", "list", env=changed)
        assert done.returncode == code
        assert text in done.stderr
        assert done.stderr.count("\n") == 1
        assert "secret@" not in done.stderr
        assert not done.stdout


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
