"""config:file: every key of a server's entry, in every client's spelling, and every mistake."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from toolscript.config.entry import KEYS, EntryError, Source, server
from toolscript.config.entry_aliases import (
    ALIASES,
    SWITCH_KEYS,
    UNREAD_KEYS,
    describe_unread,
    rewrite,
)
from toolscript.config.trust import describe
from toolscript.types import ArgumentRepair, Repair, ServerSpec

URL = "http://h/mcp"
SECRET = "sk-1234567890"  # noqa: S105 - looked for where it must not be
HOME = str(Path.home())
ENVIRON = {"SET": "value", "EMPTY": "", "LOOP": "${SET}", "KEY": SECRET, "HOME": HOME}
START = {"command": "x"}
LOGIN = {"clientId": "us", "clientSecret": "shared-secret", "callbackPort": 8123}


def spec_of(entry: Any, source: Source | None = None, notes: list[str] | None = None) -> ServerSpec:
    return server("it", entry, source or Source(ENVIRON), notes)


def started(**entry: Any) -> dict[str, Any]:
    return {"command": "x", **entry}


def remote(**entry: Any) -> dict[str, Any]:
    return {"url": URL, **entry}


# The keys, and other clients' spellings of them

READ: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        started(args=["-y", "x"], env={"A": "b", "N": 1, "T": True}, cwd="/srv"),
        {"args": ("-y", "x"), "env": {"A": "b", "N": "1", "T": "true"}, "cwd": "/srv"},
    ),
    (remote(headers={"X-Key": "k"}), {"url": URL, "headers": {"X-Key": "k"}, "command": ""}),
    (started(), {"transport": "stdio", "include_tools": None, "start_timeout_s": None}),
    (remote(), {"transport": "http"}),
    (started(type="stdio", url=URL), {"transport": "stdio", "url": ""}),
    (remote(type="http", command="x"), {"transport": "http", "command": ""}),
    *(({key: "http://h/sse"}, {"transport": "sse"}) for key in ("url", "serverUrl", "httpUrl")),
    ({"url": "http://h/sse/?key=1"}, {"transport": "sse"}),
    ({"url": "http://h/x?next=/sse"}, {"transport": "http"}),
    ({"type": "http", "url": "http://h/sse"}, {"transport": "http"}),
    *((remote(type=each), {"transport": "http"}) for each in ("streamable-http", "streamableHttp")),
    *((remote(type=each), {"transport": "http"}) for each in ("remote", "url")),
    (remote(transport="streamable_http"), {"transport": "http"}),
    (remote(type="SSE"), {"transport": "sse"}),
    (started(type="local"), {"transport": "stdio"}),
    (started(protocol="legacy", start="eager"), {"protocol": "legacy", "start": "eager"}),
    (started(includeTools=["a"], excludeTools=["b"]), {"include_tools": ("a",)}),
    (started(includeTools=[]), {"include_tools": ()}),
    (started(**{"class": {"a": "${KIND:-read}"}}), {"classes": {"a": "read"}}),
    (started(**{"class": None}), {"classes": {}}),
    (started(resultLimit=8000), {"result_limits": {"*": 8000}}),
    (started(startTimeout=9, callTimeout=0.5), {"start_timeout_s": 9, "call_timeout_s": 0.5}),
    (started(startup_timeout_sec=9, tool_timeout_sec=1), {"start_timeout_s": 9}),
    (started(idleTimeout=0, maxConcurrent=2), {"idle_timeout_s": 0, "max_concurrent": 2}),
    (started(args=["server-puppeteer"]), {"is_shared": False}),
    (started(args=["server-puppeteer"], share=True), {"is_shared": True}),
    (started(autoApprove=True), {"auto_approve": True}),
    (started(autoApprove=["read_file"]), {"auto_approve": False}),
    (remote(oauth={**LOGIN, "scopes": 1, "issuer": 1, "scope": None}), {"url": URL}),
    ({"command": "  /bin/x \n"}, {"command": "/bin/x"}),
    ({"command": " ~/x"}, {"command": f"{HOME}/x"}),
    ({"url": f"\t{URL}\n"}, {"url": URL}),
    ({"serverUrl": "${ADDRESS:-http://h }"}, {"url": "http://h"}),
    (started(environment={"A": 1}), {"env": {"A": "1"}}),
    (started(environment={"A": "1", "B": "2"}, env={"A": "3"}), {"env": {"A": "3", "B": "2"}}),
    ({"cmd": "x", "envs": {"A": 1}}, {"command": "x", "env": {"A": "1"}}),
    ({"command": ["x", "y", 1], "args": ["z"]}, {"command": "x", "args": ("y", "1", "z")}),
    (
        {"source": "custom", "command": {"path": "x", "args": ["y", 1], "env": {"A": 1}}},
        {"command": "x", "args": ("y", "1"), "env": {"A": "1"}},
    ),
    ({"command": {"path": "x", "args": None, "env": None}}, {"command": "x", "args": ()}),
    (started(args=["--port", 8080, True]), {"args": ("--port", "8080", "true")}),
    (started(working_directory="/w"), {"cwd": "/w"}),
    (started(workingDirectory="/w"), {"cwd": "/w"}),
    (started(env_vars=["SET", "UNSET"]), {"env": {"SET": "value"}}),
    (started(url=None, type=None, disabled=None, args=None), {"args": ()}),
    (started(env={"A": None, "B": "1"}), {"env": {"B": "1"}}),
    ({"uri": URL}, {"url": URL, "transport": "http"}),
    (remote(http_headers={"X": "a"}), {"headers": {"X": "a"}}),
    (remote(env_http_headers={"X": "SET"}), {"headers": {"X": "value"}}),
    ({"url": URL, "bearer_token_env_var": "SET"}, {"headers": {"Authorization": "Bearer value"}}),
    (
        {"url": URL, "bearer_token_env_var": "SET", "headers": {"Authorization": "own"}},
        {"headers": {"Authorization": "own"}},
    ),
    ({"url": URL, "authorization_token": "t0ken"}, {"headers": {"Authorization": "Bearer t0ken"}}),
    (
        remote(bearerToken="Bearer ${SET}", headers={"X": "a"}),
        {"headers": {"Authorization": "Bearer value", "X": "a"}},
    ),
    (remote(requestInit={"headers": {"X": "a"}}), {"headers": {"X": "a"}}),
    (remote(requestOptions={"headers": {"X": "a"}}, headers={"X": "b"}), {"headers": {"X": "b"}}),
    (remote(tool_configuration={"allowed_tools": ["a"]}), {"include_tools": ("a",)}),
    (remote(headers={"X": "${A}"}, env={"A": "b"}), {"headers": {"X": "b"}, "env": {}}),
    (started(args=["${A}"], env={"A": "${SET}!"}), {"args": ("value!",)}),
    ({"command": "${SET}", "cwd": "/${SET}"}, {"command": "value", "cwd": "/value"}),
    ({"url": "http://${SET}/", "headers": {"k": "${SET}"}}, {"headers": {"k": "value"}}),
]


@pytest.mark.requirement("config:file")
@pytest.mark.parametrize(("entry", "fields"), READ)
def test_an_entry_is_read(entry: dict[str, Any], fields: dict[str, Any]) -> None:
    assert structs.asdict(spec_of(entry)).items() >= fields.items()


@pytest.mark.requirement("config:file")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("${SET}", "value"),
        ("${env:SET}", "value"),
        ("a-${SET}-${SET}-z", "a-value-value-z"),
        ("${SET:-other}", "value"),
        ("${UNSET:-other}", "other"),
        ("${UNSET:-}", ""),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", "other"),
        ("${UNSET:-a:b/c d}", "a:b/c d"),
        ("$SET", "$SET"),
        ("${LOOP}", "${SET}"),
    ],
)
def test_variables_are_put_in(written: str, meant: str) -> None:
    spec = spec_of(started(args=[written], env={"A": written}))
    assert (spec.args, spec.env) == ((meant,), {"A": meant})


@pytest.mark.requirement("config:file")
@pytest.mark.parametrize(
    ("entry", "disabled"),
    [
        ({"disabled": True, "command": "${MISSING}", "args": 1, "comand": 1}, True),
        (started(enabled=False), True),
        (started(isActive=False), True),
        (started(active=False), True),
        (started(tool_configuration={"enabled": False}), True),
        (started(disabled=True, enabled=True), True),
        (started(disabled=False, enabled=False), True),
        (started(enabled=True, isActive=False, args=1), True),
        (started(enabled=True, isActive=True, disabled=False), False),
    ],
)
def test_a_server_that_any_client_has_switched_off_is_off(
    entry: dict[str, Any], *, disabled: bool
) -> None:
    """config:file: nothing else in it is read then."""
    assert spec_of(entry).disabled == disabled


@pytest.mark.parametrize(
    ("entry", "offered"),
    [
        ({"disabledTools": ["b"]}, "ac"),
        ({"disabled_tools": ["b"], "excludeTools": ["c"]}, "a"),
        ({"enabledTools": ["a"]}, "a"),
        ({"enabled_tools": ["a", "b"]}, "ab"),
        ({"allowedTools": ["?"], "available_tools": ["b"]}, "b"),
        ({"tools": ["b", "c"], "includeTools": ["a", "b"]}, "b"),
        ({"tools": ["a"], "allowedTools": ["b"]}, ""),
        ({"tools": ["*"], "disabledTools": ["a"]}, "bc"),
        ({"tools": []}, ""),
        ({"tools": {"a": {"enabled": False}}}, "abc"),
    ],
)
def test_tools_that_any_client_has_taken_away_are_not_offered(
    entry: dict[str, Any], offered: str
) -> None:
    assert "".join(filter(spec_of(started(**entry)).offers, "abc")) == offered


@pytest.mark.requirement("config:file")
def test_a12_what_is_excluded_is_not_offered() -> None:
    """config:file: though it is included, and everything where nothing is said."""
    spec = spec_of(started(includeTools=["read_*"], excludeTools=["*_secret"]))
    asked = ("read_file", "read_secret", "write_file")
    assert [name for name in asked if spec.offers(name)] == ["read_file"]
    assert all(spec_of(started()).offers(name) for name in asked)


def test_the_most_specific_limit_of_results_counts() -> None:
    spec = spec_of(started(resultLimit={"*": 5000, "get_*": 6000, "get_all": 7000}))
    assert [spec.result_limit(each) for each in ("x", "get_one", "get_all")] == [5000, 6000, 7000]
    assert spec_of(started()).result_limit("x") == 24_000


@pytest.mark.requirement("upstream:transports")
def test_a_client_that_is_registered_already() -> None:
    """config:file, upstream:transports: its secret is one."""
    spec = spec_of(remote(oauth=LOGIN))
    assert spec.oauth is not None
    assert (spec.oauth.client_id, spec.oauth.callback_port) == ("us", 8123)
    assert "shared-secret" in spec.secrets
    assert "shared-secret" not in repr(spec) + repr(spec.oauth)


# Files of variables


def test_a_file_of_variables_counts_before_the_environment(tmp_path: Path) -> None:
    """And after ``env``; in a project's file it may be in the project."""
    (tmp_path / ".env").write_text(
        "\ufeff# a comment\n\nA=1\nexport B = 'two words'\nC=\"x=y\"\nD=\n", "utf-8"
    )
    entry = started(args=["${A}"], envFile=".env", env={"A": "own"})
    spec = spec_of(entry, Source({}, folder=tmp_path))
    assert spec.env == {"A": "own", "B": "two words", "C": "x=y", "D": ""}
    assert spec.args == ("own",)
    project = started(env_file="${workspaceFolder}/.env")
    assert spec_of(project, Source({}, tmp_path, tmp_path)).env["A"] == "1"


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
    spec = spec_of(started(envFile=".env"), Source({}, folder=tmp_path))
    assert spec.env == {"A": value, "B.c-1": value}


