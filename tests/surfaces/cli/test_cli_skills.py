"""``toolscript skills``, and the seed's pair on the command line, run as processes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.skills.sample import put
from tests.support import FUZZY, READ_FILE, Cli, Scripted, fetch, post, until

LIBRARY = Path(__file__).parents[2] / "skills" / "library"
MATH = "library/math_helpers.ns.txt"


@pytest.fixture
def skilled(cli: Cli) -> Cli:
    """A command line with no servers, and a few skills in the usual folder."""
    cli.configure()
    put(cli.home / ".claude" / "skills")
    return cli


def said(cli: Cli, *arguments: str) -> str:
    done = cli(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requirement("skills:update", "skills:search")
def test_the_seeds_examples(cli: Cli) -> None:
    """skills:search, skills:update: with their arguments, in a sandbox that is the folder here."""
    cli.configure()
    shutil.copytree(LIBRARY, cli.home / "library")
    for name in ("math_helpers", "string_utils"):
        arguments = json.dumps({"path": f"library/{name}.ns.txt"})
        assert said(cli, "call", "Vector.VectorUpdate", arguments) == "OK\n"
    query = {"query": "How do I add two numbers?"}
    answer = json.loads(said(cli, "call", "Vector.SearchSkills", json.dumps(query)))
    assert [each["path"] for each in answer] == [MATH]
    assert 0.5 <= answer[0]["score"] <= 1
    nothing = {"query": "Tell me about ancient history"}
    assert said(cli, "call", "Vector.SearchSkills", json.dumps(nothing)) == "[]\n"


@pytest.mark.requirement("skills:update", "skills:search")
def test_the_pair_through_a_gateway(cli: Cli) -> None:
    """skills:search, skills:update: by command, by HTTP, over MCP."""
    cli.configure()
    shutil.copytree(LIBRARY, cli.home / "library")
    url = cli.start_gateway()
    assert said(cli, "call", "Vector.VectorUpdate", json.dumps({"path": MATH})) == "OK\n"
    query = {"query": "How do I add two numbers?"}
    for name in ("Vector.SearchSkills", "Vector__SearchSkills"):
        status, result = post(url, f"/tools/{name}", query)
        assert (status, result["isError"]) == (200, False)
        assert json.loads(result["content"][0]["text"])[0]["path"] == MATH
    message: dict[str, Any] = {
        "method": "tools/call",
        "params": {"name": "Vector.SearchSkills", "arguments": query},
    }
    _, answered = post(url, "/message", message)
    assert MATH in answered["result"]["content"][0]["text"]
    through = {"tool": "Vector.SearchSkills", "arguments": query}
    message["params"] = {"name": "read_tool", "arguments": through}
    assert MATH in post(url, "/message", message)[1]["result"]["content"][0]["text"]


@pytest.mark.requirement("skills:update")
@pytest.mark.parametrize(
    ("tool", "arguments", "code", "told"),
    [
        ("Vector.VectorUpdate", {"path": "/etc/passwd"}, 1, "VectorUpdate path error: "),
        ("Vector.VectorUpdate", {"path": "none.md"}, 1, "VectorUpdate read error: 'none.md' does"),
        ("Vector.SearchSkills", {}, 2, "Vector.SearchSkills: query is missing. It takes query"),
        ("Vector.SearchSkills", {"query": 5}, 2, "query is 5; expected string"),
        ("Vector.SearchSkills", {"query": "x", "limit": 1}, 2, "limit"),
        ("Vector.Search", {"query": "x"}, 2, "no tool is called 'Vector.Search'"),
    ],
)
def test_what_the_pair_refuses(
    cli: Cli, tool: str, arguments: dict[str, object], code: int, told: str
) -> None:
    """skills:search, skills:update: one line, and a status that says so."""
    cli.configure()
    done = cli("call", tool, json.dumps(arguments))
    assert done.returncode == code
    [line] = (done.stdout + done.stderr).splitlines()
    assert told in line


@pytest.mark.requirement("skills:search")
def test_a_failed_embedding_is_the_seeds_message(cli: Cli) -> None:
    cli.configure()
    cli.env = FUZZY
    done = cli("call", "Vector.SearchSkills", '{"query": "x"}')
    assert done.returncode == 1
    assert done.stdout.startswith("SearchSkills embedding generation failed: ")


@pytest.mark.requirement("skills:folders")
def test_skills_are_listed_and_searched(skilled: Cli) -> None:
    """skills:folders: without a gateway; the best passage is shown."""
    listed = said(skilled, "skills", "list")
    assert "pdf-forms" in listed
    assert "Fill in the fields of a PDF form" in listed
    found = said(skilled, "skills", "search", "how long does a loaf bake")
    assert found.splitlines()[1].startswith("kitchen/bread.md")
    assert "fifty minutes" in found
    answer = skilled.json("skills", "search", "how long does a loaf bake", "--explain")
    assert answer["results"][0]["skillId"] == "skills__kitchen/bread.md"
    assert answer["results"][0]["passage"]["heading"] == "Sourdough bread > Baking"
    assert answer["results"][0]["explanation"]["shares"]
    nothing = said(skilled, "skills", "search", "zxqv blorp")
    assert nothing.startswith("No skills found matching query\n")


def test_tools_and_skills_in_one_list(skilled: Cli, scripted: Scripted) -> None:
    """skills:folders: each marked."""
    skilled.configure(files=scripted(READ_FILE))
    words = ("search", "read a form from disk", "--threshold", "0")
    rows = skilled.json(*words, "--skills")["results"]
    assert {row["kind"] for row in rows} == {"tool", "skill"}
    table = said(skilled, *words, "--skills")
    assert "files__read_file" in table
    assert "skill: pdf-forms" in table
    assert all("kind" not in row for row in skilled.json(*words)["results"])


@pytest.mark.requirement("skills:folders")
def test_a_gateway_follows_what_is_added_and_edited(skilled: Cli, tmp_path: Path) -> None:
    """skills:folders: what is written is found without a restart."""
    url = skilled.start_gateway()
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "silver.md").write_text("Polish the silver with chalk.", "utf-8")
    assert said(skilled, "skills", "add", str(extra)) == f"added {extra}\n"

    def finds(text: str) -> list[str]:
        _, answer = fetch(url, "/skills/search", {"q": text})
        return [row["name"] for row in answer["results"]]

    until(lambda: finds("clean silver cutlery") == ["silver.md"], "it is found")
    (extra / "brass.md").write_text("Rub brass with half a lemon.", "utf-8")
    until(lambda: "brass.md" in finds("lemon on brass"), "the new file is found", 10)
    updated = said(skilled, "skills", "update")
    assert updated == "6 skills in 3 folders\n"
    assert said(skilled, "skills", "remove", str(extra)) == f"removed {extra}\n"
    until(lambda: not finds("clean silver cutlery"), "it is forgotten")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("none", "does not exist; give a folder that holds skills"),
        ("file.md", "is no folder; give a folder that holds skills"),
        (".", "holds more than skills; give a folder below it"),
    ],
)
def test_what_cannot_be_added(skilled: Cli, name: str, told: str) -> None:
    (skilled.home / "file.md").write_text("x", "utf-8")
    done = skilled("skills", "add", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_what_is_left_out_is_told(skilled: Cli) -> None:
    """skills:folders: a line each, on standard error, terminal escapes removed."""
    folder = skilled.home / ".claude" / "skills"
    (folder / "broken.md").write_text("---\nname: x\n", "utf-8")
    (folder / "lenient.md").write_text("---\nname: x: y\n---\nz", "utf-8")
    (folder / "odd\x1b[31m.md").write_bytes(b"\0")
    done = skilled("skills", "list")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    begins = [line.removeprefix("toolscript: ").partition(": ")[0] for line in lines]
    assert begins == ["left out", "left out", "warning"]
    assert all(line.isprintable() for line in lines)


def test_no_skills(cli: Cli) -> None:
    cli.configure()
    assert said(cli, "skills", "list") == (
        "no skills; add a folder with: toolscript skills add FOLDER\n"
    )
