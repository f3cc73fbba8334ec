"""Following the configuration: an edited file is taken over while the gateway runs.

The files are looked at again and again rather than watched: that works for every
editor and file system, for files that are not there yet, and costs a few
microseconds each time.
"""

import logging
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from toolscript.config.servers import Config
from toolscript.errors import ConfigError
from toolscript.storage.atomic_files import stamp

log = logging.getLogger(__name__)
LOOK_S = 0.25


class Follower:
    """Notices that the configuration's files are other than those that were read last.

    What cannot be used is not followed: the gateway goes on with what it has,
    and `problem` says why.
    """

    def __init__(
        self, current: Config, watched: Callable[[], tuple[Path, ...]], load: Callable[[], Config]
    ) -> None:
        self._current = current
        self._seen = ""
        self._watched = watched
        self._load = load
        self.problem = ""

    async def run(self, apply: Callable[[Config], None]) -> None:
        """Hand over each new configuration, until cancelled."""
        while True:
            await anyio.sleep(LOOK_S)
            config = await anyio.to_thread.run_sync(self.look, abandon_on_cancel=True)
            if config is not None:
                apply(config)

    def look(self) -> Config | None:
        """The configuration, if its files have changed since the last look and can be used."""
        try:
            seen = stamp(self._watched())
            if seen == self._seen:
                return None
            self._seen = seen
            config = self._load()
        except (ConfigError, OSError) as error:  # the second: exchanged while it was looked at
            self._note(str(error))
            return None
        except Exception as error:
            # A boundary: whatever is in the files, the gateway goes on with what it has.
            log.exception("the configuration could not be read")
            self._note(f"it could not be read ({type(error).__name__}); the log says why")
            return None
        if config.key != self._current.key:
            self._note(
                config.refused
                or f"the configuration would now be {config.sources[0]}, "
                "which is another gateway's; start one there"
            )
            return None
        self.problem = ""
        if config == self._current:
            return None
        self._current = config
        return config

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("the configuration stays as it was: %s", problem)
        self.problem = problem
