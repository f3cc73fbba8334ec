"""Parses front matter: name and description of a Markdown file, in YAML between ``---`` lines."""

from dataclasses import dataclass
from typing import Any, cast

from toolscript.errors import SkillError
from toolscript.text.display import printable
from toolscript.text.plain_yaml import parse

MAX_CHARS = 16_384
MAX_NAME_CHARS = 100
MAX_DESCRIPTION_CHARS = 2_000
_MARK = "---"
_SHOWN = 160


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Name and description, empty where they are not stated, and the text that follows."""

    name: str
    description: str
    body: str


def read_front_matter(text: str) -> FrontMatter:
    """Returns the front matter of a Markdown file; one without has neither name nor description.

    Only these two keys are looked at, and read as they are written: see `plain_yaml`.
    Raises `SkillError` for front matter that does not end, is no YAML mapping, has
    anchors, aliases or tags, or has something else than text under these keys.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != _MARK:
        return FrontMatter("", "", text)
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == _MARK), 0)
    written = "\n".join(lines[1:end])
    if not end or len(written) > MAX_CHARS:
        raise SkillError(
            f"its front matter has no closing {_MARK} within {MAX_CHARS} characters; add one"
        )
    fields = _mapping(written)
    name = _text(fields, "name", MAX_NAME_CHARS)
    description = _text(fields, "description", MAX_DESCRIPTION_CHARS)
    return FrontMatter(name, description, "\n".join(lines[end + 1 :]))


def _mapping(written: str) -> dict[str, Any]:
    try:
        value: Any = parse(f"\n{written}")  # so that lines count from the mark, as in the file
    except ValueError as error:
        told = printable(str(error), _SHOWN)
        raise SkillError(f"its front matter is no YAML: {told}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SkillError("its front matter is no mapping; expected lines such as 'name: …'")
    return cast("dict[str, Any]", value)


def _text(fields: dict[str, Any], key: str, most: int) -> str:
    value: Any = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SkillError(f"its {key} is a {type(value).__name__}; expected text")
    said = printable(value)
    if len(said) > most:
        raise SkillError(f"its {key} has {len(said)} characters; at most {most} are allowed")
    return said
