"""Splits text into words for searching."""

import re
import unicodedata

_CAMEL = re.compile(r"(?=[A-Z])(?:(?<=[a-z0-9])|(?<=[A-Z])(?=[A-Z][a-z]))")
"""A place inside a word such as ``readFile``; the capital is tested first, for speed."""
_SPACELESS = r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
"""A character of the scripts that are written without spaces, and so go by the character."""
_WORD = re.compile(rf"{_SPACELESS}|[^\W_]+")
_BORDER = re.compile(rf"(?<=[A-Za-z0-9])(?={_SPACELESS})")
_FIRST_SENTENCE = re.compile(r"^.{3,300}?[.!?。](?=\s|$)", re.DOTALL)

_ASCII = [chr(code).lower() if chr(code).isalnum() else " " for code in range(128)]
"""The replacement of each character in `words`: letters and digits in lower case, or a space."""
_LETTERS = {code: each.strip() for code, each in enumerate(_ASCII)}
"""The same for `compact`, which drops the others."""

STOP_WORDS = frozenset(
    """
    a an and are as at be by can could do for from how i in is it me my of on or please
    that the their this to was we what where which who will with would you your
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""English words without meaning for a search."""


def words(text: str) -> list[str]:
    """Returns the words of a text or an identifier, case-folded.

    ``readFile``, ``read_file`` and ``Read file`` are all ``["read", "file"]``.
    """
    if text.isascii():  # as most texts; the general way takes three times as long
        return _CAMEL.sub(" ", text).translate(_ASCII).split()
    spaced = _CAMEL.sub(" ", unicodedata.normalize("NFKC", text))
    return [word.casefold() for word in _WORD.findall(spaced)]


def separate_scripts(text: str) -> str:
    """Returns a text with a blank between a Latin word and a script that is written without."""
    return text if text.isascii() else _BORDER.sub(" ", text)


def compact(text: str) -> str:
    """Returns only the letters and digits, case-folded: every spelling of a name gives the same."""
    if text.isascii():
        return text.translate(_LETTERS)
    normal = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in normal if character.isalnum())


def first_sentence(text: str) -> str:
    """Returns the first sentence of a text, at most 300 characters."""
    sentence = _FIRST_SENTENCE.match(text)
    return sentence[0] if sentence else text[:300]
