"""Skills over HTTP: a gateway process, asked over sockets."""

from collections.abc import Generator
from typing import Any

import pytest
from tests.skills.sample import OWN_PASSAGES, put, serving
from tests.support import NO_HUB, Cli, fetch, post

from toolscript.skills.folders import OWN

NAMES = ["kitchen/bread.md", "notes.txt", "pdf-forms", "toolscript"]


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    return Cli(tmp_path_factory.mktemp("skills"), NO_HUB)


@pytest.fixture(scope="module")
def url(cli: Cli) -> Generator[str]:
    cli.configure()
    folder = put(cli.home / ".agents" / "skills")
    (folder / "pdf" / "link.md").symlink_to("/etc/passwd")
    with serving(cli) as url:
        yield url


def get(url: str, path: str, **parameters: object) -> Any:
    status, value = fetch(url, path, parameters)
    assert status == 200, value
    return value


def test_skills_are_listed(url: str, cli: Cli) -> None:
    answer = get(url, "/skills")
    assert [each["name"] for each in answer["skills"]] == NAMES
    folder = cli.home / ".agents" / "skills"
    assert answer["folders"] == [str(folder), str(OWN)]
    assert answer["skills"][2]["file"] == str(folder / "pdf" / "SKILL.md")
    assert answer["problems"] == [f"{folder}: 'pdf/link.md' is a symbolic link; it is not followed"]
    assert answer["stats"]["passages"] == 8 + OWN_PASSAGES


@pytest.mark.requirement("skills:folders")
def test_skills_are_searched(url: str) -> None:
    answer = get(url, "/skills/search", q="how long does a loaf bake", limit=1)
    [hit] = answer["results"]
    assert hit["skillId"] == "skills__kitchen/bread.md"
    assert hit["passage"]["text"] == "Bake it for fifty minutes in a closed pot."
    assert 0.35 <= hit["confidence"] <= 1
    assert answer["threshold"] == 0.35
    below = get(url, "/skills/search", q="how long does a loaf bake", threshold=0.99)
    assert (below["results"], below["below"]["name"]) == ([], "kitchen/bread.md")


def test_a_search_of_both_marks_them(url: str) -> None:
    [hit, *_] = get(url, "/search", q="how long does a loaf bake", skills="true")["results"]
    assert (hit["kind"], hit["name"]) == ("skill", "kitchen/bread.md")


def test_a_skill_is_read(url: str) -> None:
    """skills:folders: its own text, and another file of its folder."""
    page = get(url, "/skills/read", name="pdf-forms")
    assert page["file"] == "pdf/SKILL.md"
    assert page["text"].startswith("---\nname: pdf-forms")
    other = get(url, "/skills/read", name="skills__pdf-forms", file="references/fields.md")
    assert other["text"] == "Text, check box, radio button, signature."


@pytest.mark.requirement("skills:folders")
@pytest.mark.parametrize(
    ("name", "file", "status", "told"),
    [
        ("pdf-form", "", 404, "no skill is called 'pdf-form'; the nearest are: pdf-forms"),
        ("pdf-forms", "../../../.toolscript.json", 400, "contains '..'"),
        ("pdf-forms", "link.md", 400, "is a symbolic link"),
        ("notes.txt", "pdf/SKILL.md", 400, "is a single file"),
    ],
)
def test_what_cannot_be_read(url: str, name: str, file: str, status: int, told: str) -> None:
    """skills:folders: nothing outside a skill's own folder."""
    answered, value = fetch(url, "/skills/read", {"name": name, "file": file})
    assert answered == status
    assert told in value["error"]


def test_an_update_looks_at_once(url: str, cli: Cli) -> None:
    file = cli.home / ".agents" / "skills" / "new.md"
    file.write_text("Descale the kettle with vinegar.", "utf-8")
    status, answer = post(url, "/skills/update", {})
    assert (status, answer["totalSkills"]) == (200, 5)
    file.unlink()
    assert post(url, "/skills/update", {})[1]["totalSkills"] == 4


@pytest.mark.requirement("skills:folders")
def test_a_token_bounds_the_skills(url: str, cli: Cli) -> None:
    """skills:folders: a caller finds, lists and reads what is granted; the pair is a server."""

    def token(*options: str) -> dict[str, str]:
        done = cli("token", "create", *options)
        assert done.returncode == 0, done.stderr
        return {"Authorization": f"Bearer {done.stdout.strip()}"}

    some = token("--tool", "skills__kitchen/*")
    other = token("--server", "git")
    asked = {"q": "how long does a loaf bake", "threshold": 0}
    try:
        _, listed = fetch(url, "/skills", headers=some)
        assert [each["name"] for each in listed["skills"]] == ["kitchen/bread.md"]
        assert "file" not in listed["skills"][0]
        assert listed["folders"] == listed["problems"] == []
        _, found = fetch(url, "/skills/search", asked, headers=some)
        assert [each["name"] for each in found["results"]] == ["kitchen/bread.md"]
        assert fetch(url, "/skills/search", asked, headers=other)[1]["results"] == []
        assert fetch(url, "/skills/read", {"name": "pdf-forms"}, headers=some)[0] == 404
        where = "/tools/Vector.SearchSkills"
        headers = {**other, "Content-Type": "application/json"}
        body = b'{"query": "x"}'
        assert fetch(url, where, method="POST", headers=headers, body=body)[0] == 404
    finally:
        for path in (cli.home / ".toolscript" / "tokens").glob("tokens-*.json"):
            path.unlink()
