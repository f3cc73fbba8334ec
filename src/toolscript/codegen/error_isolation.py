"""Isolates errors in writing one tool's types, so that the other tools get theirs."""

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec

from toolscript.types import ToolSpec

log = logging.getLogger(__name__)
_Written = TypeVar("_Written")


def isolated(tool: ToolSpec, write: Callable[[ToolSpec], _Written]) -> _Written:
    """Returns the code that ``write`` makes of a tool; of one without schemas if that fails.

    Its types are then any value, and the log says why.
    """
    try:
        return write(tool)
    except Exception:
        log.exception("no types can be made for the tool %s", tool.id)
        output = None if tool.output_schema is None else dict[str, object]()
        return write(msgspec.structs.replace(tool, input_schema={}, output_schema=output))
