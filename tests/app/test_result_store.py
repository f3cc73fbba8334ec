"""Results that are kept for models: for whom, for how long, and how many."""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any, TypeAlias

import pytest

from toolscript.app.result_store import LIFETIME_S, MAX_BYTES, MAX_KEPT, MAX_PER_CALLER, ResultStore
from toolscript.errors import UnknownNameError

New: TypeAlias = Callable[..., ResultStore]


class Clock:
    """Time that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def new() -> Generator[Callable[..., ResultStore]]:
    """Makes a store, which is closed after the test."""
    with ExitStack() as stack:

        def make(*arguments: Any) -> ResultStore:
            results = ResultStore(*arguments)
            stack.callback(results.close)
            return results

        yield make


def test_a_result_is_its_callers_alone_and_for_an_hour(new: New) -> None:
    clock = Clock()
    results = new(clock)
    handle = results.add(("session", "grant"), b"whole")
    assert results.get(("session", "grant"), handle) == b"whole"
    for other in (("session", "other"), ("other", "grant"), None):
        with pytest.raises(UnknownNameError, match="is kept here; results are kept for an hour"):
            results.get(other, handle)
    clock.now = LIFETIME_S - 1
    assert results.get(("session", "grant"), handle) == b"whole"
    clock.now = LIFETIME_S
    with pytest.raises(UnknownNameError):
        results.get(("session", "grant"), handle)


def is_kept(results: ResultStore, caller: str, handle: str) -> bool:
    try:
        results.get(caller, handle)
    except UnknownNameError:
        return False
    return True


def test_the_oldest_goes_first_and_one_caller_does_not_drive_out_others(new: New) -> None:
    results = new()
    first = results.add("quiet", b"1")
    loud = [results.add("loud", b"2") for _ in range(MAX_KEPT)]
    assert is_kept(results, "quiet", first)
    assert [is_kept(results, "loud", handle) for handle in loud[-MAX_PER_CALLER - 1 :]] == [
        False,
        *[True] * MAX_PER_CALLER,
    ]
    for number in range(MAX_KEPT):
        results.add(str(number), b"3")
    assert not is_kept(results, "quiet", first)


def test_together_they_have_a_bound(new: New) -> None:
    results, half = new(), bytes(MAX_BYTES // 2)
    handles = [results.add("a", half) for _ in range(3)]
    assert [is_kept(results, "a", handle) for handle in handles] == [False, True, True]
