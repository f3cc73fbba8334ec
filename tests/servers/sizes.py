"""An MCP server over stdio whose results have the kind and the size that a call asks for.

``make`` answers with `result_of` its arguments.
"""

import base64
import hashlib
import json
import random
import struct
import sys
from pathlib import Path
from typing import Any

# The program starts without site-packages.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
from toolscript.testing.server_program import JsonObject, ScriptedServer

KINDS = ("text", "json", "table", "images", "several", "error", "structured", "binary")
_MAX_IMAGE = 200_000
_WORDS = ["", "a", "row", "naïve", "数", "x" * 70, "\t", '"quoted"', "\\", "🙂"]


def result_of(kind: str, size: int, seed: int) -> JsonObject:
    """Returns a result of a kind, with about so many characters, the same for the same seed."""
    chance = random.Random(f"{kind} {size} {seed}")  # noqa: S311 - no secret
    return {"content": _content(kind, size, chance), **_fields(kind, size, chance)}


def _content(kind: str, size: int, chance: random.Random) -> list[JsonObject]:
    if kind == "images":
        return [_image(chance, size // 4) for _ in range(4)]
    if kind == "several":
        noted = {**_text(_prose(chance, size // 4)), "annotations": {"priority": 0.5}}
        return [_text(_prose(chance, size // 2)), _image(chance, size // 4), noted]
    if kind == "binary":
        blob = base64.b64encode(chance.randbytes(size * 3 // 4)).decode()
        resource = {"uri": "file:///x", "mimeType": "application/pdf", "blob": blob}
        return [{"type": "resource", "resource": resource}]
    if kind in {"json", "structured"}:
        rows = _rows(chance, size if kind == "json" else size // 2)
        return [_text(json.dumps(rows, indent=chance.choice([None, 2])))]
    table = (f"{n}\t{n * size}\tcell {n}" for n in range(size // 24))
    return [_text("\n".join(table) if kind == "table" else _prose(chance, size))]


def _fields(kind: str, size: int, chance: random.Random) -> JsonObject:
    if kind == "several":
        return {"_meta": {"vendor/x": "y" * (size // 100)}}
    if kind == "structured":
        chance.seed(size)
        return {"structuredContent": {"other": _rows(chance, size // 4)}}
    return {"isError": kind == "error"}


def digest_of(value: Any) -> str:
    """Returns the SHA-256 of a value as JSON, whose spaces and order of keys do not count."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _prose(chance: random.Random, size: int) -> str:
    page = "".join(chance.choice([" ", "\n", " - "]) + chance.choice(_WORDS) for _ in range(200))
    return (page * (size // max(1, len(page)) + 1))[:size]


def _rows(chance: random.Random, size: int) -> list[JsonObject]:
    names = [chance.choice(_WORDS) for _ in range(9)]
    length = 150 + sum(map(len, map(json.dumps, names))) // 9  # with the spaces of an indented row
    return [
        {"id": n, "name": names[n % 9], "price": n / 7, "tags": [n % 2 == 0, None]}
        for n in range(size // length)
    ]


def _image(chance: random.Random, size: int) -> JsonObject:
    # The SDK's client takes no event of more than 1 MiB: a larger image has more pixels than any
    # model may be shown.
    most = 3000 if size < _MAX_IMAGE else 20_000
    sides = struct.pack(">II", chance.randint(most // 2, most), chance.randint(1, 3000))
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + sides
    data = base64.b64encode(head + bytes(max(0, size * 3 // 4 - len(head)))).decode()
    return {"type": "image", "mimeType": "image/png", "data": data}


class _SizedServer(ScriptedServer):
    def reply(self, identifier: Any, params: JsonObject) -> None:
        given = params["arguments"]
        result = result_of(given["kind"], given["size"], given["seed"])
        self.send(id=identifier, result=result)


if __name__ == "__main__":
    reads = {"inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    _SizedServer({"tools": [{"name": "make", **reads}]}).serve()
