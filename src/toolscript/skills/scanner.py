"""Scans folders for skills and reads them into a catalogue.

A folder with a ``SKILL.md`` is one skill; every other Markdown or text file is
one by itself. Only changed files are read again.
"""

import hashlib
import logging
import posixpath
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec

from toolscript.errors import SkillError
from toolscript.skills.confined_reader import MAX_FILE_BYTES, ConfinedReader, FileEntry, Stamp
from toolscript.skills.folders import OWN
from toolscript.skills.front_matter import FrontMatter, read_front_matter
from toolscript.skills.passages import Passage, split
from toolscript.storage.blob_store import BlobStore
from toolscript.text.display import first_lines, printable
from toolscript.text.words import compact
from toolscript.types import SKILLS, Document, skill_id

log = logging.getLogger(__name__)
SkillMode = Literal["watch", "scan_once", "list_only", "off"]
"""Watch the folders; scan them once; scan them once and embed nothing; or leave them alone."""
MANIFEST = "SKILL.md"
SUFFIXES = frozenset({".md", ".markdown", ".txt"})
_NOT_SKILLS = frozenset(
    {"readme", "license", "licence", "notice", "changelog", "contributing", "codeofconduct"}
)
MAX_PROBLEMS = 200
MAX_TOTAL_BYTES = 64 * 1024 * 1024
"""The most text of all skills; those later in the order of the folders are left out."""
_NEVER: Stamp = (-1, -1, -1, -1, -1)
"""The stamp of no file."""
MADE_BY = "7"
"""Raised when a text is read or cut differently: what is kept of unchanged files is then of no
use any more."""


class Skill(msgspec.Struct, frozen=True, kw_only=True, array_like=True, dict=True):
    """One skill: a file, its description, and its text in passages."""

    name: str
    """Its name for itself, or its place; no two skills have the same."""
    description: str
    """Its own description; may be empty."""
    root: str
    """The folder that was searched, and"""
    path: str
    """the file's path below it."""
    passages: tuple[Passage, ...]
    warnings: tuple[str, ...] = ()
    """Mistakes in its front matter that were read leniently."""
    is_for_models: bool = True
    """Whether models may find and read it; if not, it is for people."""

    @property
    def id(self) -> str:
        """``skills__name``."""
        return skill_id(self.name)

    @property
    def file(self) -> str:
        """The whole path."""
        return f"{self.root}/{self.path}"

    @property
    def summary(self) -> str:
        """Its description, its first heading, or the first line of its text."""
        if self.description:
            return self.description
        first = self.passages[0]
        return first.heading.partition(" > ")[0] or first.text.partition("\n")[0]

    @property
    def folder(self) -> str:
        """The folder of its other files, below the root; empty for one that is a single file."""
        return str(PurePosixPath(self.path).parent) if is_manifest(self.path) else ""

    @property
    def short_name(self) -> str:
        """Its name, without the folders and the suffix if it is called after its file."""
        if self.name != printable(self.path):
            return self.name
        return posixpath.splitext(posixpath.basename(self.name))[0]

    @cached_property
    def documents(self) -> list[Document]:
        """Returns the searched texts: the whole, and each passage, all under one name."""
        mine, called = self.id, self.short_name
        texts = (each.full_text for each in self.passages)
        whole = Passage("", "\n\n".join(filter(None, (self.description, *texts))))
        return [
            Document(
                # No name has a line feed, so that no skill is called like another's passage.
                id=mine if number == 0 else f"{mine}\n{number - 1}",
                parent_id=mine,
                server=SKILLS,
                name=called,
                title=text.heading,
                description=text.text,
                digest=_digest(called, text, whole=number == 0),
            )
            for number, text in enumerate((whole, *self.passages))
        ]


