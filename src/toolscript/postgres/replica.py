"""Sets up a gateway as one of several that share a database."""

from toolscript.app.health import DatabaseState
from toolscript.config.secret_key import SecretKey
from toolscript.postgres.catalogue_store import DatabaseCatalogue
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.forwarding import ForwardedRequests, Forwarder
from toolscript.postgres.leases import Leases


class Replication:
    """The parts of one replica, over one database.

    Args:
        database: What the replicas share.
        feed: Tells of changes.
        catalogue: The name of the catalogue.
        key: Seals requests between replicas.
        replica: Stands for this process.
        url: The address at which the other replicas reach this one.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what `Shared` has
        self,
        database: Database,
        feed: ChangeFeed,
        catalogue: str,
        key: SecretKey,
        replica: str,
        url: str,
    ) -> None:
        self.leases = Leases(database, feed, catalogue, url, replica=replica)
        self.catalogue = DatabaseCatalogue(database, feed, catalogue, self.leases)
        self.forward = Forwarder(self.leases, key)
        self.requests = ForwardedRequests(replica, key)
        self._database = database
        self._feed = feed

    def state(self) -> DatabaseState:
        """Returns how the database is doing. Asks it nothing."""
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
