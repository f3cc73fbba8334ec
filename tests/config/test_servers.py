"""config:file: every clause of it."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import trust
from toolscript.config.known_keys import (
    ALIASES,
    BEARER_KEYS,
    EXCLUDE_KEYS,
    FOREIGN_KEYS,
    FOREIGN_OAUTH_KEYS,
    INCLUDE_KEYS,
    OAUTH_KEYS,
    REQUEST_KEYS,
    SECTIONS,
    SERVER_KEYS,
    SWITCH_KEYS,
    TOP_LEVEL_KEYS,
)
from toolscript.config.locations import FILE_NAME, key_of, locate
from toolscript.config.own_entry import REASON
from toolscript.config.server_entry import server
from toolscript.config.servers import Config, load_config
from toolscript.config.trust import MAX_FILE_BYTES
from toolscript.errors import ConfigError, ConfigMissingError, ConfigSyntaxError
from toolscript.types import OAuthClient, ServerSpec

GOOD = {"command": "uvx", "args": ["mcp-server-time"]}


def write(path: Path, servers: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return path


def read(tmp_path: Path, servers: Mapping[str, Any], **environ: str) -> Config:
    return load_config(write(tmp_path / "c.json", servers), tmp_path, environ)


def one(tmp_path: Path, entry: Mapping[str, Any], **environ: str) -> ServerSpec:
    config = read(tmp_path, {"it": entry}, **environ)
    assert not config.problems
    return config.servers[0]


def names(config: Config) -> list[str]:
    return [spec.name for spec in config.servers]


# Toolscript itself among them


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "toolscript", "args": ["mcp"]},
        {"command": "/opt/venv/bin/toolscript", "args": ["mcp", "--exposure", "all"]},
        {"command": "C:\\Program Files\\toolscript.exe", "args": ["mcp"]},
        {"command": "python3", "args": ["-m", "toolscript", "mcp"]},
        {"command": "uvx", "args": ["--from", "toolscript[postgres]", "toolscript", "mcp"]},
        {"command": "uvx", "args": ["toolscript@latest", "mcp"]},
        {"command": "bash", "args": ["-lc", "exec 'toolscript' mcp"]},
        {"command": ["toolscript", "mcp"]},
        {"url": "http://127.0.0.1:7337/mcp"},
        {"url": "http://localhost:7337/mcp/two-phase"},
        {"type": "http", "url": "http://[::1]:7337/mcp/"},
    ],
)
@pytest.mark.parametrize("name", ["toolscript", "ts"])
def test_the_entry_of_toolscript_itself_is_left_out(
    tmp_path: Path, name: str, entry: Mapping[str, Any]
) -> None:
    config = read(tmp_path, {name: entry, "time": GOOD})
    assert not config.problems
    assert [spec.name for spec in config.servers if not spec.disabled] == ["time"]
    assert config.unread == {name: (REASON,), "time": ()}


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "uvx", "args": ["mcp-server-git", "--repository", "/src/toolscript"]},
        {"command": "toolscript-extra", "args": ["mcp"]},
        {"url": "http://127.0.0.1:7338/mcp"},
        {"url": "http://127.0.0.1:7337/other"},
        {"url": "https://tools.example.com:7337/mcp"},
    ],
)
def test_what_is_no_toolscript_is_served(tmp_path: Path, entry: Mapping[str, Any]) -> None:
    assert not one(tmp_path, entry).disabled
    [problem] = read(tmp_path, {"Toolscript": entry}).problems
    assert "the name is toolscript's own" in str(problem)


def test_the_gateways_own_port_is_that_of_the_variable(tmp_path: Path) -> None:
    entry = {"url": "http://127.0.0.1:8000/mcp"}
    assert not one(tmp_path, entry).disabled
    assert one(tmp_path, entry, TOOLSCRIPT_PORT="8000").disabled


# Where it is looked for


def test_the_file_is_found_in_the_directories_above(tmp_path: Path) -> None:
    expected = write(tmp_path / "project" / FILE_NAME, {"time": GOOD})
    below = tmp_path / "project" / "src" / "deep"
    below.mkdir(parents=True)
    config = load_config(None, below, {"HOME": str(tmp_path / "home")}, trust(tmp_path, expected))
    assert config.sources == (expected,)
    assert names(config) == ["time"]


def test_the_nearest_of_several_files_is_the_projects(tmp_path: Path) -> None:
    write(tmp_path / FILE_NAME, {"far": GOOD})
    near = write(tmp_path / "a" / FILE_NAME, {"near": GOOD})
    (tmp_path / "a" / "b").mkdir()
    config = load_config(None, tmp_path / "a" / "b", {"HOME": "/nowhere"}, trust(tmp_path, near))
    assert config.sources == (near,)


@pytest.mark.requirement("config:file")
def test_the_projects_servers_are_put_over_the_users(tmp_path: Path) -> None:
    project = write(tmp_path / "p" / FILE_NAME, {"both": {"command": "project"}, "mine": GOOD})
    user = write(tmp_path / "h" / FILE_NAME, {"both": {"command": "user"}, "other": GOOD})
    config = load_config(
        None, tmp_path / "p", {"HOME": str(tmp_path / "h")}, trust(tmp_path, project)
    )
    assert config.sources == (project, user)
    assert {spec.name: spec.command for spec in config.servers} == {
        "both": "project",
        "mine": "uvx",
        "other": "uvx",
    }


def test_a_mistake_in_the_project_is_not_hidden_by_the_users_server(tmp_path: Path) -> None:
    project = write(tmp_path / "p" / FILE_NAME, {"both": {"command": 1}})
    write(tmp_path / "h" / FILE_NAME, {"both": GOOD, "broken": {}})
    config = load_config(
        None, tmp_path / "p", {"HOME": str(tmp_path / "h")}, trust(tmp_path, project)
    )
    assert not config.servers
    assert [problem.server for problem in config.problems] == ["both", "broken"]


def test_the_users_file_alone_is_enough_also_below_the_home_directory(tmp_path: Path) -> None:
    user = write(tmp_path / FILE_NAME, {"time": {**GOOD, "cwd": "relative"}})
    (tmp_path / "work").mkdir()
    config = load_config(None, tmp_path / "work", {"HOME": str(tmp_path)})
    assert config.sources == (user,)
    assert config.servers[0].cwd == "relative"


def test_a_named_file_is_read_alone_relative_to_the_working_directory(tmp_path: Path) -> None:
    write(tmp_path / FILE_NAME, {"project": GOOD})
    write(tmp_path / "other.json", {"named": GOOD})
    config = load_config(Path("other.json"), tmp_path, {"HOME": str(tmp_path)})
    assert names(config) == ["named"]
    assert config.sources == (tmp_path / "other.json",)


def test_a_named_file_that_is_missing_is_an_error_that_names_it(tmp_path: Path) -> None:
    write(tmp_path / FILE_NAME, {"time": GOOD})
    with pytest.raises(ConfigMissingError, match=f"file {re.escape(str(tmp_path))} is a directory"):
        load_config(tmp_path, tmp_path, {})
    with pytest.raises(ConfigMissingError, match=r"configuration file gone\.json does not exist"):
        load_config(Path("gone.json"), tmp_path, {"HOME": str(tmp_path)})


def test_no_file_anywhere_is_an_error_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(ConfigMissingError) as caught:
        load_config(None, tmp_path, {"HOME": str(tmp_path / "home")})
    assert FILE_NAME in str(caught.value)
    assert "mcpServers" in str(caught.value)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_an_impossible_name_is_a_missing_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigMissingError):
        load_config(Path(name), tmp_path, {})
    with pytest.raises(ConfigMissingError):
        load_config(None, tmp_path, {"HOME": f"/{name}"})


def test_a_projects_servers_run_in_the_projects_directory(tmp_path: Path) -> None:
    servers = {"a": GOOD, "b": {**GOOD, "cwd": "sub"}, "c": {**GOOD, "cwd": "/abs"}}
    project = write(tmp_path / FILE_NAME, servers)
    config = load_config(None, tmp_path, {"HOME": "/nowhere"}, trust(tmp_path, project))
    found = [spec.cwd for spec in config.servers]
    assert found == [str(tmp_path), str(tmp_path / "sub"), "/abs"]


# What is in it


@pytest.mark.requirement("config:file")
def test_a_local_server_has_command_arguments_environment_and_directory(tmp_path: Path) -> None:
    entry = {"command": "npx", "args": ["-y", "x"], "env": {"A": "b", "N": 1, "T": True}}
    assert one(tmp_path, {**entry, "cwd": "/srv"}) == ServerSpec(
        name="it",
        transport="stdio",
        command="npx",
        args=("-y", "x"),
        env={"A": "b", "N": "1", "T": "true"},
        cwd="/srv",
    )


@pytest.mark.requirement("config:file")
@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_a_remote_server_has_an_address_under_any_usual_key_and_headers(
    tmp_path: Path, key: str
) -> None:
    entry = {key: "https://example.org/mcp", "headers": {"X-Key": "k"}}
    assert one(tmp_path, entry) == ServerSpec(
        name="it", transport="http", url="https://example.org/mcp", headers={"X-Key": "k"}
    )


@pytest.mark.requirement("config:file")
@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "x"}, "stdio"),
        ({"type": "stdio", "command": "x"}, "stdio"),
        ({"type": "local", "command": "x"}, "stdio"),
        ({"type": "stdio", "command": "x", "url": "http://h"}, "stdio"),
        ({"url": "http://h/mcp"}, "http"),
        ({"url": "http://h/sse"}, "sse"),
        ({"url": "http://h/sse/?key=1"}, "sse"),
        ({"url": "http://h/x?next=/sse"}, "http"),
        ({"type": "http", "url": "http://h/sse"}, "http"),
        ({"type": "streamable-http", "url": "http://h"}, "http"),
        ({"type": "streamableHttp", "url": "http://h"}, "http"),
        ({"transport": "streamable_http", "url": "http://h"}, "http"),
        ({"type": "SSE", "url": "http://h"}, "sse"),
        ({"type": "http", "command": "x", "url": "http://h"}, "http"),
    ],
)
def test_the_type_is_optional_and_written_in_several_ways(
    tmp_path: Path, entry: dict[str, Any], transport: str
) -> None:
    assert one(tmp_path, entry).transport == transport


@pytest.mark.requirement("config:file")
def test_tools_are_included_and_excluded_by_name(tmp_path: Path) -> None:
    spec = one(tmp_path, {**GOOD, "includeTools": ["read_*"], "excludeTools": ["read_secret"]})
    assert (spec.include_tools, spec.exclude_tools) == (("read_*",), ("read_secret",))
    plain = one(tmp_path, GOOD)
    assert (plain.include_tools, plain.exclude_tools) == (None, ())
    assert one(tmp_path, {**GOOD, "includeTools": []}).include_tools == ()


@pytest.mark.requirement("config:file")
def test_a12_what_is_excluded_is_not_offered(tmp_path: Path) -> None:
    """config:file: though it is included, and everything where nothing is said."""
    spec = one(tmp_path, {**GOOD, "includeTools": ["read_*"], "excludeTools": ["*_secret"]})
    asked = ("read_file", "read_secret", "write_file")
    assert [name for name in asked if spec.offers(name)] == ["read_file"]
    assert all(one(tmp_path, GOOD).offers(name) for name in asked)


@pytest.mark.parametrize(
    ("stated", "meant"),
    [(None, {}), ({}, {}), ({"a_*": "read", "b": "${KIND}"}, {"a_*": "read", "b": "write"})],
)
def test_classes_are_given_by_name(tmp_path: Path, stated: Any, meant: dict[str, str]) -> None:
    assert one(tmp_path, {**GOOD, "class": stated}, KIND="write").classes == meant


def test_the_most_specific_limit_of_results_counts(tmp_path: Path) -> None:
    limits = {"*": 5000, "get_*": 6000, "get_all": 7000}
    spec = one(tmp_path, {**GOOD, "resultLimit": limits})
    assert [spec.result_limit(each) for each in ("x", "get_one", "get_all")] == [5000, 6000, 7000]
    assert one(tmp_path, {**GOOD, "resultLimit": 8000}).result_limit("x") == 8000
    assert one(tmp_path, GOOD).result_limit("x") == 24_000


@pytest.mark.parametrize(
    "keys", [("startTimeout", "callTimeout"), ("startup_timeout_sec", "tool_timeout_sec")]
)
def test_a_server_may_have_times_of_its_own(tmp_path: Path, keys: tuple[str, str]) -> None:
    assert one(tmp_path, GOOD).start_timeout_s is None
    spec = one(tmp_path, GOOD | dict(zip(keys, (90, 0.5), strict=True)))
    assert (spec.start_timeout_s, spec.call_timeout_s) == (90.0, 0.5)


@pytest.mark.requirement("upstream:transports")
def test_a_client_that_is_registered_already(tmp_path: Path) -> None:
    """config:file, upstream:transports: its secret is one."""
    known = {"clientId": "us", "clientSecret": "shared-secret", "callbackPort": 8123}
    spec = one(tmp_path, {"url": "http://h/mcp", "oauth": known})
    assert spec.oauth is not None
    assert (spec.oauth.client_id, spec.oauth.callback_port) == ("us", 8123)
    assert "shared-secret" in spec.secrets
    assert "shared-secret" not in repr(spec) + repr(spec.oauth)


@pytest.mark.requirement("config:file")
def test_a_disabled_server_may_be_unfinished(tmp_path: Path) -> None:
    config = read(tmp_path, {"off": {"disabled": True, "command": "${MISSING}", "args": 1}})
    assert not config.problems
    assert config.servers[0].disabled


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
def test_variables_are_put_in(tmp_path: Path, written: str, meant: str) -> None:
    environ = {"SET": "value", "EMPTY": "", "LOOP": "${SET}"}
    spec = one(tmp_path, {"command": "x", "args": [written], "env": {"A": written}}, **environ)
    assert (spec.args, spec.env) == ((meant,), {"A": meant})


@pytest.mark.requirement("config:file")
def test_variables_are_put_into_every_text_of_a_server(tmp_path: Path) -> None:
    environ = {"A": "b"}
    local = one(tmp_path, {"command": "${A}", "cwd": "/${A}", "env": {"k": "${A}"}}, **environ)
    remote = one(tmp_path, {"url": "http://${A}/", "headers": {"k": "${A}"}}, **environ)
    assert (local.command, local.cwd, local.env) == ("b", "/b", {"k": "b"})
    assert (remote.url, remote.headers) == ("http://b/", {"k": "b"})


@pytest.mark.requirement("config:file")
@pytest.mark.parametrize("section", ["mcpServers", "servers"])
def test_the_section_is_spelled_as_clients_spell_it(tmp_path: Path, section: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"other": 1, section: {"time": GOOD}}), "utf-8-sig")
    assert names(load_config(path, tmp_path, {})) == ["time"]


@pytest.mark.parametrize(
    ("entry", "field", "value"),
    [
        ({"command": "  /bin/x \n"}, "command", "/bin/x"),
        ({"command": " ~/x"}, "command", str(Path("~/x").expanduser())),
        ({"url": " http://h/mcp "}, "url", "http://h/mcp"),
        ({"serverUrl": "${ADDRESS}"}, "url", "http://h/mcp"),
    ],
)
def test_blanks_around_a_command_or_an_address_count_for_nothing(
    tmp_path: Path, entry: dict[str, Any], field: str, value: str
) -> None:
    """They are pasted with it, and no message would show them."""
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"mcpServers": {"it": entry}}), "utf-8")
    config = load_config(path, tmp_path, {"ADDRESS": "\thttp://h/mcp\n"})
    assert [getattr(each, field) for each in config.servers] == [value], config.problems


def test_yaml_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("mcpServers:\n  a: {command: x}\n", "utf-8")
    with pytest.raises(ConfigSyntaxError, match="is YAML, which is not read; write it as JSON"):
        load_config(path, tmp_path, {})
    path.write_text('{"mcpServers": {"a": {"command": "x"}}}', "utf-8")
    assert names(load_config(path, tmp_path, {})) == ["a"]


# Mistakes

MISTAKES: list[tuple[Any, str]] = [
    ({"command": 1}, "command is 1; expected a string"),
    ({"command": "x", "instances": "two"}, "instances is 'two'; expected each or one"),
    ({"url": "http://h/m", "instances": "one"}, "instances is 'one', which is for servers"),
    ({"command": None}, "neither command nor url is given (found nothing)"),
    ({"command": " "}, "command is empty; expected the program that starts the server"),
    ({"command": "x", "args": "y"}, "args is 'y'; expected a list of strings"),
    ({"command": "x", "args": [{}]}, "args is a list; expected a list of strings"),
    ({"command": "x", "env": ["A=b"]}, "env is a list; expected an object of strings"),
    ({"command": "x", "env": {"A": {}}}, "env.A is an object; expected a string"),
    ({"command": "x", "env": {"A": None}}, "env.A is null; expected a string"),
    ({"command": "x", "cwd": 1}, "cwd is 1; expected a string"),
    (
        {"command": "x", "args": ["${GONE}"]},
        "args needs ${GONE}, which is not set in the environment",
    ),
    (
        {"command": "x", "env": {"A": "${GONE}"}},
        "env.A needs ${GONE}, which is not set in the environment",
    ),
    ({"command": "x", "includeTools": "y"}, "includeTools is 'y'; expected a list of str"),
    ({"command": "x", "excludeTools": [{}]}, "excludeTools is a list; expected a list of"),
    ({"command": "x", "class": ["a"]}, "class is a list; expected an object of strings"),
    ({"command": "x", "class": {"a*": {}}}, "class.a* is an object; expected a string"),
    (
        {"command": "x", "class": {"b": "read", "a*": "reads"}},
        "class.a* is 'reads'; expected one of read, write, destructive",
    ),
    (
        {"command": "x", "class": {"a*": "Delete only"}},
        "class.a* is 'Delete only'; expected one of read, write, destructive",
    ),
    (
        {"command": "x", "class": {"a*": "ghp_012345678901234567890123456789abcdef"}},
        "class.a* is a string; expected one of read, write, destructive",
    ),
    ({"command": "x", "disabled": "yes"}, "disabled is 'yes'; expected true or false"),
    ({"command": "x", "type": "ws"}, "type is 'ws'; expected stdio, http or sse"),
    ({"command": "x", "protocol": "new"}, "protocol is 'new'; expected auto or legacy"),
    ({"command": "x", "startTimeout": "1"}, "startTimeout is '1'; expected seconds, such"),
    ({"command": "x", "callTimeout": True}, "callTimeout is true or false; expected sec"),
    ({"command": "x", "callTimeout": 0}, "callTimeout is 0; expected seconds, such as 60 and"),
    ({"command": "x", "callTimeout": 10**400}, "callTimeout is 1000"),
    ({"command": "x", "tool_timeout_sec": -1}, "tool_timeout_sec is -1; expected seconds"),
    (
        {"command": "x", "resultLimit": 3999},
        "resultLimit is 3999; expected a number of characters, 4000 to 1000000",
    ),
    ({"command": "x", "resultLimit": {"a*": "x"}}, "a* is 'x'; expected a number of char"),
    ({"url": "ftp://h"}, "url is 'ftp://h'; expected http://… or https://…"),
    ({"url": 5}, "url is 5; expected a string"),
    ({"url": ""}, "neither command nor url is given"),
    ({"type": "http"}, "type is 'http', but no url is given (found type)"),
    ({"type": "sse", "command": "x"}, "type is 'sse', but no url is given (found command, t"),
    ({"transport": "stdio", "url": "http://h"}, "transport is 'stdio', but no command is"),
    ({"url": "http://h", "headers": "x"}, "headers is 'x'; expected an object of strings"),
    ({"url": "http://h", "oauth": "x"}, "oauth is 'x'; expected an object"),
    ({"url": "http://h", "oauth": {"id": "x"}}, "oauth has no clientId (found id); leave"),
    ({"url": "http://h", "oauth": {"clientId": 1}}, "clientId is 1; expected a string"),
    (
        {"url": "http://h", "oauth": {"clientId": "x", "callbackPort": 70_000}},
        "callbackPort is 70000; expected a port, 1 to 65535",
    ),
    ({"url": "http://h", "command": "x"}, "both command and url are given"),
    ({"args": [], "tcp": "x"}, "neither command nor url is given (found args, tcp)"),
    ({}, "neither command nor url is given (found nothing)"),
    ([], "the entry is a list; expected an object with command or url"),
    (None, "the entry is null; expected an object with command or url"),
    ({"transport": "ws"}, "transport is 'ws'; expected stdio, http or sse"),
    ({"serverUrl": "x"}, "serverUrl is 'x'; expected http://… or https://…"),
    ({"x\ud800": 1, "a\nb": 1}, "neither command nor url is given (found a b, x\\ud800)"),
]
NAMES = {
    "a__b": "a name may not contain '__' or end in '_'",
    "it_": "a name may not contain '__' or end in '_'",
    " ": "the name is empty; give the server a name",
    "a\nb": "the name has characters that cannot be shown",
}


@pytest.mark.requirement("config:file")
@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [*(("it", *row) for row in MISTAKES), *((name, GOOD, said) for name, said in NAMES.items())],
    ids=[*(message for _, message in MISTAKES), *map(ascii, NAMES)],
)
def test_a_mistake_names_file_server_key_and_expectation_and_costs_only_that_server(
    tmp_path: Path, name: str, entry: Any, message: str
) -> None:
    config = read(tmp_path, {"before": GOOD, name: entry, "after": GOOD})
    assert names(config) == ["before", "after"]
    [problem] = config.problems
    assert problem.message.startswith(message)
    assert str(problem) == f"{tmp_path / 'c.json'}: server {name!r}: {problem.message}"


def test_a_name_that_cannot_be_encoded_costs_only_its_server(tmp_path: Path) -> None:
    config = read(tmp_path, {"x\ud800y": GOOD, "after": GOOD})
    assert names(config) == ["after"]
    [problem] = config.problems
    assert problem.server == "x\\ud800y"
    assert problem.message.startswith("the name has characters that cannot be shown")
    assert str(problem).encode()


# Keys that are not known


def misspellings(key: str) -> set[str]:
    """Each letter left out, doubled, and swapped with the next; other ways to join the words."""
    cuts = range(len(key))
    wrong = {key[:i] + key[i + 1 :] for i in cuts} | {key[: i + 1] + key[i:] for i in cuts}
    wrong |= {key[:i] + key[i + 1 : i + 2] + key[i] + key[i + 2 :] for i in cuts}
    snake = re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key)
    camel = re.sub("_([a-z])", lambda found: found[1].upper(), key)
    wrong |= {snake, camel, snake.replace("_", "-"), snake.upper(), key.upper(), key.title()}
    return wrong


def misspelt(keys: Sequence[str], foreign: Collection[str] = ()) -> list[tuple[str, str]]:
    """Every misspelling of these keys that is no other key, and the right key."""
    pairs = [(wrong, key) for key in keys for wrong in sorted(misspellings(key))]
    return [(wrong, key) for wrong, key in pairs if wrong not in {*keys, *foreign}]


def not_known(wrong: str, right: str) -> str:
    return f"the key {wrong!r} is not known; did you mean {right!r}?"


def test_every_misspelling_of_a_servers_key_is_reported_with_the_right_one(tmp_path: Path) -> None:
    wrong = misspelt(SERVER_KEYS, FOREIGN_KEYS)
    assert len(wrong) > 600
    entries = {f"{i}": {**GOOD, key: "x"} for i, (key, _) in enumerate(wrong)}
    config = read(tmp_path, {**entries, "right": GOOD})
    assert names(config) == ["right"]
    assert [p.message for p in config.problems] == [not_known(*pair) for pair in wrong]


def test_every_misspelling_of_a_key_of_oauth_is_reported(tmp_path: Path) -> None:
    wrong = misspelt(OAUTH_KEYS, FOREIGN_OAUTH_KEYS)
    login = {"clientId": "us"}
    config = read(
        tmp_path,
        {f"{i}": {"url": "http://h", "oauth": {**login, k: 1}} for i, (k, _) in enumerate(wrong)},
    )
    told = [f"in oauth {not_known(*pair)}" for pair in wrong]
    assert [problem.message for problem in config.problems] == told


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
    ],
)
def test_a_key_is_compared_with_the_nearest_one(tmp_path: Path, wrong: str, right: str) -> None:
    """config:file: also where nothing else is in the entry."""
    [problem] = read(tmp_path, {"it": {wrong: "x"}}).problems
    assert problem.message == not_known(wrong, right)


FOREIGN = [
    *("alwaysAllow", "disabledTools", "timeout", "description", "gallery", "icon", "inputs"),
    *("envFile", "dev", "sampling", "trust", "enabled", "name", "id", "tools", "note", "auth"),
    *("scopes", "cmd", "envs", "uri", "_command", "//args", "#env", "args2", "env_", "x", "", "$"),
    *("vars", "ports", "stat1", "\ud800", "a\0b", "ключ", "command" * 1000),
]


def test_keys_of_other_clients_are_ignored(tmp_path: Path) -> None:
    """config:file: also keys that are switched off by a sign, and such as are like none of ours."""
    read_too = {*SWITCH_KEYS, *EXCLUDE_KEYS, *INCLUDE_KEYS, *ALIASES} - {"tools"}  # it is no list
    read_too |= {"envFile"}
    keys = {*FOREIGN, *FOREIGN_KEYS} - read_too
    foreign = {key: {"any": ["thing"]} for key in sorted(keys, key=ascii)}
    assert one(tmp_path, {**GOOD, **foreign}) == one(tmp_path, GOOD)
    cline = {**GOOD, "autoApprove": ["read_file"], "disabled": False}
    assert one(tmp_path, cline) == one(tmp_path, GOOD)
    login = {"clientId": "us"}
    plain = one(tmp_path, {"url": "http://h", "oauth": login})
    more = dict.fromkeys(FOREIGN_OAUTH_KEYS, 1)
    assert one(tmp_path, {"url": "http://h", "oauth": {**login, **more}}) == plain


@pytest.mark.parametrize(
    ("entry", "disabled"),
    [
        ({"enabled": False}, True),
        ({"isActive": False}, True),
        ({"active": False}, True),
        ({"tool_configuration": {"enabled": False}}, True),
        ({"disabled": True, "enabled": True}, True),
        ({"disabled": False, "enabled": False}, True),
        ({"enabled": True, "isActive": False, "args": 1}, True),
        ({"enabled": True, "isActive": True, "disabled": False}, False),
    ],
)
def test_a_server_that_any_client_has_switched_off_is_off(
    tmp_path: Path, entry: dict[str, Any], *, disabled: bool
) -> None:
    """config:file: nothing else in it is read then."""
    assert one(tmp_path, {**GOOD, **entry}).disabled == disabled


@pytest.mark.parametrize("key", ["enabled", "isActive", "active"])
@pytest.mark.parametrize("value", ["no", 0])
def test_a_switch_that_cannot_be_read_starts_nothing(
    tmp_path: Path, key: str, value: object
) -> None:
    config = read(tmp_path, {"it": {**GOOD, key: value}})
    assert not config.servers
    [problem] = config.problems
    assert problem.message.startswith(f"{key} is ")
    assert problem.message.endswith("; expected true or false")


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
    tmp_path: Path, entry: dict[str, Any], offered: str
) -> None:
    spec = one(tmp_path, {**GOOD, **entry})
    assert "".join(filter(spec.offers, "abc")) == offered


def test_the_guide_names_every_key_that_takes_something_away() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/configuration.md").read_text("utf-8")
    for key in (*SWITCH_KEYS, *EXCLUDE_KEYS, *INCLUDE_KEYS):
        assert f"`{key}`" in guide or f'`"{key}": ' in guide, key


def test_a_key_that_nobody_knows_is_told(tmp_path: Path) -> None:
    more = {"maxRetries": 3, "_note": 1, "args2": 1, "backoff": "i", "description": "d"}
    config = read(tmp_path, {"it": {**GOOD, **more}, "other": GOOD})
    assert config.unread == {"it": ("not known, so not read: backoff, maxRetries",), "other": ()}


def test_a_misspelt_key_of_a_disabled_server_is_not_read(tmp_path: Path) -> None:
    config = read(tmp_path, {"off": {"disabled": True, "comand": 1}})
    assert names(config) == ["off"]
    [problem] = read(tmp_path, {"off": {"disabeld": True, **GOOD}}).problems
    assert problem.message == not_known("disabeld", "disabled")


class Noting(dict[str, Any]):
    """An object of the file that notes which keys are looked for in it."""

    def __init__(self, entry: Mapping[str, Any], asked: set[str]) -> None:
        super().__init__(entry)
        self.asked = asked

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - keys are texts
        self.asked.add(key)
        return super().get(key, default)


RULES = {"permissions"}
"""Keys that `rules_of` reads."""


def test_the_table_has_every_key_that_is_read() -> None:
    """config:file: else a new key would be unknown to the check, or a misspelling to nobody."""
    asked: set[str] = set()
    server("it", Noting(GOOD, asked), {}, None)
    server("it", Noting({"type": "http", "url": "http://h"}, asked), {}, None)
    asked -= ALIASES.keys()
    assert asked - FOREIGN_KEYS == set(SERVER_KEYS) - RULES
    others = {*SWITCH_KEYS, *EXCLUDE_KEYS, *INCLUDE_KEYS, *BEARER_KEYS, *REQUEST_KEYS}
    assert asked & FOREIGN_KEYS == (others | {"tool_configuration"}) - {*SERVER_KEYS}
    assert ALIASES.keys() <= FOREIGN_KEYS
    words = [field.split("_") for field in OAuthClient.__struct_fields__]
    assert [first + "".join(map(str.title, rest)) for first, *rest in words] == list(OAUTH_KEYS)


def document(path: Path, content: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(content), "utf-8")
    return path


def test_a_misspelt_key_beside_the_servers_disables_none(tmp_path: Path) -> None:
    rules = {"permissions", "profiles"}
    wrong = misspelt([key for key in TOP_LEVEL_KEYS if key not in {*SECTIONS, *rules}])
    wrong += [("mcpServer", "mcpServers"), ("Mcp_Servers", "mcpServers"), ("server", "servers")]
    for key, right in wrong:
        path = document(tmp_path / "c.json", {"mcpServers": {"time": GOOD}, key: {"a": 1}})
        config = load_config(path, tmp_path, {})
        assert names(config) == ["time"]
        assert not config.problems
        assert config.key_problems == (f"{path}: {not_known(key, right)}",)


def test_a_misspelt_key_of_rules_stops_the_file_from_being_used(tmp_path: Path) -> None:
    """config:file: a rule that is not read might have denied something."""
    for key, right in misspelt(["permissions", "profiles"]):
        path = document(tmp_path / "c.json", {"mcpServers": {"time": GOOD}, key: {}})
        with pytest.raises(ConfigSyntaxError) as caught:
            load_config(path, tmp_path, {})
        assert str(caught.value) == f"{path}: {not_known(key, right)}"


def test_a_misspelt_key_of_a_profile_stops_the_file_from_being_used(tmp_path: Path) -> None:
    """config:file: a profile whose rules are not read denies nothing."""
    for key, right in misspelt(["permissions"]):
        profiles = {"reader": {key: {"write": "deny"}}}
        path = document(tmp_path / "c.json", {"mcpServers": {"time": GOOD}, "profiles": profiles})
        with pytest.raises(ConfigSyntaxError) as caught:
            load_config(path, tmp_path, {})
        assert str(caught.value) == f"{path}: profiles.reader: {not_known(key, right)}"


def test_both_files_keys_are_reported(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "h").mkdir()
    project = document(tmp_path / "p" / FILE_NAME, {"mcpServers": {}, "skils": []})
    user = document(tmp_path / "h" / FILE_NAME, {"mcpServers": {}, "skill": []})
    environ = {"HOME": str(tmp_path / "h")}
    config = load_config(None, tmp_path / "p", environ, trust(tmp_path, project))
    assert config.key_problems == (
        f"{project}: {not_known('skils', 'skills')}",
        f"{user}: {not_known('skill', 'skills')}",
    )


@pytest.mark.parametrize("also", [{}, {"skills": ["s"]}])
def test_a_misspelt_section_is_an_error_that_names_the_right_one(
    tmp_path: Path, also: dict[str, Any]
) -> None:
    wrong = misspelt(["mcpServers", "servers", "context_servers"])
    for key, right in (pair for pair in wrong if pair[0] not in SECTIONS):
        path = document(tmp_path / "c.json", {key: {"time": GOOD}, **also})
        with pytest.raises(ConfigSyntaxError) as caught:
            load_config(path, tmp_path, {})
        assert str(caught.value).startswith(f"{path} has no object 'mcpServers' (it has ")
        assert str(caught.value).endswith(not_known(key, right))


def test_keys_of_other_programs_beside_the_servers_are_ignored(tmp_path: Path) -> None:
    others = ["inputs", "$schema", "projects", "hooks", "globalShortcut", "preferences", "theme"]
    content: dict[str, Any] = {
        "mcpServers": {"time": GOOD},
        "skills": [],
        **dict.fromkeys(others, 1),
    }
    config = load_config(document(tmp_path / "c.json", content), tmp_path, {})
    assert (names(config), config.key_problems) == (["time"], ())


SECRET = "sk-1234567890"  # noqa: S105 - looked for where it must not be


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "${KEY}"},
        {"transport": "${env:KEY}"},
        {**GOOD, "protocol": "x${KEY}"},
        {"url": "${KEY:-other}"},
        {"url": f"ftp://ana:{SECRET}@host"},
        {"url": f"ftp://host/?key={SECRET}"},
    ],
)
def test_a_mistake_does_not_tell_a_secret(tmp_path: Path, entry: Mapping[str, Any]) -> None:
    [problem] = read(tmp_path, {"it": entry}, KEY=SECRET).problems
    assert SECRET not in str(problem)
    assert any(shown in str(problem) for shown in ("KEY", "***", "a string"))


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "${KEY}"},
        {"command": "x", "args": ["a-${KEY}-z"]},
        {"command": "x", "cwd": "/${KEY}"},
        {"command": "x", "env": {"A": "Bearer ${KEY}"}},
        {"url": "http://host/${KEY:-default}"},
    ],
)
def test_what_variables_put_in_is_secret(tmp_path: Path, entry: Mapping[str, Any]) -> None:
    assert SECRET in one(tmp_path, entry, KEY=SECRET).secrets


def test_defaults_and_well_known_directories_are_not_secret(tmp_path: Path) -> None:
    args = ["${HOME}/notes", "${UNSET:-./a-default}", "${EMPTY:-./another}"]
    spec = one(tmp_path, {"command": "x", "args": args}, HOME="/home/ana", EMPTY="")
    assert spec.args == ("/home/ana/notes", "./a-default", "./another")
    assert spec.secrets == ()


def test_invalid_json_is_located_by_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{\n  "mcpServers": {\n    "a": oops\n  }\n}')
    with pytest.raises(ConfigSyntaxError) as caught:
        load_config(path, tmp_path, {})
    assert str(caught.value).startswith(f"{path} is not valid JSON: line 3, column 10: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", "must hold a JSON object"),
        (b'{"tools": 1}', "has no object 'mcpServers' (it has tools)"),
        (b"{}", "has no object 'mcpServers' (it has nothing)"),
        (b'{"x\\ud800": 1}', "has no object 'mcpServers' (it has x\\ud800)"),
        (b'{"mcpServers": 1}', "has mcpServers, which is neither object nor list; expected"),
        (b'{"mcpServers": {"a": {}, "a": {}}}', "has the key 'a' twice in one object"),
        (b"\xff{}", "cannot be read"),
        (b'{"mcpServers": {"a": ' + b"9" * 5000 + b"}}", "cannot be read"),
        (b'{"mcpServers": ' + b"[" * 100_000, "is nested too deeply"),
        (b" " * (MAX_FILE_BYTES + 1), f"has {MAX_FILE_BYTES + 1} bytes; at most"),
        (b"", "is empty; expected {"),
        (b"\xef\xbb\xbf \n", "is empty; expected {"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_configuration_is_refused_with_its_name(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(ConfigSyntaxError) as caught:
        load_config(path, tmp_path, {})
    assert str(caught.value).startswith(f"{path} {message}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    *("command", "args", "env", "cwd", "url", "serverUrl", "httpUrl", "headers", "type"),
    *("transport", "includeTools", "excludeTools", "disabled", "protocol"),
]
TEXTS = st.sampled_from(["${A}", "${A:-b}", "~nobody/x", "http://h", "\ud800", "a\0b", "stdio"])
SERVER = st.dictionaries(st.sampled_from(KEYS), JSON | TEXTS | st.lists(TEXTS, max_size=2))
DOCUMENT = JSON | st.fixed_dictionaries({"mcpServers": st.dictionaries(st.text(), SERVER | JSON)})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(document=DOCUMENT, set_a=st.booleans())
def test_any_json_is_either_a_configuration_or_a_configuration_error(
    tmp_path: Path, document: Any, *, set_a: bool
) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(document))
    try:
        config = load_config(path, tmp_path, {"A": "\udce9"} if set_a else {})
    except ConfigError:
        return
    section = document["mcpServers" if "mcpServers" in document else "servers"]
    comments = [n for n, e in section.items() if n[:1] in "_/#$" and not isinstance(e, dict)]
    comments = [name for name in comments if name]
    assert len(config.servers) + len(config.problems) == len(section) - len(comments)
    for spec in config.servers:
        assert len(spec.digest) == 64
    for problem in config.problems:
        assert str(path) in str(problem)
    assert len(config.key) == len(config.servers_hash) == 16


# What is derived from it


@pytest.mark.requirement("cache:name")
def test_the_hash_is_that_of_the_sorted_names_of_the_enabled_servers(tmp_path: Path) -> None:
    servers = {"time": GOOD, "Ärger": GOOD, "git": GOOD, "off": {"disabled": True}, "bad": {}}
    expected = hashlib.sha256('["git","time","Ärger"]'.encode()).hexdigest()[:16]
    assert read(tmp_path, servers).servers_hash == expected
    assert read(tmp_path, dict(reversed(servers.items()))).servers_hash == expected
    assert read(tmp_path, {"git": GOOD}).servers_hash != expected


def test_the_key_stands_for_the_first_file_however_it_is_spelled(tmp_path: Path) -> None:
    a, b = tmp_path / "a" / "c.json", Path("/b/caf\udce9.json")
    assert len({key_of((a,)), key_of((b,))}) == 2
    assert key_of((a, b)) == key_of((a,)) == Config((a,)).key
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert key_of((tmp_path / "link" / ".." / "a" / "c.json",)) == key_of((a,))
    assert all(len(key) == 16 for key in (key_of((a,)), key_of((b,))))


def test_the_files_can_be_located_without_reading_them(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home")}
    assert locate(Path("gone.json"), tmp_path, home) == (tmp_path / "gone.json",)
    with pytest.raises(ConfigMissingError, match="create one"):
        locate(None, tmp_path, home)
    (tmp_path / ".toolscript.json").write_text("{ not JSON")
    assert locate(None, tmp_path, home) == (tmp_path / ".toolscript.json",)
