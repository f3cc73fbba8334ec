"""A profile says what its callers find and list, at every door; everything else is not there."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from tests.skills.sample import put
from tests.stdio_sessions import session
from tests.support import FUZZY, Cli, Scripted, create_token, fetch, tool, until
from tests.surfaces.sights import SIGHTS, Visitor, call

TOOLS = {"aardvark": ("northward", "southward"), "beetle": ("eastward",), "crane": ("westward",)}
PROFILES: dict[str, Any] = {
    "whole": ["aardvark"],
    "parts": ["aardvark__southward", "beetle__e*"],
    "ruled": {"tools": ["aardvark", "crane"], "permissions": {"aardvark__southward": "deny"}},
    "all but": {"permissions": {"crane__*": "deny"}},
    "nothing": ["no-such"],
}
SEEN = {
    "": {"aardvark", "beetle", "crane", "northward", "southward", "eastward", "westward"},
    "whole": {"aardvark", "northward", "southward"},
    "parts": {"aardvark", "southward", "beetle", "eastward"},
    "ruled": {"aardvark", "northward", "crane", "westward"},
    "nothing": set[str](),
}
EVERY = SEEN[""]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Visitor]:
    home = tmp_path_factory.mktemp("profiles")
    scripted = Scripted(home)
    cli = Cli(home, FUZZY)
    servers = {
        name: scripted(*(tool(each, f"Goes {each}") for each in tools), prompts=[f"of-{name}"])
        for name, tools in TOOLS.items()
    }
    path = cli.configure(**servers)
    path.write_text(json.dumps({"mcpServers": servers, "profiles": PROFILES}), "utf-8")
    put(home / ".agents" / "skills")
    url = cli.start_gateway()
    with cli:
        yield Visitor(cli, url, token=cli.record()["key"])


def under(place: Visitor, profile: str, token: str = "") -> Visitor:
    return Visitor(place.cli, place.url, profile, token or place.token)


def words(text: str) -> set[str]:
    """The names of servers and tools that a text has."""
    return {word for word in EVERY if word in text}


@pytest.mark.requirement("config:profiles")
@pytest.mark.parametrize("profile", ["parts", "ruled", "nothing"])
@pytest.mark.parametrize("door", SIGHTS)
def test_a_profile_limits_what_a_door_shows(place: Visitor, door: str, profile: str) -> None:
    seen = words(SIGHTS[door](under(place, profile)))
    assert seen <= SEEN[profile]
    tools = {each for names in TOOLS.values() for each in names}
    assert seen & tools == SEEN[profile] & tools


@pytest.mark.parametrize("profile", SEEN)
def test_a_tool_outside_a_profile_is_not_called(place: Visitor, profile: str) -> None:
    for server, tools in TOOLS.items():
        for name in tools:
            wanted = "called" if name in SEEN[profile] else "refused"
            assert call(under(place, profile), f"{server}__{name}") == {wanted}


@pytest.mark.requirement("config:profiles")
@pytest.mark.parametrize("door", SIGHTS)
def test_a_token_and_a_profile_intersect(place: Visitor, door: str) -> None:
    """A token of two tools, under a profile that has one of them and another tool."""
    tools = ("--tool", "aardvark__southward", "--tool", "crane__*")
    token = create_token(place.cli, *tools)["token"]
    seen = words(SIGHTS[door](under(place, "parts", token)))
    assert seen <= {"aardvark", "southward"}
    assert "southward" in seen
    assert call(under(place, "parts", token), "beetle__eastward") == {"refused"}
    assert call(under(place, "parts", token), "crane__westward") == {"refused"}
    assert call(under(place, "parts", token), "aardvark__southward") == {"called"}


def test_a_token_has_profiles_of_its_own(place: Visitor) -> None:
    token = create_token(place.cli, "--profile", "whole")["token"]
    assert words(SIGHTS["HTTP"](under(place, "", token))) == SEEN["whole"]
    assert words(SIGHTS["HTTP"](under(place, "parts", token))) == {"aardvark", "southward"}
    assert words(SIGHTS["HTTP"](under(place, "nothing", token))) == set()


def test_skills_belong_to_a_profile_that_names_them(place: Visitor) -> None:
    assert "pdf-forms" in under(place, "").get("/skills")
    assert "pdf-forms" not in under(place, "whole").get("/skills")
    assert "pdf-forms" in under(place, "all but").get("/skills")


@pytest.mark.requirement("config:profiles")
def test_the_permissions_name_the_selections(place: Visitor) -> None:
    """config:profiles: of each profile that has one."""
    told = place.cli.json("permissions")["selections"]
    assert told == {
        "whole": ["aardvark"],
        "parts": ["aardvark__southward", "beetle__e*"],
        "ruled": ["aardvark", "crane"],
        "nothing": ["no-such"],
    }
    table = place.cli("permissions").stdout
    assert "aardvark__southward, beetle__e*" in table
    assert "profile 'parts'" in table


def test_a_profile_that_does_not_exist_is_named_with_the_others(place: Visitor) -> None:
    """To its owner, and not to the bearer of a limited token."""
    token = create_token(place.cli, "--server", "beetle")["token"]
    others = "all but, nothing, parts, ruled, whole"
    told = f"no profile is called 'gone'; there are: {others}"
    for path in ("/tools", "/search?q=x", "/mcp/p/gone", "/mcp/p/gone/all"):
        named = {} if "/p/" in path else {"Toolscript-Profile": "gone"}
        for shown, said in ((place.token, told), (token, "no profile is called 'gone'")):
            headers = named | {"Authorization": f"Bearer {shown}"}
            status, answer = fetch(place.url, path, headers=headers)
            assert (status, answer) == (404, {"error": said, "type": "UnknownNameError"})
    commands = ("list-tools", "search x", "call a__b", "get-types", "mcp", "mcp --alone", "exec -")
    for command in commands:
        done = place.cli(*command.split(), "--profile", "gone")
        assert (done.returncode, done.stderr) == (2, f"toolscript: {told}\n"), command


@pytest.mark.requirement("config:profiles")
def test_each_session_has_its_own_profile_and_follows_its_changes(
    cli: Cli, scripted: Scripted
) -> None:
    """One session hears of a change of its profile; the others do not, and see what they saw."""
    cli.env = FUZZY
    servers = {name: scripted(*map(tool, tools)) for name, tools in TOOLS.items()}
    path = cli.configure(**servers)

    def write(**profiles: Any) -> None:
        path.write_text(json.dumps({"mcpServers": servers, "profiles": profiles}), "utf-8")

    def names(one: Any) -> list[str]:
        return [each["name"] for each in one.ask("tools/list")["tools"] if "__" in each["name"]]

    def told(one: Any) -> bool:
        one.ask("ping")
        return any(each.get("method", "").endswith("tools/list_changed") for each in one.others)

    write(one=["aardvark"], other=["beetle"])
    cli.start_gateway()
    flags = ("--exposure", "all", "--profile")
    with session(cli, *flags, "one") as one, session(cli, *flags, "other") as other:
        before = other.ask("tools/list")
        assert names(one) == ["aardvark__northward", "aardvark__southward"]
        assert names(other) == ["beetle__eastward"]
        write(one=["aardvark__northward", "crane"], other=["beetle"])
        until(lambda: told(one), "the session is told")
        assert names(one) == ["aardvark__northward", "crane__westward"]
        write(other=["beetle"])  # the first one's profile is gone
        until(lambda: names(one) == [], "nothing is listed")
        assert other.ask("tools/list") == before
        assert not told(other)
        with session(cli, "--profile", "other") as third:
            found = third.ask("tools/call", name="search_tools", arguments={"query": "eastward"})
            assert "beetle__eastward" in json.dumps(found)
