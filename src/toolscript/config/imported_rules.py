"""Reads the rules about tools in other clients' settings, as rules of toolscript.

A client's rules name tools as it shows them to a model, such as ``mcp__git__push``. Once a server
has moved, the client shows no such name, and its rule decides nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from toolscript.config.clients import ClientFile
from toolscript.config.file_parser import parsed
from toolscript.config.permission_rules import key_of, strictness
from toolscript.config.trust import read_file
from toolscript.storage.atomic_files import is_file
from toolscript.text.json_values import as_list, as_object
from toolscript.types import DECISIONS, Decision

_WORDS: dict[str, Decision] = {
    **{each: each for each in DECISIONS},
    **dict.fromkeys(("allowed", "mcpAllowlist", "alwaysAllow", "autoApprove", "approve"), "allow"),
    **dict.fromkeys(("confirm", "prompt", "ask_user"), "ask"),
    **dict.fromkeys(("exclude", "excludeTools", "False"), "deny"),
}
"""The words of all clients for a decision; opencode switches a tool off by ``false``."""
_LISTS = ("permissions.deny", "permissions.ask", "permissions.allow")
_WRAPPED = re.compile(r"Mcp\((.*)\)")
_OURS = "toolscript"
_CALLING = ("read_tool", "call_tool", "call_destructive_tool")


@dataclass(frozen=True, slots=True)
class _Dialect:
    """The rules of a client: their files, their places there, and the names of tools in them."""

    places: tuple[str, ...]
    """The keys to lists of names, each with its decision last, and to objects of decisions."""
    prefixes: tuple[str, ...]
    """The texts before a tool's name, with ``{}`` for the server's."""
    files: tuple[str, ...] = ()
    """Patterns of paths below the home directory and the project, beside the client's own file."""
    own_tools: frozenset[str] = frozenset()
    """The names of the client's own tools, which no server's tool is meant by."""
    is_ordered: bool = False
    """Whether the last rule that fits a tool counts, and not the strictest."""


_GEMINI = _Dialect(
    (*_LISTS, "tools.exclude", "excludeTools", "tools.allowed", "rule"),
    ("mcp_{}_", "mcp__{}__", "{}__", ""),
    (".gemini/settings.json", ".gemini/policies/*.toml"),
    own_tools=frozenset(
        """
        run_shell_command write_file replace edit read_file read_many_files glob grep_search
        search_file_content list_directory web_fetch google_web_search save_memory write_todos
        """.split()  # noqa: SIM905 - a list of words reads best as words
    ),
)
_CLAUDE_FILES = (".claude/settings.json", ".claude/settings.local.json")
_CURSOR_FILES = (".cursor/cli-config.json", ".cursor/cli.json", ".cursor/permissions.json")
_OPENCODE_FILES = ("opencode.json", "opencode.jsonc")
_DIALECTS = {
    # https://code.claude.com/docs/en/permissions
    "claude-code": _Dialect(_LISTS, ("mcp__{}__",), _CLAUDE_FILES),
    # https://cursor.com/docs/cli/reference/permissions and docs/reference/permissions
    "cursor": _Dialect((*_LISTS, "mcpAllowlist"), ("{}:", "{}, "), _CURSOR_FILES),
    # https://geminicli.com/docs/reference/configuration and policy-engine
    "gemini": _GEMINI,
    # https://opencode.ai/docs/permissions
    "opencode": _Dialect(("permission", "tools"), ("{}_",), _OPENCODE_FILES, is_ordered=True),
    # https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings
    "qwen": replace(_GEMINI, files=(".qwen/settings.json",)),
    # https://zed.dev/docs/ai/tool-permissions
    "zed": _Dialect(("agent.tool_permissions.tools",), ("mcp:{}:",)),
}


