"""Finds the secrets of a configuration: in its values, arguments, URLs and named variables.

Every value of a configuration is secret unless it is known to be harmless: a flag, a path, a
port, the program that a launcher starts. Any other secret is recognised by its shape.
"""

import json
import re
from binascii import Error, a2b_base64
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, cast
from urllib.parse import unquote_plus

MAX_WORD = 5
"""Secrets no longer than this are blanked as whole words only: messages need such as "true"."""
_SHORTEST = 2
_JSON_CHARS = 100_000
_RANDOM_CHARS = 16
_WORDY = re.compile(r"[\w.-]+")
_NAME = re.compile(
    r"-[\w.-]*|[A-Z][A-Z0-9_]*|[a-z]+(?:[._-][a-z0-9]+)*|[A-Z][A-Za-z]*(?:-[A-Z][A-Za-z]*)+"
)
"""The name of an option, a variable, a parameter or a header. Anything else before ``=`` may be
half a secret."""
_SECRET_NAME = re.compile(
    r"key|token|secret|pass|pwd|auth|cred|bearer|session|cookie|dsn|jwt|signature|connection"
    r"|(?:^|[-_.])(?:pat|pin|pw|otp|sig|sid)(?:$|[-_.])",
    re.IGNORECASE,
)
_PAIR = re.compile(r"""([\w.-]{1,80})["']?\s{0,3}[=:]\s{0,3}["']?([^\s;,&"'}]+)""")
_END = re.compile(r"[\s\"<>]")
"""The end of an address: the first character behind it."""
_INSIDE = r"""(?:[^\s"<>@]|(?<=\w)["<>](?=\w))"""
_SPACED = re.compile(
    rf"""
    ((?!\[)[^\s"<>@:/?#]*:(?!\d{{1,5}}(?!\w))
    {_INSIDE}+(?:[ \t]+{_INSIDE}+){{0,4}}(?:@[^\s"<>@]*)*)@
    """,
    re.VERBOSE,
)
"""A user and a password with quotes or blanks; a number after the colon is a port."""
_SURE_FLAG = re.compile(r"--[a-z]+(?:-[a-z]+)*|-[A-Za-z]")
_FLAG = re.compile(r"--[A-Za-z][\w.-]*|-[A-Za-z]|-[a-z][a-z-]+")
_SCHEMES = frozenset({"bearer", "basic", "digest", "negotiate", "token"})
NO_SECRETS = frozenset("true false yes no on off none null undefined".split())  # noqa: SIM905
_WORDS = NO_SECRETS | frozenset(
    """
    auto default debug trace info notice warning error fatal critical stdio http https
    streamable-http streamable_http json text yaml plain html utf-8 localhost readonly read-only
    read-write production staging development testing master latest stable server verbose enabled
    disabled strict
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
_HARMLESS = re.compile(
    r"""
    [a-z]{1,5} | [A-Z]{1,4} | [A-Z]+(?:_[A-Z]+)+
    | \d{1,5}(?:[.:]\d{1,5}){0,4} | \d{1,4}(?:[-/x,]\d{1,4}){1,2} | \d{1,6}[a-zA-Z%]{1,2}
    | [a-z]{2}[_-][A-Z]{2}(?:\.UTF-?8)? | [A-Z][a-z]+(?:/[A-Z][A-Za-z_]+)+
    | (?:application|text|image)/[a-z.+-]+
    | (?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|ai|app|cloud|local|internal|lan|eu)(?::\d{1,5})?
    | @[\w.-]+/[\w.-]+(?:@[\w.^~-]+)?
    """,
    re.VERBOSE,
)
_PATH = re.compile(
    r"""
    (?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w\ .@+~%,():/\\-]* | \.{1,2} | ~
    | [\w./@+-]+\.(?:[cm]?[jt]s|py|rb|php|sh|jar|exe|db|sqlite3?|json|ya?ml|toml|ini|conf|env
                    |csv|txt|md|log|xml|html|pem|crt|key)
    """,
    re.VERBOSE,
)
_LAUNCHERS = frozenset(
    """
    npx bunx pnpx uvx uv pipx python python3 py node deno bun docker podman npm pnpm yarn go cargo
    java ruby php dotnet
    """.split()  # noqa: SIM905
)
_SWITCHES = frozenset(
    """
    -y --yes -q --quiet --silent -i --interactive -t --tty -it --rm --init -u -S -E -B -I -O -P
    --offline -A --allow-all --isolated run exec dlx tool container
    """.split()  # noqa: SIM905
)
_WITH_VALUE = frozenset(
    """
    -e --env -v --volume --mount --name --network --net --publish --env-file -w --workdir
    --platform --python --directory --project
    """.split()  # noqa: SIM905
)
_WITH_PROGRAM = frozenset({"-m", "--from", "--with", "--package", "-p"})
_PROGRAM = re.compile(r"[@A-Za-z0-9][\w./@:+~-]*(?:\[[\w,-]+\])?(?:[=<>~!]=[\w.*]+)?")


def url_secrets(text: str) -> Iterator[str]:
    """Yields logins, values of the query and random parts of the path, of every URL in a text."""
    pieces = text.split("://")
    for before, after in pairwise(pieces):
        user = user_info(before, after)
        yield from _user_secrets(user)
        far = after.rpartition("@")[0]
        if len(pieces) == 2 and _WORDY.sub("", before) in {"", "="} and re.search(r"\s", far):  # noqa: PLR2004 - one address is all of it
            yield from _user_secrets(far)
        rest = after[len(user) :]
        for piece in {_END.split(rest, maxsplit=1)[0], rest}:  # blanks may belong to it
            path, *queries = re.split("[?#]", piece)
            yield from (each for each in re.split("[/;]", path) if _is_random(each))
            for pair in re.split("[&;]", "&".join(queries)):
                name, _, value = pair.partition("=")
                short = _SECRET_NAME.search(name) and value
                for spelled in (value or name, unquote_plus(value or name)):
                    if short or len(spelled) > MAX_WORD:
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
    word = _END.split(rest, maxsplit=1)[0]
    spaced = None if "@" in word else _SPACED.match(rest)
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
    is_port = not port or port.isdecimal()
    if colon:
        return "" if web and is_port else user
    return "" if web or "?" in user else user


def argument_secrets(args: Sequence[str], command: str = "") -> Iterator[str]:
    """Yields the values among a program's arguments that are not known to be harmless."""
    programs = set(_programs(command, args))
    pending = ""
    for index, argument in enumerate(args):
        flag, pending = pending, ""
        name, mark, value = _named(argument)
        if index in programs:
            continue
        is_named = bool(flag) and _is_named(flag, argument)
        if flag and not (_SURE_FLAG if is_named else _FLAG).fullmatch(argument):
            yield from value_secrets(argument, named=is_named)
        elif mark:
            yield from value_secrets(value, named=_is_named(name, value))
        elif _FLAG.fullmatch(argument):
            pending = argument
        else:
            yield from value_secrets(argument)
            yield from value_secrets(argument[2:]) if argument[:1] == "-" else ()  # -phunter2


def _named(argument: str) -> tuple[str, str, str]:
    """Returns name, ``=`` or ``:``, and value; the argument and twice "" if it has no name."""
    name, mark, value = re.match(r"([^=:]*)([=:]?)(.*)", argument, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess] - matches anything
    is_name = _NAME.fullmatch(name) or (_SECRET_NAME.search(name) and _WORDY.fullmatch(name))
    is_name = is_name and value and not value.startswith(("//", "\\"))
    return (name, mark, value.strip()) if is_name else (argument, "", "")


def _is_named(name: str, value: str) -> bool:
    """Whether the name says that the value is secret; ``-p`` is a port or a password."""
    return bool(_SECRET_NAME.search(name)) or (
        name in {"-p", "-P"} and not re.fullmatch(r"[\d:]{1,11}", value)
    )


def _programs(command: str, args: Sequence[str]) -> Iterator[int]:
    """Yields the indexes of the arguments that name the programs of a launcher such as npx."""
    launcher = re.split(r"[/\\]", command)[-1].partition(".")[0].casefold()
    index = 0 if launcher in _LAUNCHERS else len(args)
    while index < len(args):
        argument = args[index]
        if argument in _WITH_PROGRAM | _WITH_VALUE:
            index += 1
            if argument in _WITH_PROGRAM and _is_program(args[index : index + 1]):
                yield index
            if argument == "-m":
                return
        elif argument not in _SWITCHES and not re.match("--[a-z-]+=", argument):
            if _is_program([argument]):
                yield index
            return
        index += 1


def _is_program(given: Sequence[str]) -> bool:
    return any(_PROGRAM.fullmatch(each) and not _is_random(each) for each in given)


def named_secrets(name: str, value: str) -> Iterator[str]:
    """Yields the secrets in a variable of the environment, or in a header."""
    return value_secrets(value, named=bool(_SECRET_NAME.search(name)))


def value_secrets(value: str, *, named: bool = False) -> Iterator[str]:
    """Yields the secrets in a value: all of it unless it is harmless, and its parts."""
    value = value.strip()
    if value.casefold() in NO_SECRETS or len(value) < _SHORTEST:
        return
    if not named and (len(value) <= _SHORTEST or is_harmless(value)):
        return
    yield from url_secrets(value)
    if value[0] in "{[" and (leaves := _leaves(value, named=named)) is not None:
        yield from (value, *leaves)
        return
    for pair in _PAIR.finditer(value):
        if (named or _SECRET_NAME.search(pair[1])) and pair[2].casefold() not in _SCHEMES:
            yield from (pair[2], _named(pair[2])[2])
    inner = _named(value)[2]
    for stated in {value, inner, _named(inner)[2]} - {""} if named or "://" not in value else ():
        yield from credentials(stated)


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
    known = _HARMLESS.fullmatch(value) or _PATH.fullmatch(value)
    return bool(known) or value.casefold() in _WORDS


def _is_random(text: str) -> bool:
    """Whether a text looks generated, or has the shape of a known kind of token."""
    if len(text) < _RANDOM_CHARS or re.search(r"\s", text):
        return bool(known_tokens().search(text))
    digits = len(re.findall(r"\d+", text)) > 1
    mixed = digits and re.search("[a-z]", text) and re.search("[A-Z]", text)
    return bool(mixed or re.fullmatch("[0-9a-f-]{32,}", text) or known_tokens().search(text))


@cache
def known_tokens() -> re.Pattern[str]:
    """Returns a pattern of known kinds of tokens, and of the word behind ``Bearer``."""
    return re.compile(
        r"""
        (?<![A-Za-z0-9])(?:
            (?:gh[pousr]_|github_pat_|glpat-|sk-|[sr]k_(?:live|test)_|xox[a-z]-|xapp-|whsec_)
                [\w-]{6,}
            | (?:AKIA|ASIA)[A-Z0-9]{8,} | eyJ[\w-]{6,}(?:\.[\w-]*){0,4} | AIza[\w-]{20,}
            | (?:npm_|hf_|pypi-|ts_|dop_v1_|ya29\.|SG\.|gsk_|nvapi-|lin_api_|shpat_)[\w.-]{16,}
        )
        | (?<=[Bb]earer\ )(?=[\w.~+/-]{0,99}[A-Z0-9=])[\w.~+/=-]{6,}
        | (?<=[Bb]asic\ )(?=[\w+/-]{0,99}[A-Z0-9=])[\w+/=-]{6,}
        """,
        re.VERBOSE,
    )


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
            waiting += [(named or bool(_SECRET_NAME.search(key)), each) for key, each in pairs]
        elif isinstance(value, list):
            waiting += [(named, each) for each in cast("list[Any]", value)]
        elif isinstance(value, str):
            secrets += url_secrets(value)
            random = "://" not in value and _is_random(value) and not is_harmless(value)
            secrets += [value] if named or random else []
        elif named and not isinstance(value, bool):
            secrets.append(str(value))
    return secrets


def redactable(values: Iterable[str]) -> tuple[str, ...]:
    """Returns the values and their lines that are long enough to be blanked, longest first."""
    secrets = {value for value in values if len(value) >= _SHORTEST}
    lines = {line.strip() for value in secrets for line in value.splitlines()}
    secrets |= {line for line in lines if len(line) > MAX_WORD}
    return tuple(sorted(secrets - NO_SECRETS, key=lambda part: (-len(part), part)))
