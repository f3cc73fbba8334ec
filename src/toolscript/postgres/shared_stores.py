"""Provides the stores that replace a data directory's files where gateways share a database."""

import secrets
from functools import cached_property

from toolscript.config.secret_key import SecretKey
from toolscript.config.settings import Settings
from toolscript.errors import ConfigError
from toolscript.extras import install_command
from toolscript.postgres.activity_store import DatabaseActivityStore
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import driver
from toolscript.postgres.graph_store import DatabaseGraphStore
from toolscript.postgres.key_value_store import DatabaseRecords, SealedRecords
from toolscript.postgres.replica import DatabaseReplication
from toolscript.postgres.vector_cache import DatabaseVectorCache
from toolscript.storage.base import Records

STALE_TOKENS_S = 300.0
"""How long the tokens that are known count while the database does not answer."""


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
