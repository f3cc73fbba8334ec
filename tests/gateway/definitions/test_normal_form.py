"""Which definitions are the same, and which were turned round."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.gateway.definitions.normal_form import definition_digest, in_order, normal_form
from toolscript.types import ToolSpec

SHELL = (
    "Run an allowed command. What it does is up to it.\nAllowed commands: {}\n"
    "Allowed patterns: \nDefault timeout: 30s; maximum timeout: 300s"
)
ORDERS = [
    ("pwd, ls, echo", "echo, pwd, ls", SHELL),
    ("head, tail, sort, wc", "sort, wc, tail, head", SHELL),
    ("a.txt, b-c, 'd'", "'d', b-c, a.txt", "Pick one. One of: {}"),
    ("'a', 'b', 'c'", "'c', 'b', 'a'", "Convert a file. Supported file formats are: [{}]."),
    ("a, b, c, a", "a, a, b, c", "Valid values ({})"),
    ("de, en, fr", "fr, de, en", "Translate. Available languages: {}. Known models: x, y, z"),
]
TURNED = [
    ("Delete, never ask.", "Never delete, ask."),
    ("Ask before deleting, not after, always.", "Ask after deleting, not before, always."),
    ("Send the file to A, not to B, and never C.", "Send the file to C, not to B, and never A."),
    ("Reads only, deletes, writes not.", "Deletes only, reads, writes not."),
    ("Use this tool, not the shell.", "Use the shell, not this tool."),
    ("The user must confirm: delete, move, copy", "The user must confirm: copy, delete, move"),
    ("Do in this order: ask, check, delete", "Do in this order: delete, check, ask"),
    ("Steps: ask, wait, delete", "Steps: delete, wait, ask"),
    ("Allowed steps: ask, wait, delete", "Allowed steps: delete, wait, ask"),
    ("Allowed commands: ls, cat, rm not", "Allowed commands: rm, cat, ls not"),
    ("Allowed commands: ls, cat, rm. Not that.", "Allowed commands: rm, cat, ls. Not that."),
    ("Allowed commands: ls, cat, rm (with care)", "Allowed commands: rm, cat, ls (with care)"),
    (
        "Allowed commands: ls, cat\nnever: rm, dd, ln",
        "Allowed commands: rm, dd\nnever: ls, cat, ln",
    ),
    ("Allowed commands: ls, cat, pwd; refused: rm", "Allowed commands: ls, rm, pwd; refused: cat"),
    (
        "One of: ls, cat, pwd. Known tools: rm, dd, ln",
        "One of: rm, dd, ln. Known tools: ls, cat, pwd",
    ),
    (
        "The first is the default. Allowed modes: ask, keep, delete",
        "The first is the default. Allowed modes: delete, keep, ask",
    ),
    (
        "Do what stands last. Allowed actions: delete, keep, ask",
        "Do what stands last. Allowed actions: ask, keep, delete",
    ),
    ("Allowed values in order: ask, keep, delete", "Allowed values in order: delete, keep, ask"),
    ("Allowed modes (by priority: ask, keep, x)", "Allowed modes (by priority: x, keep, ask)"),
    ("#1 is used. Valid values: ask, keep, go", "#1 is used. Valid values: go, keep, ask"),
    ("The 2nd is used. One of: ask, keep, go", "The 2nd is used. One of: go, ask, keep"),
    ("One of: read, write, delete without asking", "One of: read, delete, write without asking"),
    ("One of: a, b, c, but c asks", "One of: c, a, b, but c asks"),
    ("Copies from A to B, C to D.", "Copies from B to A, C to D."),
    ("Files: secret, public, none (only: b, a, c)", "Files: public, secret, none (only: c, b, a)"),
    ("Keep. Do not delete, ask, or send.", "Do not keep. Delete, ask, or send."),
    ("Valid values: 'ask, keep', drop", "Valid values: 'keep, ask', drop"),
    ("Hide nothing, tell the user, ask.", "Tell nothing, hide the user, ask."),
]
SCHEMA = {"type": ["string", "null", "integer"], "enum": ["b", "a"]}


def tool(description: str, **fields: Any) -> ToolSpec:
    return ToolSpec(server="s", name="t", description=description, **fields)


@pytest.mark.parametrize(("one", "other", "text"), ORDERS)
def test_the_order_of_an_enumeration_of_names_means_nothing(
    one: str, other: str, text: str
) -> None:
    before, after = tool(text.format(one)), tool(text.format(other))
    assert normal_form(before) == normal_form(after)
    assert definition_digest(before) == definition_digest(after)
    more = tool(text.format(other.replace(",", ", rm,", 1)))
    assert normal_form(before) != normal_form(more)
    assert definition_digest(before) != definition_digest(more)


@pytest.mark.parametrize(("before", "after"), TURNED)
def test_a_sentence_that_was_turned_round_is_a_change(before: str, after: str) -> None:
    assert sorted(before.lower().replace(".", "")) == sorted(after.lower().replace(".", ""))
    assert normal_form(tool(before)) != normal_form(tool(after))


def test_types_are_a_set_but_other_lists_have_an_order() -> None:
    def form(schema: dict[str, Any]) -> dict[str, Any]:
        return normal_form(tool("x", input_schema={"properties": {"type": schema}}))

    assert form(SCHEMA) == form({**SCHEMA, "type": ["null", "integer", "string"]})
    first, second = (form({"prefixItems": [{"const": a}, {"const": b}]}) for a, b in ("ab", "ba"))
    assert first != second


WORDLESS = st.text(st.characters(exclude_characters=string.ascii_letters + string.digits))
"""Texts without words: one such as "then" may give a meaning to the order."""


@given(st.permutations([f"command-{number}" for number in range(9)]), WORDLESS)
def test_the_normal_form_is_stable(items: list[str], more: str) -> None:
    one = normal_form(tool(f"{more}\n{SHELL.format(', '.join(items))}"))
    assert in_order(one) == one
    assert normal_form(tool(f"{more}\n{SHELL.format(', '.join(sorted(items)))}")) == one
