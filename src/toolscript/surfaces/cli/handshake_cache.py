"""Caches a gateway's answers to the requests that open a session, for the next session's start."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from toolscript import __version__
from toolscript.storage.atomic_files import write_atomically

METHODS = {"initialize", "server/discover", "tools/list"}
"""The requests that clients send first, and whose answers seldom change."""
_MAX_BYTES = 512 * 1024
_MAX_KEPT = 32
_VERSION = "io.modelcontextprotocol/protocolVersion"


class HandshakeCache:
    """The results of one configuration's gateways, by request.

    Args:
        file: Where they are kept; None keeps nothing.
        kind: What else decides about them: the exposure, the profile.
    """

    def __init__(self, file: Path | None, *kind: object) -> None:
        self._file = file
        self._kind = kind
        self._version = ""
        """The protocol's version that the session was opened with."""
        self._results = _read(file)

    def get(self, message: dict[str, Any]) -> Any:
        """Returns the result of a request; None if it is not known."""
        return self._results.get(self._key(message))

    def differs(self, message: dict[str, Any], result: Any) -> bool:
        """Keeps the result of a request; returns whether it was another one until now."""
        key = self._key(message)
        before = self._results.get(key)
        if not key or result == before:
            return False
        self._results.pop(key, None)
        self._results[key] = result
        while len(self._results) > _MAX_KEPT:
            del self._results[next(iter(self._results))]
        written = json.dumps(self._results).encode()
        if self._file is not None and len(written) <= _MAX_BYTES:
            with suppress(OSError):  # the next session waits for its gateway instead
                write_atomically(self._file, written)
        return True

    def _key(self, message: dict[str, Any]) -> str:
        """Returns the key of a request; "" for one whose answers are not kept."""
        method, params = message.get("method"), message.get("params")
        given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
        meta = given.get("_meta")
        stated = cast("dict[str, Any]", meta).get(_VERSION) if isinstance(meta, dict) else None
        if method == "initialize":
            self._version = str(given.get("protocolVersion"))
        if not isinstance(method, str) or method not in METHODS or given.get("cursor") is not None:
            return ""
        facts = (__version__, *self._kind, method, str(stated or self._version))
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _read(file: Path | None) -> dict[str, Any]:
    try:
        if file is None or file.stat().st_size > _MAX_BYTES:
            return {}
        results = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", results) if isinstance(results, dict) else {}
