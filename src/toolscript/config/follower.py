"""Reloads the configuration when its files change while the gateway runs.

The files are polled rather than watched: that works with every editor and file system and for
files that do not exist yet, and takes a few microseconds each time.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import anyio.to_thread

from toolscript.config import locations
from toolscript.config.servers import Config, load_config
from toolscript.config.settings import PathSettings
from toolscript.config.trust import TrustStore
from toolscript.errors import ConfigError, ConfigSyntaxError
from toolscript.storage.atomic_files import stamp

log = logging.getLogger(__name__)
POLL_S = 0.25
RETRY_S = 5.0
"""Seconds before a configuration that could not be used is read again: the reason may be over."""


class Follower:
    """Loads the configuration again whenever one of its files has changed.

    ``watched`` returns the files, ``load`` reads them. A configuration that cannot be used is
    skipped: the gateway keeps the one it has, and `problem` says why; it is read again after
    ``retry_s`` seconds even if its files stay as they are.
    """

    def __init__(
        self,
        current: Config,
        watched: Callable[[], tuple[Path, ...]],
        load: Callable[[], Config],
        retry_s: float = RETRY_S,
    ) -> None:
        self._retry_s = retry_s
        self._current = current
        self._stamp = ""
        self._retry_at = math.inf
        self._watched = watched
        self._load = load
        self.problem = ""
        self.broken_rules = ""
        """The problem, if the files as they are now may have rules that cannot be read."""

    async def run(self, apply: Callable[[Config], None]) -> None:
        """Calls ``apply`` with each new configuration, until cancelled."""
        while True:
            await anyio.sleep(POLL_S)
            config = await anyio.to_thread.run_sync(self.poll, abandon_on_cancel=True)
            if config is not None:
                apply(config)

    def poll(self) -> Config | None:
        """Returns the configuration if it has changed since the last call and can be used."""
        try:
            current = stamp(self._watched())
            if current == self._stamp and time.monotonic() < self._retry_at:
                return None
            self._stamp = current
            config = self._load()
        except (ConfigError, OSError) as error:  # OSError: a file was replaced just now
            self._report(str(error))
            if isinstance(error, ConfigSyntaxError):
                self.broken_rules = str(error)
            return None
        except Exception as error:
            # A boundary: the gateway keeps running with any content of the files.
            log.exception("the configuration could not be read")
            self._report(f"it could not be read ({type(error).__name__}); the log says why")
            self.broken_rules = self.problem
            return None
        if config.key != self._current.key:
            self._report(
                config.refused
                or f"the configuration would now be {config.sources[0]}, "
                "which is another gateway's; start one there"
            )
            return None
        self.problem, self.broken_rules, self._retry_at = "", "", math.inf
        if config == self._current:
            return None
        self._current = config
        return config

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("the configuration stays as it was: %s", problem)
        self.problem, self._retry_at = problem, time.monotonic() + self._retry_s


def follow_files(paths: PathSettings, config: Config, environ: Mapping[str, str]) -> Follower:
    """Returns a follower of the files that a configuration was read from.

    Args:
        paths: Name the file, if the user did, and the data directory.
        config: The configuration as it is now.
        environ: The environment's variables.
    """
    # A file that was named with its whole path needs no working directory.
    here = config.sources[0].parent if paths.config else Path.cwd()
    named = config.sources[0] if paths.config else None
    trust = TrustStore(paths.data_dir)

    def watched() -> tuple[Path, ...]:
        return locations.watched(locations.locate(named, here, environ), paths.data_dir)

    return Follower(config, watched, lambda: load_config(named, here, environ, trust))
