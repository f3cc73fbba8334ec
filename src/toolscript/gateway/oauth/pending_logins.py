"""Begins logins for callers whose call needs one, and tells the address for the user."""

import logging
import threading
from pathlib import Path

import anyio.to_thread

from toolscript.errors import UpstreamError
from toolscript.storage.base import Records
from toolscript.types import ServerSpec

log = logging.getLogger(__name__)
BEGIN_TIMEOUT_S = 15.0
"""How long a server and its provider may take to name the address."""


class _PendingLogin:
    """A login that waits for its user, in a thread of its own."""

    def __init__(
        self,
        directory: Path,
        spec: ServerSpec,
        records: Records | None,
        document: str,
    ) -> None:
        self._work = directory, spec, records, document
        self.address = ""
        self.begun = threading.Event()
        """Set once there is an address, or there will be none."""
        self.thread = threading.Thread(target=self._run, name="login", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        from toolscript.gateway.oauth.browser import log_in  # noqa: PLC0415 - seldom needed

        directory, spec, records, document = self._work
        try:
            log_in(directory, spec, self._take, records, document)
        except UpstreamError as error:
            log.info("%s", error)
        finally:
            self.begun.set()

    def _take(self, address: str) -> None:
        self.address = address
        self.begun.set()


class PendingLogins:
    """The logins under way: at most one for each server, which ends by itself without its user.

    Args:
        directory: The folder of logins.
        records: The storage of logins instead; see `Login`.
        document: The address of the gateway's description as a client; empty if it has none.
    """

    def __init__(self, directory: Path, records: Records | None = None, document: str = "") -> None:
        self._document = document
        self._directory = directory
        self._records = records
        self._pending: dict[tuple[str, str], _PendingLogin] = {}
        """The logins by the server's name and URL."""

    async def address(self, spec: ServerSpec) -> str:
        """Returns the address of the login to a server; empty if the server names none.

        The login is begun if none is under way. The connection to the server sees when the
        user has logged in.
        """
        pending = self._pending.get((spec.name, spec.url))
        if pending is None or not pending.thread.is_alive():
            pending = self._pending[spec.name, spec.url] = _PendingLogin(
                self._directory, spec, self._records, self._document
            )
        await anyio.to_thread.run_sync(pending.begun.wait, BEGIN_TIMEOUT_S, abandon_on_cancel=True)
        return pending.address if pending.thread.is_alive() else ""
