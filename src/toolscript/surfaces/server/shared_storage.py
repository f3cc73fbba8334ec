"""Opens the shared database for one command, where the settings name one."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolscript.config.access_tokens import TokenStore
from toolscript.config.settings import Settings

if TYPE_CHECKING:
    from toolscript.postgres.shared_stores import Shared


@contextmanager
def opened_shared(settings: Settings) -> "Generator[Shared | None]":
    """Returns what gateways share, connected for as long as the block lasts; None without that.

    Raises `ConfigError` and `DatabaseUnavailableError`.
    """
    if settings.database.url is None:
        yield None
        return
    from toolscript.postgres.shared_stores import shared_of  # noqa: PLC0415 - most have no database

    shared = shared_of(settings)
    try:
        shared.open()
        yield shared
    finally:
        shared.close()


@contextmanager
def opened_tokens(settings: Settings, config_key: str) -> Generator[TokenStore]:
    """Returns the access tokens for as long as the block lasts: those in the database if any.

    Raises what `opened_shared` raises.
    """
    with opened_shared(settings) as shared:
        yield TokenStore(settings.paths.data_dir, config_key, shared and shared.records("tokens"))
