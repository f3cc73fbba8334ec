"""Changes one value of a configuration file, and leaves every other byte as the user wrote it.

Comments, order, indentation, line ends, a byte order mark and commas before closing brackets stay.
The new content is parsed again: unless it is the old document with that one change, the caller
gets an error instead.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, cast

from toolscript.config.file_parser import parsed, without_comments, without_trailing_commas
from toolscript.errors import ConfigSyntaxError

_DECODER = json.JSONDecoder()
_BLANKS = " \t\r\n"
_INDENTED = re.compile(r'\n([ \t]+)"')
_BYTE_ORDER_MARK = "\ufeff"


REMOVED: Any = object()
"""The value of a key that is taken away."""


def edit(path: Path, data: bytes, edits: Iterable[tuple[Sequence[str], Any]]) -> bytes:
    """Returns a file's content with values replaced, added and taken away.

    Args:
        path: The file: TOML if its name says so, else JSON with comments.
        data: Its content; an empty file counts as an empty object.
        edits: Paths of keys with values of JSON, or `REMOVED`. Objects on the way to a value that
            are missing are made; a key that is not there need not be removed.

    Raises:
        ConfigSyntaxError: The content cannot be read, a value on the way is no object, or the
            change cannot be made without another one.
    """
    is_toml = path.suffix == ".toml"
    if not is_toml and not data.removeprefix(codecs.BOM_UTF8).strip():
        data = data.rstrip() + b"{\n}\n"
    document = parsed(path, data)
    encoding = "utf-8"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16-le" if data.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    text = data.decode(encoding)  # with the mark, which stays
    made: list[tuple[Sequence[str], Any]] = []
    for keys, value in edits:
        if value is REMOVED and not _has(document, keys):
            continue
        parent = _parent(path, document, keys)
        made.append((keys, value))
        if value is REMOVED:
            del parent[keys[-1]]
        else:
            parent[keys[-1]] = deepcopy(value)
    text = _change_toml(text, made) if is_toml else reduce(_change_json, made, text)
    try:
        content = text.encode(encoding)
        if parsed(path, content) == document:
            return content
    except (ConfigSyntaxError, UnicodeEncodeError):
        pass
    raise ConfigSyntaxError(f"{path} cannot be changed without changing more; edit it yourself")


def _has(document: Any, keys: Sequence[str]) -> bool:
    for key in keys:
        if not isinstance(document, dict) or key not in document:
            return False
        document = cast("dict[str, Any]", document)[key]
    return True


def _parent(path: Path, document: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Returns the object that holds the last key; one that is missing is made."""
    parent: Any = document
    for key in keys[:-1]:
        parent = cast("dict[str, Any]", parent).setdefault(key, {})
        if not isinstance(parent, dict):
            raise ConfigSyntaxError(f"{path}: {'.'.join(keys)} has no object to be in")
    return cast("dict[str, Any]", parent)


def _change_toml(text: str, edits: Iterable[tuple[Sequence[str], Any]]) -> str:
    import tomlkit  # noqa: PLC0415 - few files are TOML
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    try:
        document = tomlkit.parse(text.removeprefix(mark))
        for (*above, last), value in edits:
            tables: list[Any] = [document]
            for key in above:
                if key not in tables[-1]:
                    tables[-1][key] = tomlkit.table(is_super_table=True)
                tables.append(tables[-1][key])
            if value is REMOVED:
                del tables[-1][last]
                if above and not tables[-1]:  # it would vanish with its last table
                    tables[-2][above[-1]] = tomlkit.table()
            elif isinstance(value, dict):
                table: Any = tomlkit.table()
                table.update(value)
                tables[-1][last] = table
                table.add(tomlkit.nl())  # the next one does not begin at once
            else:
                tables[-1][last] = value
        new = tomlkit.dumps(document).rstrip() + (text[len(text.rstrip()) :] or "\n")
        return mark + (re.sub("\r?\n", "\r\n", new) if "\r\n" in text else new)
    except (TOMLKitError, ValueError):
        return text  # which is noticed


@dataclass(frozen=True, slots=True)
class _Member:
    """A key with its value, as offsets in a text."""

    key: str
    begin: int
    value: int
    end: int


