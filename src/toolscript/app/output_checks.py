"""Notices structured results that contradict their tool's output schema. No call fails for it."""

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from toolscript.app.argument_checks import MAX_STEPS, ONE_AT_A_TIME, QUICK_STEPS
from toolscript.app.schema_validation import Budget, OverBudgetError, errors
from toolscript.gateway.raw_results import RawResult
from toolscript.text.display import printable
from toolscript.types import ToolSpec

if TYPE_CHECKING:
    from jsonschema import ValidationError

log = logging.getLogger(__name__)


class OutputChecks:
    """Warns of each tool once: its server is at fault, and the next results will be no better."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    async def check(self, tool: ToolSpec, result: dict[str, Any]) -> None:
        """Logs a warning if the result does not fit the tool's schema.

        Does not look at a large result, and stops after as many steps as arguments may take.
        """
        schema, is_large = tool.output_schema, isinstance(result, RawResult)
        is_success = "content" in result and not result.get("isError")
        if schema is None or is_large or not is_success or tool.id in self._warned:
            return
        if "structuredContent" not in result:
            self._warn(tool, "there is no structured content")
            return
        content = result["structuredContent"]
        try:
            found = _mismatch(schema, content, Budget(QUICK_STEPS, final=False))
        except OverBudgetError:
            at_length = partial(_mismatch_at_length, schema, content)
            found = await anyio.to_thread.run_sync(at_length, limiter=ONE_AT_A_TIME)
        if found:
            self._warn(tool, found)

    def _warn(self, tool: ToolSpec, found: str) -> None:
        self._warned.add(tool.id)
        log.warning(
            "%s: a result of %s contradicts its output schema: %s",
            printable(tool.server, 100),
            printable(tool.name, 100),
            found,
        )


def _mismatch_at_length(schema: dict[str, Any], content: Any) -> str:
    try:
        return _mismatch(schema, content, Budget(MAX_STEPS))
    except OverBudgetError:
        return ""


def _mismatch(schema: dict[str, Any], content: Any, budget: Budget) -> str:
    return "; ".join(map(_describe, errors(schema, content, budget, 1)))


def _describe(error: "ValidationError") -> str:
    """Returns the place in the schema; nothing of the result, which may be secret."""
    place = "/".join(str(part) for part in error.absolute_schema_path)
    # The name that is missing is the schema's own.
    missing = f" ({error.message})" if error.validator == "required" else ""
    return printable(place + missing, 200)
