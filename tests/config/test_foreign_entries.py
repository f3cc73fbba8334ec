"""What other clients spell differently in a server's entry."""

from pathlib import Path
from typing import Any

import pytest

from toolscript.config.foreign_entries import describe_unread, rewrite
from toolscript.config.known_keys import UNREAD_KEYS
from toolscript.config.server_entry import EntryError, server
from toolscript.config.trust import describe

URL = "http://h/mcp"


@pytest.mark.parametrize(
    ("entry", "fields"),
    [
        ({"command": "x", "environment": {"A": "1"}}, {"env": {"A": "1"}}),
        (
            {"command": "x", "environment": {"A": "1", "B": "2"}, "env": {"A": "3"}},
            {"env": {"A": "3", "B": "2"}},
        ),
        ({"cmd": "x", "envs": {"A": 1}}, {"command": "x", "env": {"A": "1"}}),
        ({"command": ["x", "y", 1], "args": ["z"]}, {"command": "x", "args": ("y", "1", "z")}),
        (
            {"source": "custom", "command": {"path": "x", "args": ["y", 1], "env": {"A": 1}}},
            {"command": "x", "args": ("y", "1"), "env": {"A": "1"}},
        ),
        ({"command": {"path": "x", "args": None, "env": None}}, {"command": "x", "args": ()}),
        ({"command": "x", "args": ["--port", 8080, True]}, {"args": ("--port", "8080", "true")}),
        ({"command": "x", "working_directory": "/w"}, {"cwd": "/w"}),
        ({"command": "x", "env_vars": ["SET", "UNSET"]}, {"env": {"SET": "value"}}),
        ({"command": "x", "args": ["${A}"], "env": {"A": "${SET}!"}}, {"args": ("value!",)}),
        ({"command": "x", "url": None, "type": None, "disabled": None, "args": None}, {"args": ()}),
        ({"command": "~/bin/x"}, {"command": str(Path("~/bin/x").expanduser())}),
        ({"uri": URL}, {"url": URL, "transport": "http"}),
        ({"type": "remote", "url": URL}, {"transport": "http"}),
        ({"url": URL, "http_headers": {"X": "a"}}, {"headers": {"X": "a"}}),
        ({"url": URL, "env_http_headers": {"X": "SET"}}, {"headers": {"X": "value"}}),
        (
            {"url": URL, "bearer_token_env_var": "SET"},
            {"headers": {"Authorization": "Bearer value"}},
        ),
        (
            {"url": URL, "bearer_token_env_var": "SET", "headers": {"Authorization": "own"}},
            {"headers": {"Authorization": "own"}},
        ),
        (
            {"type": "url", "url": URL, "authorization_token": "t0ken"},
            {"headers": {"Authorization": "Bearer t0ken"}, "transport": "http"},
        ),
        (
            {"url": URL, "bearerToken": "Bearer ${SET}", "headers": {"X": "a"}},
            {"headers": {"Authorization": "Bearer value", "X": "a"}},
        ),
        (
            {"url": URL, "authToken": "other", "headers": {"Authorization": "own"}},
            {"headers": {"Authorization": "own"}},
        ),
        ({"url": URL, "requestInit": {"headers": {"X": "a"}}}, {"headers": {"X": "a"}}),
        (
            {"url": URL, "requestOptions": {"headers": {"X": "a"}}, "headers": {"X": "b"}},
            {"headers": {"X": "b"}},
        ),
        ({"url": URL, "tool_configuration": {"allowed_tools": ["a"]}}, {"include_tools": ("a",)}),
        ({"command": "x", "allowed_tools": ["a"]}, {"include_tools": ("a",)}),
        ({"command": "x", "workingDirectory": "/w"}, {"cwd": "/w"}),
        ({"url": URL, "headers": {"X": "${A}"}, "env": {"A": "b"}}, {"headers": {"X": "b"}}),
    ],
)
def test_it_is_read_as_toolscripts_own(entry: dict[str, Any], fields: dict[str, Any]) -> None:
    spec = server("it", entry, {"SET": "value", "HOME": str(Path.home())}, None)
    assert {name: getattr(spec, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"url": URL, "bearer_token_env_var": "UNSET"},
            "headers.Authorization needs ${UNSET}, which",
        ),
        (
            {"url": URL, "headers": {"X": "Bearer ${input:key}"}},
            "headers.X has ${input:key}, which is",
        ),
        (
            {"command": "x", "env": {"A": "${MY-KEY}"}, "cwd": "${ X }"},
            "env.A has ${MY-KEY}, which is no",
        ),
        ({"command": "x", "args": ["-e", "`${x}`"]}, "args needs ${x}, which is not set in the"),
        (
            {"command": "x", "envFile": "${workspaceFolder}/.env"},
            "envFile is in the project, which",
        ),
        ({"command": "x", "envFile": "none"}, "envFile: "),
        ({"command": []}, "command is a list; expected a string"),
        ({"command": {"args": ["x"]}}, "command is an object; expected a string"),
        ({"source": "extension", "settings": {}}, "an extension of Zed starts it; state its"),
        ({"source": "custom"}, "neither command nor url is given (found source)"),
        ({"command": "x", "environment": ["A=1"]}, "env is a list; expected an object of strings"),
    ],
)
def test_what_cannot_be_read_so_is_told(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(EntryError) as caught:
        server("it", entry, {}, None)
    assert str(caught.value).startswith(message)


def test_a_file_of_variables_counts_before_the_environment(tmp_path: Path) -> None:
    """And after ``env``; in a project's file it may be in the project."""
    (tmp_path / ".env").write_text(
        "\ufeff# a comment\n\nA=1\nexport B = 'two words'\nC=\"x=y\"\nD=\n", "utf-8"
    )
    entry = {"command": "x", "args": ["${A}"], "envFile": ".env", "env": {"A": "own"}}
    spec = server("it", entry, {}, None, tmp_path)
    assert spec.env == {"A": "own", "B": "two words", "C": "x=y", "D": ""}
    assert spec.args == ("own",)
    project = {"command": "x", "envFile": "${workspaceFolder}/.env"}
    assert server("it", project, {}, tmp_path, tmp_path).env["A"] == "1"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("abc # c", "abc"),
        ("abc\t#c", "abc"),
        ("a#b", "a#b"),
        ("#fff", "#fff"),
        (" # c", ""),
        ('"a # b" # c', "a # b"),
        ("'a # b'# c", "a # b"),
        ("`a'\"b`", "a'\"b"),
        ('{"a": "# b"} # c', '{"a": "# b"}'),
        (r'"a\nb\r\t"', "a\nb\r\\t"),
        (r"'a\nb'", r"a\nb"),
        (r"a\nb", r"a\nb"),
        ('"a" # "b"', "a"),
        (r'"a\"b"', r"a\"b"),
        ('"', '"'),
        ("", ""),
        pytest.param('"' + "\\" * 50_000, '"' + "\\" * 50_000, id="long"),
    ],
)
def test_a_value_is_read_as_vs_code_reads_it(tmp_path: Path, written: str, value: str) -> None:
    """But for a ``#`` within a word, which begins no comment: passwords have it."""
    (tmp_path / ".env").write_bytes(f"A={written}\r\nB.c-1:{written}\r".encode())
    spec = server("it", {"command": "x", "envFile": ".env"}, {}, None, tmp_path)
    assert spec.env == {"A": value, "B.c-1": value}