def _change_json(text: str, edit: tuple[Sequence[str], Any]) -> str:
    keys, value = edit
    try:
        json.loads(text.removeprefix(_BYTE_ORDER_MARK))
        commented = plain = text
    except ValueError:
        commented = without_comments(text)
        plain = without_trailing_commas(commented)
    brace = plain.index("{")
    for depth, key in enumerate(keys):
        members = [*_members(plain, brace)]
        member = next((each for each in members if each.key == key), None)
        if member is None:
            for missing in reversed(keys[depth + 1 :]):
                value = {missing: value}
            return _insert(text, commented, brace, members, (key, value))
        if depth < len(keys) - 1:
            brace = member.value
        elif value is REMOVED:
            return _remove(text, commented, members, members.index(member))
        else:
            new = _dump(text, value, _margin(text, member.begin))
            return text[: member.value] + new + text[member.end :]
    raise AssertionError("a path has at least one key")


def _members(plain: str, brace: int) -> Iterator[_Member]:
    """Yields the members of the object that begins at ``brace``, in JSON without comments."""
    place = _skip(plain, brace + 1)
    while plain[place] != "}":
        key, end = _DECODER.raw_decode(plain, place)
        value = _skip(plain, _skip(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        yield _Member(key, place, value, end)
        place = _skip(plain, end)
        place = _skip(plain, place + 1) if plain[place] == "," else place


def _skip(text: str, place: int, skipped: str = _BLANKS) -> int:
    """Returns the offset of the next character that is not skipped."""
    while text[place] in skipped:
        place += 1
    return place


def _insert(
    text: str, commented: str, brace: int, members: list[_Member], added: tuple[str, Any]
) -> str:
    """Returns the text with a member behind the last one of an object, and behind its comments."""
    last = members[-1].end if members else brace + 1
    place = _skip(commented, last)
    has_comma = commented[place] == ","
    close = _skip(commented, place + has_comma)
    before, behind = ("" if has_comma or not members else ","), ("," if has_comma else "")
    is_flat = "\n" not in text[brace : members[0].begin] if members else _is_flat(text)
    margin = _margin(text, members[0].begin if members else brace)
    margin += "" if members or is_flat else _indent(text)
    member = f"{json.dumps(added[0], ensure_ascii=False)}: {_dump(text, added[1], margin)}"
    if is_flat:
        place = place + 1 if has_comma else last
        return f"{text[:place]}{before}{' ' if members else ''}{member}{behind}{text[place:]}"
    end = len(text[:close].rstrip(_BLANKS))
    tail = text[end:close]
    if not members and "\n" not in tail:
        tail = _newline(text) + _margin(text, brace)
    lines = f"{_newline(text)}{margin}{member}{behind}{tail}"
    return text[:last] + before + text[last:end] + lines + text[close:]


def _remove(text: str, commented: str, members: list[_Member], index: int) -> str:
    """Returns the text without a member, its comma, and its lines if nothing else is on them."""
    begin, end = members[index].begin, members[index].end
    comma = _skip(commented, end)
    if commented[comma] == ",":
        if text[end:comma].strip(_BLANKS):  # a comment, which stays
            text = text[:comma] + text[comma + 1 :]
        else:
            end = comma + 1
    elif index:
        comma = commented.rindex(",", members[index - 1].end, begin)
        text = text[:comma] + text[comma + 1 :]
        begin, end = begin - 1, end - 1
    left = len(text[:begin].rstrip(" \t"))
    right = _skip(text, end, " \t")
    if text[left - 1] == "\n" and text[right] in "\r\n":
        return text[: left - 1].removesuffix("\r") + text[right:]
    is_last = text[right] == "}"
    return text[: left if is_last else begin] + text[end if is_last else right :]


def _dump(text: str, value: Any, margin: str) -> str:
    """Returns a value as JSON with the indentation and line ends of a text."""
    indent = None if _is_flat(text) else _indent(text)
    dumped = json.dumps(value, ensure_ascii=False, indent=indent)
    return dumped.replace("\n", _newline(text) + margin)


def _is_flat(text: str) -> bool:
    """Whether a text that holds anything has it on one line."""
    return "\n" not in text.strip() and len(text.strip()) > len("{}")


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str) -> str:
    """Returns the indentation of the first key that has one."""
    match = _INDENTED.search(text)
    return match[1] if match else "  "


def _margin(text: str, place: int) -> str:
    """Returns the blanks with which the line of an offset begins."""
    begin = text.rfind("\n", 0, place) + 1
    return text[begin : _skip(text, begin, " \t")]
