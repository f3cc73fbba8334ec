"""Switches lie over a configuration: their patterns, and the rules that they make."""

import pytest

from toolscript.config.permission_rules import decide, rules_of
from toolscript.config.switches import switch_lines, switch_of, switch_rules, without

SWITCHES = {"git*": False, "github": True, "mail__*": False, "mail__read": True}


@pytest.mark.requirement("config:switches")
@pytest.mark.parametrize(
    ("server", "state"),
    [("git", False), ("gitlab", False), ("github", True), ("mail", None), ("other", None)],
)
def test_the_most_specific_switch_of_a_server_counts(server: str, *, state: bool | None) -> None:
    assert switch_of(SWITCHES, server) is state


def test_of_two_that_are_as_specific_the_one_that_is_off_counts() -> None:
    assert switch_of({"*it": True, "gi*": False}, "git") is False


@pytest.mark.requirement("config:switches")
def test_a_tool_that_is_on_makes_no_rule_milder() -> None:
    """It is only no longer off: whether it may be called, the other rules say."""
    rules = switch_rules(SWITCHES)
    off = decide([rules], "mail__send", "read")
    assert off is not None
    assert off.decision == "deny"
    assert decide([rules], "mail__read", "destructive") is None
    denied = decide([rules, rules_of({"mail__*": "deny"}, "x")], "mail__read", "read")
    assert denied is not None
    assert denied.origin == "x"


def test_a_pattern_covers_switches() -> None:
    assert without(SWITCHES, "mail__*") == {"git*": False, "github": True}
    assert without(SWITCHES, "*") == {}
    assert without(SWITCHES, "mail__send") == SWITCHES


def test_lines_are_of_the_servers_that_they_are_about() -> None:
    assert switch_lines(SWITCHES, ["github", "mail", "other"]) == {
        "github": (
            "git* is turned off (back: toolscript enable 'git*')",
            "github is turned on (back: toolscript disable github)",
        ),
        "mail": (
            "mail__* is turned off (back: toolscript enable 'mail__*')",
            "mail__read is turned on (back: toolscript disable mail__read)",
        ),
    }
