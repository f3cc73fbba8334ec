"""Tells a change that adds no words to a definition from one that a person has to see.

Parts that are left out add none, nor do optional parameters and values of enumerations that are
mere identifiers. Everything else counts: another number, too, or a word at another place.
"""

import re
from typing import Any, cast

from toolscript.gateway.definitions.normal_form import NAMED, TEXTS, Definition
from toolscript.text.words import words

_IDENTIFIER = re.compile(r"[A-Za-z0-9_.-]{0,40}")
_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/[A-Za-z0-9_.-]{0,40}")
_SENTENCES = re.compile(r"(?<=[.!?]) ")
_STOPS = ".,;:!?"
_SCHEMAS = {"inputSchema", "outputSchema"}
_ABSENT: dict[str, Any] = {"properties": {}, "$defs": {}, "definitions": {}, "enum": []}
"""The values that mean the same in a schema as to have no such key."""


def adds_words(before: Definition, after: Definition) -> bool:
    """Whether a definition says anything that the former one of the same tool did not."""
    others = {*before, *after} - TEXTS - _SCHEMAS
    return not (
        all(before.get(key) == after.get(key) for key in others)
        and all(_is_shortened(before.get(key, ""), after.get(key, "")) for key in TEXTS)
        and all(_is_reduced(before.get(key, {}), after.get(key, {})) for key in _SCHEMAS)
    )


def _is_shortened(before: str, after: str) -> bool:
    """Whether a text is another one without some of its sentences, or without their ends."""
    former = iter(_SENTENCES.split(before))
    return not after or all(
        any(_begins(each.split(), sentence.split()) for each in former)
        for sentence in _SENTENCES.split(after)
    )


def _begins(sentence: list[str], beginning: list[str]) -> bool:
    *first, last = beginning
    end = sentence[len(first) : len(beginning)]
    is_same_end = [each.rstrip(_STOPS) for each in end] == [last.rstrip(_STOPS)]
    return is_same_end and sentence[: len(first)] == first


def _is_reduced(old: Any, new: Any, key: str = "", *, is_named: bool = False) -> bool:
    """Whether the value at a key of a schema says no more than another one.

    ``is_named`` says that the values' own keys are names of the server's.
    """
    if old == new:
        return True
    if isinstance(old, dict) and isinstance(new, dict):
        return _has_fewer_keys(cast("Definition", old), cast("Definition", new), is_named=is_named)
    if isinstance(old, list) and isinstance(new, list):
        return _has_fewer_items(cast("list[Any]", old), cast("list[Any]", new), key)
    if isinstance(old, str) and isinstance(new, str):
        return key in TEXTS and _is_shortened(old, new)
    return False


def _has_fewer_keys(old: Definition, new: Definition, *, is_named: bool) -> bool:
    if is_named:
        return all(
            _is_reduced(old[name], each) if name in old else _is_bare({name: each}, name)
            for name, each in new.items()
        )
    return all(
        _is_reduced(old.get(key, _ABSENT.get(key)), each, key, is_named=key in NAMED)
        for key, each in new.items()
    )


def _has_fewer_items(old: list[Any], new: list[Any], key: str) -> bool:
    if key in {"enum", "required"}:
        more = [each for each in new if each not in old]
        return not more or (key == "enum" and _is_bare(more))
    return len(old) == len(new) and all(map(_is_reduced, old, new))


def _is_bare(value: Any, name: str = "") -> bool:
    """Whether a new part of a schema has no text but identifiers, and titles that say its name."""
    if isinstance(value, dict):
        items = cast("Definition", value).items()
        return all(
            _is_name_of(each, name)
            if key in TEXTS and isinstance(each, str)
            else _IDENTIFIER.fullmatch(key.removeprefix("$")) is not None and _is_bare(each, name)
            for key, each in items
        )
    if isinstance(value, list):
        return all(_is_bare(each, name) for each in cast("list[Any]", value))
    is_text = isinstance(value, str)
    return not is_text or bool(_IDENTIFIER.fullmatch(value) or _REFERENCE.fullmatch(value))


def _is_name_of(title: str, name: str) -> bool:
    return {*title.casefold().split()} <= {*words(name)}
