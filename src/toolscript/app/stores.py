"""Opens the stores of an application: files of the data directory, unless a URL names others."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolscript.config.access_tokens import token_files
from toolscript.config.settings import Settings
from toolscript.storage.activity_log import ActivityLog
from toolscript.storage.base import Records
from toolscript.storage.file_records import FileRecords

if TYPE_CHECKING:
    from toolscript.app.base import Stores
    from toolscript.embedding.base import VectorCache
    from toolscript.graph.base import GraphStorage

_MODULES: dict[str, str] = dict.fromkeys(
    ("postgresql", "postgres"), "toolscript.postgres.shared_stores"
)
"""The module whose ``open_stores`` opens the stores of a URL, by the URL's scheme."""


def open_stores(settings: Settings, config_key: str) -> "Stores":
    """Returns the stores of a configuration, connected; `Stores.close` disconnects them.

    Raises `ConfigError` if the settings name a database that cannot be used, and
    `DatabaseUnavailableError`.
    """
    url = settings.database.url
    if url is None:
        return LocalStores(settings.paths.data_dir, config_key)
    module = import_module(_MODULES[urlsplit(url).scheme.casefold()])
    connect: Callable[[Settings], Stores] = module.open_stores
    return connect(settings)


class LocalStores:
    """See `Stores`. The files of one configuration in the data directory.

    Args:
        data_dir: The data directory.
        config_key: The key of the configuration.
    """

    def __init__(self, data_dir: Path, config_key: str) -> None:
        self._data_dir = data_dir
        self._records: dict[str, Callable[[], Records]] = {
            "tokens": lambda: token_files(data_dir, config_key),
            "pins": self._pins,
            "answers": lambda: FileRecords(data_dir / "permissions", f"-{config_key}.json"),
            "logins": lambda: FileRecords(data_dir / "auth"),
        }
        self._config_key = config_key
        self.replication = None

    @property
    def graph(self) -> "GraphStorage":
        """See `Stores`."""
        from toolscript.graph.graph_store import GraphStore  # noqa: PLC0415 - not for a token

        return GraphStore(self._data_dir / "graph", self._config_key)

    @property
    def activity(self) -> ActivityLog:
        """See `Stores`."""
        return ActivityLog(self._data_dir / "activity", self._config_key)

    def records(self, store: str) -> Records:
        """See `Stores`."""
        return self._records[store]()

    def _pins(self) -> Records:
        from toolscript.gateway.definitions.pins import pin_files  # noqa: PLC0415 - the same

        return pin_files(self._data_dir, self._config_key)

    def vectors(self, servers: str, *, is_fallback: bool) -> "VectorCache":
        """See `Stores`."""
        from toolscript.embedding.json_vector_cache import JsonVectorCache  # noqa: PLC0415 - the same
        from toolscript.embedding.vector_cache import FALLBACK  # noqa: PLC0415 - the same

        directory = self._data_dir / "cache" / "embeddings"
        folder = directory / FALLBACK if is_fallback else directory
        return JsonVectorCache(folder / f"embeddings-{servers}.json")

    def join(self, url: str) -> None:
        """See `Stores`."""

    def close(self) -> None:
        """See `Stores`."""
