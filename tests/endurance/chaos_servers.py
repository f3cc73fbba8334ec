"""The servers, and what is done to them at random."""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from tests.endurance.observed import living
from tests.gateways import configure, scripted, write

_FLOODS = ("stderr", "stdout", "notifications", "list_changed", "line")
_SUBJECTS = ("invoices", "weather", "tickets", "photos", "backups", "meetings", "parcels", "songs")
_ACTIONS = ("list", "delete", "search", "archive", "translate")
_PAUSE_S = 0.3
"""Between two deeds, on average."""
_LONGEST_S = 8.0
"""So long a server hangs or floods at most, unless something else ends that."""


@dataclass
class Servers:
    """Servers over stdio whose files lie in one folder, and what has been done to them."""

    folder: Path
    number: int
    with_projects: bool
    """Whether each runs once for each of the `projects`, in that folder."""
    chance: random.Random
    deeds: Counter[str] = field(default_factory=Counter[str])
    hit: int = 0
    """How often a server that ran was killed or stopped."""
    tools: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _edits: Counter[str] = field(default_factory=Counter[str])
    _versions: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        """Write every file that is needed."""
        for project in self.projects:
            project.mkdir(parents=True)
        for name in self.names:
            self._offer(name)
            write(self._file(name, "floods"), "")
            self._file(name, "starts").touch()
        self._configure()

    @property
    def projects(self) -> list[Path]:
        """The folders that clients work in."""
        return [self.folder / "projects" / name for name in ("one", "other", "third")]

    @property
    def names(self) -> list[str]:
        """What they are called."""
        return [f"s{n:02}" for n in range(self.number)]

    async def suffer(self) -> None:
        """Do something to one of them, again and again, until cancelled."""
        deeds = (self._kill, self._hang, self._flood, self._change, self._restart)
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.sleep(self.chance.uniform(0.1, 2 * _PAUSE_S - 0.1))
                deed = self.chance.choice(deeds)
                self.deeds[deed.__name__.strip("_")] += 1
                tasks.start_soon(deed, self.chance.choice(self.names))

    def recover(self) -> None:
        """End whatever is being done, and start every one of them anew."""
        for name in self.names:
            write(self._file(name, "floods"), "")
            self._signal(name, signal.SIGCONT)
            self._edits[name] += 1
        self._configure()

    async def _kill(self, name: str) -> None:
        self.hit += self._signal(name, signal.SIGKILL)

    async def _hang(self, name: str) -> None:
        self.hit += self._signal(name, signal.SIGSTOP)
        await self._while(partial(self._signal, name, signal.SIGCONT))

    async def _flood(self, name: str) -> None:
        write(self._file(name, "floods"), self.chance.choice(_FLOODS))
        await self._while(lambda: write(self._file(name, "floods"), ""))

    async def _change(self, name: str) -> None:
        self._versions[name] += 1
        self._offer(name)

    async def _restart(self, name: str) -> None:
        """As a user does who edits the configuration."""
        self._edits[name] += 1
        self._configure()

    async def _while(self, end: Callable[[], object]) -> None:
        try:
            await anyio.sleep(self.chance.uniform(0.5, _LONGEST_S))
        finally:
            end()

    def _offer(self, name: str) -> None:
        version = self._versions[name]
        subject = _SUBJECTS[(int(name[1:]) + version) % len(_SUBJECTS)]
        self.tools[name] = [f"{action}_{subject}_{version}" for action in _ACTIONS]
        tools = [
            {
                "name": tool,
                "description": f"{tool.replace('_', ' ').capitalize()} of {name}",
                "inputSchema": {"type": "object", "properties": {"token": {"type": "string"}}},
            }
            for tool in self.tools[name]
        ]
        write(self._file(name, "tools"), json.dumps(tools))

    def _configure(self) -> None:
        configure(self.folder, {name: self._entry(name) for name in self.names})

    def _entry(self, name: str) -> dict[str, Any]:
        files = {"tools_file": "tools", "floods": "floods", "starts": "starts"}
        will = {key: str(self._file(name, kind)) for key, kind in files.items()}
        entry = scripted(name=name, placed=True, **will)
        place = {"cwd": "${PROJECT}"} if self.with_projects else {"start": "eager"}
        return entry | {"env": {"EDIT": str(self._edits[name])}} | place

    def _file(self, name: str, kind: str) -> Path:
        return self.folder / f"{name}.{kind}"

    def _signal(self, name: str, number: int) -> bool:
        """Returns whether the server ran and was sent the signal."""
        started = self._file(name, "starts").read_text("utf-8").split()
        if started and self._is_ours(int(started[-1])):
            with suppress(ProcessLookupError):
                os.kill(int(started[-1]), number)
                return True
        return False

    def _is_ours(self, pid: int) -> bool:
        """Whether that process is still the server: numbers are given anew."""
        return pid in living(self.folder)
