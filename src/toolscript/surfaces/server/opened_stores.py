"""Opens the stores of a configuration for one command."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolscript.app.stores import open_stores
from toolscript.config.access_tokens import TokenStore
from toolscript.config.settings import Settings

if TYPE_CHECKING:
    from toolscript.app.base import Stores


@contextmanager
def opened_stores(settings: Settings, config_key: str) -> "Generator[Stores]":
    """Returns the stores for as long as the block lasts; raises what `open_stores` raises."""
    stores = open_stores(settings, config_key)
    try:
        yield stores
    finally:
        stores.close()


@contextmanager
def opened_tokens(settings: Settings, config_key: str) -> Generator[TokenStore]:
    """Returns the access tokens for as long as the block lasts; see `opened_stores`."""
    with opened_stores(settings, config_key) as stores:
        yield TokenStore(settings.paths.data_dir, config_key, stores.records("tokens"))
