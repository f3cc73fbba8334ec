"""Parses YAML into strings, lists and mappings; rejects tags, anchors and aliases.

The files are other people's. A tag makes the library construct an object, and its constructors
fail in many ways; an alias or a merge key lets a few hundred bytes stand for gigabytes.
"""

from functools import cache
from importlib import import_module
from typing import Any

MAX_DEPTH = 32
"""Lists and mappings inside each other."""


class UnsafeYamlError(ValueError):
    """A text has anchors, aliases or too many levels; such a text is not read in any other way."""


def parse(text: str) -> Any:
    """Returns the one document of a text; every scalar is a string, as it is written.

    Anchors, aliases and tags are refused, and a merge key is a key like any other, so the
    result is never larger than the text. The time grows with the length, about a second for
    100,000 characters: callers limit that.

    Raises:
        UnsafeYamlError: The text has anchors, aliases or too many levels.
        ValueError: It is no YAML, or has tags. The message is one line, with the place.
    """
    yaml: Any = import_module("yaml")  # which few commands need
    try:
        return yaml.load(text, _loader())
    except yaml.YAMLError as error:
        raise ValueError(_problem(error)) from None


@cache
def _loader() -> Any:
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

    return PlainLoader


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
