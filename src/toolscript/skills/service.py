"""The handbook: the skills as the application has them, looked at, indexed, searched.

One task looks at the folders and makes a new `SkillCatalogue` when something in them has
changed; another indexes each shelf as it comes. Searching is the engine's, over
passages instead of tools.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec.structs import replace

from toolscript.embedding.base import VectorCache
from toolscript.errors import SkillError, UnknownNameError
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.spelling import not_known
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.confined_reader import ConfinedReader, relative
from toolscript.skills.folders import SkillFolders
from toolscript.skills.scanner import Skill, SkillCatalogue, SkillMode, SkillScanner
from toolscript.skills.vector_pair import VectorPair
from toolscript.storage.blob_store import BlobStore
from toolscript.types import EVERYTHING, Document, Grant, SearchRequest, SearchResult

log = logging.getLogger(__name__)
TICK_S = 0.2
"""How often it is asked whether the folders are still the same ones."""
AGAIN_S = 0.5
"""After a change, another look: a folder that was made just now is watched a moment later."""
START_S = 2.0
"""And one so long after the start, when its own work is done."""
SAFETY_S = 60.0
"""And one now and then: some file systems tell nothing."""
POLL_S = 1.0
"""How often they are looked at where the system cannot tell of changes."""


@dataclass(frozen=True, slots=True)
class SkillPage:
    """A skill's file, as it is now."""

    skill: Skill
    path: str
    text: str


class SkillService:
    """All skills of one application. `run` follows them; the rest may be called meanwhile.

    ``vector`` is the seed's pair of tools, which has an index of its own.
    """

    def __init__(  # noqa: PLR0913 - the parts that bootstrap wires
        self,
        engine: SearchEngine,
        semantic: SemanticSignal,
        folders: SkillFolders,
        vector: VectorPair,
        *,
        mode: SkillMode = "watch",
        kept: Callable[[], BlobStore | None] = lambda: None,
    ) -> None:
        self.vector = vector
        self.folders = folders
        self._engine = engine
        self._semantic = semantic
        self._mode = mode
        self._scanner = SkillScanner(kept)
        self.catalogue = SkillCatalogue()
        self.fault = ""
        self._looked = mode == "off"
        self._indexed: SkillCatalogue | None = self.catalogue
        self._asked = self._answered = 0
        """How often it was asked to look, and the last of these that a look came after."""
        self._step = anyio.Event()

    @property
    def ready(self) -> bool:
        """Whether the folders were looked at, and every skill found is fully indexed."""
        return self._looked and self._indexed is self.catalogue and not self._engine.waiting

    @property
    def awaited(self) -> bool:
        """Whether an answer should wait until that is so: it is, where nobody looks again."""
        return self._mode in {"scan_once", "list_only"} and not self.ready

    @property
    def waiting(self) -> int:
        """How many passages some signal does not cover yet."""
        return self._engine.waiting

    async def run(self) -> None:
        """Look and index until cancelled."""
        if self._mode == "off":
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._index)
            again_at = anyio.current_time() + START_S
            while True:
                roots = await anyio.to_thread.run_sync(self.folders.present)
                await self._look(roots)
                if self._mode != "watch":
                    break
                await self._follow(roots, again_at)
                again_at = 0.0

    async def refresh(self) -> None:
        """Look at once, and return when what was found is indexed."""
        if self._mode == "watch":
            self._asked += 1
        mine = self._asked
        while self._answered < mine or not self.ready:
            await self._step.wait()

    async def settled(self) -> None:
        """Return when `ready`."""
        while not self.ready:
            await self._step.wait()

    async def changed(self, seen: SkillCatalogue) -> SkillCatalogue:
        """Wait until there is another shelf than ``seen``, and return it."""
        while self.catalogue is seen:
            await self._step.wait()
        return self.catalogue

    def search(self, request: SearchRequest) -> SearchResult:
        """The skills that answer, each with its best passage. Raises what the engine raises."""
        found = self._engine.search(request)
        notes = [self.fault] if self.fault else []
        if not self._looked or (self.catalogue.skills and not self._engine.indexed):
            notes.append("skills: they are being looked for; try again in a moment")
        return replace(found, degraded=(*found.degraded, *notes)) if notes else found

    def skills(self, grant: Grant = EVERYTHING) -> list[Skill]:
        """Every skill that is the caller's, by name."""
        return [skill for skill in self.catalogue.skills.values() if grant.allows(skill.id)]

    def stats(self) -> dict[str, int]:
        """How many skills and passages there are, and how many vectors were computed for them."""
        counters = self._semantic.counters
        return {
            "skills": len(self.catalogue.skills),
            "passages": self._engine.indexed,
            "passagesWaiting": self._engine.waiting,
            "passagesEmbedded": counters.documents_embedded,
            "passagesFromCache": counters.documents_from_cache,
        }

    def cache(self) -> VectorCache | None:
        """Where the passages' vectors are kept."""
        return self._semantic.cache()

    def problems(self) -> list[str]:
        """What was left out or is not there, a line each."""
        missing = [f"{folder} does not exist" for folder in self.folders.missing()]
        stated = [self.folders.problem] if self.folders.problem else []
        return [*stated, *missing, *self.catalogue.problems]

    def find(self, name: str, grant: Grant = EVERYTHING) -> Skill:
        """The skill of this name or id; `UnknownNameError` names the nearest instead."""
        skill = self.catalogue.find(name)
        if skill is None or not grant.allows(skill.id):
            raise UnknownNameError(self._unknown(name, grant))
        return skill

    def read(self, name: str, file: str = "", grant: Grant = EVERYTHING) -> SkillPage:
        """What a skill says, or another text file of its folder, as it is now.

        Raises `UnknownNameError` and what `ConfinedReader.read` raises.
        """
        skill = self.find(name, grant)
        if file and not skill.folder:
            raise SkillError(f"{skill.name} is a single file; leave the file out")
        path = f"{skill.folder}/{relative(file)}" if file else skill.path
        return SkillPage(skill, path, ConfinedReader(Path(skill.root)).read(path).text)

    def _unknown(self, name: str, grant: Grant) -> str:
        names = [skill.name for skill in self.skills(grant)]
        return not_known("skill", name, names, "search for what it should explain")

    async def _follow(self, roots: tuple[Path, ...], look_at: float) -> None:
        """Look whenever something changes below these folders, until they are others.

        And at a time, for what changed before they were watched.
        """
        async with aclosing(_news(roots)) as news:
            async for changed in news:
                present = await anyio.to_thread.run_sync(self.folders.present)
                if present != roots:
                    return
                asked = self._answered < self._asked
                if changed or asked or anyio.current_time() >= look_at:
                    found = await self._look(roots)
                    look_at = anyio.current_time() + (AGAIN_S if found else SAFETY_S)

    async def _look(self, roots: tuple[Path, ...]) -> bool:
        """Look at the folders; whether anything is other than before."""
        before, asked = self.catalogue, self._asked
        catalogue = await anyio.to_thread.run_sync(self._scanner.scan, roots, before)
        self.catalogue, self._looked, self._answered = catalogue, True, asked
        self._notify()
        if catalogue is not before:
            await anyio.to_thread.run_sync(self._scanner.keep)
        return catalogue is not before

    async def _index(self) -> None:
        """The single writer: index each shelf as it comes."""
        while True:
            catalogue = self.catalogue
            if catalogue is not self._indexed:
                self.fault = await anyio.to_thread.run_sync(self._update, catalogue)
                self._indexed = catalogue
                self._notify()
            else:
                await self._step.wait()

    def _update(self, catalogue: SkillCatalogue) -> str:

        def superseded() -> bool:
            return self.catalogue is not catalogue

        return indexed(self._engine, lambda: catalogue.documents, superseded, "skills")

    def _notify(self) -> None:
        self._step.set()
        self._step = anyio.Event()


