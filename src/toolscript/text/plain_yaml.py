"""Parses YAML into strings, lists and mappings; rejects tags, anchors and aliases.

The files are other people's. A tag makes the library construct an object, and its constructors
fail in many ways; an alias or a merge key lets a few hundred bytes stand for gigabytes.
"""

import re
from functools import cache
from importlib import import_module
from typing import Any

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,2})?")
MAX_DEPTH = 32
"""Lists and mappings inside each other."""


class UnsafeYamlError(ValueError):
    """A text has anchors, aliases or too many levels; such a text is not read in any other way."""


def parse(text: str, *, typed: bool = False) -> Any:
    """Returns the one document of a text; every scalar is a string, as it is written.

    ``typed`` turns those into numbers, booleans and None that YAML 1.2 takes for them.

    Anchors, aliases and tags are refused, and a merge key is a key like any other, so the
    result is never larger than the text. The time grows with the length, about a second for
    100,000 characters: callers limit that.

    Raises:
        UnsafeYamlError: The text has anchors, aliases or too many levels.
        ValueError: It is no YAML, or has tags. The message is one line, with the place.
    """
    yaml: Any = import_module("yaml")  # which few commands need
    try:
        return yaml.load(text, _loader(typed))
    except yaml.YAMLError as error:
        raise ValueError(_problem(error)) from None


@cache
def _loader(typed: bool) -> Any:  # noqa: FBT001 - of two kinds
    """Returns the loader's class; importing its parent takes time."""
    yaml: Any = import_module("yaml")

    class PlainLoader(yaml.BaseLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()
            refused = _find_refusal(event, self.depth)
            if refused:
                raise UnsafeYamlError(f"{refused}, line {event.start_mark.line + 1}")
            if getattr(event, "tag", None) is not None:
                problem = "tags (!) are not allowed; put the text in quotes"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
            self.depth += 1
            node: Any = yaml.BaseLoader.compose_node(self, parent, index)
            self.depth -= 1
            return node

        def construct_scalar(self, node: Any) -> Any:
            value: str = yaml.BaseLoader.construct_scalar(self, node)
            return _value_of(value) if typed and node.style is None else value

    return PlainLoader


def _value_of(text: str) -> Any:
    """Returns the value that the core schema of YAML 1.2 gives an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _find_refusal(event: Any, depth: int) -> str:
    """Returns why a node is rejected; empty for one that is not."""
    if event.anchor is not None:  # an alias is an event with the anchor that it refers to
        return "anchors and aliases (& and *) are not allowed; write the text out"
    return f"more than {MAX_DEPTH} levels are nested" if depth >= MAX_DEPTH else ""


def _problem(error: Exception) -> str:
    """Returns the library's message with the line."""
    mark: Any = getattr(error, "problem_mark", None)
    message = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"{message}, line {mark.line + 1}" if mark is not None else str(message)
