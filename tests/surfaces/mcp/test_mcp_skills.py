"""Skills on the MCP surface, used by the SDK's own client."""

from collections.abc import Generator
from pathlib import Path

import anyio
import mcp_types as types
import pytest
from mcp.client import Client
from tests.skills.sample import put, serving
from tests.support import NO_HUB, READ_FILE, Cli, Scripted, stop_all
from tests.surfaces.mcp.test_mcp import names, said, talk


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mcp-skills")


@pytest.fixture(scope="module")
def url(home: Path) -> Generator[str]:
    """A gateway with a tool and a few skills."""
    cli = Cli(home, NO_HUB)
    cli.configure(files=Scripted(home)(READ_FILE))
    put(home / ".agents" / "skills")
    with serving(cli) as url:
        yield url


@pytest.mark.requirement("skills:folders")
def test_the_skills_are_searched_and_read(url: str) -> None:
    """skills:folders: two tools more, where there are skills."""

    async def work(client: Client) -> None:
        assert (await names(client))[-2:] == ["search_skills", "read_skill"]
        asked = {"query": "how long does a loaf bake", "detail": True}
        answer = await said(client, "search_skills", asked)
        [first, *_] = answer["skills"]
        assert first["id"] == "skills:kitchen/bread.md"
        assert first["passage"].startswith("Sourdough bread > Baking: Bake it for fifty")
        result = await client.call_tool("read_skill", {"skill": first["id"]})
        [block] = result.content
        assert isinstance(block, types.TextContent)
        assert block.text.startswith("# Sourdough bread\n")
        given = {"skill": "pdf-forms", "file": "references/fields.md"}
        [block] = (await client.call_tool("read_skill", given)).content
        assert isinstance(block, types.TextContent)
        assert block.text == "Text, check box, radio button, signature."

    talk(f"{url}/mcp", work)


@pytest.mark.requirement("skills:folders")
def test_tools_and_skills_in_one_list(url: str) -> None:
    """skills:folders: each marked; by itself the search has tools only."""

    async def work(client: Client) -> None:
        query = "read a form from disk"
        asked = {"query": query, "include_skills": True, "detail": True}
        answer = await said(client, "search_tools", asked)
        kinds = {row["id"]: row["kind"] for row in answer["tools"]}
        assert kinds["files:read_file"] == "tool"
        assert kinds["skills:pdf-forms"] == "skill"
        scores = [row["score"] for row in answer["tools"]]
        assert scores == sorted(scores, reverse=True)
        alone = await said(client, "search_tools", {"query": query, "detail": True})
        assert [row["id"] for row in alone["tools"]] == ["files:read_file"]
        assert "kind" not in alone["tools"][0]

    talk(f"{url}/mcp/search", work)


@pytest.mark.parametrize("key", ["disable-model-invocation: true", "metadata: {internal: true}"])
def test_a_skill_for_people_is_not_offered_to_models(tmp_path: Path, key: str) -> None:
    cli = Cli(tmp_path, NO_HUB)
    cli.configure(files=Scripted(tmp_path)(READ_FILE))
    folder = put(tmp_path / ".agents" / "skills") / "release"
    folder.mkdir()
    front = f"---\nname: release\ndescription: Brew kombucha.\n{key}\n---\nTag it."
    (folder / "SKILL.md").write_text(front, "utf-8")

    async def work(client: Client) -> None:
        asked = {"query": "brew kombucha", "detail": True}
        found = (await said(client, "search_skills", asked))["skills"]
        found += (await said(client, "search_tools", {**asked, "include_skills": True}))["tools"]
        assert "skills:release" not in {row["id"] for row in found}
        answer = await client.call_tool("read_skill", {"skill": "release"})
        assert answer.is_error
        listed = await client.list_resources()
        assert not [row for row in listed.resources if "release" in str(row.uri)]

    with serving(cli) as url:
        talk(f"{url}/mcp", work)
        assert "release" in cli("skills", "search", "brew kombucha").stdout
        [row] = [each for each in cli("skills", "list").stdout.splitlines() if "release" in each]
        assert "(not for models) Brew kombucha." in row


def test_clients_are_told_when_the_first_skill_comes_and_the_last_goes(tmp_path: Path) -> None:
    """skills:folders: the two tools are listed where there is something to be found."""
    cli = Cli(tmp_path, NO_HUB)
    cli.configure()
    url = cli.start_gateway()
    send, receive = anyio.create_memory_object_stream[None](100)

    async def hear(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            await send.send(None)

    async def work(client: Client) -> None:
        assert "search_skills" not in await names(client)
        folder = put(tmp_path / ".agents" / "skills")
        await receive.receive()
        assert "search_skills" in await names(client)
        for path in folder.rglob("*.*"):
            path.unlink()
        await receive.receive()
        while "search_skills" in await names(client):
            await receive.receive()  # of a skill fewer

    try:
        talk(f"{url}/mcp", work, message_handler=hear)
    finally:
        send.close()
        receive.close()
        stop_all([cli.record()["pid"]])
