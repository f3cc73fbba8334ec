"""Manages the database that several gateways share: its tables and its values."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from toolscript.config.settings import Settings
from toolscript.errors import ConfigError, InputError
from toolscript.postgres import schema, transfer
from toolscript.postgres.database import Database
from toolscript.postgres.driver import driver
from toolscript.postgres.shared_stores import SharedStores, address_of, shared_of
from toolscript.postgres.status import status
from toolscript.storage.database_status import DatabaseStatus


class Administration:
    """The commands ``toolscript database``. Each connects for as long as it takes.

    Every method raises `ConfigError` if the settings name no database or the database refuses
    something, and `DatabaseUnavailableError`.

    Args:
        settings: Name the database.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def migrate(self, target: int | None) -> tuple[int, int]:
        """Migrates the tables, past a pooler.

        Args:
            target: The version of the tables to reach; None for the latest.

        Returns:
            How many migrations ran, and the version that the tables have now.

        Raises:
            InputError: This release does not know the version, or it is an earlier one.
        """
        if target is not None and target > schema.latest():
            raise InputError(
                f"--to is {target}, but this release knows versions 1 to {schema.latest()}"
            )
        address = address_of(self._settings)
        with _connect(self._settings.database.direct_url or address) as database:
            ran = database.run(lambda connection: schema.migrate(connection, target))
            version = database.run(schema.version_of)
        if target is not None and version > target:
            raise InputError(
                f"the database has schema {version}, and no migration leads back to {target}"
            )
        return len(ran), version

    def show_status(self, show: Callable[[DatabaseStatus], None]) -> None:
        """Has the state of the tables and gateways shown.

        Raises `SchemaVersionError` after that if this release does not work with the tables.
        """
        with _connect(address_of(self._settings)) as database:
            show(database.run(status))
            database.run(schema.check)

    def copy(
        self,
        files: tuple[Path, str, str],
        run: Callable[[Mapping[str, Callable[[], int]]], dict[str, int]],
        *,
        imports: bool,
        replace: bool,
    ) -> dict[str, int]:
        """Copies a data directory into the database, or the other way round.

        Args:
            files: The data directory, the key of the configuration and the digest of its servers.
            run: Runs steps, each with its name, and returns the result of each.
            imports: Whether the database is the target.
            replace: Replace the values of the target.

        Raises:
            InputError: The target is not empty.
        """
        local = transfer.Files(*files)
        with self.opened() as stores:
            stored = transfer.InDatabase(stores)
            source, target = (local, stored) if imports else (stored, local)
            local.check()
            if not replace and not transfer.is_empty(target):
                place = f"the catalogue {stores.catalogue}" if imports else str(files[0])
                raise InputError(f"{place} is not empty; replace what is there with: --replace")
            return run(transfer.steps(source, target))

    def seal_again(self) -> tuple[int, list[str]]:
        """Seals every login with the current key; see `SealedRecords.seal_again`."""
        with self.opened() as stores:
            return stores.logins.seal_again()

    @contextmanager
    def opened(self) -> Generator[SharedStores]:
        """Returns the stores, connected for as long as the block lasts."""
        stores = shared_of(self._settings)
        try:
            with _refusals_raised():
                stores.open()
                yield stores
        finally:
            stores.close()


@contextmanager
def _connect(address: str) -> Generator[Database]:
    """Connects, whatever tables there are."""
    database = Database(address)
    try:
        with _refusals_raised():
            database.open(check_schema=False)
            yield database
    finally:
        database.close()


@contextmanager
def _refusals_raised() -> Generator[None]:
    """Raises `ConfigError` for a refusal of the server, such as for a missing right."""
    try:
        yield
    except driver().PostgresError as error:
        raise ConfigError(f"the database refuses that: {error}") from None
