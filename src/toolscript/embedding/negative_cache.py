"""Remembers for a while that a model could not be loaded, so that it is not tried again."""

import contextlib
import hashlib
import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolscript.storage.atomic_files import write_atomically

_ENVIRONMENT = re.compile(
    r"HF_(ENDPOINT|TOKEN|TOKEN_PATH|HOME|HUB_OFFLINE|HUB_CACHE|HUB_\w+_TIMEOUT)"
    r"|HUGGING_FACE_HUB_TOKEN|SSL_CERT_\w+|(HTTPS?|ALL|NO)_PROXY",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class NegativeCache:
    """A file with the reason of a failure, its expiry and the environment it happened in."""

    path: Path | None
    """None: nothing is remembered."""
    request: str = field(repr=False)
    """Anything else the answer depends on, such as a key. Only a digest of it is stored."""
    expires_s: float

    def read(self) -> str:
        """Returns the reason of a recent failure in the same environment; else an empty text."""
        try:
            note: Any = json.loads(self.path.read_bytes()) if self.path else {}
            fresh = 0 <= note["until"] - time.time() <= self.expires_s
            return str(note["reason"]) if fresh and note["request"] == self._digest() else ""
        except (OSError, ValueError, TypeError, KeyError):
            return ""

    def write(self, reason: str) -> None:
        """Stores the reason of a failure, unless the file cannot be written."""
        note = {"reason": reason, "until": time.time() + self.expires_s, "request": self._digest()}
        if self.path is not None:
            with contextlib.suppress(OSError):
                write_atomically(self.path, json.dumps(note).encode())

    def _digest(self) -> str:
        named = sorted((k, v) for k, v in os.environ.items() if _ENVIRONMENT.fullmatch(k))
        return hashlib.sha256(repr((self.request, named)).encode(errors="replace")).hexdigest()
