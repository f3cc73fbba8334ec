import json
from typing import Any

import mcp_types
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolscript.errors import InputError
from toolscript.types import (
    EVERYTHING,
    MAX_DOCUMENT_CHARS,
    Document,
    Grant,
    ServerSpec,
    ToolSpec,
    split_tool_id,
    tool_id,
)

SERVERS = st.text(min_size=1).filter(lambda name: "__" not in name and not name.endswith("_"))
TOOLS = st.one_of(
    st.text(min_size=1),
    st.text(alphabet="_a", min_size=1),
    st.tuples(st.sampled_from(["_", "__", "a__", "___b"]), st.text(min_size=1)).map("".join),
)


@pytest.mark.requirement("catalogue:ids")
@given(server=SERVERS, name=TOOLS)
def test_ids_split_back_into_what_they_were_made_of(server: str, name: str) -> None:
    assert split_tool_id(tool_id(server, name)) == (server, name)


@pytest.mark.requirement("catalogue:ids")
@pytest.mark.parametrize("identifier", ["", "time", "__now", "time__", "time_now", "__"])
def test_what_has_no_server_or_no_tool_is_no_id(identifier: str) -> None:
    with pytest.raises(InputError, match="expected server__tool"):
        split_tool_id(identifier)


def spec(**changes: object) -> ServerSpec:
    given: dict[str, object] = {
        "name": "files",
        "transport": "stdio",
        "command": "uvx",
        "args": ("server",),
        "env": {"A": "1", "B": "2"},
    }
    return ServerSpec(**{**given, **changes})  # pyright: ignore[reportArgumentType] - any field


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"transport": "http"},
        {"command": "npx"},
        {"args": ("server", "--x")},
        {"env": {"A": "1", "B": "3"}},
        {"cwd": "/tmp"},  # noqa: S108 - only a string here
        {"url": "http://x"},
        {"headers": {"A": "b"}},
        {"include_tools": ()},
        {"exclude_tools": ("x",)},
        {"protocol": "legacy"},
        {"hidden": ("x",)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_field_of_a_server_counts_in_its_digest(changes: dict[str, object]) -> None:
    assert spec(**changes).digest != spec().digest


def test_the_order_of_the_environment_does_not_count_in_the_digest() -> None:
    assert spec(env={"B": "2", "A": "1"}).digest == spec().digest


def test_a_value_that_is_no_unicode_text_has_a_digest() -> None:
    odd = spec(env={"A": "caf\udce9"})
    assert odd.digest == spec(env={"A": "caf\udce9"}).digest
    assert odd.digest != spec(env={"A": "caf\udcea"}).digest


def test_secrets_are_values_of_the_environment_and_headers_longest_first() -> None:
    found = spec(
        env={"KEY": "hunter2-hunter2", "DEBUG": "true"},
        headers={"Authorization": "Bearer abcdef", "X": "1"},
    ).secrets
    assert found == ("hunter2-hunter2", "Bearer abcdef", "abcdef")


@pytest.mark.parametrize(
    "args",
    [
        ("--directory", "/home/ana/notes"),
        ("--auth", "--verbose"),
        ("serve", "--port", "8080", "--host", "db.internal"),
        ("--local-timezone", "Europe/Berlin", "--log-level", "debug"),
        ("http://[broken",),
    ],
)
def test_arguments_known_to_be_harmless_are_not_secret(args: tuple[str, ...]) -> None:
    assert spec(args=args).secrets == ()


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("npx", ("-y", "@modelcontextprotocol/server-files@1.2", "/home/ana")),
        ("/usr/bin/uvx", ("--from", "some-package[extra]", "some-command")),
        ("python3.12", ("-m", "some.module")),
        ("docker", ("run", "-i", "--rm", "-e", "GITHUB_TOKEN", "ghcr.io/some/server")),
    ],
)
def test_what_a_launcher_starts_is_not_secret(command: str, args: tuple[str, ...]) -> None:
    assert spec(command=command, args=args).secrets == ()


def test_a_server_is_shown_without_its_secrets() -> None:
    secret = {"env": {"KEY": "s3cret"}, "headers": {"A": "s3cret"}, "hidden": ("s3cret",)}
    shown = repr(spec(args=("--key=s3cret",), **secret))
    assert shown == "ServerSpec('files', 'stdio')"


def test_a_changed_description_or_schema_changes_a_tools_digest() -> None:
    tool = ToolSpec(server="s", name="t", description="d", input_schema={"a": 1, "b": 2})
    changed = [
        ToolSpec(server="s", name="t", description="e", input_schema={"a": 1, "b": 2}),
        ToolSpec(server="s", name="t", description="d", input_schema={"a": 1, "b": 3}),
        ToolSpec(server="s", name="u", description="d", input_schema={"a": 1, "b": 2}),
    ]
    same = ToolSpec(server="s", name="t", description="d", input_schema={"b": 2, "a": 1})
    assert same.digest == tool.digest
    assert len({tool.digest, *(other.digest for other in changed)}) == 4


def test_a_document_is_the_tool_seen_as_text() -> None:
    tool = ToolSpec(
        server="s",
        name="t",
        title="T",
        description="d",
        input_schema={
            "type": "object",
            "properties": {"path": {"description": "Where", "enum": ["a", 1]}, "head": {}},
        },
    )
    assert Document.of(tool) == Document(
        id="s__t",
        server="s",
        name="t",
        title="T",
        description="d",
        parameters=(("path", "Where a"), ("head", "")),
        digest=tool.digest,
    )


