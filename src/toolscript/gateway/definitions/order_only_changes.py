"""Recognizes a definition of which only lists without an order were written in another order.

Servers that keep a list as a set write it in another order at each start. The checks are narrow,
since words in another order can mean the opposite: whatever they do not cover is a change.
"""

import re

from toolscript.gateway.definitions.normal_form import (
    DIGEST_CHARS,
    Definition,
    folded,
    lines_of,
    normal_form,
    sorted_schema,
)
from toolscript.types import ToolSpec, sha256_of

_SETS = (
    "commands|programs|executables|patterns|values|options|choices|formats|types|kinds|languages"
    "|locales|units|extensions|fields|columns|tables|databases|categories|tags|topics|models"
    "|regions|currencies|encodings|protocols|methods|names|keys|tools|servers|projects|zones"
    "|timezones|operations|actions|modes|paths|directories|hosts|domains"
)
_HEAD = (
    r"\b(?:(?:allowed|available|supported|valid|possible|accepted|permitted|known)"
    rf"(?: [a-z]+)? (?:{_SETS})|(?:one|any) of(?: the following)?)(?: are)?(?: ?:|(?= ?[\[({{]))"
)
_WORD = r"[a-z0-9_./+#*@-]*[a-z0-9_/+#*]"
_ITEM = rf"(?:{_WORD}|'{_WORD}'|\"{_WORD}\"|`{_WORD}`)"
_ENUMERATION = re.compile(
    rf"(?P<head>{_HEAD} ?[\[({{]?)(?P<items>{_ITEM}(?:, ?{_ITEM}){{2,}})"
    rf"(?P<end>[\])}}]?\.?)(?=\Z| {_HEAD})",
    re.ASCII | re.IGNORECASE,
)
"""Single words after such as "Allowed commands:", to the end of the text or the next such words.

A sentence behind a list may be about its last item, and one before it about its first.
"""
_MEANINGFUL = re.compile(
    r"(?<![a-z0-9])(?:no|not|none|never|nor|neither|only|but|except|unless|without|always|and|or|if"
    r"|when|then|than|before|after|first|last|next|else|otherwise|until|while|to|from|instead|all|any|do|cannot"
    r"|avoid|skip|(?:forbid|den[yi]|refus|exclu|prohibit)[a-z]*)(?![a-z0-9])",
    re.IGNORECASE,
)
"""Words of a sentence: items that have one are no mere names."""
_ORDER = re.compile(
    r"\b(?:first|second|third|last|final|former|latter|next|then|before|after|afterwards|prior"
    r"|earlier|later|left|right|top|bottom|nth|\d+(?:st|nd|rd|th)|respectively|in turn"
    r"|(?:order|sequen|step|priorit|prefer|preced|previous|subsequent|follow|rank|position|index"
    r"|begin|start|initial|end|stop|above|below|alphabet|sort|reverse)\w*)\b|#\d",
    re.ASCII | re.IGNORECASE,
)
"""Words that may give a meaning to a place in a list."""


def ignore_order(definition: Definition) -> Definition:
    """Returns a definition in a form that is the same for all orders of its unordered lists.

    These are lists of types in schemas, and enumerations in descriptions, unless any text says
    something of an order.
    """
    texts = "\n".join(_ENUMERATION.sub("", text) for _, text in lines_of(definition))
    change = folded if _ORDER.search(texts) else _sort_enumerations
    return sorted_schema(definition, change, {"type"})


def is_reordered(before: Definition, after: Definition) -> bool:
    """Whether two different definitions differ in the order of unordered lists alone."""
    return before != after and ignore_order(before) == ignore_order(after)


def definition_digest(tool: ToolSpec) -> str:
    """Returns a digest that stands for a tool's id, definition and repair, in any order."""
    repair = [tool.repair] if tool.repair else []
    return sha256_of([tool.id, ignore_order(normal_form(tool)), *repair])[:DIGEST_CHARS]


def _sort_enumerations(text: str) -> str:
    return _ENUMERATION.sub(_sort_items, folded(text))


def _sort_items(match: re.Match[str]) -> str:
    if _MEANINGFUL.search(match["items"]):
        return match[0]
    items = sorted(re.split(", ?", match["items"]))
    return f"{match['head']}{', '.join(items)}{match['end']}"
