"""A client's rules about a server's tools become rules of toolscript that allow no more."""

import itertools
import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from toolscript.config.clients import CLIENTS
from toolscript.config.imported_rules import StatedRule, read_rules, rules_about, settle
from toolscript.config.permission_rules import decide, is_in_force, rules_of, strictness
from toolscript.errors import ConfigSyntaxError
from toolscript.types import DECISIONS, Decision

BY_NAME = {client.name: client for client in CLIENTS}
FILES = {
    "claude-code": ".claude/settings.json",
    "cursor": ".cursor/cli-config.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/opencode.jsonc",
    "zed": ".config/zed/settings.json",
}


def stated(client: str, document: dict[str, Any], home: Path, place: str = "") -> list[StatedRule]:
    path = home / (place or FILES[client])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"// mine\n{json.dumps(document)}", "utf-8")
    return [*read_rules(BY_NAME[client], home, home / "shop")]


def claude(**lists: Any) -> dict[str, Any]:
    return {"permissions": {key: [value] for key, value in lists.items()}}


ROWS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("claude-code", claude(deny="mcp__git__push"), {"push": "deny"}),
    ("claude-code", claude(ask="mcp__git"), {"*": "ask"}),
    ("claude-code", claude(allow="mcp__git__*"), {"*": "allow"}),
    ("claude-code", claude(allow="mcp__git__get_*"), {"get_*": "allow"}),
    (
        "claude-code",
        claude(ask="mcp__*__push"),
        {"push": "ask", "_push": "ask", "*__push": "ask"},
    ),
    ("claude-code", claude(deny="mcp__gi*"), {"*": "deny"}),
    ("claude-code", claude(deny="mcp__git__push(force:*)"), {"push": "deny"}),
    ("claude-code", claude(deny="mcp__git__read"), {"[r]ead": "deny"}),
    # What it says of our own tools, too, of others, or does not allow.
    ("claude-code", claude(deny="mcp__*"), {}),
    ("claude-code", claude(ask="*"), {}),
    ("opencode", {"permission": "ask"}, {}),
    ("claude-code", claude(allow="mcp__*"), {}),
    ("claude-code", claude(allow="mcp__gi*"), {}),
    ("claude-code", claude(allow="mcp__git__push(a:*)"), {}),
    ("claude-code", claude(deny="mcp__github__push", ask="Bash(git:*)", allow="git"), {}),
    ("claude-code", {"permissions": {"deny": "mcp__git", "allow": [1]}}, {}),
    ("opencode", {"permission": ["git_push"], "tools": None}, {}),
    # Of several that fit a tool the strictest counts.
    ("claude-code", claude(deny="mcp__git__push", allow="mcp__git__push"), {"push": "deny"}),
    ("claude-code", claude(deny="mcp__git", allow="mcp__git__push"), {"*": "deny"}),
    ("claude-code", claude(deny="mcp__git__p*", ask="mcp__git"), {"p*": "deny", "*": "ask"}),
    ("claude-code", claude(deny="mcp__git__*_b", allow="mcp__git__aa_*"), {"*_b": "deny"}),
    (
        "claude-code",
        claude(deny="mcp__git__*_b", ask="mcp__git__aa_*"),
        {"*_b": "deny", "aa_*": "deny"},
    ),
    ("cursor", claude(deny="Mcp(git:push)"), {"push": "deny"}),
    ("cursor", claude(allow="Mcp(git, pull)"), {"pull": "allow"}),
    ("cursor", claude(deny="Mcp(*:push)"), {"push": "deny", "*:push": "deny"}),
    ("cursor", claude(deny="Shell(git)", allow="Mcp(*:*)"), {}),
    ("cursor", {"mcpAllowlist": ["git:pull", "*:push"]}, {"pull": "allow"}),
    ("gemini", {"tools": {"exclude": ["push", "write_file"]}}, {"push": "deny"}),
    ("gemini", {"tools": {"exclude": ["git__push"]}}, {"push": "deny", "git__push": "deny"}),
    ("gemini", {"tools": {"allowed": ["mcp_git_pull", "push"]}}, {"pull": "allow"}),
    ("opencode", {"permission": {"git_push": "ask", "github_x": "deny"}}, {"push": "ask"}),
    ("opencode", {"permission": "allow"}, {}),
    ("opencode", {"permission": {"git_push": {"*": "allow", "-f": "deny"}}}, {"push": "deny"}),
    ("opencode", {"tools": {"git_push": False, "git_pull": True}}, {"push": "deny"}),
    ("opencode", {"tools": {"git*": False}}, {"*": "deny"}),
    # The last one that fits counts, unless one denies.
    ("opencode", {"permission": {"*": "ask", "git_*": "allow"}}, {"*": "allow"}),
    ("opencode", {"permission": {"git_a": "ask", "git_*": "allow"}}, {"*": "allow"}),
    (
        "opencode",
        {"permission": {"*": "ask", "git_*": "ask", "git_a": "allow"}},
        {"*": "ask", "a": "allow"},
    ),
    (
        "opencode",
        {"permission": {"git_a": "deny", "git_*": "allow"}},
        {"*": "allow", "a": "deny"},
    ),
    (
        "zed",
        {"agent": {"tool_permissions": {"tools": {"mcp:git:push": {"default": "confirm"}}}}},
        {"push": "ask"},
    ),
]


@pytest.mark.requirement("setup:safe")
@pytest.mark.parametrize(("client", "document", "rules"), ROWS)
def test_a_rule_becomes_ours(
    client: str, document: dict[str, Any], rules: dict[str, str], tmp_path: Path
) -> None:
    assert rules_about("git", stated(client, document, tmp_path))[0] == rules