def test_of_a_long_description_only_the_beginning_is_searched_but_all_of_it_counts() -> None:
    long = "x" * MAX_DOCUMENT_CHARS
    one = Document.of(ToolSpec(server="s", name="t", description=long + "1"))
    two = Document.of(ToolSpec(server="s", name="t", description=long + "2"))
    assert one.description == two.description == long
    assert one.digest != two.digest


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=9), inner),
        max_leaves=5,
    )
)
def test_any_schema_has_a_document(properties: object) -> None:
    tool = ToolSpec(server="s", name="t", input_schema={"properties": properties})
    expected = tuple(properties) if isinstance(properties, dict) else ()  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any JSON
    assert tuple(name for name, _ in Document.of(tool).parameters) == expected
    assert json.dumps(tool.digest)


@pytest.mark.parametrize(
    ("grant", "tools", "servers"),
    [
        (EVERYTHING, "git__log git__push github__push time__now", "git github time"),
        (Grant(), "", ""),
        (Grant(servers=("git",)), "git__log git__push", "git"),
        (Grant(servers=("git*",)), "git__log git__push github__push", "git github"),
        (Grant(tools=("git__log",)), "git__log", "git"),
        (Grant(tools=("*__push",)), "git__push github__push", "git github time"),
        (Grant(servers=("time",), tools=("git__p*",)), "git__push time__now", "git time"),
        (Grant(servers=("Git",), tools=("git", "log", "git__LOG")), "", "git"),
        (Grant(servers=("*",), within=(Grant(servers=("git",)),)), "git__log git__push", "git"),
        (
            Grant(
                servers=("git*",),
                within=(Grant(tools=("*__push",)), Grant(servers=("github", "time"))),
            ),
            "github__push",
            "github",
        ),
    ],
)
def test_a_grant_is_servers_and_tools_added_up(grant: Grant, tools: str, servers: str) -> None:
    known = ["git__log", "git__push", "github__push", "time__now"]
    assert [identifier for identifier in known if grant.allows(identifier)] == tools.split()
    assert [name for name in ("git", "github", "time") if grant.shows(name)] == servers.split()


@pytest.mark.parametrize(
    ("tools", "servers"),
    [
        ("*", "a git github"),
        ("git__*", "git"),
        ("git*", "git github"),
        ("*__*", "a git github"),
        ("git__?", ""),
        ("git__l*", ""),
        ("?__*", "a"),
        ("git__log", ""),
        ("git", ""),
    ],
)
def test_every_tool_of_a_server_is_granted_whatever_its_name(tools: str, servers: str) -> None:
    grant = Grant(tools=(tools,))
    assert [name for name in ("a", "git", "github") if grant.allows_server(name)] == servers.split()


def test_a_grant_takes_a_name_with_brackets_as_it_stands() -> None:
    """http:others: a server may be called like a pattern."""
    grant = Grant(servers=("a[1]",), tools=("b[2]__x",))
    assert grant.allows("a[1]__x")
    assert grant.allows("b[2]__x")


def test_the_digest_of_a_tool_is_computed_once() -> None:
    """catalogue:snapshot: each time it is asked for, it is the same object."""
    tool = ToolSpec(server="s", name="t")
    assert tool.digest is tool.digest
    changed = msgspec.structs.replace(tool, description="Another.")
    assert changed.digest is changed.digest
    assert changed.digest != tool.digest
    assert tool == ToolSpec(server="s", name="t")


def send_invoice(customer: str, amount: float = 0) -> None:
    """Bill a customer."""


INVOICE: dict[str, Any] = {
    "name": "send_invoice",
    "description": "Bill a customer.",
    "parameters": {"properties": {"customer": {}, "amount": {}}},
}


@pytest.mark.parametrize(
    "source",
    [
        send_invoice,
        INVOICE,
        {"type": "function", "function": INVOICE},
        {**INVOICE, "parameters": None, "input_schema": INVOICE["parameters"]},
        {**INVOICE, "parameters": None, "inputSchema": INVOICE["parameters"]},
        mcp_types.Tool(
            name="send_invoice",
            description="Bill a customer.",
            input_schema=INVOICE["parameters"] | {"type": "object"},
        ),
    ],
)
def test_a_document_of_anybodys_tool(source: Any) -> None:
    document = Document.of(source, "shop")
    assert (document.id, document.description) == ("shop__send_invoice", "Bill a customer.")
    assert [name for name, _ in document.parameters] == ["customer", "amount"]


@pytest.mark.parametrize("source", [5, {}, {"name": 7}, {"name": "x", "description": 5}])
def test_what_is_no_tool_is_refused(source: Any) -> None:
    with pytest.raises(InputError, match="is no tool; give a function, or a definition"):
        Document.of(source)


def test_a_changed_description_has_another_digest() -> None:
    first = Document(id="a__b", server="a", name="b", description="Cut the grass.")
    again = Document(id="a__b", server="a", name="b", description="Send an e-mail.")
    assert first.digest != again.digest
    assert replace(again, description="Cut the grass.", digest="").digest == first.digest
    assert Document(id="a__b", server="a", name="b", digest="1").digest == "1"