def test_a_line_that_cannot_be_read_stops_no_server(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("s3cret\nA=1\nB=\0\n" + "=x\n" * 9, "utf-8")
    notes: list[str] = []
    entry = {"command": "x", "envFile": ".env"}
    assert server("it", entry, {}, None, tmp_path, notes=notes).env == {"A": "1"}
    assert notes == [
        f"envFile: not NAME=value, so not read: line 1, 3, 4, 5, 6, … of {tmp_path / '.env'}"
    ]


@pytest.mark.parametrize("key", UNREAD_KEYS)
def test_a_key_that_changes_something_and_is_not_read_is_told(key: str) -> None:
    [line] = describe_unread({"command": "x", key: 1, "description": "d"})
    assert line.startswith(f"{key} is not read: ")
    assert not [*describe_unread({"command": "x", key: None, "alwaysAllow": []})]


def test_headers_in_another_object_are_read_and_the_rest_is_told() -> None:
    entry: dict[str, Any] = {
        "url": URL,
        "requestInit": {"headers": {}},
        "requestOptions": {"timeout": 1},
    }
    [line] = describe_unread(entry)
    assert line.startswith("requestOptions is not read: requests go out with nothing of it but")


def test_a_second_spelling_that_does_not_count_is_told() -> None:
    entry = {"command": "x", "cmd": "y", "env": {}, "environment": {"A": "1"}}
    assert [*describe_unread(entry)] == ["cmd is not read beside command"]
    assert rewrite(entry)["command"] == "x"


def test_who_is_asked_to_trust_an_entry_sees_all_that_it_starts() -> None:
    entry = {
        "command": ["x", "y"],
        "environment": {"A": "1"},
        "http_headers": {"X": "a"},
        "working_directory": "/w",
        "envFile": "e",
        "env_vars": ["SECRET"],
    }
    shown = describe(entry)
    for part in ("x y", "env A", "headers X", "in /w", "envFile e", "env_vars ['SECRET']"):
        assert part in shown, part
