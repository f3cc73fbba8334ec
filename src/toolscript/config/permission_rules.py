"""Reads the rules that allow, ask about and deny calls, and decides by them.

Of the rules of one source that are about a tool, the most specific one counts, and of equally
specific ones the strictest. Sources are each file of the configuration with its servers' entries,
each profile, and the caller's token: the strictest of their actions counts. So a profile and a
token can only take away.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, cast

import msgspec

from toolscript.errors import UnknownNameError
from toolscript.text.display import printable
from toolscript.types import (
    DECISIONS,
    EVERYTHING,
    SEPARATOR,
    TOOL_CLASSES,
    Decision,
    Grant,
    PermissionRule,
    ToolClass,
    as_id,
)

MAX_RULES = 1_000
_Names = Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_RULES)]


class PermissionProfile(msgspec.Struct, frozen=True):
    """A permission profile. It limits the tools that callers find and call; it gives nothing."""

    rules: tuple[PermissionRule, ...] = ()
    selection: Grant | None = None
    """The servers and tools that callers find; None for all."""


class RuleError(Exception):
    """A rule that cannot be read; the message says which, and the expected form."""


def rules_of(raw: Any, origin: str, server: str = "") -> tuple[PermissionRule, ...]:
    """Returns the rules of an object such as ``{"destructive": "ask", "git__*": "allow"}``.

    Keys are classes, ids of tools, and patterns of ids; in the entry of a ``server`` names of its
    tools and patterns of names. Raises `RuleError`.
    """
    if raw is None:
        return ()
    if not isinstance(raw, dict):
        raise RuleError(f"{origin} is {_show(raw)}; expected an object of rules")
    entries = cast("dict[str, Any]", raw)
    if len(entries) > MAX_RULES:
        raise RuleError(f"{origin} has {len(entries)} rules; at most {MAX_RULES} are read")
    return tuple(_rule(key, value, origin, server) for key, value in entries.items())


def sources_of(raw: Any, origin: str) -> tuple[tuple[PermissionRule, ...], ...]:
    """Returns the sources that an object of rules is, which may have the shape of Claude Code's.

    There the keys are decisions, and the values lists of names such as ``mcp__git__push`` and
    ``mcp__git``. The strictest list that names a tool counts, so each is a source of its own.
    Raises `RuleError`.
    """
    lists: dict[str, list[Any]] = {}
    if isinstance(raw, dict):
        entries = cast("dict[str, Any]", raw)
        lists = {key: entries[key] for key in DECISIONS if isinstance(entries.get(key), list)}
        raw = {key: value for key, value in entries.items() if key not in lists}
    named = (
        rules_of({_pattern_of(name): decision for name in names}, f"{origin}.{decision}")
        for decision, names in lists.items()
    )
    return (*named, rules_of(raw, origin))


def _pattern_of(name: Any) -> str:
    """Returns the key of a rule for an element of a list."""
    text = name if isinstance(name, str) else ""
    own = text.removeprefix("mcp__")
    return f"{own}{SEPARATOR}*" if own != text and SEPARATOR not in own else own


def _rule(key: str, value: Any, origin: str, server: str) -> PermissionRule:
    if value not in DECISIONS:
        expected = ", ".join(DECISIONS)
        example = f'such as {{"git{SEPARATOR}push": "deny"}}'
        raise RuleError(f"{origin}.{key} is {_show(value)}; expected one of {expected}, {example}")
    every = f"{literal(server)}{SEPARATOR}*" if server else "*"
    if key in TOOL_CLASSES:
        return PermissionRule(every, value, key, origin)
    if not server and key != "*" and SEPARATOR not in as_id(key):
        raise RuleError(
            f"{origin} has the key {key[:60]!r}; expected {', '.join(TOOL_CLASSES)}, "
            f"an id such as git{SEPARATOR}push, or a pattern such as git{SEPARATOR}*"
        )
    pattern = f"{literal(server)}{SEPARATOR}{key}" if server else as_id(key)
    return PermissionRule(pattern, value, None, origin)


def decide(
    sources: Iterable[Iterable[PermissionRule]], identifier: str, tool_class: ToolClass
) -> PermissionRule | None:
    """Returns the rule that counts for a tool; None if no source says anything.

    Args:
        sources: See `sources_for`.
        identifier: The tool's id; ``server__*`` for the rules of all tools of a server.
        tool_class: The tool's class.
    """
    found = (_most_specific(rules, identifier, tool_class) for rules in sources)
    deciding = [rule for rule in found if rule is not None and rule.decides(identifier)]
    return max(deciding, key=lambda rule: strictness(rule.decision), default=None)


def is_in_force(
    sources: Iterable[Iterable[PermissionRule]], identifier: str, decision: Decision
) -> bool:
    """Whether sources decide about a tool, of whatever class, at least as strictly as that."""
    for each in TOOL_CLASSES:
        rule = decide(sources, identifier, each)
        if strictness(rule.decision if rule else default_decision(each)) < strictness(decision):
            return False
    return True


def sources_for(
    files: tuple[tuple[PermissionRule, ...], ...],
    profiles: Mapping[str, PermissionProfile],
    grant: Grant,
) -> tuple[tuple[PermissionRule, ...], ...]:
    """Returns the sources of rules that hold for a caller.

    A profile that the configuration does not have any more denies everything.
    """
    chosen = [profiles[n].rules if n in profiles else (_unknown(n),) for n in grant.profiles]
    return (*files, *chosen, grant.permissions)


def _unknown(profile: str) -> PermissionRule:
    return PermissionRule("*", "deny", None, f"profile {profile!r}, which is not configured")


def selection_of(names: Any, origin: str) -> Grant:
    """Returns the selection of a list of servers, tools and patterns; raises `RuleError`."""
    try:
        patterns = tuple(map(as_id, msgspec.convert(names, _Names)))
    except msgspec.ValidationError:
        raise RuleError(
            f'{origin} is {_show(names)}; expected a list such as ["git", "github__*_read"]'
        ) from None
    servers = tuple(pattern for pattern in patterns if SEPARATOR not in pattern)
    return Grant(servers=servers, tools=tuple(each for each in patterns if each not in servers))


def check_profile(name: str, profiles: Iterable[str], grant: Grant = EVERYTHING) -> None:
    """Raises `UnknownNameError` for a profile that the configuration does not have.

    Args:
        name: The profile that a caller has chosen.
        profiles: The names of all profiles.
        grant: The caller's; the message names the others to callers who may see everything.
    """
    if name not in profiles:
        names = ", ".join(sorted(profiles)) or "none" if grant.is_everything else ""
        others = f"; there are: {names}" if names else ""
        raise UnknownNameError(f"no profile is called {printable(name, 100)!r}{others}")


def _most_specific(
    rules: Iterable[PermissionRule], identifier: str, tool_class: ToolClass
) -> PermissionRule | None:
    about = [rule for rule in rules if rule.covers(identifier, tool_class)]
    return max(about, key=lambda rule: (rule.specificity, strictness(rule.decision)), default=None)


def strictness(decision: Decision) -> int:
    """Returns a number that is greater for a stricter decision."""
    return DECISIONS.index(decision)


def default_decision(tool_class: ToolClass) -> Decision:
    """Returns the decision without a rule: to ask before a destructive call.

    If the caller's user cannot be asked, that is left to the caller.
    """
    return "ask" if tool_class == "destructive" else "allow"


def literal(name: str) -> str:
    """Returns a name as a pattern that fits nothing else."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)


def key_of(name: str) -> str:
    """Returns the key of a rule in a server's entry about a tool, whose name may be a class's."""
    return f"[{name[0]}]{name[1:]}" if name in TOOL_CLASSES else name


def _show(value: object) -> str:
    return repr(value)[:60] if isinstance(value, str | int | float) else type(value).__name__