@dataclass(frozen=True, slots=True)
class StatedRule:
    """A rule in a client's file, or a hook, which runs a program at a call."""

    path: Path
    place: str
    """The keys to it."""
    name: str
    """The tool, or a pattern of tools, in the client's words; a hook's matcher."""
    decision: Decision | None
    """None for a hook."""
    is_project: bool
    dialect: _Dialect

    def __str__(self) -> str:
        return f"{self.path} has {self.name!r:.80} in {self.place}"

    def prefixes(self, server: str) -> tuple[str, ...]:
        """Returns the texts before the names of a server's tools, without odd characters too."""
        names = (re.sub(r"[^A-Za-z0-9_-]", "_", server), server)
        return tuple(each.format(name) for each in self.dialect.prefixes for name in names)

    def patterns(self, server: str) -> set[str]:
        """Returns the patterns of a server's tools that it is about.

        There is none for a hook, and for a rule that is about all of ours: the client keeps it.
        """
        if server != _OURS and "*" in self.patterns(_OURS):
            return set()
        wrapped = _WRAPPED.fullmatch(self.name)
        text, condition, _ = (wrapped[1] if wrapped else self.name).partition("(")
        if self.decision is None or (condition and self.decision == "allow"):
            return set()
        found: set[str] = set()
        for prefix in self.prefixes(server):
            if f"{text}__" == prefix and text.startswith("mcp__"):
                found.add("*")
            elif text.startswith(prefix or "\0") or self.decision != "allow":
                found |= _remainders(text, prefix)
        found -= {text} if text.startswith("mcp_") else set()  # no server calls a tool so
        return found - self.dialect.own_tools - {""}

    def is_lost_hook(self, server: str) -> bool:
        """Whether it is a hook that may run at calls of a server, and runs at none of ours."""
        ours, prefix = (self.prefixes(each)[0] for each in (_OURS, server))
        words = ["", *re.findall(r"(?!mcp_)[a-z]\w*", self.name)]
        theirs = [f"{prefix}{word}{end}" for word in words for end in ("", "_")]
        theirs += [each for each in re.findall(r"mcp_\w+", self.name) if each.startswith(prefix)]
        is_ours = self.decision or any(self._runs_at(ours + tool) for tool in _CALLING)
        return not is_ours and any(map(self._runs_at, theirs))

    def _runs_at(self, tool: str) -> bool:
        """Whether a hook's matcher has a tool in its list, or fits it as a regular expression."""
        is_list = re.fullmatch(r"[\w|-]*", self.name)
        try:
            return bool((re.fullmatch if is_list else re.search)(self.name, tool))
        except re.error:
            return tool in self.name


def _remainders(pattern: str, prefix: str) -> set[str]:
    """Returns the patterns of the texts that, behind a prefix, fit a pattern."""
    places = {0}
    for letter in prefix:
        for place in sorted(places):
            places.add(len(pattern) - len(pattern[place:].lstrip("*")))
        stars = {each for each in places if pattern[each : each + 1] == "*"}
        places = stars | {n + 1 for n in places if pattern[n : n + 1] in {"?", letter}}
    return {pattern[each:] for each in places}


def read_rules(client: ClientFile, home: Path, cwd: Path) -> Iterator[StatedRule]:
    """Yields the rules in a client's files: the user's, and those of the present project.

    Raises `ConfigSyntaxError` for a file that cannot be read: its rules might deny something.
    """
    dialect = _DIALECTS.get(client.program, _Dialect((), ()))
    own, shared = ([p for f in dialect.files for p in sorted(top.glob(f))] for top in (home, cwd))
    own = [client.path(home, cwd), *own]
    for path in filter(is_file, dict.fromkeys([*own, *shared] if dialect.places else ())):
        data, _ = read_file(path)
        document = parsed(path, data) if data.strip() else {}
        for place in dialect.places:
            section: Any = document
            for key in place.split("."):
                section = as_object(section).get(key)
            for name, decision in decisions(place.rpartition(".")[2], section):
                yield StatedRule(path, place, name, decision, path not in own, dialect)
        for event, groups in as_object(document.get("hooks")).items():
            for matcher in (str(as_object(each).get("matcher", "")) for each in as_list(groups)):
                if "Tool" in event:
                    place = f"hooks.{event}"
                    yield StatedRule(path, place, matcher, None, path not in own, dialect)


