"""Computes the manifests of skills in folders, for clients of the extension SEP-2640."""

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from toolscript.errors import SkillError
from toolscript.skills.confined_reader import ConfinedReader, FileEntry, Stamp
from toolscript.skills.front_matter import read_every_field
from toolscript.skills.scanner import MANIFEST, Skill, is_manifest

MAX_FILES, MAX_BYTES = 512, 16 * 1024 * 1024
"""The limits that the extension sets for one skill."""
MAX_DESCRIPTION_CHARS = 1024
_NAME = re.compile(r"(?=.{1,64}$)[a-z0-9]+(-[a-z0-9]+)*")


class FileDigest(msgspec.Struct, frozen=True):
    """The content of a skill's file."""

    digest: str
    """``sha256:`` and 64 hex digits."""
    size: int
    """In bytes."""


class SkillManifest(msgspec.Struct, frozen=True):
    """A skill as clients of the extension get it."""

    frontmatter: dict[str, Any]
    """Every field of its ``SKILL.md``."""
    files: dict[str, FileDigest]
    """All of its files, by their paths below its folder, spelled as in a URI."""


def conforms(skill: Skill) -> bool:
    """Whether a skill in a folder may be one by the Agent Skills specification."""
    return is_manifest(skill.path) and bool(_NAME.fullmatch(skill.name) and skill.description)


class FileDigests:
    """The digests of local files, each remembered for as long as the file stays as it is."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Stamp, FileDigest, dict[str, Any]]] = {}

    def manifests(
        self, skills: Sequence[Skill], may_read: Callable[[str, str], bool]
    ) -> list[SkillManifest | None]:
        """Returns the manifest of each skill. Reads files.

        Args:
            skills: Skills in folders.
            may_read: Whether the caller may read a file: its root, and its path below that.

        Returns:
            None stands for a skill that no client has to accept.
        """
        files: dict[str, list[FileEntry]] = {}
        for root in {skill.root for skill in skills}:
            try:
                files[root] = ConfinedReader(Path(root)).walk().files
            except SkillError:  # the folder has just gone
                files[root] = []
        return [
            self._manifest(
                skill, [each for each in files[skill.root] if may_read(skill.root, each.path)]
            )
            for skill in skills
        ]

    def _manifest(self, skill: Skill, files: Sequence[FileEntry]) -> SkillManifest | None:
        folder = skill.path.removesuffix(MANIFEST)
        mine = [each for each in files if each.path.startswith(folder)]
        if len(mine) > MAX_FILES or sum(each.size for each in mine) > MAX_BYTES:
            return None
        known = {each.path: self._file(skill.root, each) for each in mine}
        manifest = known.get(skill.path)
        fields = manifest[1] if manifest else {}
        description = fields.get("description")
        if fields.get("name") != skill.name or not isinstance(description, str):
            return None
        if len(description) > MAX_DESCRIPTION_CHARS:
            return None
        digests = {
            quote(path.removeprefix(folder)): file[0] for path, file in known.items() if file
        }
        return SkillManifest(fields, digests)

    def _file(self, root: str, found: FileEntry) -> tuple[FileDigest, dict[str, Any]] | None:
        """Returns a file's digest, and the front matter of a ``SKILL.md``; None if unreadable."""
        known = self._known.get((root, found.path))
        if known is None or known[0] != found.stamp:
            try:
                data, stamp = ConfinedReader(Path(root)).read_bytes(found.path)
            except SkillError:
                return None
            fields: dict[str, Any] = {}
            if is_manifest(found.path):
                text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
                fields = read_every_field(text)
            file = FileDigest(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))
            known = self._known[root, found.path] = stamp, file, fields
        return known[1:]
