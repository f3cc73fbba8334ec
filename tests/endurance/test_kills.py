"""Processes that are killed at random moments leave everything whole that had been acknowledged."""

import os
import random
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from tests.endurance.effort import Effort
from tests.endurance.killed_logins import kill_while_refreshing
from toolscript.embedding.loader import Choice, identify
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.types import ServerSpec, ToolSpec

# The cache of vectors

_DOCUMENTS = 400
_INDEX = """
import sys
from pathlib import Path
from toolscript.embedding.loader import Choice, lazy
from toolscript.embedding.loader import Choice, identify
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.retrieval.base import Corpus
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document

model = lazy(Choice("bundled", threads=1))
path = Path(sys.argv[1])
documents = [
    Document(id=f"s__t{n:05}", server="s", name=f"t{n:05}", digest=f"{n:064}")
    for n in range(int(sys.argv[2]))
]
signal = SemanticSignal(model, lambda: SqliteVectorCache(path), save_every_s=0)
for _ in signal.prepare(Corpus(documents)):
    pass
print(signal.counters.documents_embedded)
"""


def index(path: Path) -> "subprocess.Popen[str]":
    """Starts a process that indexes, and saves after every batch."""
    command = [sys.executable, "-c", _INDEX, str(path), str(_DOCUMENTS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.requirement("cache:safe")
def test_the_cache_survives_kills_and_processes_at_once(tmp_path: Path, effort: Effort) -> None:
    """cache:safe: nothing saved is lost, and the next process embeds only the rest."""
    identity = identify(Choice("bundled", threads=1))
    assert identity is not None
    model_name = identity.name
    cache, chance = SqliteVectorCache(tmp_path / "cache.sqlite"), effort.chance
    before: set[str] = set()
    for _ in range(effort.times(60, 2)):
        with index(cache.path) as process:
            time.sleep(chance.uniform(0.2, 1.6))
            process.kill()
        saved = set(cache.load(model_name))
        assert before <= saved
        before = saved
        if len(saved) == _DOCUMENTS:
            cache.path.unlink()
            before = set()
    with index(cache.path) as process:
        assert process.communicate()[0].strip() == str(_DOCUMENTS - len(before))
    shared = SqliteVectorCache(tmp_path / "shared.sqlite")
    running = [index(shared.path) for _ in range(effort.times(8, 2))]
    for process in running:
        process.communicate()
    assert {process.returncode for process in running} == {0}
    assert len(shared.load(model_name)) == _DOCUMENTS


# Definitions that were accepted

_SERVER = ServerSpec(name="server", transport="stdio", command="server")


def tool(number: int, text: str = "") -> ToolSpec:
    """Returns a tool whose text is like no other's."""
    words = " ".join(f"w{number * 17 + place}" for place in range(8))
    return ToolSpec(server="server", name=f"t{number}", description=f"{words} {text}")


def list_tools(folder: Path, pipe: int) -> None:
    """Lists one tool more each time, beside one that has changed, and reports every listing."""
    pins, tools = DefinitionPins(folder, "key"), [tool(0)]
    pins.review(_SERVER, tools)
    os.write(pipe, b".")
    for number in count(1):
        tools.append(tool(number))
        pins.review(_SERVER, [tool(0, "changed"), *tools[1:]])
        os.write(pipe, b".")


def kill_while_listing(folder: Path, after_s: float) -> int:
    """Kills a process while it lists tools; returns how many listings had returned."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        try:
            list_tools(folder, write)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        first = pipe.read(1)  # the first definition is accepted
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return len(first + pipe.read()) - 1


def test_pins_survive_kills(tmp_path: Path, effort: Effort) -> None:
    """What was listed stays accepted, and a changed definition is not."""
    chance = effort.chance
    for turn in range(effort.times(400, 10)):
        folder = tmp_path / str(turn)
        listings = kill_while_listing(folder, chance.uniform(0, 0.08))
        pins, tools = DefinitionPins(folder, "key"), [tool(n) for n in range(listings + 1)]
        accepted = {spec.name for spec in pins.review(_SERVER, tools).accepted}
        assert accepted == {spec.name for spec in tools}
        held = pins.review(_SERVER, [tool(0, "changed"), *tools[1:]]).held
        assert [change.tool.name for change in held] == ["t0"]


def damage(path: Path, turn: int, chance: random.Random) -> None:
    """Deletes a file, flips one of its bits, or cuts it."""
    data = bytearray(path.read_bytes())
    if turn % 10 == 0:
        path.unlink()
    elif turn % 2:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    else:
        path.write_bytes(data[: chance.randrange(len(data))])


def test_damaged_pins_accept_nothing(tmp_path: Path, effort: Effort) -> None:
    chance, tools = effort.chance, [tool(number) for number in range(5)]
    for turn in range(effort.times(200, 10)):
        folder = tmp_path / str(turn)
        DefinitionPins(folder, "key").review(_SERVER, tools)
        [path] = folder.rglob("pins/key/*.json")
        damage(path, turn, chance)
        assert not DefinitionPins(folder, "key").review(_SERVER, tools).accepted


# Logins


@pytest.mark.both_storages
@pytest.mark.timeout(180)
def test_m12_a_login_is_lost_by_a_kill_during_its_refresh_only(
    tmp_path: Path, storage: dict[str, str], effort: Effort
) -> None:
    """upstream:transports: the provider's answer to a killed process is lost."""
    result = kill_while_refreshing(tmp_path, effort.times(12, 3), seed=3, storage=storage)
    assert result["refreshes"], result
    assert not result["lost otherwise"], result
