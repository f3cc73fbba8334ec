"""Many small entries of bytes in few rows of an SQLite table.

To read tens of thousands of entries one by one takes most of the time that a
start has; a row holds some hundred of them. What is changed is taken out with
its row and put into a new one. Small rows are put together when there are many.
"""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    import sqlite3

BATCH_BYTES = 131_072
"""Of a row, so that an edit and a damaged byte cost little; what is longer has one for itself."""
MANY_SMALL = 32
"""So many rows may be less than half full."""
SCHEMA = (
    'create table if not exists "{0}" '
    "(id integer primary key, head blob not null, data blob not null, sum)"
)
_Row: TypeAlias = tuple[int, bytes, bytes, int]
"""Its number, head, data and CRC-32. In a damaged file they may be anything; what is not bytes is
then a `TypeError`."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """What stands in one row."""

    keys: list[str]
    lengths: list[int]
    """Of the values, in bytes, and"""
    data: bytes
    """all of them, one after the other."""

    def items(self) -> Iterator[tuple[str, bytes]]:
        """Each key with its value."""
        end = 0
        for key, length in zip(self.keys, self.lengths, strict=True):
            end += length
            yield key, self.data[end - length : end]


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """By which a row is known without reading all of it: its keys, and how long the values are."""

    keys: list[bytes]
    lengths: list[int]


def read(
    db: "sqlite3.Connection", table: str, keys: Collection[str] | None = None
) -> tuple[list[Batch], list[int]]:
    """All rows, or those with one of ``keys``; and the sums of those that are damaged."""
    found: list[Batch] = []
    damaged: list[int] = []
    for row in _all(db, table) if keys is None else _with(db, table, keys):
        batch = _batch(row)
        if batch is None:
            damaged.append(row[3])
        else:
            found.append(batch)
    return found, damaged


def drop(db: "sqlite3.Connection", table: str, sums: Iterable[int]) -> None:
    """Delete the rows of these sums."""
    db.executemany(f'delete from "{table}" where sum is ?', ((each,) for each in sums))  # noqa: S608 - one of ours


def bring(
    db: "sqlite3.Connection",
    table: str,
    keys: Collection[str],
    value: Callable[[str], bytes],
    spare: Callable[[str], bool],
) -> None:
    """Bring a table in step: it has ``keys`` then, and of others those that ``spare`` names."""
    wanted = dict.fromkeys(keys)
    there, loose = _taken_out(db, table, lambda key: key in wanted or spare(key))
    new = {key: value(key) for key in wanted if key not in there and key not in loose}
    for batch in _packed(loose | new):
        head = msgspec.msgpack.encode(_Head([*map(_bytes, batch.keys)], batch.lengths))
        row = head, batch.data, _sum(head, batch.data)
        db.execute(f'insert into "{table}" (head, data, sum) values (?, ?, ?)', row)  # noqa: S608 - one of ours


def _taken_out(
    db: "sqlite3.Connection", table: str, wanted: Callable[[str], bool]
) -> tuple[set[str], dict[str, bytes]]:
    """Take out the rows with something unwanted, and the small ones where there are many.

    What is in the others, and what of those taken out is wanted.
    """
    heads = _heads(db, table)
    whole = [number for number, head in heads.items() if head and all(map(wanted, head))]
    small = [number for number in whole if _size(heads[number]) < BATCH_BYTES // 2]
    staying = set(whole).difference(small if len(small) > MANY_SMALL else ())
    loose: dict[str, bytes] = {}
    for number in heads.keys() - staying:
        row = _one(db, table, number) if any(map(wanted, heads[number])) else None
        batch = row and _batch(row)
        loose |= {key: data for key, data in batch.items() if wanted(key)} if batch else {}
        db.execute(f'delete from "{table}" where id = ?', (number,))  # noqa: S608 - one of ours
    return {key for number in staying for key in heads[number]}, loose


def _packed(values: Mapping[str, bytes]) -> Iterator[Batch]:
    """The values in batches, in order."""
    part: dict[str, bytes] = {}
    size = 0
    for key, data in values.items():
        if part and size + len(key) + len(data) > BATCH_BYTES:
            yield _joined(part)
            part, size = {}, 0
        part[key] = data
        size += len(key) + len(data)
    if part:
        yield _joined(part)


def _joined(part: Mapping[str, bytes]) -> Batch:
    return Batch([*part], [*map(len, part.values())], b"".join(part.values()))


def _all(db: "sqlite3.Connection", table: str) -> Iterable[_Row]:
    return db.execute(f'select id, head, data, sum from "{table}"')  # noqa: S608 - one of ours


def _with(db: "sqlite3.Connection", table: str, keys: Collection[str]) -> Iterable[_Row]:
    for number, head in _heads(db, table).items():
        row = None if head.keys().isdisjoint(keys) else _one(db, table, number)
        yield from [row] if row else []


def _one(db: "sqlite3.Connection", table: str, number: int) -> _Row | None:
    query = f'select id, head, data, sum from "{table}" where id = ?'  # noqa: S608 - one of ours
    return db.execute(query, (number,)).fetchone()


def _heads(db: "sqlite3.Connection", table: str) -> dict[int, dict[str, int]]:
    """By each row's number how long the value of each of its keys is. Nothing is checked."""
    found: dict[int, dict[str, int]] = {}
    for number, data in db.execute(f'select id, head from "{table}"'):  # noqa: S608 - one of ours
        found[number] = {}
        with suppress(msgspec.DecodeError, UnicodeDecodeError):  # damaged: nothing is in it
            head = msgspec.msgpack.decode(data, type=_Head)
            found[number] = dict(zip(map(_text, head.keys), head.lengths, strict=False))
    return found


def _batch(row: _Row) -> Batch | None:
    """What a row holds; None where it is damaged."""
    _, data, values, total = row
    if _sum(data, values) != total:
        return None
    head = msgspec.msgpack.decode(data, type=_Head)
    return Batch([*map(_text, head.keys)], head.lengths, values)


def _size(lengths: Mapping[str, int]) -> int:
    return sum(lengths.values()) + sum(map(len, lengths))


def _sum(head: bytes, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(head))


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")
