"""Finds the secrets of a configuration: in its values, arguments, URLs and named variables.

Every value of a configuration is secret unless it is known to be harmless: a flag, a path, a
port, the program that a launcher starts. Any other secret is recognised by its shape.
"""

import json
import re
from binascii import Error, a2b_base64
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, cast
from urllib.parse import unquote_plus

from toolscript.text.secret_shapes import (
    AUTH_SCHEMES,
    FLAG,
    HARMLESS,
    HARMLESS_WORDS,
    LAUNCHERS,
    NO_SECRETS,
    OPTION_NAME,
    PAIR,
    PATH,
    PROGRAM_NAME,
    SECRET_NAME,
    SPACED_USER,
    SURE_FLAG,
    SWITCHES,
    URL_END,
    WITH_PROGRAM,
    WITH_VALUE,
    WORD_CHARS,
    known_tokens,
)

MAX_WORD = 5
"""Secrets no longer than this are blanked as whole words only: messages need such as "true"."""
_SHORTEST = 2
_JSON_CHARS = 100_000
_RANDOM_CHARS = 16


def url_secrets(text: str) -> Iterator[str]:
    """Yields logins, values of the query and random parts of the path, of every URL in a text."""
    pieces = text.split("://")
    for before, after in pairwise(pieces):
        user = user_info(before, after)
        yield from _user_secrets(user)
        far = after.rpartition("@")[0]
        if len(pieces) == 2 and WORD_CHARS.sub("", before) in {"", "="} and re.search(r"\s", far):  # noqa: PLR2004 - one address is all of it
            yield from _user_secrets(far)
        rest = after[len(user) :]
        for piece in {URL_END.split(rest, maxsplit=1)[0], rest}:  # blanks may belong to it
            path, *queries = re.split("[?#]", piece)
            yield from filter(_is_random, re.split("[/;]", path))
            for pair in re.split("[&;]", "&".join(queries)):
                yield from _query_secrets(*pair.partition("=")[::2])


def _query_secrets(name: str, value: str) -> Iterator[str]:
    """Yields a parameter's value, raw and decoded, if it is long or its name says it is secret."""
    is_named = bool(SECRET_NAME.search(name) and value)
    for spelled in (value or name, unquote_plus(value or name)):
        if is_named or len(spelled) > MAX_WORD:
            yield spelled


def _user_secrets(user: str) -> Iterator[str]:
    """Yields both parts, raw and decoded, and the pieces of a password that URL parsers quote."""
    name, colon, password = user.partition(":")
    for part in (user, name):
        yield from (each for each in (part, unquote_plus(part)) if len(each) > MAX_WORD)
    pieces = re.split("[/?#@:]", password) if colon else []
    yield from (each for part in (password, *pieces) for each in (part, unquote_plus(part)))


def user_info(before: str, rest: str) -> str:
    """Returns the user info of an address, ``@`` excluded, from behind ``://``.

    A password may hold characters that should have been escaped (``/``, ``#``, ``?``, ``@``, a
    quote, some blanks). ``before`` is the beginning of the address: in one of the web a number
    after the colon is a port. ``rest`` may go on behind the address.
    """
    word = URL_END.split(rest, maxsplit=1)[0]
    spaced = None if "@" in word else SPACED_USER.match(rest)
    return spaced[1] if spaced else _user_of(before, word)


def _user_of(before: str, rest: str) -> str:
    head = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, _ = rest.rpartition("@")
    name, colon, port = head.partition("@")[0].partition(":")
    if not at or not (name or colon) or head.startswith("["):
        return ""
    if "@" in head:
        return user if colon else head.rpartition("@")[0]
    web = re.search(r"(?:https?|wss?|file)$", before[-8:], re.IGNORECASE)
    has_none = (not port or port.isdecimal()) if colon else True
    return "" if (web and has_none) or (not colon and "?" in user) else user


def argument_secrets(args: Sequence[str], command: str = "") -> Iterator[str]:
    """Yields the values among a program's arguments that are not known to be harmless."""
    programs = set(program_indexes(command, args))
    pending = ""
    for index, argument in enumerate(args):
        flag, pending = pending, ""
        name, mark, value = _split_assignment(argument)
        if index in programs:
            continue
        is_named = bool(flag) and _is_named(flag, argument)
        if flag and not (SURE_FLAG if is_named else FLAG).fullmatch(argument):
            yield from value_secrets(argument, named=is_named)
        elif mark:
            yield from value_secrets(value, named=_is_named(name, value))
        elif FLAG.fullmatch(argument):
            pending = argument
        else:
            yield from value_secrets(argument)
            yield from value_secrets(argument[2:]) if argument[:1] == "-" else ()  # -phunter2


def _split_assignment(argument: str) -> tuple[str, str, str]:
    """Returns name, ``=`` or ``:``, and value; the argument and twice "" if it has no name."""
    name, mark, value = re.match(r"([^=:]*)([=:]?)(.*)", argument, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess] - matches anything
    is_name = OPTION_NAME.fullmatch(name) or (
        SECRET_NAME.search(name) and WORD_CHARS.fullmatch(name)
    )
    is_name = is_name and value and not value.startswith(("//", "\\"))
    return (name, mark, value.strip()) if is_name else (argument, "", "")


