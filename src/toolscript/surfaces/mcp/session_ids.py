"""Session ids that every gateway with the same secret key can read.

A session of the older protocols lives in the gateway that has opened it. Its id says what another
gateway, or the same one after a restart, has to know to answer without it. Knows no SDK.
"""

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from toolscript.config.secret_key import SecretKey
from toolscript.errors import InputError
from toolscript.surfaces.mcp.request_context import Exposure, Session
from toolscript.text.json_values import as_object

MAX_ID_CHARS = 512
LIFETIME_S = 7 * 86_400
"""How long an id is answered by a gateway in which the session does not live."""
MAX_REMEMBERED = 1024
FOREIGN = "toolscript.foreign-session"
"""Where the scope of a request has its `ForeignSession`."""
STATE_PREFIX = "toolscript-"
"""The beginning of states that name a call of ours, and its replica, of clients without sessions;
other states are the servers'."""
_PURPOSE = b"mcp-session-id"
_EXPECTED = "expected one JSON object with jsonrpc, id and method, as JSON-RPC 2.0 has it"
_HANDLE = re.compile(
    rb'"handle"\s*:\s*"([0-9a-f]{16})-[a-z2-9]{12}\b'
    rb'|"taskId"\s*:\s*"([0-9a-f]{16})\.'
)
"""A handle or a task's id that another replica may have made, at one of their places."""


class SessionId(msgspec.Struct, frozen=True, array_like=True):
    """What a session id says."""

    replica: str
    """The process that has opened the session, and has its connection."""
    exposure: Exposure
    holder: str
    """Whose session it is: see `Access`."""
    created: int
    """Seconds since 1970."""
    asks_user: bool
    """Whether the client can ask its user questions."""

    def is_for(self, exposure: Exposure, holder: str) -> bool:
        """Returns whether a request of this holder, to this exposure, may use it."""
        return (self.exposure, self.holder) == (exposure, holder)


@dataclass(frozen=True, slots=True)
class SessionIds:
    """Makes and reads session ids.

    Args:
        key: Seals them.
        replica: Stands for this process.
    """

    key: SecretKey
    replica: str = field(default_factory=lambda: secrets.token_hex(8))

    def issue(self, exposure: Exposure, holder: str, *, asks_user: bool) -> str:
        """Returns the id of a session that this process has opened."""
        content = SessionId(self.replica, exposure, holder, int(time.time()), asks_user)
        return self.key.seal_value(content, _PURPOSE)

    def read(self, identifier: str) -> SessionId | None:
        """Returns what an id says; None for one that is forged, damaged or too old."""
        content = self.key.read_value(identifier, _PURPOSE, SessionId, MAX_ID_CHARS)
        is_new = content is not None and time.time() - content.created < LIFETIME_S
        return content if is_new else None


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session that lives in another gateway, or lived in one that has ended."""

    session: Session
    """What is remembered of it here."""
    asks_user: bool
    """Whether its client can ask its user questions, though not through this gateway."""


class LatestSessions:
    """Remembers sessions that no connection lasts for; the longest unused one is forgotten.

    Args:
        end: Called with the id of a `Session` that is forgotten.
    """

    def __init__(self, end: Callable[[str], object] = lambda _: None) -> None:
        self._end = end
        self._known: OrderedDict[Hashable, Session] = OrderedDict()
        """The longest unused one first."""

    def get(self, key: Hashable) -> Session:
        """Returns the memory of the session of a key; it is empty at first."""
        session = self._known.pop(key, None) or Session()
        self._known[key] = session
        if len(self._known) > MAX_REMEMBERED:
            self._end(self._known.popitem(last=False)[1].id)
        return session


class Message(msgspec.Struct, frozen=True):
    """As much of a client's JSON-RPC message as decides which gateway can answer it."""

    jsonrpc: Literal["2.0"]
    id: str | int | float | None = None
    method: str = ""
    """Empty for the answer to a question of the server's."""
    params: dict[str, Any] | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def of(cls, body: bytes) -> "Message | None":
        """Returns a message; None for a body that is no JSON, which the SDK refuses.

        Raises `InputError` for other JSON than a message.
        """
        try:
            message = msgspec.json.decode(body, type=cls)
        except msgspec.ValidationError as error:
            raise InputError(f"{_EXPECTED}: {error}") from None
        except (ValueError, RecursionError):
            return None
        if not message.method and message.result is message.error is msgspec.UNSET:
            raise InputError(f"{_EXPECTED}: its method is missing")
        return message

    @property
    def waits_in(self) -> str:
        """The replica in which a call waits that it continues; empty if it continues none."""
        state = as_object(self.params).get("requestState")
        if not isinstance(state, str) or not state.startswith(STATE_PREFIX):
            return ""
        named, dot, _ = state.removeprefix(STATE_PREFIX).partition(".")
        return named if dot else ""

    @property
    def asks_user(self) -> bool:
        """Whether it opens the session of a client that can ask its user in a form."""
        stated = as_object(as_object(self.params).get("capabilities")).get("elicitation")
        asked = as_object(stated)
        has_form = asked.get("form") is not None or asked.get("url") is None
        return isinstance(stated, dict) and has_form


def replica_of_results(body: bytes) -> str:
    """Returns the replica with the stored results or the task that a message names, or "".

    Only one can answer: if results of several are named, that of the first.
    """
    handle = _HANDLE.search(body)
    return (handle[1] or handle[2]).decode() if handle else ""
