"""A note that a model could not be had a moment ago, so that the next one need not find out."""

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
    """One file that says why, until when, and for which circumstances."""

    path: Path | None
    """None: nothing is remembered."""
    asked: str = field(repr=False)
    """What, besides the environment, may change the answer. Only a digest of it is kept."""
    forget_s: float

    def read(self) -> str:
        """Why it failed a moment ago, when asking again would be the same; else nothing."""
        try:
            note: Any = json.loads(self.path.read_bytes()) if self.path else {}
            fresh = 0 <= note["until"] - time.time() <= self.forget_s
            return str(note["reason"]) if fresh and note["asked"] == self._digest() else ""
        except (OSError, ValueError, TypeError, KeyError):
            return ""

    def write(self, reason: str) -> None:
        """Remember it; where that cannot be written, the next one finds out."""
        note = {"reason": reason, "until": time.time() + self.forget_s, "asked": self._digest()}
        if self.path is not None:
            with contextlib.suppress(OSError):
                write_atomically(self.path, json.dumps(note).encode())

    def _digest(self) -> str:
        named = sorted((k, v) for k, v in os.environ.items() if _ENVIRONMENT.fullmatch(k))
        return hashlib.sha256(repr((self.asked, named)).encode(errors="replace")).hexdigest()
