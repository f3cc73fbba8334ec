"""What every `ActivityStorage` does, in a file and in a database."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from toolscript.postgres.activity_store import DatabaseActivityStore
from toolscript.postgres.database import Database
from toolscript.storage.activity_log import (
    MAX_ROWS,
    ActivityLog,
    ActivityPage,
    ActivityQuery,
    RecordedCall,
)
from toolscript.storage.base import ActivityStorage

Open = Callable[[], ActivityStorage]

CALL = RecordedCall(
    time="2026-01-02T03:04:05.678+00:00",
    who="owner",
    tool="files__read_file",
    server="files",
    outcome="ok",
    ms=1.5,
    argument_bytes=2,
    result_bytes=None,
)
ALL = ActivityQuery(limit=MAX_ROWS)


def numbered(numbers: range) -> list[RecordedCall]:
    return [replace(CALL, ms=float(number)) for number in numbers]


def numbers(page: ActivityPage) -> list[int]:
    return [int(call.ms) for call in page.calls]


@pytest.fixture(params=["file", "database"])
def reopened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same storage again and again, as processes beside each other do."""
    if request.param == "file":
        return lambda: ActivityLog(tmp_path / "activity", "key")
    connect: Callable[[], Database] = request.getfixturevalue("connect")
    return lambda: DatabaseActivityStore(connect())


@pytest.fixture
def activity(reopened: Open) -> ActivityStorage:
    return reopened()


def test_what_is_appended_is_read_newest_first(activity: ActivityStorage) -> None:
    assert activity.read(ALL) == ActivityPage([], has_more=False)
    activity.append(numbered(range(2)))
    activity.append([replace(CALL, ms=2.0, who="anyone", outcome="timeout", result_bytes=7)])
    newest, *others = activity.read(ALL).calls
    assert newest == replace(CALL, id=3, ms=2.0, who="anyone", outcome="timeout", result_bytes=7)
    assert others == [replace(CALL, id=2, ms=1.0), replace(CALL, id=1, ms=0.0)]


def test_a_query_may_spell_an_id_in_both_ways(activity: ActivityStorage) -> None:
    activity.append([CALL, replace(CALL, tool="nobody:x")])
    for spelling in ("files:read_file", "files__read_file", "files:*", "files__*"):
        [call] = activity.read(ActivityQuery(9, tool=spelling)).calls
        assert call.tool == "files__read_file"
    [unknown] = activity.read(ActivityQuery(9, tool="nobody:*")).calls
    assert unknown.tool == "nobody:x"


def test_only_the_newest_calls_are_kept(activity: ActivityStorage) -> None:
    activity.append(numbered(range(MAX_ROWS - 1)))
    for number in range(MAX_ROWS - 1, MAX_ROWS + 5):
        activity.append(numbered(range(number, number + 1)))
    page = activity.read(ALL)
    assert numbers(page) == list(range(MAX_ROWS + 4, 4, -1))
    assert not page.has_more


def test_pages_have_every_call_once(activity: ActivityStorage) -> None:
    activity.append(numbered(range(10)))
    seen: list[int] = []
    before: int | None = None
    for has_more in (True, True, False):
        page = activity.read(ActivityQuery(limit=4, before=before))
        assert page.has_more is has_more
        seen += numbers(page)
        before = page.calls[-1].id
    assert seen == list(range(9, -1, -1))
    assert not activity.read(ActivityQuery(limit=10)).has_more


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (ActivityQuery(9, tool="git__*"), [2, 1]),
        (ActivityQuery(9, tool="git__lo?"), [2]),
        (ActivityQuery(9, tool="git"), []),
        (ActivityQuery(9, tool="GIT__log"), []),
        (ActivityQuery(9, who="anyone"), [1]),
        (ActivityQuery(9, who=""), []),
        (ActivityQuery(9, who="' or true --"), []),
        (ActivityQuery(9, outcome="tool error"), [2]),
        (ActivityQuery(9, tool="git__*", before=2), [1]),
        (ActivityQuery(1, tool="git__*"), [2]),
    ],
)
def test_a_query_chooses(activity: ActivityStorage, query: ActivityQuery, found: list[int]) -> None:
    activity.append(
        [
            replace(CALL, tool="git__status", who="anyone"),
            replace(CALL, tool="git__log", outcome="tool error"),
            CALL,
        ]
    )
    page = activity.read(query)
    assert [call.id for call in page.calls] == found
    assert page.has_more == (query.limit == 1)


def test_no_pattern_takes_exponential_time(activity: ActivityStorage) -> None:
    activity.append([replace(CALL, tool="a" * 200)] * 100)
    assert not activity.read(ActivityQuery(9, tool="*a" * 99 + "b")).calls


def test_writers_beside_each_other_write_one_log(reopened: Open) -> None:
    storages = [reopened(), reopened()]

    def append(which: int) -> None:
        for number in range(which * 200, which * 200 + 200, 10):
            storages[which].append(numbered(range(number, number + 10)))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(append, range(2)))

    page = reopened().read(ALL)
    assert sorted(numbers(page)) == list(range(400))
    assert [call.id for call in page.calls] == list(range(400, 0, -1))


def test_ids_that_were_read_are_lower_than_all_later_ones(reopened: Open) -> None:
    storages, done = [reopened(), reopened(), reopened()], threading.Event()

    def append(storage: ActivityStorage) -> None:
        while not done.is_set():
            storage.append([CALL])

    with ThreadPoolExecutor(2) as threads:
        for storage in storages[:2]:
            threads.submit(append, storage)
        try:
            seen: list[int] = []
            while len(seen) < 50:
                now = [call.id for call in storages[2].read(ALL).calls][::-1]
                assert now[: len(seen)] == seen
                seen = now
        finally:
            done.set()


def test_a_name_may_have_any_character(activity: ActivityStorage) -> None:
    activity.append([replace(CALL, tool="a\0b\n\U0001f600"), CALL])
    assert activity.read(ALL).calls[1].tool == "a\0b\n\U0001f600"
