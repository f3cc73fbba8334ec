"""The configuration of this call: which files it is made of, and what they say."""

import os
from pathlib import Path

from toolscript import config as configuration
from toolscript.config import Config
from toolscript.errors import ConfigMissingError
from toolscript.settings import Settings


def sources(settings: Settings) -> tuple[Path, ...]:
    """See `config.locate`."""
    return configuration.locate(settings.config, _here(settings.config), os.environ)


def load(settings: Settings) -> Config:
    """See `config.load`."""
    return configuration.load(settings.config, _here(settings.config), os.environ)


def _here(config: Path | None) -> Path:
    """The working directory; one that was deleted is missed only by what is sought in it."""
    try:
        return Path.cwd()
    except OSError:
        if config is not None and config.is_absolute():
            return config.parent
        raise ConfigMissingError(
            "the working directory does not exist any more; change to another, "
            "or name a file with --config and its whole path"
        ) from None
