"""What is kept can be seen and deleted."""

from pathlib import Path

import pytest
from tests.skills.sample import put
from tests.support import READ_FILE, SEND_MAIL, Cli, Scripted


@pytest.fixture
def used(cli: Cli, scripted: Scripted) -> Cli:
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))
    assert cli("search", "read a file").returncode == 0
    return cli


def kept(cli: Cli) -> list[Path]:
    return sorted(cli.home.rglob("embeddings-*.json"))


def test_what_is_kept_is_shown(used: Cli) -> None:
    """cache:shape"""
    [path] = kept(used)
    [row] = used.json("cache", "info")["embeddings"]
    assert row["file"] == path.name
    assert row["model"].startswith("toolscript-minilm-l6@")
    assert row["bytes"] == path.stat().st_size
    assert path.name in used("cache", "info").stdout


def test_a_file_that_cannot_be_read_is_shown_as_that(used: Cli) -> None:
    """cache:validity"""
    kept(used)[0].write_bytes(b"nonsense")
    assert used.json("cache", "info")["embeddings"][0]["model"] == "cannot be read"


def test_a_file_without_a_vector_is_shown_as_that(used: Cli) -> None:
    """cache:validity"""
    assert used("skills", "update").returncode == 0
    empty = used.json("cache", "info")["embeddings"][-1]
    assert empty["file"].startswith("skills-")
    assert empty["model"] == "nothing yet"


def test_what_is_deleted_is_computed_again(used: Cli) -> None:
    """cache:validity"""
    done = used("cache", "clear")
    assert done.stdout.startswith("deleted 1 file of embeddings, ")
    assert kept(used) == []
    assert used("cache", "info").stdout.startswith("nothing is kept in ")
    assert used("search", "read a file").returncode == 0
    assert len(kept(used)) == 1


def test_vectors_of_skills_are_shown_and_deleted_too(cli: Cli) -> None:
    """skills:folders, skills:update: what was updated is embedded again when it is needed."""
    cli.configure()
    put(cli.home / ".agents" / "skills")
    put(cli.home / "documents")
    assert cli("skills", "update").returncode == 0
    for tool, given in (("VectorUpdate", "path"), ("SearchSkills", "query")):
        arguments = f'{{"{given}": "documents/notes.txt"}}'
        assert cli("call", f"Vector.{tool}", arguments).returncode == 0
    skills, files = cli.json("cache", "info")["embeddings"]
    assert files["model"] == skills["model"]
    assert skills["file"].startswith("skills-")
    assert skills["bytes"] > 0
    assert not skills["fallback"]
    assert cli("cache", "clear").stdout.startswith("deleted 2 files of embeddings, ")
    assert kept(cli) == []
    assert list(cli.home.rglob("skills-*.sqlite")) == []
    found = cli("call", "Vector.SearchSkills", '{"query": "who sets the alarm of the office"}')
    assert "notes.txt" in found.stdout


def test_models_are_deleted_only_when_that_is_asked_for(used: Cli) -> None:
    """model:default"""
    folder = used.home / ".toolscript" / "models" / "a--b" / "main"
    folder.mkdir(parents=True)
    (folder / "complete.json").write_text('{"repository": "a/b"}')
    note = folder.parent / "main.failed.json"
    note.write_text("{}")
    [row] = used.json("cache", "info")["models"]
    assert (row["file"], row["model"]) == ("models/a--b/main", "a/b")
    used("cache", "clear")
    assert folder.is_dir()
    assert not note.exists()
    used("cache", "clear", "--models")
    assert not folder.exists()


def test_nothing_to_delete_is_no_mistake(cli: Cli) -> None:
    """cache:place"""
    done = cli("cache", "clear")
    assert (done.returncode, done.stderr) == (0, "")
