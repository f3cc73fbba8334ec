"""Lays JSON out with a line for each row of its lists."""

import msgspec

MAX_VALUES = 2_000_000
"""JSON with more values stays as it is."""
_SHORT = 100
"""A list that is shorter stays on one line."""


def rows(text: bytes) -> str | None:
    """Returns JSON with a line for each row of its lists; None for text that is not JSON.

    Rows are the items of the outermost list, or of those in the outermost object. Only that level
    is decoded, since a result may have millions of values.
    """
    if not text.lstrip().startswith((b"{", b"[")) or text.count(b",") > MAX_VALUES:
        return None
    try:
        return _lay_out(msgspec.json.format(text, indent=-1)).decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _lay_out(text: bytes, *, inner: bool = False) -> bytes:
    if len(text) <= _SHORT:
        return text
    if text.startswith(b"["):
        items = msgspec.json.decode(text, type=list[msgspec.Raw])
        return b"[\n" + b",\n".join(map(bytes, items)) + b"\n]"
    if text.startswith(b"{") and not inner:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        lines = (
            msgspec.json.encode(key) + b": " + _lay_out(bytes(value), inner=True)
            for key, value in fields.items()
        )
        return b"{" + b",\n".join(lines) + b"}"
    return text
