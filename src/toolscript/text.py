"""Text: taken apart for searching, made harmless for showing."""

import re
import unicodedata
from collections.abc import Iterable

_CAMEL = re.compile(r"(?=[A-Z])(?:(?<=[a-z0-9])|(?<=[A-Z])(?=[A-Z][a-z]))")
"""The capital letter first: there are few, so most places are left behind at once."""
_WORD = re.compile(
    # Scripts written without spaces go by the character.
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]|[^\W_]+"
)
_FIRST_SENTENCE = re.compile(r"^.{3,300}?[.!?。](?=\s|$)", re.DOTALL)

_ASCII = [chr(code).lower() if chr(code).isalnum() else " " for code in range(128)]
"""What a character becomes where words are looked for: letters small, the rest space."""
_LETTERS = {code: each.strip() for code, each in enumerate(_ASCII)}
"""The same, with no space left."""

_LOOKED_AT = 20_000
"""Of a text that is to be cut anyway, no more characters than these are looked at."""

STOP_WORDS = frozenset(
    """
    a an and are as at be by can could do for from how i in is it me my of on or please
    that the their this to was we what where which who will with would you your
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""English words that say nothing about what is wanted."""


def words(text: str) -> list[str]:
    """The words of a text or an identifier, case-folded.

    ``readFile``, ``read_file`` and ``Read file`` are all ``["read", "file"]``.
    """
    if text.isascii():  # most texts are, and the general way takes three times as long
        return _CAMEL.sub(" ", text).translate(_ASCII).split()
    spaced = _CAMEL.sub(" ", unicodedata.normalize("NFKC", text))
    return [word.casefold() for word in _WORD.findall(spaced)]


def compact(text: str) -> str:
    """Letters and digits only, case-folded: the same for every spelling of a name."""
    if text.isascii():
        return text.translate(_LETTERS)
    normal = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in normal if character.isalnum())


def first_sentence(text: str) -> str:
    """The text up to where its first sentence ends, at most 300 characters."""
    sentence = _FIRST_SENTENCE.match(text)
    return sentence[0] if sentence else text[:300]


def printable(text: str, limit: int = 0) -> str:
    """Third-party text on one line, safe to show.

    Control, format and private characters (terminal escapes, bidirectional
    overrides) are dropped, white space is folded, and a text longer than
    ``limit`` characters is cut with an ellipsis. 0 means no limit.
    """
    looked = text[:_LOOKED_AT] if limit else text
    spaced = " ".join(looked.split())
    clean = "".join(c for c in spaced if c == " " or unicodedata.category(c)[0] != "C")
    whole = len(looked) == len(text) and (not limit or len(clean) <= limit)
    return clean if whole else clean[: limit - 1].rstrip() + "…"


def encodable(text: str) -> str:
    """The text with what no UTF-8 can carry, a lone half of a surrogate pair, written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret, and every URL's user information, blanked."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return re.sub(r"(?<=://)[^/\s?#]+@", "***@", text)
