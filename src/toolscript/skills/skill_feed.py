"""Skills as a feed for a live index: their folders are scanned again if something changes."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.to_thread

from toolscript.skills.folders import SkillFolders
from toolscript.skills.scanner import SkillCatalogue, SkillMode, SkillScanner
from toolscript.storage.blob_store import BlobStore
from toolscript.types import Document

log = logging.getLogger(__name__)
TICK_S = 0.2
"""How often the watcher checks that the folders are still the same ones."""
AGAIN_S = 0.5
"""After a change the folders are scanned again: a new folder is watched only a moment later."""
START_S = 2.0
"""A second scan comes so long after the start: the watcher missed changes before it ran."""
SAFETY_S = 60.0
"""A scan comes at least so often: some file systems report no changes."""
POLL_S = 1.0
"""How often the folders are scanned if the system cannot report changes."""


class SkillFeed:
    """Brings a catalogue of skills while `run` runs: see `Feed`.

    Args:
        folders: The folders of skills.
        mode: How the folders are followed.
        blobs: Opens the store of the files that were read.
    """

    noun = "skills"

    def __init__(
        self,
        folders: SkillFolders,
        mode: SkillMode = "watch",
        blobs: Callable[[], BlobStore | None] = lambda: None,
    ) -> None:
        self.folders = folders
        self.mode: SkillMode = mode
        self.catalogue = SkillCatalogue()
        self.scanned = False
        """Whether the folders have been scanned at all."""
        self._scanner = SkillScanner(blobs)
        self._requested = self._answered = 0
        """How many scans were requested, and the last of these that a scan came after."""
        self._step = anyio.Event()

    async def run(self) -> None:
        """Scans the folders as the mode says, until cancelled or done."""
        scan_at = anyio.current_time() + START_S
        while self.mode != "off":
            roots = await anyio.to_thread.run_sync(self.folders.present)
            await self._scan(roots)
            if self.mode != "watch":
                return
            await self._watch(roots, scan_at)
            scan_at = 0.0

    async def refresh(self) -> None:
        """Return after a scan that began after this call; at once if none is to come."""
        if self.mode != "watch":
            return
        self._requested += 1
        mine = self._requested
        while self._answered < mine:
            await self._step.wait()

    async def changed(self, seen: SkillCatalogue | None) -> SkillCatalogue:
        """See `Feed`. There is none before the first scan."""
        while self.catalogue is seen or not self.scanned:
            await self._step.wait()
        return self.catalogue

    def documents(self, catalogue: SkillCatalogue) -> Sequence[Document]:
        """See `Feed`."""
        return catalogue.documents

    def save(self, catalogue: SkillCatalogue) -> None:
        """See `Feed`. Writes the texts down, so that the next start need not read them."""
        del catalogue
        self._scanner.save()

    async def _watch(self, roots: tuple[Path, ...], scan_at: float) -> None:
        """Scan whenever something changes below these folders, until they are others."""
        async with aclosing(_changes(roots)) as changes:
            async for changed in changes:
                present = await anyio.to_thread.run_sync(self.folders.present)
                if present != roots:
                    return
                requested = self._answered < self._requested
                if changed or requested or anyio.current_time() >= scan_at:
                    differs = await self._scan(roots)
                    scan_at = anyio.current_time() + (AGAIN_S if differs else SAFETY_S)

    async def _scan(self, roots: tuple[Path, ...]) -> bool:
        """Scan the folders; returns whether anything differs from before."""
        before, requested = self.catalogue, self._requested
        self.catalogue = await anyio.to_thread.run_sync(self._scanner.scan, roots, before)
        self.scanned, self._answered = True, requested
        self._step.set()
        self._step = anyio.Event()
        return self.catalogue is not before


async def _changes(roots: Sequence[Path]) -> AsyncGenerator[bool]:
    """Yields every `TICK_S` whether something may have changed below these folders since then."""
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