@pytest.mark.requirement("setup:safe")
@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        ('mcpName = "git"\ntoolName = ["push", "pull"]', {"push": "deny", "pull": "deny"}),
        ('mcpName = "git"', {"*": "deny"}),
        ('mcpName = "*"\ntoolName = "push"', {"push": "deny", "*_push": "deny"}),
        ('toolName = "mcp_git_push"\nargsPattern = "main"', {"push": "deny"}),
        ('toolName = "mcp_git_push"\nmodes = ["plan"]', {}),
        ('toolName = "run_shell_command"\ncommandPrefix = "git"', {}),
        ('toolName = "*"', {}),
    ],
)
def test_a_policy_becomes_ours(policy: str, rules: dict[str, Decision], tmp_path: Path) -> None:
    path = tmp_path / ".gemini/policies/mine.toml"
    path.parent.mkdir(parents=True)
    for word, decision in (("deny", "deny"), ("ask_user", "ask"), ("allow", "allow")):
        path.write_text(f'[[rule]]\n{policy}\ndecision = "{word}"\npriority = 1\n', "utf-8")
        found = [*read_rules(BY_NAME["gemini"], tmp_path, tmp_path / "shop")]
        is_vague = word == "allow" and ('mcpName = "*"' in policy or "Pattern" in policy)
        expected = {} if is_vague else dict.fromkeys(rules, decision)
        assert rules_about("git", found)[0] == expected


def test_a_client_writes_a_name_with_other_characters(tmp_path: Path) -> None:
    rules = stated("claude-code", claude(deny="mcp__my_server_1__x"), tmp_path)
    assert rules_about("my server.1", rules)[0] == {"x": "deny"}


@pytest.mark.requirement("setup:safe")
@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_a_project_may_deny_and_not_allow(name: str, tmp_path: Path) -> None:
    lists = claude(deny="mcp__git__push", allow="mcp__git__pull")
    found = stated("claude-code", lists, tmp_path, f"shop/.claude/{name}")
    rules, [line] = rules_about("git", found)
    assert rules == {"push": "deny"}
    assert line == (
        f"{tmp_path}/shop/.claude/{name} has 'mcp__git__pull' in permissions.allow, "
        "which is not taken over from a project"
    )
    found = stated("claude-code", lists, tmp_path)
    assert rules_about("git", found, may_allow=False)[0] == {"push": "deny"}


@pytest.mark.requirement("setup:safe")
@pytest.mark.parametrize(
    ("matcher", "is_lost"),
    [
        ("mcp__git__.*", True),
        ("mcp__git__push|Bash", True),
        ("mcp__(git|memory)__.*", True),
        ("^mcp__git", True),
        ("mcp__.*__push.*", True),
        ("mcp__.*__(push|pull)_.*", True),
        (".*push.*", True),
        ("mcp__git__(", True),
        ("mcp__github__.*", False),
        ("mcp__memory__.*", False),
        ("Bash|Edit", False),
        ("Notebook.*", False),
        ("(", False),
        # These see the calls of our own tools.
        ("mcp__.*", False),
        ("mcp__git__.*|mcp__toolscript__.*", False),
        ("*", False),
        ("", False),
    ],
)
def test_a_hook_that_starts_no_more_is_named(
    *, matcher: str, is_lost: bool, tmp_path: Path
) -> None:
    hooks: dict[str, Any] = {
        "PreToolUse": [{"matcher": matcher, "hooks": []}],
        "Stop": [{"matcher": "x"}],
    }
    rules, lines = rules_about("git", stated("claude-code", {"hooks": hooks}, tmp_path))
    assert rules == {}
    assert len(lines) == is_lost
    for line in lines:
        assert f"{matcher!r} in hooks.PreToolUse" in line
        assert f'the matcher "{matcher}|mcp__toolscript__.*"' in line
        assert 'the rule "*": "ask"' in line


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    stated("claude-code", {}, tmp_path)
    path = tmp_path / FILES["claude-code"]
    path.write_text("{", "utf-8")
    with pytest.raises(ConfigSyntaxError, match=r"settings\.json"):
        list(read_rules(BY_NAME["claude-code"], tmp_path, tmp_path))
    path.write_text(" ", "utf-8")
    assert not [*read_rules(BY_NAME["claude-code"], tmp_path, tmp_path)]


PATTERNS = ("*", "a*", "*b", "ab", "a?b", "b*", "a*b")
NAMES = ("a", "b", "ab", "aab", "bb", "ba", "axb")


@pytest.mark.requirement("setup:safe")
@pytest.mark.parametrize("in_order", [False, True])
def test_settled_rules_allow_no_more(*, in_order: bool) -> None:
    """Every three rules, against the rule as its client reads it."""
    pairs: list[tuple[str, Decision]] = [*itertools.product(PATTERNS, DECISIONS)]
    for rules in itertools.product(pairs, repeat=3):
        settled = settle(rules, in_order=in_order)
        ours = rules_of(settled, "permissions", "s")
        for name in NAMES:
            theirs: list[Decision] = [
                decision for pattern, decision in rules if fnmatchcase(name, pattern)
            ]
            if not theirs:
                continue
            meant = theirs[-1] if in_order else max(theirs, key=strictness)
            rule = decide([ours], f"s__{name}", "read")
            assert strictness(rule.decision if rule else "allow") >= strictness(meant), rules


def test_a_rule_is_in_force_if_it_is_for_every_class() -> None:
    ours = [rules_of({"destructive": "deny", "a*": "ask"}, "permissions", "s")]
    rows: list[tuple[str, Decision, bool]] = [
        ("s__x", "ask", False),
        ("s__a", "ask", True),
        ("s__a*", "deny", False),
    ]
    assert [is_in_force(ours, name, decision) for name, decision, _ in rows] == [
        expected for _, _, expected in rows
    ]