def test_a_line_that_cannot_be_read_stops_no_server(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("s3cret\nA=1\nB=\0\n" + "=x\n" * 9, "utf-8")
    notes: list[str] = []
    spec = spec_of(started(envFile=".env"), Source({}, folder=tmp_path), notes)
    assert spec.env == {"A": "1"}
    assert notes == [
        f"envFile: not NAME=value, so not read: line 1, 3, 4, 5, 6, … of {tmp_path / '.env'}"
    ]


# Repairs


def test_a_repair_is_read() -> None:
    tools = {
        "create_thing": {
            "name": "add",
            "description": "Adds ${NOTHING}",
            "arguments": {"owner": {"value": None}, "limit": {"default": 20, "description": "d"}},
            "annotations": {"readOnlyHint": True},
        },
        "other": {},
    }
    spec = spec_of(started(tools=tools))
    arguments = {"owner": ArgumentRepair(value=None)}
    arguments["limit"] = ArgumentRepair(default=20, description="d")
    hints = {"readOnlyHint": True}
    repair = Repair(
        name="add", description="Adds ${NOTHING}", arguments=arguments, annotations=hints
    )
    assert spec.repairs == {"create_thing": repair, "other": Repair()}
    only_hints = started(tools={"create_thing": {"annotations": hints}})
    assert spec.digest == spec_of(only_hints).digest != spec_of(started()).digest


@pytest.mark.parametrize(
    ("hints", "given"),
    [
        ({"readOnlyHint": True}, "read"),
        ({"destructiveHint": False}, "write"),
        ({"readOnlyHint": False}, "destructive"),
        ({"destructiveHint": True}, "destructive"),
        ({"openWorldHint": True}, None),
    ],
)
def test_hints_are_a_class(hints: dict[str, bool], given: str | None) -> None:
    tools = {"t": {"annotations": hints}}
    assert spec_of(started(tools=tools)).class_of("t") == given
    assert spec_of(started(tools=tools, **{"class": {"t": "write"}})).class_of("t") == "write"
    mixed = spec_of(started(tools=tools, **{"class": {"*": "write"}}))
    assert mixed.class_of("t") == (given or "write")


def test_an_object_of_another_client_means_nothing_and_is_named() -> None:
    tools = {"t": {"approval_mode": "auto"}, "u": True, "v": {"name": "w"}}
    assert [*spec_of(started(tools=tools)).repairs] == ["v"]
    keys = "name, title, description, arguments, annotations"
    assert [*describe_unread({"tools": tools})] == [
        f"tools.{name} is not read: it has none of {keys}" for name in ("t", "u")
    ]
    assert [*describe_unread({"tools": ["t"]})] == []


# Mistakes

BAD_REPAIRS: list[tuple[Any, str]] = [
    (
        {"nam": "x", "title": "y"},
        "in tools.t the key 'nam' is not known; did you mean 'name'?",
    ),
    ({"name": 3}, "tools.t.name is 3; expected up to 128 letters"),
    ({"name": "a b"}, "tools.t.name is 'a b'; expected up to 128 letters"),
    ({"name": "ab\n"}, "tools.t.name is a string; expected up to 128 letters"),
    ({"title": 3}, "tools.t.title is 3; expected a string"),
    ({"arguments": []}, "tools.t.arguments is a list; expected an object"),
    ({"arguments": {"a": 1}}, "tools.t.arguments.a is 1; expected an object"),
    (
        {"arguments": {"a": {"values": 1}}},
        "in tools.t.arguments.a the key 'values' is not known; did you mean 'value'?",
    ),
    (
        {"arguments": {"a": {"description": 1}}},
        "tools.t.arguments.a.description is 1; expected a string",
    ),
    (
        {"arguments": {"a": {"value": 1, "default": 2}}},
        "tools.t.arguments.a has both value and default",
    ),
]
MISTAKES: list[tuple[Any, str]] = [
    ({"command": 1}, "command is 1; expected a string"),
    (started(instances="two"), "instances is 'two'; expected each or one"),
    (remote(instances="one"), "instances is 'one', which is for servers"),
    ({"command": None}, "neither command nor url is given (found nothing)"),
    ({"command": " "}, "command is empty; expected the program that starts the server"),
    ({"command": []}, "command is a list; expected a string"),
    ({"command": {"args": ["x"]}}, "command is an object; expected a string"),
    ({"source": "extension", "settings": {}}, "an extension of Zed starts it; state its"),
    ({"source": "custom"}, "neither command nor url is given (found source)"),
    (started(args="y"), "args is 'y'; expected a list of strings"),
    (started(args=[{}]), "args is a list; expected a list of strings"),
    (started(env=["A=b"]), "env is a list; expected an object of strings"),
    (started(environment=["A=1"]), "environment is a list; expected an object of strings"),
    (started(env={"A": {}}), "env.A is an object; expected a string"),
    (started(cwd=1), "cwd is 1; expected a string"),
    (started(args=["${GONE}"]), "args needs ${GONE}, which is not set in the environment"),
    (started(args=["-e", "`${x}`"]), "args needs ${x}, which is not set in the"),
    (started(env={"A": "${GONE}"}), "env.A needs ${GONE}, which is not set in the environment"),
    (started(env={"A": "${MY-KEY}"}, cwd="${ X }"), "env.A has ${MY-KEY}, which is no"),
    ({"url": URL, "bearer_token_env_var": "GONE"}, "headers.Authorization needs ${GONE}, which"),
    (remote(headers={"X": "Bearer ${input:key}"}), "headers.X has ${input:key}, which is"),
    (started(envFile="${workspaceFolder}/.env"), "envFile is in the project, which"),
    (started(envFile="none"), "envFile: "),
    (started(includeTools="y"), "includeTools is 'y'; expected a list of str"),
    (started(includeTools=["a"], tools=[1]), "tools is a list; expected a list of strings"),
    (started(excludeTools=[{}]), "excludeTools is a list; expected a list of"),
    (started(**{"class": ["a"]}), "class is a list; expected an object"),
    (started(**{"class": {"a*": {}}}), "class.a* is an object; expected read or write or "),
    (started(**{"class": {"b": "read", "a*": "reads"}}), "class.a* is 'reads'; expected read or"),
    (started(**{"class": {"a*": "Delete only"}}), "class.a* is 'Delete only'; expected read or"),
    (
        started(**{"class": {"a*": "ghp_012345678901234567890123456789abcdef"}}),
        "class.a* is a string; expected read or write or destructive",
    ),
    (started(disabled="yes"), "disabled is 'yes'; expected true or false"),
    *(
        (started(**{key: value}), f"{key} is {value!r}; expected true or false")
        for key in ("enabled", "isActive", "active")
        for value in ("no", 0)
    ),
    (started(type="ws"), "type is 'ws'; expected stdio, http or sse"),
    (started(protocol="new"), "protocol is 'new'; expected auto or legacy"),
    (started(startTimeout="1"), "startTimeout is '1'; expected seconds, such"),
    (started(callTimeout=True), "callTimeout is true or false; expected sec"),
    (started(callTimeout=0), "callTimeout is 0; expected seconds, such as 60 and"),
    (started(callTimeout=10**400), "callTimeout is 1000"),
    (started(tool_timeout_sec=-1), "tool_timeout_sec is -1; expected seconds"),
    (started(resultLimit=3999), "resultLimit.* is 3999; expected a number of characters, 4000 to"),
    (started(resultLimit={"a*": "x"}), "resultLimit.a* is 'x'; expected a number of char"),
    ({"url": "ftp://h"}, "url is 'ftp://h'; expected http://… or https://…"),
    ({"url": "http://h:x"}, "url has a host or port that cannot be read; in a password"),
    ({"url": 5}, "url is 5; expected a string"),
    ({"url": ""}, "neither command nor url is given"),
    ({"type": "http"}, "type is 'http', but no url is given (found type)"),
    ({"type": "sse", "command": "x"}, "type is 'sse', but no url is given (found command, t"),
    ({"transport": "stdio", "url": URL}, "transport is 'stdio', but no command is"),
    (remote(headers="x"), "headers is 'x'; expected an object of strings"),
    (remote(oauth="x"), "oauth is 'x'; expected an object"),
    (remote(oauth={"id": "x"}), "oauth has no clientId (found id); state it, or leave oauth out"),
    (remote(oauth={"clientId": 1}), "oauth.clientId is 1; expected a string"),
    (
        remote(oauth={"clientId": "x", "callbackPort": 70_000}),
        "oauth.callbackPort is 70000; expected a port, 1 to 65535",
    ),
    (remote(command="x"), "both command and url are given"),
    ({"args": [], "tcp": "x"}, "neither command nor url is given (found args, tcp)"),
    ([], "the entry is a list; expected an object with command or url"),
    (None, "the entry is null; expected an object with command or url"),
    ({"transport": "ws"}, "transport is 'ws'; expected stdio, http or sse"),
    ({"serverUrl": "x"}, "serverUrl is 'x'; expected http://… or https://…"),
    ({"x\ud800": 1, "a\nb": 1}, "neither command nor url is given (found a b, x\\ud800)"),
    *((started(tools={"t": repair}), message) for repair, message in BAD_REPAIRS),
]


@pytest.mark.requirement("config:file")
@pytest.mark.parametrize(("entry", "message"), MISTAKES)
def test_a_mistake_names_key_value_and_expectation(entry: Any, message: str) -> None:
    with pytest.raises(EntryError, match=f"^{re.escape(message)}"):
        spec_of(entry)


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "${KEY}"},
        {"transport": "${env:KEY}"},
        started(protocol="x${KEY}"),
        {"url": "${KEY:-other}"},
        {"url": f"ftp://ana:{SECRET}@host"},
        {"url": f"ftp://host/?key={SECRET}"},
    ],
)
def test_a_mistake_does_not_tell_a_secret(entry: dict[str, Any]) -> None:
    with pytest.raises(EntryError) as caught:
        spec_of(entry)
    assert SECRET not in str(caught.value)
    assert any(shown in str(caught.value) for shown in ("KEY", "***", "a string"))


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "${KEY}"},
        started(args=["a-${KEY}-z"]),
        started(cwd="/${KEY}"),
        started(env={"A": "Bearer ${KEY}"}),
        {"url": "http://host/${KEY:-default}"},
    ],
)
def test_what_variables_put_in_is_secret(entry: dict[str, Any]) -> None:
    assert SECRET in spec_of(entry).secrets