@dataclass(frozen=True)
class SkillCatalogue:
    """All skills now, by name. A change makes a new catalogue."""

    skills: Mapping[str, Skill] = field(default_factory=dict[str, Skill])
    problems: tuple[str, ...] = ()
    """The files that were left out, and why: a line each."""
    warnings: tuple[str, ...] = ()
    """Mistakes in files that were read all the same: a line each."""
    ids: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The skill of every file that was read as one, by root and path, also of those left out;
    one that could not be read has the id of no name."""

    @cached_property
    def documents(self) -> list[Document]:
        """The searched texts of every skill."""
        return [each for skill in self.skills.values() for each in skill.documents]

    def find(self, name: str) -> Skill | None:
        """The skill of a name or an id, whichever way that is spelled."""
        bare = name.removeprefix(f"{SKILLS}:").removeprefix(skill_id(""))
        return self.skills.get(name) or self.skills.get(bare)

    def owners(self, root: str, path: str) -> AbstractSet[str]:
        """The ids of the skills that a file belongs to: its own, or of the nearest manifest above.

        These are several only where paths differ in nothing but case, which many file systems
        do not tell apart.
        """
        place = _fold(path)
        while place and (root, place) not in self._places:
            place = place.rpartition("/")[0]
        return self._places.get((root, place), frozenset())

    @cached_property
    def _places(self) -> dict[tuple[str, str], set[str]]:
        """The ids of the files, and of the folders with a manifest, by root and path."""
        places: dict[tuple[str, str], set[str]] = {}
        for (root, path), identifier in self.ids.items():
            place = path.rpartition("/")[0] if is_manifest(path) else path
            places.setdefault((root, _fold(place)), set()).add(identifier)
        return places


class _ReadFile(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was read last: the skill, or why it is none."""

    stamp: Stamp
    skill: Skill | None
    problem: str = ""


class SkillScanner:
    """Scans folders again and again; remembers the files it has read. One thread at a time.

    ``blobs`` opens the store in which files that were read are kept for the next process, or
    says that there is none.
    """

    def __init__(self, blobs: Callable[[], BlobStore | None] = lambda: None) -> None:
        self._blobs = blobs
        self._loaded_from: Path | None = None
        self._known: dict[tuple[str, str], _ReadFile] = {}
        self.files_read = 0
        """How many times a file was read, for the statistics."""

    def scan(self, roots: Sequence[Path], before: SkillCatalogue) -> SkillCatalogue:
        """Returns the skills that are there now; ``before`` itself if nothing changed.

        A skill whose name an earlier root has already is left out and reported as a problem.
        """
        self._load()
        known: dict[tuple[str, str], _ReadFile] = {}
        problems: list[str] = []
        left = MAX_TOTAL_BYTES
        for root in roots:
            left = self._scan_root(root, known, problems, left)
        self._known = known
        catalogue = _catalogue_of(known, problems)
        if all(skill.root == str(OWN) for skill in catalogue.skills.values()):
            catalogue = replace(catalogue, skills={})  # the product's own are served with others
        return before if catalogue == before else catalogue

    def save(self) -> None:
        """Write the files that were read to the store."""
        blobs = self._blobs()
        if blobs is None:
            return
        rows = {
            "\0".join((*key, *map(str, file.stamp))): file
            for key, file in self._known.items()
            if file.skill is not None  # why a file is none may have been of the moment
        }
        encode = msgspec.msgpack.encode
        blobs.sync("files", MADE_BY, rows.keys(), lambda key: encode(rows[key]))

    def _load(self) -> None:
        """Take over the files that another process has read; a damaged row is read again."""
        blobs = self._blobs()
        if blobs is None or blobs.path == self._loaded_from:
            return
        self._loaded_from = blobs.path
        decode = msgspec.msgpack.Decoder(_ReadFile).decode
        loaded: dict[tuple[str, str], _ReadFile] = {}
        for value in blobs.load("files", MADE_BY).values():
            with suppress(ValueError):
                file = decode(value)
                if file.skill is not None:
                    loaded[file.skill.root, file.skill.path] = file
        self._known = loaded | self._known

    def _scan_root(
        self, root: Path, known: dict[tuple[str, str], _ReadFile], problems: list[str], left: int
    ) -> int:
        """Read what has changed below a root; how many of ``left`` bytes are left."""
        try:
            sandbox = ConfinedReader(root)
            walk = sandbox.walk()
        except SkillError as error:
            problems.append(str(error))
            return left
        problems += [f"{root}: {problem}" for problem in walk.problems]
        skills = _skills_among(walk.files)
        for number, found in enumerate(skills):
            left -= found.size if found.size <= MAX_FILE_BYTES else 0
            if left < 0:
                size = f"{MAX_TOTAL_BYTES // 2**20} MiB"
                problems.append(
                    f"{root}: skills take more than {size} in all; "
                    f"{len(skills) - number} files are left out, from {found.path} on"
                )
                return 0
            key = str(root), found.path
            last = self._known.get(key)
            known[key] = last if last and last.stamp == found.stamp else self._read(sandbox, found)
        return left

    def _read(self, sandbox: ConfinedReader, found: FileEntry) -> _ReadFile:
        self.files_read += 1
        try:
            content = sandbox.read(found.path)
            skill = read_skill(str(sandbox.root), found.path, content.text)
        except SkillError as error:
            # The stamp of the walk: as long as the file stays so, it is not read again.
            stamp = _NEVER if error.passing else found.stamp
            return _ReadFile(stamp, None, f"{sandbox.root}/{found.path}: {error}")
        except Exception as error:
            # A boundary: whatever is wrong with one file, the others are read.
            log.exception("the skill %s/%s could not be read", sandbox.root, found.path)
            problem = f"it could not be read ({type(error).__name__}); the log says why"
            return _ReadFile(found.stamp, None, f"{sandbox.root}/{found.path}: {problem}")
        return _ReadFile(content.stamp, skill)


