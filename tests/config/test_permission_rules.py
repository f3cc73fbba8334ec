"""Rules about calls: how they are read, and which one counts."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from toolscript.config.permission_rules import (
    PermissionProfile,
    RuleError,
    decide,
    rules_of,
    sources_for,
    sources_of,
)
from toolscript.config.servers import load_config
from toolscript.errors import ConfigSyntaxError
from toolscript.gateway.definitions.normal_form import definition_digest
from toolscript.types import (
    EVERYTHING,
    Decision,
    Grant,
    PermissionRule,
    ServerSpec,
    ToolClass,
    ToolSpec,
)

HINTS: dict[ToolClass, dict[str, bool]] = {
    "read": {"readOnlyHint": True},
    "write": {"destructiveHint": False},
    "destructive": {},
}


def tool(identifier: str, tool_class: ToolClass = "write") -> ToolSpec:
    server, _, name = identifier.partition("__")
    return ToolSpec(server=server, name=name, annotations=HINTS[tool_class])


def decision(rules: dict[str, str], of: ToolSpec, server: dict[str, str] | None = None) -> str:
    read = (*rules_of(rules, "permissions"), *rules_of(server, "git.permissions", "git"))
    rule = decide([read], of.id, of.tool_class)
    return rule.decision if rule else "none"


@pytest.mark.parametrize(
    ("annotations", "tool_class"),
    [
        (None, "destructive"),
        ({}, "destructive"),
        ({"readOnlyHint": False}, "destructive"),
        ({"readOnlyHint": True}, "read"),
        ({"readOnlyHint": True, "destructiveHint": True}, "read"),
        ({"destructiveHint": False}, "write"),
        ({"destructiveHint": True}, "destructive"),
        ({"readOnlyHint": "true"}, "destructive"),
        ({"destructiveHint": 0}, "destructive"),
    ],
)
def test_the_class_of_a_tool_is_what_its_hints_say_with_the_defaults_of_mcp(
    annotations: dict[str, Any] | None, tool_class: str
) -> None:
    tool = ToolSpec(server="s", name="t", annotations=annotations)
    assert (tool.tool_class, tool.class_source) == (
        tool_class,
        "server" if annotations else "guess",
    )


@pytest.mark.parametrize(
    ("annotations", "config_class", "expected"),
    [
        (None, None, ("read", "guess")),
        ({"title": "Get it", "readOnlyHint": None}, None, ("read", "guess")),
        ({"idempotentHint": True}, None, ("read", "guess")),
        ({"readOnlyHint": False}, None, ("destructive", "server")),
        ({"destructiveHint": True}, None, ("destructive", "server")),
        ({"destructiveHint": False}, None, ("write", "server")),
        ({"readOnlyHint": "true"}, None, ("destructive", "server")),
        (None, "destructive", ("destructive", "config")),
        ({"readOnlyHint": True}, "write", ("write", "config")),
        ({"destructiveHint": True}, "read", ("read", "config")),
    ],
)
def test_a_name_counts_only_if_the_server_says_nothing_and_the_user_counts_before_both(
    annotations: dict[str, Any] | None, config_class: ToolClass | None, expected: tuple[str, str]
) -> None:
    tool = ToolSpec(server="s", name="get_it", annotations=annotations, config_class=config_class)
    assert (tool.tool_class, tool.class_source) == expected


def test_the_class_of_the_configuration_is_no_part_of_the_definition() -> None:
    tool = ToolSpec(server="s", name="get_it")
    classified = structs.replace(tool, config_class="write")
    assert (classified.digest, classified) == (tool.digest, classified)
    assert definition_digest(classified) == definition_digest(tool)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ({}, None),
        ({"get_*": "read"}, None),
        ({"run_*": "write"}, "write"),
        ({"*": "read", "run_*": "write"}, "write"),
        ({"run_*": "write", "run_it": "read"}, "read"),
        ({"run_*": "read", "*n_it": "write"}, "write"),
        ({"run_??": "destructive", "run_*": "read"}, "destructive"),
        ({"run_*": "read", "run_??": "destructive"}, "destructive"),
    ],
)
def test_the_most_specific_pattern_gives_the_class(
    classes: dict[str, ToolClass], expected: ToolClass | None
) -> None:
    assert ServerSpec(name="s", transport="stdio", classes=classes).class_of("run_it") == expected


@pytest.mark.parametrize(
    ("rules", "of", "expected"),
    [
        ({}, tool("git__push"), "none"),
        ({"*": "deny"}, tool("git__push"), "deny"),
        ({"*": "deny", "write": "allow"}, tool("git__push"), "allow"),
        ({"write": "deny", "git__*": "allow"}, tool("git__push"), "allow"),
        ({"git__*": "allow", "git__pu*": "deny"}, tool("git__push"), "deny"),
        ({"git__pu*": "deny", "git__push": "ask"}, tool("git__push"), "ask"),
        ({"git__push": "ask", "git__pus?": "deny"}, tool("git__push"), "ask"),
        ({"git__*h": "allow", "git__p*": "deny"}, tool("git__push"), "deny"),
        ({"read": "deny"}, tool("git__push"), "none"),
        ({"destructive": "deny"}, tool("git__reset", "destructive"), "deny"),
        ({"*__delete*": "deny"}, tool("files__delete_all"), "deny"),
        ({"*": "allow", "files:delete_*": "deny"}, tool("files__delete_all"), "deny"),
    ],
)
def test_the_most_specific_rule_counts(rules: dict[str, str], of: ToolSpec, expected: str) -> None:
    assert decision(rules, of) == expected
    assert decision(dict(reversed(rules.items())), of) == expected


def test_a_servers_entry_is_about_its_own_tools() -> None:
    entry = {"destructive": "deny", "push": "ask", "re*": "allow"}
    assert decision({"*": "allow"}, tool("git__gc", "destructive"), entry) == "deny"
    assert decision({"destructive": "allow"}, tool("git__gc", "destructive"), entry) == "deny"
    assert decision({}, tool("git__push"), entry) == "ask"
    assert decision({}, tool("git__reset", "destructive"), entry) == "allow"
    assert decision({}, tool("files__push"), entry) == "none"


def test_a_servers_name_with_marks_of_patterns_means_itself() -> None:
    rules = rules_of({"*": "deny"}, "x", "a*b")
    assert decide([rules], "a*b__t", "read") is not None
    assert decide([rules], "aXb__t", "read") is None


def test_of_several_sources_the_strictest_counts() -> None:
    allow, ask, deny = (rules_of({"*": each}, each) for each in ("allow", "ask", "deny"))
    assert _decided([allow, ask]) == "ask"
    assert _decided([deny, allow]) == "deny"
    assert _decided([(), allow]) == "allow"


def _decided(sources: list[tuple[PermissionRule, ...]]) -> Decision:
    rule = decide(sources, "git__push", "write")
    assert rule is not None
    return rule.decision


def test_a_profile_that_is_not_configured_denies_everything() -> None:
    grant = Grant(servers=("*",), profiles=("careful", "gone"))
    sources = sources_for(
        ((),), {"careful": PermissionProfile(rules_of({"*": "allow"}, "careful"))}, grant
    )
    rule = decide(sources, "git__status", "read")
    assert rule is not None
    assert (rule.decision, "'gone', which is not configured" in rule.origin) == ("deny", True)
    assert decide(sources_for(((),), {}, EVERYTHING), "git__status", "read") is None


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"git__*": "alow"}, r"permissions.git__\* is 'alow'; expected one of allow, ask, deny"),
        ({"destructve": "deny"}, "the key 'destructve'; expected read, write, destructive, an id"),
        ({"*": {"a": 1}}, r"permissions.\* is dict; expected one of"),
        (["deny"], "permissions is list; expected an object of rules"),
        ("deny", "permissions is 'deny'; expected an object of rules"),
        ({f"a__{n}": "ask" for n in range(1001)}, "has 1001 rules; at most 1000 are read"),
    ],
)
def test_a_wrong_rule_is_said(rules: Any, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        rules_of(rules, "permissions")


@pytest.mark.parametrize(
    ("name", "decided"),
    [
        ("git__status", "allow"),
        ("git__commit", "ask"),
        ("git__reset", "deny"),
        ("sqlite__read", "deny"),
        ("mail__send", "ask"),
        ("files__read", "none"),
    ],
)
def test_rules_in_the_shape_of_claude_code_count(name: str, decided: str) -> None:
    """The strictest list that names a tool counts, however general its name is."""
    raw = {
        "allow": ["mcp__git__status", "mcp__git__commit", "mcp__git__reset", "mcp__sqlite__read"],
        "ask": ["mcp__git__commit"],
        "deny": ["mcp__git__reset", "mcp__sqlite"],
        "mail__*": "ask",
    }
    rule = decide(sources_of(raw, "permissions"), name, "write")
    assert (rule.decision if rule else "none") == decided


@pytest.mark.parametrize("names", [["Bash(rm *)"], [1], [["git__push"]], ["git"]])
def test_a_name_that_is_no_tool_of_a_server_is_said(names: list[Any]) -> None:
    with pytest.raises(RuleError, match="expected read, write, destructive, an id such as"):
        sources_of({"deny": names}, "permissions")


def configured(folder: Path, document: dict[str, Any]) -> Any:
    path = folder / "config.json"
    path.write_text(json.dumps(document), "utf-8")
    return load_config(path, folder, {})


def test_a_configuration_has_rules_and_profiles(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        {
            "mcpServers": {"git": {"command": "git", "permissions": {"push": "ask"}}},
            "permissions": {"destructive": "deny"},
            "profiles": {"reader": {"permissions": {"*": "deny", "read": "allow"}}},
        },
    )
    assert config.permissions == (
        (
            PermissionRule("*", "deny", "destructive", "permissions"),
            PermissionRule("git__push", "ask", None, "git.permissions"),
        ),
    )
    assert [rule.decision for rule in config.profiles["reader"].rules] == ["deny", "allow"]


def test_a_server_with_a_wrong_rule_is_not_used(tmp_path: Path) -> None:
    servers = {"git": {"command": "git", "permissions": {"push": "never"}}, "ok": {"command": "x"}}
    config = configured(tmp_path, {"mcpServers": servers})
    assert [spec.name for spec in config.servers] == ["ok"]
    assert "git.permissions.push is 'never'" in config.problems[0].message


@pytest.mark.parametrize(
    "more",
    [
        {"permissions": {"git": "deny"}},
        {"permissions": []},
        {"profiles": []},
        {"permisions": {"*": "deny"}},
        {"skils": [], "Profile": {}},
        {"profiles": {"a": []}},
        {"profiles": {"a": {"servers": ["ok"]}}},
        {"profiles": {"a": {"tools": ["ok"], "description": "for a review"}}},
        {"profiles": {"a": {"permissions": {"x": "deny"}}}},
    ],
)
def test_a_wrong_rule_for_all_stops_the_file_from_being_used(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    with pytest.raises(ConfigSyntaxError):
        configured(tmp_path, {"mcpServers": {"ok": {"command": "x"}}, **more})


def test_an_automatic_approval_is_not_another_clients_list(tmp_path: Path) -> None:
    servers = {
        "ours": {"command": "x", "autoApprove": True},
        "theirs": {"command": "x", "autoApprove": ["read_file"]},
        "wrong": {"command": "x", "autoApprove": "yes"},
    }
    config = configured(tmp_path, {"mcpServers": servers})
    assert {spec.name: spec.auto_approve for spec in config.servers} == {
        "ours": True,
        "theirs": False,
    }
    assert [problem.server for problem in config.problems] == ["wrong"]
