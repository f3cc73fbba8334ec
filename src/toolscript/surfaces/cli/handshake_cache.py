"""Caches a gateway's answers to the requests that open a session, for the next session's start."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolscript.storage.atomic_files import write_atomically
from toolscript.text.json_values import as_object
from toolscript.version import __version__

METHODS = {"initialize", "server/discover", "tools/list"}
"""The requests that clients send first, and whose answers seldom change."""
_MAX_BYTES = 512 * 1024
_MAX_KEPT = 32
_VERSION = "io.modelcontextprotocol/protocolVersion"

FirstAnswer = Callable[[dict[str, Any], str], dict[str, Any] | None]


class HandshakeCache:
    """The results of one configuration's gateways, by request.

    Args:
        file: Stores the results; None for no file.
        first: Returns the result of a request that no gateway has answered, if that is known; its
            second parameter is the protocol's version.
        kind: Further facts that the results depend on: the exposure, the profile.
    """

    def __init__(
        self, file: Path | None, *kind: object, first: FirstAnswer = lambda _, __: None
    ) -> None:
        self._file = file
        self._first = first
        self._told: dict[str, Any] = {}
        """The results that no gateway has given."""
        self._kind = kind
        self._version = ""
        """The protocol's version that the session was opened with."""
        self._results = _read(file)

    def begin(self, initialize: dict[str, Any]) -> None:
        """Notes the protocol's version of a session, on which later results depend."""
        self._version = str(as_object(initialize.get("params")).get("protocolVersion"))

    def get(self, message: dict[str, Any]) -> Any:
        """Returns the result of a request; None if it is not known."""
        key = self._key(message)
        if key and key not in self._results:
            self._told[key] = self._first(message, self._version)
        return self._results.get(key, self._told.get(key))

    def differs(self, message: dict[str, Any], result: Any) -> bool:
        """Stores the result of a request; returns whether it differs from the one before."""
        key = self._key(message)
        if not key or result == self._results.get(key):
            return False
        before = self._results.get(key, self._told.get(key))
        self._results.pop(key, None)
        self._results[key] = result
        while len(self._results) > _MAX_KEPT:
            del self._results[next(iter(self._results))]
        written = json.dumps(self._results).encode()
        if self._file is not None and len(written) <= _MAX_BYTES:
            with suppress(OSError):  # the next session waits for its gateway instead
                write_atomically(self._file, written)
        return result != before

    def _key(self, message: dict[str, Any]) -> str:
        """Returns the key of a request; "" for one whose results are not stored."""
        method, params = str(message.get("method")), as_object(message.get("params"))
        if method not in METHODS or params.get("cursor") is not None:
            return ""
        version = as_object(params.get("_meta")).get(_VERSION) or self._version
        facts = (__version__, *self._kind, method, str(version))
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _read(file: Path | None) -> dict[str, Any]:
    try:
        if file is None or file.stat().st_size > _MAX_BYTES:
            return {}
        return as_object(json.loads(file.read_bytes()))
    except (OSError, ValueError):
        return {}
