"""Takes JSON whose form nobody has checked as an object, or as a list."""

from typing import Any, cast


def as_object(value: object) -> dict[str, Any]:
    """Returns an object of JSON; an empty one in place of any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Returns an array of JSON; an empty one in place of any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []
