"""The caller that servers see behind a script; the values that the script and its model get."""

from collections.abc import Mapping
from typing import Any

import msgspec

from toolscript.app.argument_checks import signature
from toolscript.app.base import ScriptOutcome
from toolscript.app.searching import Found
from toolscript.errors import UpstreamError
from toolscript.gateway.base import Caller
from toolscript.gateway.raw_results import RawResult, in_thread_if_large
from toolscript.text.display import printable

_MAX_SIGNATURE, _MAX_DESCRIPTION, _MAX_ERROR = 600, 240, 2000


class ScriptCaller:
    """The caller of a script's calls: it waits for their results, and its user can be asked."""

    accepts_input_required = False

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._steps = 0
        self.session_key, self.session_id = caller.session_key, caller.session_id
        self.project, self.may_be_asked = caller.project, caller.may_be_asked
        self.may_log_in, self.opens_addresses = caller.may_log_in, caller.opens_addresses
        self.elicit = caller.elicit

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """See `Caller`. The progress of several calls is counted as one."""
        del progress, total
        self._steps += 1
        await self._caller.on_progress(self._steps, None, message)


class _Block(msgspec.Struct):
    text: str | None = None


class _Result(msgspec.Struct):
    content: msgspec.Raw = msgspec.Raw(b"[]")
    structuredContent: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815 - as on the wire
    isError: bool | None = None  # noqa: N815


async def read_value(tool: str, result: Mapping[str, Any]) -> tuple[str, bool]:
    """Returns the value of a call, and whether it may be JSON.

    That is its structured content, else its texts, else its blocks. Raises `UpstreamError` if the
    tool says that it has failed.
    """
    text = result.text if isinstance(result, RawResult) else msgspec.json.encode(result)
    value, is_json, failed = await in_thread_if_large(_read, text)
    if failed:
        raise UpstreamError(f"{tool}: {printable(value, _MAX_ERROR) or 'it does not say why'}")
    return value, is_json


def _read(text: bytes) -> tuple[str, bool, bool]:
    try:
        result = msgspec.json.decode(text, type=_Result)
        blocks = msgspec.json.decode(result.content, type=list[_Block])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return f"its answer cannot be read: {error}", False, True
    said = "\n".join(block.text for block in blocks if block.text is not None)
    if result.isError:
        return said, False, True
    structured = bytes(result.structuredContent)
    if structured != b"null":
        return structured.decode(), True, False
    if any(block.text is None for block in blocks):
        return bytes(result.content).decode(), True, False
    return said, said.lstrip()[:1] in {"{", "["}, False


def write_found(found: Found) -> str:
    """Returns the tools that a search has found, as JSON."""
    rows: list[dict[str, Any]] = []
    for hit in found.result.hits:
        spec = found.tools[hit.document.id].spec
        rows.append(
            {
                "tool": spec.id,
                "signature": signature(spec.input_schema, _MAX_SIGNATURE),
                "description": printable(spec.description, _MAX_DESCRIPTION),
                "confidence": round(hit.score, 2),
            }
        )
    return msgspec.json.encode(rows).decode()


def script_result(outcome: ScriptOutcome) -> dict[str, Any]:
    """Returns the outcome of a script as a result of MCP."""
    content = [{"type": "text", "text": text} for text in outcome.texts]
    return {"content": content, **({"isError": True} if outcome.failed else {})}
