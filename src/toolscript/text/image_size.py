"""Reads the size of an image in pixels from its first bytes."""

import base64
import binascii
import struct

_HEAD_CHARS = 256 * 1024
"""Characters of an image in Base64 in which its size is looked for."""
_MARK = 0xFF
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image_size(data: str) -> tuple[int, int] | None:
    """Returns the width and the height of an image in Base64; None if they cannot be told.

    It may be a PNG (https://www.w3.org/TR/png-3/, 11.2.1), a GIF, a JPEG (ITU T.81, B.2.2) or a
    WebP (RFC 9649, 2.5 to 2.7).
    """
    try:
        head = base64.b64decode(data[:_HEAD_CHARS])
    except (binascii.Error, ValueError):
        return None
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return struct.unpack_from(">II", head, 16)
        if head.startswith((b"GIF87a", b"GIF89a")):
            return struct.unpack_from("<HH", head, 6)
        if head.startswith(b"\xff\xd8"):
            return _jpeg_size(head)
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return _webp_size(head)
    except (struct.error, IndexError):
        pass
    return None


def _jpeg_size(head: bytes) -> tuple[int, int]:
    place = 2
    while True:
        mark, kind, length = struct.unpack_from(">BBH", head, place)
        if mark == _MARK and kind in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", head, place + 5)
            return width, height
        place += 2 + length if mark == _MARK else 1


def _webp_size(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
        return width, height
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None
