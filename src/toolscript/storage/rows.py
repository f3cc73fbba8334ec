"""Many small values by key, in few rows of an SQLite table.

To read tens of thousands of them one by one takes a good part of the time that a
start has; a row holds some hundred. What is changed is taken out with its row and
put into a new one. Small rows are put together when there are many.
"""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    import sqlite3

ROW_BYTES = 131_072
"""Of a row, so that an edit and a damaged byte cost little; what is longer has one for itself."""
MANY_SMALL = 32
"""So many rows may be less than half full."""
SCHEMA = (
    'create table if not exists "{0}" '
    "(id integer primary key, head blob not null, data blob not null, sum)"
)
_Stored: TypeAlias = tuple[int, bytes, bytes, int]
"""Its number, head, data and CRC-32. In a damaged file they may be anything; what is not bytes is
then a `TypeError`."""
Damaged: TypeAlias = tuple[int, int]
"""The number and the sum of a row."""


class Row(msgspec.Struct, frozen=True, gc=False):
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
) -> tuple[list[Row], list[Damaged]]:
    """All rows, or those with one of ``keys``; and those that are damaged."""
    found: list[Row] = []
    damaged: list[Damaged] = []
    for stored in _all(db, table) if keys is None else _with(db, table, keys):
        row = _checked(stored)
        if row is None:
            damaged.append((stored[0], stored[3]))
        else:
            found.append(row)
    return found, damaged


def drop(db: "sqlite3.Connection", table: str, damaged: Iterable[Damaged]) -> None:
    """Delete these rows, as far as they are still the same."""
    db.executemany(f'delete from "{table}" where id = ? and sum is ?', damaged)  # noqa: S608 - one of ours


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
    for row in _packed(loose | new):
        head = msgspec.msgpack.encode(_Head([*map(_bytes, row.keys)], row.lengths))
        stored = head, row.data, _sum(head, row.data)
        db.execute(f'insert into "{table}" (head, data, sum) values (?, ?, ?)', stored)  # noqa: S608 - one of ours


def _taken_out(
    db: "sqlite3.Connection", table: str, wanted: Callable[[str], bool]
) -> tuple[set[str], dict[str, bytes]]:
    """Take out the rows with something unwanted, and the small ones where there are many.

    What is in the others, and what of those taken out is wanted.
    """
    heads = _heads(db, table)
    in_step = [number for number, head in heads.items() if head and all(map(wanted, head))]
    small = [number for number in in_step if _size(heads[number]) < ROW_BYTES // 2]
    staying = set(in_step).difference(small if len(small) > MANY_SMALL else ())
    loose: dict[str, bytes] = {}
    for number in [each for each in heads if each not in staying]:
        stored = _stored(db, table, number) if any(map(wanted, heads[number])) else None
        row = stored and _checked(stored)
        loose |= {key: data for key, data in row.items() if wanted(key)} if row else {}
        db.execute(f'delete from "{table}" where id = ?', (number,))  # noqa: S608 - one of ours
    return {key for number in staying for key in heads[number]}, loose


def _packed(values: Mapping[str, bytes]) -> Iterator[Row]:
    """The values in rows, in order."""
    part: dict[str, bytes] = {}
    size = 0
    for key, data in values.items():
        if part and size + len(key) + len(data) > ROW_BYTES:
            yield _joined(part)
            part, size = {}, 0
        part[key] = data
        size += len(key) + len(data)
    if part:
        yield _joined(part)


def _joined(part: Mapping[str, bytes]) -> Row:
    return Row([*part], [*map(len, part.values())], b"".join(part.values()))


def _all(db: "sqlite3.Connection", table: str) -> Iterable[_Stored]:
    return db.execute(f'select id, head, data, sum from "{table}"')  # noqa: S608 - one of ours


def _with(db: "sqlite3.Connection", table: str, keys: Collection[str]) -> Iterable[_Stored]:
    for number, head in _heads(db, table).items():
        stored = None if head.keys().isdisjoint(keys) else _stored(db, table, number)
        yield from [stored] if stored else []


def _stored(db: "sqlite3.Connection", table: str, number: int) -> _Stored | None:
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


def _checked(stored: _Stored) -> Row | None:
    """What a row holds; None where it is damaged."""
    _, data, values, total = stored
    if _sum(data, values) != total:
        return None
    head = msgspec.msgpack.decode(data, type=_Head)
    return Row([*map(_text, head.keys)], head.lengths, values)


def _size(lengths: Mapping[str, int]) -> int:
    return sum(lengths.values()) + sum(map(len, lengths))


def _sum(head: bytes, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(head))


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")
