"""Warns of tools' names that are unusual or deceptive."""

import re
import unicodedata
from collections.abc import Iterable

from toolscript.text.words import compact

_SAFE_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]"
)
"""Characters that Python calls printable although they are invisible."""
_LOOKALIKES = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d"
    "\u0405\u0406\u0408\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425"
    "\u03bf\u03bd\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
)
"""Cyrillic and Greek letters that look like Latin ones."""
_LIKE_LATIN = {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"}
"""Scripts that no honest word mixes with Latin letters."""


def deceptive_name(name: str) -> str:
    """Returns how a name pretends to be another one, or "" if it does not."""
    if name != name.strip():
        return "begins or ends with a blank"
    hidden = next((c for c in name if not c.isprintable() or _INVISIBLE.match(c)), "")
    if hidden:
        return f"has a character that cannot be seen ({_code_point(hidden)})"
    odd = [c for c in name if not c.isascii()]
    return _likeness(name, odd) if odd else ""


def _likeness(name: str, odd: list[str]) -> str:
    """Returns how a name with odd characters looks like another one, or "" if it does not."""
    same = [c for c in odd if c in _LOOKALIKES or _is_styled_latin(c)]
    mixed = any(map(_is_mixed, re.findall(r"[^\W\d_]+", name)))
    if len(same) == len(odd) or any(map(_is_styled_latin, odd)) or mixed:
        return f"looks like another name ({_code_point((same or odd)[0])})"
    return ""


def name_warning(name: str, own: Iterable[str]) -> str:
    """Returns a warning about a server's tool of this name; "" for most names.

    ``own`` are the names of toolscript's own tools.
    """
    if compact(name) in map(compact, own):
        return "it is called like a tool of toolscript's own"
    if _SAFE_NAME.fullmatch(name):
        return ""
    odd = dict.fromkeys(c for c in name if not _SAFE_NAME.match(c))
    shown = ", ".join(_code_point(c) for c in list(odd)[:3])
    return f"its name has unusual characters ({shown})"


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def _is_styled_latin(character: str) -> bool:
    """Whether a character is a form of Latin letters: full width, bold, a ligature."""
    plain = unicodedata.normalize("NFKC", character)
    return not character.isascii() and plain.isascii() and plain.isalpha()


def _is_mixed(word: str) -> bool:
    scripts = {unicodedata.name(c, "").partition(" ")[0] for c in word}
    return "LATIN" in scripts and not scripts.isdisjoint(_LIKE_LATIN)
