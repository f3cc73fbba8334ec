"""Provides the stores that replace a data directory's files where gateways share a database."""

import secrets
from functools import cached_property

from toolscript.config.secret_key import SecretKey
from toolscript.config.settings import Settings
from toolscript.errors import ConfigError
from toolscript.gateway.base import DatabaseState, Serve
from toolscript.install_command import install_command
from toolscript.postgres.activity_store import DatabaseActivityStore
from toolscript.postgres.catalogue_store import DatabaseCatalogue
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import driver
from toolscript.postgres.forwarding import ForwardedRequests, Forwarder
from toolscript.postgres.graph_store import DatabaseGraphStore
from toolscript.postgres.key_value_store import DatabaseRecords, SealedRecords
from toolscript.postgres.leases import Leases
from toolscript.postgres.schema import find_former_data
from toolscript.postgres.vector_cache import DatabaseVectorCache
from toolscript.storage.base import Records

STALE_TOKENS_S = 300.0
"""How long the tokens that are known count while the database does not answer."""


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
        self._former_data = database.run(find_former_data)

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
            former_data=self._former_data,
        )


class SharedStores:
    """See `Stores`. Those in the database of several gateways.

    A gateway calls `join`, and has copies of all values from then on; a command asks the database
    for each. `close` disconnects.

    Args:
        url: The address of the database.
        key: Seals logins.
    """

    def __init__(self, url: str, key: SecretKey) -> None:
        self.database = Database(url)
        self.key = key
        self.feed = ChangeFeed(self.database)
        self.replication: DatabaseReplication | None = None
        """None before `join`."""
        self._stores = {
            store: DatabaseRecords(self.database, self.feed, store)
            for store in ("pins", "answers", "logins")
        }
        self._stores["tokens"] = DatabaseRecords(
            self.database, self.feed, "tokens", max_age_s=STALE_TOKENS_S
        )

    def records(self, store: str) -> Records:
        """See `Stores`. Logins are sealed."""
        return self.logins if store == "logins" else self._stores[store]

    @cached_property
    def logins(self) -> SealedRecords:
        """The logins to servers."""
        return SealedRecords(self._stores["logins"], self.key, "login")

    @property
    def graph(self) -> DatabaseGraphStore:
        """See `Stores`."""
        return DatabaseGraphStore(self.database, self.feed)

    def vectors(self, servers: str = "", *, is_fallback: bool = False) -> DatabaseVectorCache:
        """See `Stores`. One cache has the vectors of every text, of all servers and models."""
        del servers, is_fallback
        return DatabaseVectorCache(self.database)

    @property
    def activity(self) -> DatabaseActivityStore:
        """See `Stores`."""
        return DatabaseActivityStore(self.database)

    def join(self, url: str) -> None:
        """See `Stores`. Servers are owned once an application follows them."""
        self.feed.start()
        for records in self._stores.values():
            records.load()
        self.logins.seal_again()
        self.replication = DatabaseReplication(
            self.database, self.feed, self.key, secrets.token_hex(8), url
        )
        self.replication.leases.start()

    def close(self) -> None:
        """Releases what this replica owns, and disconnects."""
        if self.replication is not None:
            self.replication.leases.close()
        self.database.close()


def open_stores(settings: Settings) -> SharedStores:
    """Returns the stores that gateways share if their settings name a database; connected.

    Raises `ConfigError` if the driver or the secret key is missing, `DatabaseUnavailableError` or
    `SchemaVersionError`.
    """
    key = settings.server.secret_key
    try:
        driver()
    except ImportError:
        raise ConfigError(
            "TOOLSCRIPT_DATABASE needs more packages; install them with: "
            + install_command("postgres")
        ) from None
    if key is None:
        raise ConfigError(
            "TOOLSCRIPT_SECRET_KEY is not set: with TOOLSCRIPT_DATABASE it seals the logins; "
            "give all gateways the same, as from: openssl rand -base64 32"
        )
    sealing = SecretKey(key, settings.server.secret_key_previous)
    stores = SharedStores(settings.database.url or "", sealing)
    stores.database.open()
    return stores