def _is_named(name: str, value: str) -> bool:
    """Whether the name says that the value is secret; ``-p`` is a port or a password."""
    return bool(SECRET_NAME.search(name)) or (
        name in {"-p", "-P"} and not re.fullmatch(r"[\d:]{1,11}", value)
    )


def program_indexes(command: str, args: Sequence[str]) -> Iterator[int]:
    """Yields the indexes of the arguments that name the programs of a launcher such as npx."""
    launcher = re.split(r"[/\\]", command)[-1].partition(".")[0].casefold()
    index = 0 if launcher in LAUNCHERS else len(args)
    while index < len(args):
        argument = args[index]
        if argument in WITH_PROGRAM | WITH_VALUE:
            index += 1
            if argument in WITH_PROGRAM and _is_program(args[index : index + 1]):
                yield index
            if argument == "-m":
                return
        elif argument not in SWITCHES and not re.match("--[a-z-]+=", argument):
            if _is_program([argument]):
                yield index
            return
        index += 1


def _is_program(given: Sequence[str]) -> bool:
    return any(PROGRAM_NAME.fullmatch(each) and not _is_random(each) for each in given)


def named_secrets(name: str, value: str) -> Iterator[str]:
    """Yields the secrets in a variable of the environment, or in a header."""
    return value_secrets(value, named=bool(SECRET_NAME.search(name)))


def value_secrets(value: str, *, named: bool = False) -> Iterator[str]:
    """Yields the secrets in a value: all of it unless it is harmless, and its parts."""
    value = value.strip()
    if _is_shown(value, named=named):
        return
    yield from url_secrets(value)
    leaves = _leaves(value, named=named) if value[0] in "{[" else None
    if leaves is not None:
        yield from (value, *leaves)
        return
    for pair in PAIR.finditer(value):
        if (named or SECRET_NAME.search(pair[1])) and pair[2].casefold() not in AUTH_SCHEMES:
            yield from (pair[2], _split_assignment(pair[2])[2])
    inner = _split_assignment(value)[2]
    forms = {value, inner, _split_assignment(inner)[2]} - {""}
    for stated in forms if named or "://" not in value else ():
        yield from credentials(stated)


def _is_shown(value: str, *, named: bool) -> bool:
    """Whether messages may show a value: a word for nothing, or a harmless one without a name."""
    if value.casefold() in NO_SECRETS or len(value) < _SHORTEST:
        return True
    return not named and (len(value) <= _SHORTEST or is_harmless(value))


def credentials(value: str) -> Iterator[str]:
    """Yields the value, the part after a word such as ``Bearer``, and that part decoded."""
    scheme, _, rest = value.partition(" ")
    yield value
    yield from [rest] if scheme.isalpha() and len(rest) > MAX_WORD else []
    if scheme.casefold() == "basic":
        try:
            yield from _user_secrets(a2b_base64(rest).decode())
        except (Error, ValueError):
            return


def is_harmless(value: str) -> bool:
    """Whether a value is of a kind that messages may show: a word, a number, a path, a host."""
    if any(map(_is_random, re.split(r"[/\\=]", value))):
        return False
    known = HARMLESS.fullmatch(value) or PATH.fullmatch(value)
    return bool(known) or value.casefold() in HARMLESS_WORDS


def _is_random(text: str) -> bool:
    """Whether a text looks generated, or has the shape of a known kind of token."""
    if len(text) < _RANDOM_CHARS or re.search(r"\s", text):
        return bool(known_tokens().search(text))
    digits = len(re.findall(r"\d+", text)) > 1
    mixed = digits and re.search("[a-z]", text) and re.search("[A-Z]", text)
    return bool(mixed or re.fullmatch("[0-9a-f-]{32,}", text) or known_tokens().search(text))


def _leaves(text: str, *, named: bool) -> Sequence[str] | None:
    """Returns the secrets in a value that is JSON: by their key or shape. None for other values."""
    try:
        waiting: list[tuple[bool, Any]] = [(named, json.loads(text[:_JSON_CHARS]))]
    except (ValueError, RecursionError):
        return None
    secrets: list[str] = []
    while waiting:
        named, value = waiting.pop()
        if isinstance(value, dict):
            pairs = cast("dict[str, Any]", value).items()
            waiting += [(named or bool(SECRET_NAME.search(key)), each) for key, each in pairs]
        elif isinstance(value, list):
            waiting += [(named, each) for each in cast("list[Any]", value)]
        elif isinstance(value, str):
            secrets += url_secrets(value)
            secrets += [value] if named or _is_token(value) else []
        elif named and not isinstance(value, bool):
            secrets.append(str(value))
    return secrets


def _is_token(value: str) -> bool:
    return "://" not in value and _is_random(value) and not is_harmless(value)


def redactable(values: Iterable[str]) -> tuple[str, ...]:
    """Returns the values and their lines that are long enough to be blanked, longest first."""
    secrets = {value for value in values if len(value) >= _SHORTEST}
    lines = {line.strip() for value in secrets for line in value.splitlines()}
    secrets |= {line for line in lines if len(line) > MAX_WORD}
    return tuple(sorted(secrets - NO_SECRETS, key=lambda part: (-len(part), part)))
