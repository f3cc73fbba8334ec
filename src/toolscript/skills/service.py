"""The skills of an application: followed, searched, listed and read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec.structs import replace

from toolscript.errors import SkillError, UnknownNameError
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.spelling import not_known
from toolscript.retrieval.live_index import LiveIndex
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.confined_reader import ConfinedReader, missing, relative
from toolscript.skills.scanner import Skill
from toolscript.skills.skill_feed import SkillFeed
from toolscript.types import EVERYTHING, Grant, SearchRequest, SearchResult


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
    """What was left out or is not there, a line each."""
    warnings: Sequence[str] = ()
    """Mistakes in skills that were read all the same, a line each."""
    stats: Mapping[str, int] | None = None
    """How many skills and passages there are, and how many vectors were computed for them."""


class SkillService:
    """All skills of one application. `run` follows them; the rest may be called at any time."""

    def __init__(self, engine: SearchEngine, semantic: SemanticSignal, feed: SkillFeed) -> None:
        self.feed = feed
        self.index = LiveIndex(engine, feed)
        self._semantic = semantic

    @property
    def ready(self) -> bool:
        """Whether the folders were scanned, and every skill in them is fully indexed."""
        return self.feed.mode == "off" or (self.feed.scanned and self.index.ready)

    @property
    def awaited(self) -> bool:
        """Whether an answer should wait until `ready`: it should, where no other scan follows."""
        return self.feed.mode in {"scan_once", "list_only"} and not self.ready

    async def run(self) -> None:
        """Scan and index until cancelled."""
        if self.feed.mode == "off":
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.index.run)
            tasks.start_soon(self.feed.run)

    async def refresh(self) -> None:
        """Scan at once, and return when what was found is indexed."""
        await self.feed.refresh()
        await self.settled()

    async def settled(self) -> None:
        """Return when `ready`."""
        if self.feed.mode != "off":
            await self.feed.changed(None)
            await self.index.settled()

    async def search(self, request: SearchRequest) -> SearchResult:
        """Returns the skills that answer, each with its best passage.

        Raises what `LiveIndex.search` raises.
        """
        result = await self.index.search(request)
        unscanned = self.feed.mode != "off" and not self.feed.scanned
        if unscanned or (self.feed.catalogue.skills and not self.index.indexed):
            note = "skills: they are being looked for; try again in a moment"
            return replace(result, degraded=(*result.degraded, note))
        return result

    def visible(self, grant: Grant = EVERYTHING) -> list[Skill]:
        """Every skill that is the caller's, by name."""
        return [skill for skill in self.feed.catalogue.skills.values() if grant.allows(skill.id)]

    def report(self, grant: Grant = EVERYTHING) -> SkillReport:
        """Returns the caller's skills; where they come from, for who may see everything."""
        skills = self.visible(grant)
        if not grant.is_whole:
            return SkillReport(skills, self.ready)
        folders, counters = self.feed.folders, self._semantic.counters
        missing = [f"{folder} does not exist" for folder in folders.missing()]
        problems = [*filter(None, [folders.problem]), *missing, *self.feed.catalogue.problems]
        stats = {
            "skills": len(self.feed.catalogue.skills),
            "passages": self.index.indexed,
            "passagesWaiting": self.index.waiting,
            "passagesEmbedded": counters.documents_embedded,
            "passagesFromCache": counters.documents_from_cache,
        }
        warnings = self.feed.catalogue.warnings
        return SkillReport(skills, self.ready, folders.present(), problems, warnings, stats)

    def find(self, name: str, grant: Grant = EVERYTHING) -> Skill:
        """The skill of this name or id; `UnknownNameError` names the nearest instead."""
        skill = self.feed.catalogue.find(name)
        if skill is None or not grant.allows(skill.id):
            names = [skill.name for skill in self.visible(grant)]
            advice = "search for what it should explain"
            raise UnknownNameError(not_known("skill", name, names, advice))
        return skill

    async def read(self, name: str, file: str = "", grant: Grant = EVERYTHING) -> SkillPage:
        """Returns what a skill says, or another text file of its folder, as it is now.

        A file that belongs to another skill, whose folder lies in this one's, is there for
        those only who may read that one, too. Raises `UnknownNameError` and what
        `ConfinedReader.read` raises.
        """
        skill = self.find(name, grant)
        if file and not skill.folder:
            raise SkillError(f"{skill.name} is a single file; leave the file out")
        path = relative(f"{skill.folder}/{relative(file)}") if file else skill.path
        owners = self.feed.catalogue.owners(skill.root, path) if file else ()
        if not all(map(grant.allows, owners)):
            raise missing(path)
        content = await anyio.to_thread.run_sync(ConfinedReader(Path(skill.root)).read, path)
        return SkillPage(skill, path, content.text)
