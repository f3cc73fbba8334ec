"""Finds configuration files. Every command does, so this module reads and checks none of them."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from toolscript.errors import ConfigMissingError
from toolscript.storage.atomic_files import is_file, resolved

FILE_NAME = ".toolscript.json"
EXAMPLE = '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'


def locate(path: Path | None, cwd: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Returns the files that `load_config` reads: ``path``, or else the project's and the user's.

    Raises `ConfigMissingError` when there is none.
    """
    if path is not None:
        return ((cwd / path).absolute(),)
    candidates = (project_file(cwd, environ), home_file(environ))
    files = tuple(p for p in candidates if p is not None and is_file(p))
    if not files:
        raise ConfigMissingError(
            f"no {FILE_NAME} in {cwd}, above it or in the home directory; "
            "take your clients' servers over with toolscript setup, "
            f"create one, such as {EXAMPLE}, or name a file with --config"
        )
    return files


def project_file(cwd: Path, environ: Mapping[str, str]) -> Path | None:
    """Returns the nearest ``.toolscript.json``, from ``cwd`` upwards; None without one.

    The search ends at the root of a repository, and before the home directory: the file there is
    the user's.
    """
    home = home_file(environ).parent
    homes = {home, resolved(home)}
    for directory in (cwd, *cwd.parents):
        if directory in homes:
            return None
        if is_file(directory / FILE_NAME):
            return directory / FILE_NAME
        if os.path.lexists(directory / ".git"):
            return None
    return None


def home(environ: Mapping[str, str]) -> str:
    """Returns the home directory; empty if there is none."""
    directory = environ.get("HOME") or str(Path.home())
    return directory if Path(directory).is_dir() else ""


def here() -> str:
    """Returns the working directory; empty if it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def home_file(environ: Mapping[str, str]) -> Path:
    """Returns the path of the user's own file, whether it exists or not."""
    return Path(environ.get("HOME") or Path.home()) / FILE_NAME


def key_of(sources: tuple[Path, ...]) -> str:
    """Returns 16 hex digits that identify a configuration: each has one gateway, one snapshot.

    Only the first file counts, so that the key stays when a user's file appears beside a
    project's.
    """
    return hashlib.sha256(os.fsencode(resolved(sources[0]))).hexdigest()[:16]


def watched(sources: tuple[Path, ...], data_dir: Path | None) -> tuple[Path, ...]:
    """Returns the files that a configuration depends on.

    Those are the sources, the records of trust and the secrets. All but the sources lie below
    ``data_dir``; None if nothing has to be trusted.
    """
    if data_dir is None:
        return sources
    records = (trust_record(data_dir, path) for path in sources)
    return (*sources, *records, secrets_file(data_dir))


def secrets_file(data_dir: Path) -> Path:
    """Returns the path of the file of stored secrets; see `SecretStore`."""
    return data_dir / "secrets" / "secrets.json"


def trust_record(data_dir: Path, path: Path) -> Path:
    """Returns the path of the record that says whether a configuration file is trusted."""
    digest = hashlib.sha256(os.fsencode(placed(path))).hexdigest()
    return data_dir / "trust" / f"trust-{digest[:16]}.json"


def placed(path: Path) -> Path:
    """Returns a path with its directory resolved, but not a link in the file's place."""
    return resolved(path.parent) / path.name
