"""Keeps what is unforeseen in one tool's schema away from the other tools."""

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec

from toolscript.types import ToolSpec

log = logging.getLogger(__name__)
_Written = TypeVar("_Written")


def written(tool: ToolSpec, write: Callable[[ToolSpec], _Written]) -> _Written:
    """Returns what ``write`` makes of a tool; where that fails, with any value for its types."""
    try:
        return write(tool)
    except Exception:
        log.exception("no types can be made for the tool %s", tool.id)
        output = None if tool.output_schema is None else dict[str, object]()
        return write(msgspec.structs.replace(tool, input_schema={}, output_schema=output))