def indexed(
    engine: SearchEngine,
    documents: Callable[[], Iterable[Document]],
    superseded: Callable[[], bool],
    noun: str,
) -> str:
    """Have an engine search these documents; what went wrong, if anything."""
    try:
        engine.update(documents(), superseded)
    except Exception as error:
        # A boundary: whatever is wrong with one state, the searches go on.
        log.exception("the %s could not be indexed", noun)
        return f"index: out of date ({type(error).__name__}: {error})"
    return ""


def merged(tools: SearchResult | None, skills: SearchResult) -> SearchResult:
    """Two results as one list by (−score, id): both scores are on the same scale."""
    if tools is None:
        return skills
    hits = sorted(
        (*tools.hits, *skills.hits),
        key=lambda hit: (-hit.score, hit.document.parent_id or hit.document.id),
    )[: tools.limit]
    nearest = [hit for hit in (tools.below, skills.below) if hit and not hits]
    return replace(
        tools,
        hits=tuple(hits),
        below=max(nearest, key=lambda hit: hit.score, default=None),
        degraded=tuple(dict.fromkeys((*tools.degraded, *skills.degraded))),
    )


async def _news(roots: Sequence[Path]) -> AsyncGenerator[bool]:
    """Every `TICK_S`: whether something may have changed below these folders since the last one."""
    if roots:
        from watchfiles import awatch  # noqa: PLC0415  # pyright: ignore[reportUnknownVariableType] - slow to import, not fully typed

        try:
            async for changes in awatch(
                *roots,
                watch_filter=None,
                debounce=400,
                rust_timeout=int(TICK_S * 1000),
                yield_on_timeout=True,
                ignore_permission_denied=True,
            ):
                yield bool(changes)
        except (OSError, RuntimeError) as error:  # no more watches, or a folder that is gone
            log.warning("skills are looked at every %g s: %s", POLL_S, error)
    while True:
        await anyio.sleep(POLL_S if roots else TICK_S)
        yield bool(roots)