def test_defaults_and_well_known_directories_are_not_secret() -> None:
    spec = spec_of(started(args=["${HOME}/notes", "${UNSET:-./a-default}", "${EMPTY:-./another}"]))
    assert spec.args == (f"{HOME}/notes", "./a-default", "./another")
    assert spec.secrets == ()


# Keys that are misspelt, and other clients'


def misspellings(key: str) -> set[str]:
    """Each letter left out, doubled, and swapped with the next; other ways to join the words."""
    cuts = range(len(key))
    wrong = {key[:i] + key[i + 1 :] for i in cuts} | {key[: i + 1] + key[i:] for i in cuts}
    wrong |= {key[:i] + key[i + 1 : i + 2] + key[i] + key[i + 2 :] for i in cuts}
    snake = re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key)
    camel = re.sub("_([a-z])", lambda found: found[1].upper(), key)
    wrong |= {snake, camel, snake.replace("_", "-"), snake.upper(), key.upper(), key.title()}
    return wrong


def misspelt(keys: Sequence[str], others: Collection[str] = ()) -> list[tuple[str, str]]:
    """Every misspelling of these keys that is no other key, and the right key."""
    pairs = [(wrong, key) for key in keys for wrong in sorted(misspellings(key))]
    return [(wrong, key) for wrong, key in pairs if wrong not in {*keys, *others}]


