"""Blanks secrets in every text that is shown: known ones, and words that look like one."""

import json
import re
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from urllib.parse import quote, quote_plus

from toolscript.text.secret_detection import MAX_WORD, user_info
from toolscript.text.secret_shapes import NO_SECRETS, known_tokens

MAX_CHARS = 16_384
"""A longer text is cut before it is redacted."""
BLANK = "***"
_SPELLED_CHARS = 16_384


def redact(text: str, secrets: Iterable[str]) -> str:
    """Returns the text with ``***`` for secrets in any encoding and for words that look like one.

    Credentials in URLs are replaced, too. Takes time in proportion to the text, whatever it holds.
    """
    long, short = _matchers(tuple(secrets))
    looked = _blank(text[:MAX_CHARS], long, short)
    if len(text) > MAX_CHARS:  # the end may be half a secret
        looked = looked[: -min(MAX_CHARS // 2, len(long[0]) if long else 1)] + "…"
    looked = re.sub(r"://([^\r\n]+)", _without_users, looked)
    looked = _private_keys().sub(BLANK, looked)
    looked = _headers().sub(rf"\1{BLANK}", looked)
    looked = known_tokens().sub(BLANK, looked)
    return _assignments().sub(_blank_value, looked)


def redact_known(texts: Sequence[str], secrets: Iterable[str]) -> list[str]:
    """Returns the texts with ``***`` for these secrets in any spelling. None is cut.

    A word that only looks like a secret stays: in another program's data it is mostly none.
    """
    long, short = _matchers(tuple(secrets))
    joined = "\0".join(texts)  # most of many texts have none of many spellings
    found = [spelling for spelling in long if spelling in joined]
    short = short if short and short.search(joined) else None
    return [_blank(text, found, short) for text in texts]


def _blank(text: str, long: Iterable[str], short: re.Pattern[str] | None) -> str:
    for spelling in long:
        text = text.replace(spelling, BLANK)
    return short.sub(BLANK, text) if short else text


@lru_cache(256)
def _matchers(secrets: tuple[str, ...]) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    """The spellings that are replaced anywhere, and a pattern of those that have to be words."""
    spelled = {each for secret in secrets for each in _spellings(secret)}
    ordered = sorted(spelled, key=lambda each: (-len(each), each))
    long = tuple(each for each in ordered if len(each) > MAX_WORD)
    short = "|".join(re.escape(each) for each in ordered if len(each) <= MAX_WORD)
    return long, re.compile(rf"(?i)(?<![^\W_])(?:{short})(?![^\W_])") if short else None


def _spellings(secret: str) -> Iterator[str]:
    """How programs write a text: as it is, in quotes, in a URL, in HTML, in base64, in hex.

    Of escapes that a program may use for every character, or for some, both are among them.
    """
    data = secret.encode(errors="replace")
    yield from (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield repr(secret)[1:-1]
    if len(secret) > _SPELLED_CHARS:
        return
    yield from (secret.replace("\\", "\\\\"), repr(json.dumps(secret))[2:-2])
    yield json.dumps(json.dumps(secret))[3:-3]
    yield (page := secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    yield from (page.replace('"', "&quot;").replace("'", each) for each in ("&#x27;", "&#39;"))
    for escaped in (
        quote(data, safe=""),
        quote(data),
        quote_plus(data),
        quote(data, safe="!*'()/"),
    ):
        yield escaped
        yield re.sub("%[0-9A-F]{2}", lambda hexed: hexed[0].lower(), escaped)
    yield from (data.hex(), data.hex().upper(), repr(data)[2:-1], ascii(secret)[1:-1])
    for escape in (r"\u{:04x}", r"\u{:04X}", "&#{};", "&#x{:x};"):
        yield "".join(map(escape.format, map(ord, secret)))
    yield from ("".join(map("%{:02x}".format, data)), "".join(map("%{:02X}".format, data)))
    yield from (coded := _base64(data, 0), coded.replace("+", "-").replace("/", "_"))
    if len(secret) <= MAX_WORD:
        return
    yield from (secret.lower(), secret.upper())
    for shift in range(3):  # within a longer text it begins at any of three places
        coded = _base64(data, shift)[(0, 2, 3)[shift] :]
        coded = coded[:-1] if (len(data) + shift) % 3 else coded
        yield from (coded, coded.replace("+", "-").replace("/", "_"))


def _base64(data: bytes, shift: int) -> str:
    return b2a_base64(b"\0" * shift + data, newline=False).decode().rstrip("=")


def _without_users(match: re.Match[str]) -> str:
    shown, before = [""], match.string[max(0, match.start() - 8) : match.start()]
    for piece in match[1].split("://"):
        user = user_info(before, piece)
        shown.append(BLANK + piece[len(user) :] if user else piece)
        before = piece
    return "://".join(shown)


@cache
def _private_keys() -> re.Pattern[str]:
    begin = r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    return re.compile(begin + r"(?:[^-]|-(?!----END))*(?:-----END[^-]{0,60}-----)?")


@cache
def _headers() -> re.Pattern[str]:
    """Headers of HTTP that are secret up to the end of the line."""
    names = r"(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-auth-token"
    return re.compile(
        rf"""(?i)(\b(?:{names})["'\\]{{0,4}}\s{{0,3}}[:=][\s"'\\]{{0,6}})[^\r\n"']+"""
    )


@cache
def _assignments() -> re.Pattern[str]:
    """A name that says that its value is secret, ``=`` or ``:``, and the value."""
    kinds = "api|access|private|secret|signing|encryption|account|license|service|master|auth"
    return re.compile(
        rf"""
        (?i:
            (?P<sure>passw(?:or)?d|passphrase|passcode|pwd|secret|credential|connection[ _-]?string
                |(?:{kinds})[ _-]?key)[\w-]{{0,40}}
            | (?:token|(?<![a-z])(?:key|pass|auth|session|pat|pin|pw|dsn|otp|sig|sid))
                s?(?:[_-][\w-]{{0,40}})?
        )
        (?:["'\\]{{0,4}}\s{{0,3}}(?:=>?|:)\s{{0,3}}\\{{0,3}})
        (?P<value>"[^"\n]{{1,4096}}|'[^'\n]{{1,4096}}|[^\s"';&\\]{{1,4096}})
        """,
        re.VERBOSE,
    )


_SAID = frozenset(
    "no not is must cannot required missing invalid expected permission failed empty".split()  # noqa: SIM905
)
"""Words that follow a secret's name in a message about it."""


def _blank_value(match: re.Match[str]) -> str:
    quoted = match["value"][0] if match["value"][0] in "\"'" else ""
    value = match["value"][len(quoted) :].strip(" .,)}]" if quoted else " .,)}]{[")  # of JSON
    plain = not match["sure"] and re.fullmatch(r"[A-Za-z]{0,20}|\d{1,7}|\W*", value)
    if plain or value.casefold() in NO_SECRETS | _SAID or value == BLANK:
        return match[0]
    return match[0][: -len(match["value"])] + quoted + BLANK