def decisions(key: str, value: Any) -> Iterator[tuple[str, Decision]]:
    """Yields the names at a key, each with its decision, the strictest of several."""
    for item in as_list(value):
        if key in _WORDS:
            yield str(item), _WORDS[key]
        else:
            yield from _policy(as_object(item))
    for name, stated in ({"*": value} if isinstance(value, str) else as_object(value)).items():
        words = as_object(cast("object", stated)).values() or [stated]
        found: list[Decision] = [_WORDS[str(each)] for each in words if str(each) in _WORDS]
        if found:
            yield name, max(found, key=strictness)


def _policy(rule: dict[str, Any]) -> Iterator[tuple[str, Decision]]:
    """Yields the names in a rule of a policy of Gemini CLI; "(" is behind one with a condition."""
    names, decision = rule.get("toolName", "*"), _WORDS.get(str(rule.get("decision")))
    end = "(" if {"argsPattern", "commandPrefix", "commandRegex"} & rule.keys() else ""
    server = f"mcp_{rule['mcpName']}_" if "mcpName" in rule else ""
    if decision and "default" in rule.get("modes", ["default"]):
        for name in as_list(names) or [names]:
            yield f"{server}{name}{end}", decision


def rules_about(
    server: str, stated: Sequence[StatedRule], *, may_allow: bool = True
) -> tuple[dict[str, Decision], list[str]]:
    """Returns the rules about a server's tools as its entry has them, and a line for each other.

    Args:
        server: The server's name in the client's file.
        stated: The client's rules.
        may_allow: Whether one may allow anything. A project's never may.
    """
    rules: list[tuple[str, Decision]] = []
    lines: list[str] = []
    for rule in stated:
        found = sorted(rule.patterns(server))
        if rule.is_lost_hook(server):
            lines.append(
                f"{rule}, a hook that its calls start no more; give the server the rule "
                f'"*": "ask", or the hook the matcher "{rule.name}|mcp__toolscript__.*"'
            )
        elif found and rule.decision == "allow" and (rule.is_project or not may_allow):
            lines.append(f"{rule}, which is not taken over from a project")
        elif rule.decision:
            rules.extend((pattern, rule.decision) for pattern in found)
    settled = settle(rules, in_order=any(rule.dialect.is_ordered for rule in stated))
    return {key_of(name): decision for name, decision in settled.items()}, lines


def settle(rules: Iterable[tuple[str, Decision]], *, in_order: bool = False) -> dict[str, Decision]:
    """Returns rules of which the most specific counts, and which allow no more than given ones.

    Args:
        rules: Patterns of names with decisions, of which the strictest that fits counts.
        in_order: Whether the last that fits counts, unless one denies.
    """
    ranked = sorted(
        enumerate(rules),
        key=lambda each: (each[1][1] == "deny", each[0] if in_order else strictness(each[1][1])),
        reverse=True,
    )
    kept: dict[str, Decision] = {}
    for _, (pattern, decision) in ranked:
        stricter = [each for each in kept if strictness(kept[each]) > strictness(decision)]
        is_open = not any(_crosses(pattern, each) for each in stricter)
        if not any(_covers(each, pattern) for each in kept) and (is_open or decision == "ask"):
            kept[pattern] = decision if is_open else "deny"
    return kept


def _covers(pattern: str, other: str) -> bool:
    """Whether a pattern fits every name that another one fits."""
    longest = other.replace("*", "\0" * 200)  # no name is longer
    return pattern == other or fnmatchcase(longest, pattern)


def _crosses(one: str, other: str) -> bool:
    """Whether two patterns may fit the same name, and the first does not cover the second."""
    (head, *rest), (other_head, *other_rest) = (re.split("[*?]", each) for each in (one, other))
    is_near = head.startswith(other_head) or other_head.startswith(head)
    return bool(rest and other_rest and is_near and not _covers(one, other))
