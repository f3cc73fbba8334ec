"""Sets up the log: a line per message, as text or as JSON, with the id of its request.

The log has of a request its method, path, status and time; never its
query, headers or body, which may hold secrets.
"""

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from toolscript.text.display import printable

REQUEST: ContextVar[str] = ContextVar("request", default="")
"""The id of the request that is being answered."""
_FIELDS = ("method", "path", "status", "who", "tool", "outcome", "ms")
_AGAIN_S = 3600.0
"""How long further files that cannot be written for the same reason are not named."""


def set_up(level: str = "warning", form: str = "text") -> None:
    """Log to standard error from now on; replaces an earlier set-up."""
    handler = logging.StreamHandler()
    handler.addFilter(_OncePerReason())
    handler.setFormatter(
        _JsonFormatter() if form == "json" else _TextFormatter("toolscript: %(message)s")
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("toolscript").setLevel(level.upper())
    # toolscript reports a server's faults in one line each; the SDK's tracebacks would hide it.
    for name in ("mcp", "client", "httpx2", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def ensure_set_up() -> None:
    """Log to standard error, unless logging has been set up."""
    if not logging.getLogger().handlers:
        set_up()


class _OncePerReason(logging.Filter):
    """Lets one message through per reason why files cannot be written, such as a full disk."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        reason: str | None = getattr(record, "write_failure", None)
        if reason is None:
            return True
        if record.created - self._logged.get(reason, -_AGAIN_S) < _AGAIN_S:
            return False
        self._logged[reason] = record.created
        record.msg = f"{record.msg}; going on without it"
        return True


class _TextFormatter(logging.Formatter):
    """Formats a message as one line without control characters, which servers may send."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """See `logging.Formatter`."""
        request = REQUEST.get()
        return printable(super().formatMessage(record)) + (f" [{request}]" if request else "")

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """See `logging.Formatter`; an error's message may come from a server, too."""
        lines = super().formatException(ei).splitlines()
        return "\n".join(" " * (len(x) - len(x.lstrip())) + printable(x) for x in lines)


class _JsonFormatter(logging.Formatter):
    """Formats a message as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": when,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(record.getMessage()),
        }
        if REQUEST.get():
            line["request"] = REQUEST.get()
        line |= {name: record.__dict__[name] for name in _FIELDS if name in record.__dict__}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)
