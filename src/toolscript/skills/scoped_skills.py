"""The skills of an application as one caller may see them: searched, listed and read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import anyio.to_thread
from msgspec.structs import replace

from toolscript.errors import SkillError, UnknownNameError
from toolscript.retrieval.lexical.spelling import not_known
from toolscript.skills.confined_reader import ConfinedReader, missing, relative
from toolscript.skills.scanner import Skill
from toolscript.skills.service import SkillService
from toolscript.skills.skill_manifests import SkillManifest
from toolscript.types import Grant, SearchRequest, SearchResult


@dataclass(frozen=True, slots=True)
class SkillPage:
    """A skill's file, as it is now."""

    skill: Skill
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class SkillReport:
    """The skills that a caller may know, and where they come from."""

    skills: Sequence[Skill]
    ready: bool
    """Whether everything in the folders is indexed."""
    folders: Sequence[Path] = ()
    """The folders that are scanned."""
    problems: Sequence[str] = ()
    """Files that were left out and folders that do not exist, a line each."""
    warnings: Sequence[str] = ()
    """Mistakes in skills that were read all the same, a line each."""
    stats: Mapping[str, int] | None = None
    """How many skills and passages there are, and how many vectors were computed for them."""


@dataclass(frozen=True, slots=True)
class ScopedSkills:
    """The skills that a grant allows. Holds nothing; it is made for one answer.

    Args:
        service: All skills.
        grant: What the caller may read, and no rule denies it.
    """

    service: SkillService
    grant: Grant

    async def search(self, request: SearchRequest) -> SearchResult:
        """Returns the skills that answer, each with its best passage; raises as `LiveIndex.search`.

        The request's own grant does not count.
        """
        service = self.service
        result = await service.index.search(replace(request, grant=self.grant))
        unscanned = service.feed.mode != "off" and not service.feed.scanned
        if unscanned or (service.feed.catalogue.skills and not service.index.indexed):
            note = "skills: they are being looked for; try again in a moment"
            return replace(result, degraded=(*result.degraded, note))
        return result

    def all(self) -> list[Skill]:
        """Returns every skill that is the caller's, by name."""
        skills = self.service.feed.catalogue.skills.values()
        return [skill for skill in skills if self.grant.allows(skill.id)]

    def report(self) -> SkillReport:
        """Returns the caller's skills, and their origin if the caller may see everything."""
        service, skills = self.service, self.all()
        if not self.grant.is_whole:
            return SkillReport(skills, service.ready)
        catalogue, folders = service.feed.catalogue, service.feed.folders
        absent = [f"{folder} does not exist" for folder in folders.missing()]
        problems = [*filter(None, [folders.problem]), *absent, *catalogue.problems]
        return SkillReport(
            skills, service.ready, folders.present(), problems, catalogue.warnings, service.stats()
        )

    def find(self, name: str) -> Skill:
        """Returns the skill of this name or id; `UnknownNameError` names the nearest instead."""
        skill = self.service.feed.catalogue.find(name)
        if skill is None or not self.grant.allows(skill.id):
            names = [skill.name for skill in self.all()]
            advice = "search for what it should explain"
            raise UnknownNameError(not_known("skill", name, names, advice))
        return skill

    async def read(self, name: str, file: str = "") -> SkillPage:
        """Returns a skill's text, or another text file of its folder, as it is now.

        A file that belongs to another skill, whose folder lies in this one's, is there for
        those only who may read that one, too. Raises `UnknownNameError`, and the errors of
        `ConfinedReader.read`.
        """
        skill = self.find(name)
        if file and not skill.folder:
            raise SkillError(f"{skill.name} is a single file; leave the file out")
        path = relative(f"{skill.folder}/{relative(file)}") if file else skill.path
        if file and not self._may_read(skill.root, path):
            raise missing(path)
        content = await anyio.to_thread.run_sync(ConfinedReader(Path(skill.root)).read, path)
        return SkillPage(skill, path, content.text)

    async def read_bytes(self, skill: Skill, file: str) -> bytes:
        """Returns a file of a skill's folder, spelled as in a URI, as it is; see `read`."""
        path = relative(f"{skill.folder}/{relative(unquote(file))}")
        if not self._may_read(skill.root, path):
            raise missing(path)
        reader = ConfinedReader(Path(skill.root))
        return (await anyio.to_thread.run_sync(reader.read_bytes, path))[0]

    async def manifests(self, skills: Sequence[Skill]) -> list[SkillManifest | None]:
        """Returns the manifest of each skill; None for one that no client has to accept."""
        compute = self.service.digests.manifests
        return await anyio.to_thread.run_sync(compute, skills, self._may_read)

    def _may_read(self, root: str, path: str) -> bool:
        """Whether the caller may read every skill that a file belongs to."""
        return all(map(self.grant.allows, self.service.feed.catalogue.owners(root, path)))

    async def refresh(self) -> None:
        """Scans all folders at once, and returns when every skill in them is indexed."""
        await self.service.refresh()

    async def settle(self) -> None:
        """Waits until every skill is indexed."""
        await self.service.settled()
