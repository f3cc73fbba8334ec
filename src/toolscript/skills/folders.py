"""The folders that are scanned for skills.

Those that the configuration names, or else the usual ones of agents, of the
project and of the user; then those that were added by hand. An earlier one wins
if two have a skill of the same name. Beside the usual ones stands toolscript's own.
"""

import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from toolscript.errors import SkillError
from toolscript.storage.atomic_files import is_dir, locked, write_atomically

log = logging.getLogger(__name__)
USUAL = (".agents/skills", ".claude/skills")
"""The usual folders of agents, below a project and below the home directory."""
OWN = Path(__file__).parent / "own"
"""The folder of the skill that tells an agent when to search, and how to call."""
_LOCK_TIMEOUT_S = 30.0


class AddedFolders:
    """The folders that were added by hand: a file in the data directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._told = ""

    @classmethod
    def of(cls, data_dir: Path) -> "AddedFolders":
        """Returns the list of a data directory."""
        return cls(data_dir / "skills" / "folders.json")

    def folders(self) -> tuple[Path, ...]:
        """Returns the folders in order; none if the file cannot be read (logged once)."""
        try:
            return tuple(self._read())
        except SkillError as error:
            if str(error) != self._told:
                self._told = str(error)
                log.warning("%s", error)
            return ()

    def add(self, folder: Path) -> bool:
        """Add a folder as the last; returns False if it was there already.

        Raises `SkillError`, and `OSError` if that cannot be written down.
        """
        if not is_dir(folder):
            what = "is no folder" if folder.exists() else "does not exist"
            raise SkillError(f"{folder} {what}; give a folder that holds skills")
        real = folder.resolve()
        if real in {Path(real.anchor), Path.home().resolve()}:
            raise SkillError(f"{real} holds more than skills; give a folder below it")
        return self._change(real, wanted=True)

    def remove(self, folder: Path) -> bool:
        """Remove a folder; returns False if it was not there."""
        return self._change(Path(os.path.realpath(folder)), wanted=False)

    def _read(self) -> list[Path]:
        try:
            value: Any = json.loads(self.path.read_bytes())
            return [Path(str(each)) for each in value["folders"]]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:  # it may be well: no advice to delete it
            raise SkillError(f"{self.path} cannot be read now: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise SkillError(
                f"{self.path} cannot be read: {error}; repair or delete it, and add the folders"
            ) from None

    def _change(self, folder: Path, *, wanted: bool) -> bool:
        with locked(Path(f"{self.path}.lock"), _LOCK_TIMEOUT_S):
            folders = self._read()
            if (folder in folders) is wanted:
                return False
            changed = [*folders, folder] if wanted else [f for f in folders if f != folder]
            note = json.dumps({"version": 1, "folders": [*map(str, changed)]}, indent=2)
            write_atomically(self.path, note.encode())
        return True


class SkillFolders:
    """Every folder to scan. The configured ones can be replaced.

    Args:
        added: The folders that were added by hand.
        homes: The folders below which the usual ones are.
        own: The folder of the product's skills, which is scanned if there are others and the
            configuration names none; None for no such folder.
    """

    def __init__(self, added: AddedFolders, homes: Iterable[Path], own: Path | None = None) -> None:
        self._added = added
        self._homes = tuple(homes)
        self._own = own
        self._configured: tuple[Path, ...] | None = None
        self.problem = ""
        """Why the folders of the configuration cannot be used."""

    def configure(self, configured: tuple[Path, ...] | None, problem: str = "") -> None:
        """Use the folders that the configuration names; None stands for the usual folders."""
        self._configured, self.problem = configured, problem

    def wanted(self) -> tuple[Path, ...]:
        """Returns the folders, each once, whether or not they exist."""
        usual = [home / each for home in self._homes for each in USUAL]
        named = usual if self._configured is None else self._configured
        return tuple(dict.fromkeys((*named, *self._added.folders())))

    def present(self) -> tuple[Path, ...]:
        """Returns those that exist, without those inside another one, and the product's last."""
        folders = _outermost([folder for folder in self.wanted() if is_dir(folder)])
        own = self._own if folders and self._configured is None else None
        return (*folders, own) if own else folders

    def missing(self) -> tuple[Path, ...]:
        """Returns the configured and added folders that do not exist."""
        named = (*(self._configured or ()), *self._added.folders())
        return tuple(folder for folder in dict.fromkeys(named) if not is_dir(folder))


def _outermost(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Returns the folders without those that another one contains."""
    real = {folder: Path(os.path.realpath(folder)) for folder in folders}
    kept: dict[Path, Path] = {}
    for folder in folders:
        inside = any(other in real[folder].parents for other in real.values())
        if not inside and real[folder] not in kept.values():
            kept[folder] = real[folder]
    return tuple(kept)
