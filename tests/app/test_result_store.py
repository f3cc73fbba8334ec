"""Results that are kept for models: for whom, for how long, and how many."""

import os
import random
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from toolscript.app.result_store import (
    LIFETIME_S,
    MAX_BYTES,
    MAX_PER_OWNER,
    MAX_STORED,
    ResultOwner,
    ResultStore,
)
from toolscript.errors import UnknownNameError
from toolscript.types import EVERYTHING, Grant

OWNER = "session", EVERYTHING


class Clock:
    """Time that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def new(tmp_path: Path) -> Generator[Callable[..., ResultStore]]:
    """Makes a store, which is closed after the test."""
    with ExitStack() as stack:

        def make(clock: Clock | None = None) -> ResultStore:
            results = ResultStore(tmp_path / "data" / "results", clock or Clock())
            stack.callback(results.close)
            return results

        yield make


def owner(name: str) -> ResultOwner:
    return name, EVERYTHING


def is_kept(results: ResultStore, name: str, handle: str) -> bool:
    try:
        results.get(owner(name), handle)
    except UnknownNameError:
        return False
    return True


def test_a_result_is_its_owners_alone_and_for_an_hour(new: Callable[..., ResultStore]) -> None:
    clock = Clock()
    results = new(clock)
    handle = results.add(OWNER, b"whole")
    assert results.get(OWNER, handle) == b"whole"
    narrow = Grant(servers=("*",), profiles=("work",))
    for other in (("session", narrow), ("other", EVERYTHING), ("", EVERYTHING)):
        with pytest.raises(UnknownNameError, match="for an hour, or until newer ones need"):
            results.get(other, handle)
    clock.now = LIFETIME_S - 1
    assert results.get(OWNER, handle) == b"whole"
    clock.now = LIFETIME_S
    with pytest.raises(UnknownNameError):
        results.get(OWNER, handle)


def test_a_result_ends_with_its_session(new: Callable[..., ResultStore]) -> None:
    results = new()
    gone, kept = results.add(owner("a"), b"1"), results.add(owner("b"), b"2")
    results.end_session("a")
    assert not is_kept(results, "a", gone)
    assert is_kept(results, "b", kept)


def test_the_oldest_goes_first_and_one_owner_does_not_drive_out_others(
    new: Callable[..., ResultStore],
) -> None:
    results = new()
    first = results.add(owner("quiet"), b"1")
    loud = [results.add(owner("loud"), b"2") for _ in range(MAX_STORED)]
    assert is_kept(results, "quiet", first)
    assert [is_kept(results, "loud", handle) for handle in loud[-MAX_PER_OWNER - 1 :]] == [
        False,
        *[True] * MAX_PER_OWNER,
    ]
    for number in range(MAX_STORED):
        results.add(owner(str(number)), b"3")
    assert not is_kept(results, "quiet", first)


def test_together_they_have_a_bound(new: Callable[..., ResultStore]) -> None:
    results, half = new(), bytes(MAX_BYTES // 2)
    handles = [results.add(owner("a"), half) for _ in range(3)]
    assert [is_kept(results, "a", handle) for handle in handles] == [False, True, True]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_result_is_on_disk_in_a_file_that_nobody_else_can_open(
    new: Callable[..., ResultStore], tmp_path: Path
) -> None:
    results, folder = new(), tmp_path / "data" / "results"
    results.add(OWNER, b"whole")
    targets = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    assert sum(target.startswith(str(folder)) for target in targets) == 1
    assert not [*folder.iterdir()]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    results.close()


def test_a_result_that_is_dropped_while_it_is_read_is_read_to_its_end(
    new: Callable[..., ResultStore],
) -> None:
    results, content = new(), random.Random(1).randbytes(1 << 20)  # noqa: S311 - no secret
    wrong = list[object]()

    def read(handle: str) -> None:
        try:
            while True:
                wrong.extend([None] * (results.get(OWNER, handle) != content))
        except UnknownNameError:
            pass
        except OSError as error:
            wrong.append(error)

    for _ in range(20):
        handle = results.add(OWNER, content)
        readers = [Thread(target=read, args=(handle,)) for _ in range(3)]
        for reader in readers:
            reader.start()
        results.end_session("session")
        for reader in readers:
            reader.join()
    assert not wrong
