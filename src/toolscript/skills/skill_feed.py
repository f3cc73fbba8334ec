"""Skills as a feed for a live index: those in folders, and those that servers serve.

The folders are scanned again whenever something in them changes.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.definitions.comparison import HeldTool
from toolscript.gateway.gateway import Gateway
from toolscript.skills.folders import SkillFolders
from toolscript.skills.scanner import SkillCatalogue, SkillMode, SkillScanner
from toolscript.skills.server_skills import list_held_skills, server_skills
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
        gateway: Knows the skills that servers serve; None for none.
    """

    noun = "skills"

    def __init__(
        self,
        folders: SkillFolders,
        mode: SkillMode = "watch",
        blobs: Callable[[], BlobStore | None] = lambda: None,
        gateway: Gateway | None = None,
    ) -> None:
        self.folders = folders
        self.mode: SkillMode = mode
        self.catalogue = SkillCatalogue()
        self.scanned = False
        """Whether the folders have been scanned at all."""
        self._scanner = SkillScanner(blobs)
        self._gateway = gateway
        self._local = SkillCatalogue()
        """The skills in the folders."""
        self._requested = self._answered = 0
        """How many scans were requested, and the last of these that a scan came after."""
        self._step = anyio.Event()

    async def run(self) -> None:
        """Follows folders and servers, until cancelled or done."""
        async with anyio.create_task_group() as tasks:
            if self._gateway is not None and self.mode != "off":
                tasks.start_soon(self._follow_servers, self._gateway)
            await self._follow_folders()

    async def _follow_servers(self, gateway: Gateway) -> None:
        seen: Catalogue | None = None
        while True:
            seen = await gateway.changed(seen)
            self._publish()

    def find_held(self, name: str) -> HeldTool | None:
        """Returns the held skill of a server that has this name or id."""
        held = self._gateway.catalogue.find_held(name) if self._gateway else None
        return held if held is not None and held.tool.skill is not None else None

    def list_again(self, server: str) -> None:
        """Has a server list its skills again, if it is connected."""
        if self._gateway is not None:
            self._gateway.managed(server).list_again()

    async def _follow_folders(self) -> None:
        """Scan the folders as the mode says, until cancelled or done."""
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
        before, requested = self._local, self._requested
        self._local = await anyio.to_thread.run_sync(self._scanner.scan, roots, before)
        self.scanned, self._answered = True, requested
        self._publish()
        return self._local is not before

    def _publish(self) -> None:
        """Makes one catalogue of both kinds of skills."""
        served = server_skills(self._gateway.catalogue) if self._gateway else {}
        held = list_held_skills(self._gateway.catalogue) if self._gateway else ()
        skills = {**self._local.skills, **served}
        catalogue = replace(self._local, skills=skills, held=held)
        if catalogue != self.catalogue:
            self.catalogue = catalogue
        self._step.set()
        self._step = anyio.Event()


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