def is_manifest(path: str) -> bool:
    """Whether a file makes its folder a skill."""
    return path.rpartition("/")[2] == MANIFEST


def _skills_among(files: Iterable[FileEntry]) -> list[FileEntry]:
    """The files that are skills: manifests, and text files that belong to none."""
    found = list(files)
    owned = {each.path.rpartition("/")[0] for each in found if is_manifest(each.path)}
    return [each for each in found if is_manifest(each.path) or _stands_alone(each.path, owned)]


def _stands_alone(path: str, owned: set[str]) -> bool:
    folder, _, name = path.rpartition("/")
    stem, suffix = posixpath.splitext(name)
    if suffix.casefold() not in SUFFIXES or compact(stem) in _NOT_SKILLS:
        return False
    while owned and folder and folder not in owned:
        folder = folder.rpartition("/")[0]
    return folder not in owned


def _catalogue_of(read: Mapping[tuple[str, str], _ReadFile], problems: list[str]) -> SkillCatalogue:
    skills: dict[str, Skill] = {}
    for each in read.values():
        if each.skill is None:
            problems.append(each.problem)
        elif each.skill.name in skills:
            first = skills[each.skill.name].file
            problems.append(f"{each.skill.file}: {first} has the same name; that one counts")
        else:
            skills[each.skill.name] = each.skill
    ids = {key: each.skill.id if each.skill else skill_id("") for key, each in read.items()}
    warnings = [f"{each.file}: {text}" for each in skills.values() for text in each.warnings]
    return SkillCatalogue(
        dict(sorted(skills.items())),
        tuple(map(_on_one_line, first_lines(problems, MAX_PROBLEMS))),
        tuple(map(_on_one_line, warnings[:MAX_PROBLEMS])),
        ids,
    )


def _on_one_line(text: str) -> str:
    return printable(text, 500)


def _fold(path: str) -> str:
    """A path as a file system compares it that minds neither case nor composition."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def read_skill(root: str, path: str, text: str) -> Skill:
    """The skill that a file's text makes; raises `SkillError` if it makes none."""
    markdown = not path.casefold().endswith(".txt")
    front = read_front_matter(text) if markdown else FrontMatter("", "", text)
    name, warnings = front.name, front.warnings
    if is_manifest(path):
        folder = (PurePosixPath(root) / path).parent.name
        missing = [key for key in ("name", "description") if not getattr(front, key)]
        if missing:
            warnings += (f"its front matter states no {' and no '.join(missing)}; add it",)
        name = name or printable(folder)
    passages = split(front.body, headings=markdown)
    if not passages and not front.description:
        raise SkillError("it is empty; nothing in it can be searched")
    return Skill(
        name=name or printable(path),
        description=front.description,
        root=root,
        path=path,
        passages=passages,
        warnings=warnings,
        is_for_models=front.is_for_models,
    )


def _digest(called: str, text: Passage, *, whole: bool) -> str:
    said = f"{whole}\n{called}\n{text.heading}\n{text.text}"
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()