def not_known(wrong: str, right: str) -> str:
    return f"the key {wrong!r} is not known; did you mean {right!r}?"


def test_every_misspelling_is_reported_with_the_right_key() -> None:
    wrong = misspelt(KEYS, {*ALIASES, *SWITCH_KEYS, *UNREAD_KEYS})
    assert len(wrong) > 600
    for key, right in wrong:
        with pytest.raises(EntryError, match=f"^{re.escape(not_known(key, right))}$"):
            spec_of(started(**{key: "x"}))
    for key, right in misspelt(("clientId", "clientSecret", "scope", "callbackPort"), {"scopes"}):
        with pytest.raises(EntryError, match=f"^in oauth {re.escape(not_known(key, right))}$"):
            spec_of(remote(oauth={"clientId": "us", key: 1}))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("comand", "command"),
        ("exludeTools", "excludeTools"),
        ("include_tools", "includeTools"),
        ("idle_timeout", "idleTimeout"),
        ("evn", "env"),
        ("startupTimeout", "startTimeout"),
        ("auto-approve", "autoApprove"),
        ("permission", "permissions"),
        ("header", "headers"),
        ("disabeld", "disabled"),
        ("isactive", "isActive"),
        ("server_url", "serverUrl"),
        ("enviroment", "environment"),
    ],
)
def test_a_key_is_compared_with_the_nearest_one(wrong: str, right: str) -> None:
    """config:file: also where nothing else is in the entry."""
    with pytest.raises(EntryError, match=f"^{re.escape(not_known(wrong, right))}$"):
        spec_of({wrong: "x"})


