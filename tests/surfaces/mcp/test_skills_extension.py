"""The skills of folders, by the extension of MCP for them: skills:extension."""

import base64
import hashlib
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter
from tests.skills.sample import put, serving
from tests.support import NO_HUB, Cli, create_token
from tests.surfaces.mcp.test_mcp import MODES, Mode, talk

EXTENSION = "io.modelcontextprotocol/skills"
FORMS = "skill://skills/pdf-forms"
_ANSWER: TypeAdapter[Any] = TypeAdapter(dict[str, Any])


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request = types.Request[dict[str, Any], str](method=method, params=params)
    return await client.session.send_request(request, _ANSWER)


async def entries(client: Client) -> dict[str, Any]:
    """Every skill of every page, by its URI."""
    listed: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = await ask(client, "skills/list", **cursor)
        assert (page["ttlMs"], page["cacheScope"]) == (0, "private")
        listed += page["skills"]
        if "nextCursor" not in page:
            return {each["uri"]: each for each in listed}
        cursor = {"cursor": page["nextCursor"]}


async def read(client: Client, uri: str) -> bytes:
    [content] = (await client.read_resource(uri)).contents
    assert content.uri == uri
    if isinstance(content, types.TextResourceContents):
        return content.text.encode()
    return base64.b64decode(content.blob)


async def check_files(client: Client, skill: dict[str, Any]) -> list[str]:
    """Reads every file of a skill as a host does, and returns their URIs."""
    for resource in skill["resources"]:
        data = await read(client, resource["uri"])
        assert resource["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert resource["size"] == len(data)
    return [resource["uri"] for resource in skill["resources"]]


async def refusal(client: Client, method: str, **params: Any) -> str:
    with pytest.raises(MCPError) as refused:
        await ask(client, method, **params)
    assert refused.value.code == types.INVALID_PARAMS
    return refused.value.message


@asynccontextmanager
async def reach(url: str, token: str) -> AsyncGenerator[Any]:
    """The transport of a client that has a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


def furnish(home: Path) -> Cli:
    """A home directory with skills, and an empty configuration."""
    folder = put(home / ".agents" / "skills")
    (folder / "pdf" / "logo.bin").write_bytes(b"\xff\x00logo")
    (folder / "pdf" / "SKILL.md").write_bytes(
        b"---\r\nname: pdf-forms\r\ndescription: Fill in a PDF form.\r\n"
        b"metadata: {version: 2, draft: false, since: 2026-09-13}\r\n---\r\nFill it in.\r\n"
    )
    cli = Cli(home, NO_HUB)
    cli.configure()
    return cli


def add_skill(home: Path, name: str) -> None:
    folder = home / ".agents" / "skills" / name
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: x\n---\ny\n", "utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("extension")


@pytest.fixture(scope="module")
def url(home: Path) -> Generator[str]:
    """A gateway with skills in folders."""
    with serving(furnish(home)) as url:
        yield url


@pytest.mark.requirement("skills:extension")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["/mcp/search", "/mcp/all"])
def test_a_client_that_knows_only_the_extension(url: str, mode: Mode, path: str) -> None:
    """skills:extension: finds every skill that conforms, and reads and verifies each file."""

    async def work(client: Client) -> None:
        capabilities = client.server_capabilities
        assert (capabilities.extensions or {})[EXTENSION] == {}
        assert capabilities.resources is not None
        listed = await entries(client)
        assert f"{FORMS}/SKILL.md" in listed
        assert all(each.startswith("skill://skills/") for each in listed)
        forms = listed[f"{FORMS}/SKILL.md"]
        assert forms["frontmatter"] == {
            "name": "pdf-forms",
            "description": "Fill in a PDF form.",
            "metadata": {"version": 2, "draft": False, "since": "2026-09-13"},
        }
        assert await check_files(client, forms) == [
            f"{FORMS}/SKILL.md",
            f"{FORMS}/logo.bin",
            f"{FORMS}/references/fields.md",
        ]
        for uri, entry in listed.items():
            assert (await ask(client, "skills/get", uri=uri))["skill"] == entry

    talk(f"{url}{path}", work, mode)


def test_what_is_no_skill_is_refused(url: str) -> None:
    """skills:extension: by the code that the extension names."""

    async def work(client: Client) -> None:
        for uri in ("skill://skills/none/SKILL.md", FORMS, "x"):
            assert "no skill is at" in await refusal(client, "skills/get", uri=uri)
        for file in ("../../x", "none.md", "", "%2e%2e/%2e%2e/.toolscript.json"):
            await refusal(client, "resources/read", uri=f"{FORMS}/{file}")

    talk(f"{url}/mcp", work)


@pytest.mark.requirement("skills:extension")
def test_what_a_caller_may_not_see(tmp_path: Path) -> None:
    """skills:extension: a token of one skill knows nothing of the others."""
    cli = furnish(tmp_path)
    add_skill(tmp_path, "greet")

    async def work(client: Client) -> None:
        assert list(await entries(client)) == ["skill://skills/greet/SKILL.md"]
        assert await read(client, "skill://skills/greet/SKILL.md")
        await refusal(client, "skills/get", uri=f"{FORMS}/SKILL.md")
        await refusal(client, "resources/read", uri=f"{FORMS}/SKILL.md")

    with serving(cli) as url:
        token = create_token(cli, "--tool", "skills__greet")["token"]
        talk(reach(f"{url}/mcp", token), work)


def test_more_skills_than_a_page_has(tmp_path: Path) -> None:
    """skills:extension: pages of 50."""
    cli = furnish(tmp_path)
    for number in range(120):
        add_skill(tmp_path, f"s{number}")

    async def work(client: Client) -> None:
        assert len((await ask(client, "skills/list"))["skills"]) == 50
        assert {f"skill://skills/s{n}/SKILL.md" for n in range(120)} <= set(await entries(client))

    with serving(cli) as url:
        talk(f"{url}/mcp", work)
