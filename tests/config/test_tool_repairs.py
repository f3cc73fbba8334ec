"""``tools`` as an object: repairs, and the mistakes in them."""

import re
from typing import Any

import pytest

from toolscript.config.foreign_entries import describe_unread
from toolscript.config.server_entry import EntryError, server
from toolscript.types import ArgumentRepair, Repair, ServerSpec


def spec_of(tools: Any, **more: Any) -> ServerSpec:
    return server("s", {"command": "x", "tools": tools, **more}, {}, None)


def test_a_repair_is_read() -> None:
    spec = spec_of(
        {
            "create_thing": {
                "name": "add",
                "title": "Add",
                "description": "Adds ${NOTHING}",
                "arguments": {
                    "owner": {"value": None},
                    "limit": {"default": 20, "description": "How many"},
                },
                "annotations": {"readOnlyHint": True},
            },
            "other": {},
        }
    )
    assert spec.repairs == {
        "create_thing": Repair(
            name="add",
            title="Add",
            description="Adds ${NOTHING}",
            arguments={
                "owner": ArgumentRepair(value=None),
                "limit": ArgumentRepair(default=20, description="How many"),
            },
            annotations={"readOnlyHint": True},
        ),
        "other": Repair(),
    }
    assert spec.digest == spec_of({"create_thing": {"annotations": {"readOnlyHint": True}}}).digest
    assert spec.digest != spec_of({}).digest


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
    assert spec_of(tools).class_of("t") == given
    assert spec_of(tools, **{"class": {"t": "write"}}).class_of("t") == "write"
    assert spec_of(tools, **{"class": {"*": "write"}}).class_of("t") == (given or "write")


@pytest.mark.parametrize(
    ("repair", "message"),
    [
        ({"nam": "x"}, "in tools.t the key 'nam' is not known; did you mean 'name'?"),
        ({"name": 3}, "tools.t.name: expected str, got int"),
        ({"name": "a b"}, "tools.t.name is 'a b'; expected up to 128 letters"),
        ({"name": "x", "colour": 1}, "tools.t has the key 'colour'; expected name, title"),
        ({"arguments": []}, "tools.t.arguments: expected object, got array"),
        ({"arguments": {"a": 1}}, "tools.t.arguments.a: expected object, got int"),
        (
            {"arguments": {"a": {"values": 1}}},
            "in tools.t.arguments.a the key 'values' is not known; did you mean 'value'?",
        ),
        (
            {"arguments": {"a": {"description": 1}}},
            "tools.t.arguments.a.description: expected str, got int",
        ),
        ({"arguments": {"a": {"x": 1}}}, "tools.t.arguments.a has the key 'x'; expected value"),
        (
            {"arguments": {"a": {"value": 1, "default": 2}}},
            "tools.t.arguments.a has both value and default",
        ),
    ],
)
def test_a_mistake_is_named(repair: Any, message: str) -> None:
    with pytest.raises(EntryError, match=f"^{re.escape(message)}"):
        spec_of({"t": repair})


def test_an_object_of_another_client_means_nothing_and_is_named() -> None:
    tools = {"t": {"approval_mode": "auto"}, "u": True, "v": {"name": "w"}}
    assert [*spec_of(tools).repairs] == ["v"]
    keys = "name, title, description, arguments, annotations"
    assert [*describe_unread({"tools": tools})] == [
        f"tools.{name} is not read: it has none of {keys}" for name in ("t", "u")
    ]
    assert [*describe_unread({"tools": ["t"]})] == []
    assert spec_of(["t"]).include_tools == ("t",)