FOREIGN = """
    auth authProviderType targetAudience targetServiceAccount apiKey headersHelper registryUrl
    baseUrl tcp oauth_resource env_keys experimental_environment source settings sandbox
    sandboxEnabled dev watchPaths transportType options disabledAutoApproveTools maxRetries verify
    default_tools_approval_mode supports_parallel_tool_calls trust alwaysAllow alwaysLoad required
    scopes restart bundled extension sampling roots inputs longRunning timeout connectionTimeout
    startup_timeout_ms sse_read_timeout keep_alive authentication name displayName display_name
    title description note notes comment id icon iconUrl logo logoUrl faviconUrl homepage
    repository author license gallery version tags category provider metadata tls
    _command //args #env args2 env_ x $ vars ports stat1 \ud800 a\0b ключ
""".split()  # noqa: SIM905 - a list of words reads best as words


def test_keys_of_other_clients_are_ignored() -> None:
    """config:file: also keys that are switched off by a sign, and such as are like none of ours."""
    keys = {*FOREIGN, "", "tools", "command" * 1000}
    foreign = {key: {"any": ["thing"]} for key in sorted(keys, key=ascii)}
    assert spec_of(started(**foreign)) == spec_of(started())
    more = dict.fromkeys(("scopes", "enabled", "issuer", "audiences", "tokenUrl"), 1)
    login = {"clientId": "us"}
    assert spec_of(remote(oauth={**login, **more})) == spec_of(remote(oauth=login))


@pytest.mark.parametrize("key", UNREAD_KEYS)
def test_a_key_that_changes_something_and_is_not_read_is_told(key: str) -> None:
    [line] = describe_unread({"command": "x", key: 1, "description": "d"})
    assert line.startswith(f"{key} is not read: ")
    assert not [*describe_unread({"command": "x", key: None, "alwaysAllow": []})]


def test_headers_in_another_object_are_read_and_the_rest_is_told() -> None:
    entry = remote(requestInit={"headers": {}}, requestOptions={"timeout": 1})
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
    for part in ("x y", "env A", "headers X", 'cwd "/w"', 'envFile "e"', 'envVars ["SECRET"]'):
        assert part in shown, part
