"""All skills of an application, followed and indexed. `ScopedSkills` shows them to a caller."""

import anyio

from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.live_index import LiveIndex
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.skill_feed import SkillFeed
from toolscript.skills.skill_manifests import FileDigests


class SkillService:
    """All skills of one application. `run` follows them; the rest may be called at any time."""

    def __init__(self, engine: SearchEngine, semantic: SemanticSignal, feed: SkillFeed) -> None:
        self.feed = feed
        self.index = LiveIndex(engine, feed)
        self._semantic = semantic
        self.digests = FileDigests()

    @property
    def ready(self) -> bool:
        """Whether the folders were scanned, and every skill in them is fully indexed."""
        return self.feed.mode == "off" or (self.feed.scanned and self.index.ready)

    @property
    def awaited(self) -> bool:
        """Whether an answer should wait until `ready`: it should if no other scan follows."""
        return self.feed.mode in {"scan_once", "list_only"} and not self.ready

    async def run(self) -> None:
        """Scan and index until cancelled."""
        if self.feed.mode == "off":
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.index.run)
            tasks.start_soon(self.feed.run)

    async def refresh(self) -> None:
        """Scans at once, and returns when every skill is indexed."""
        await self.feed.refresh()
        await self.settled()

    async def settled(self) -> None:
        """Return when `ready`."""
        if self.feed.mode != "off":
            await self.feed.changed(None)
            await self.index.settled()

    def stats(self) -> dict[str, int]:
        """Returns how many skills and passages there are, and where their vectors come from."""
        counters = self._semantic.counters
        return {
            "skills": len(self.feed.catalogue.skills),
            "passages": self.index.indexed,
            "passagesWaiting": self.index.waiting,
            "passagesEmbedded": counters.documents_embedded,
            "passagesFromCache": counters.documents_from_cache,
        }
