"""config:file: every clause of it."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import trust
from toolscript.config.entry import REASON
from toolscript.config.locations import FILE_NAME, key_of, locate
from toolscript.config.servers import Config, load_config
from toolscript.config.trust import MAX_FILE_BYTES
from toolscript.errors import ConfigError, ConfigMissingError, ConfigSyntaxError
from toolscript.types import ServerSpec

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
    problems = read(tmp_path, dict.fromkeys(("Toolscript", "toolscript: trusted"), entry)).problems
    assert ["in names that begin with its" in str(each) for each in problems] == [True] * 2


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
@pytest.mark.parametrize("section", ["mcpServers", "servers"])
def test_the_section_is_spelled_as_clients_spell_it(tmp_path: Path, section: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"other": 1, section: {"time": GOOD}}), "utf-8-sig")
    assert names(load_config(path, tmp_path, {})) == ["time"]


def test_yaml_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("mcpServers:\n  a: {command: x}\n", "utf-8")
    with pytest.raises(ConfigSyntaxError, match="is YAML, which is not read; write it as JSON"):
        load_config(path, tmp_path, {})
    path.write_text('{"mcpServers": {"a": {"command": "x"}}}', "utf-8")
    assert names(load_config(path, tmp_path, {})) == ["a"]


# Mistakes

NAMES = {
    "a__b": "a name may not contain '__' or end in '_'",
    "it_": "a name may not contain '__' or end in '_'",
    " ": "the name is empty; give the server a name",
    "a\nb": "the name has characters that cannot be shown",
}


@pytest.mark.requirement("config:file")
@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        ("it", {"command": 1}, "command is 1; expected a string"),
        *((name, GOOD, message) for name, message in NAMES.items()),
    ],
    ids=ascii,
)
def test_a_mistake_names_file_and_server_and_costs_only_that_server(
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


def document(path: Path, content: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(content), "utf-8")
    return path


def not_known(wrong: str, right: str) -> str:
    return f"the key {wrong!r} is not known; did you mean {right!r}?"


def test_misspelt_keys_of_both_files_are_reported_and_disable_no_server(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "h").mkdir()
    environ = {"HOME": str(tmp_path / "h")}
    servers = {"mcpServers": {"time": GOOD}}
    for wrong, right in [
        *(("mcpServer", "mcpServers"), ("Mcp_Servers", "mcpServers"), ("server", "servers")),
        *(("skils", "skills"), ("skill", "skills"), ("isuer", "issuer")),
    ]:
        project = document(tmp_path / "p" / FILE_NAME, {**servers, wrong: {"a": 1}})
        user = document(tmp_path / "h" / FILE_NAME, {**servers, wrong: []})
        config = load_config(None, tmp_path / "p", environ, trust(tmp_path, project))
        assert (names(config), config.problems) == (["time"], ())
        told = not_known(wrong, right)
        assert config.key_problems == (f"{project}: {told}", f"{user}: {told}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"permision": {}}, not_known("permision", "permissions")),
        ({"Profiles": {}}, not_known("Profiles", "profiles")),
        (
            {"profiles": {"reader": {"permissons": {"write": "deny"}}}},
            f"profiles.reader: {not_known('permissons', 'permissions')}",
        ),
    ],
)
def test_a_misspelt_key_of_rules_stops_the_file_from_being_used(
    tmp_path: Path, content: Mapping[str, Any], message: str
) -> None:
    """config:file: a rule that is not read might have denied something."""
    path = document(tmp_path / "c.json", {"mcpServers": {"time": GOOD}, **content})
    with pytest.raises(ConfigSyntaxError, match=f"{re.escape(f'{path}: {message}')}$"):
        load_config(path, tmp_path, {})


@pytest.mark.parametrize("also", [{}, {"skills": ["s"]}])
@pytest.mark.parametrize(
    ("wrong", "right"),
    [("mcpserver", "mcpServers"), ("sevrers", "servers"), ("contextServers", "context_servers")],
)
def test_a_misspelt_section_is_an_error_that_names_the_right_one(
    tmp_path: Path, wrong: str, right: str, also: dict[str, Any]
) -> None:
    path = document(tmp_path / "c.json", {wrong: {"time": GOOD}, **also})
    with pytest.raises(ConfigSyntaxError) as caught:
        load_config(path, tmp_path, {})
    assert str(caught.value).startswith(f"{path} has no object 'mcpServers' (it has ")
    assert str(caught.value).endswith(not_known(wrong, right))


def test_keys_of_other_programs_beside_the_servers_are_ignored(tmp_path: Path) -> None:
    others = ["inputs", "$schema", "projects", "hooks", "globalShortcut", "preferences", "theme"]
    content: dict[str, Any] = {
        "mcpServers": {"time": GOOD},
        "skills": [],
        **dict.fromkeys(others, 1),
    }
    config = load_config(document(tmp_path / "c.json", content), tmp_path, {})
    assert (names(config), config.key_problems) == (["time"], ())


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
