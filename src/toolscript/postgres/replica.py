"""Sets up a gateway as one of several that share a database."""

from toolscript.config.secret_key import SecretKey
from toolscript.gateway.base import DatabaseState, Serve
from toolscript.postgres.catalogue_store import DatabaseCatalogue
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.forwarding import ForwardedRequests, Forwarder
from toolscript.postgres.leases import Leases


class DatabaseReplication:
    """See `Replication`. The parts of one replica, over one database.

    Args:
        database: The replicas share it.
        feed: Tells of changes.
        key: Seals requests between replicas.
        replica: Stands for this process.
        url: The address at which the other replicas reach this one.
    """

    def __init__(
        self, database: Database, feed: ChangeFeed, key: SecretKey, replica: str, url: str
    ) -> None:
        self.replica = replica
        self.leases = leases = Leases(database, feed, url, replica=replica)
        self.follow, self.owns, self.changed = leases.follow, leases.owns, leases.changed
        entries = DatabaseCatalogue(database, feed, leases)
        self.load, self.save = entries.load, entries.save
        self.news, self.report_stale = entries.news, entries.report_stale
        self.forward = Forwarder(leases, key).forward
        self._requests = ForwardedRequests(replica, key)
        self._serve: Serve | None = None
        self._database = database
        self._feed = feed

    def accept(self, serve: Serve) -> None:
        """See `Replication`."""
        self._serve = serve

    async def answer(self, body: bytes) -> bytes | None:
        """See `Replication`."""
        sent = self._requests.open(body)
        if sent is None or self._serve is None:
            return None
        caller = self._requests.caller_of(sent)
        work = self._serve(sent.server, sent.digest, sent.method, sent.params, caller)
        return await self._requests.answer(sent, work)

    def state(self) -> DatabaseState:
        """See `Replication`."""
        problem = self._database.problem
        return DatabaseState(
            answers=not problem,
            problem=problem or self.leases.problem,
            fits=not self.leases.problem,
            lag_s=self._feed.age_s,
            leases=self.leases.held,
            replicas=self.leases.replicas,
            connections=self._database.connections,
            max_connections=self._database.max_connections,
        )
