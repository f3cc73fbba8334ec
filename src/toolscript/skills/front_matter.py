"""Parses front matter: name and description of a Markdown file, in YAML between ``---`` lines.

Nothing else in it is read, so that a fault elsewhere costs no skill: see `FrontMatter.warnings`.
"""

import re
from dataclasses import dataclass
from typing import Any, cast

from toolscript.errors import SkillError
from toolscript.text.display import printable
from toolscript.text.json_values import as_object
from toolscript.text.plain_yaml import UnsafeYamlError, parse

MAX_CHARS = 16_384
MAX_NAME_CHARS = 100
MAX_DESCRIPTION_CHARS = 2_000
_MARK = "---"
_ENDS = frozenset({_MARK, "..."})
_SHOWN = 160
_MAX_COMMENT_CHARS = 2_000
_KEY = re.compile(r"[^\s:#-][^:\n]{0,60}:(?:\s|$)")
"""The beginning of a line that states a key."""
_QUOTED = re.compile(r"""(["'])((?:(?!\1).)*)\1""", re.DOTALL)
_BLOCK = re.compile(r"[|>][+-]?")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Name and description, empty if they are not stated, and the text that follows."""

    name: str
    description: str
    body: str
    warnings: tuple[str, ...] = ()
    """Mistakes that were read leniently, a sentence each."""
    is_for_models: bool = True
    """Whether models may begin it by themselves."""


def read_front_matter(text: str) -> FrontMatter:
    """Returns the front matter of a Markdown file; one without has neither name nor description.

    Only these two keys, and those that keep a skill from models, are looked at, and read as they
    are written: see `plain_yaml`. If the YAML cannot be read, they are read line by line. Raises
    `SkillError` for front matter that does not end, has anchors, aliases, too many levels, or a tag
    under one of these keys.
    """
    lines = _without_preamble(text).split("\n")
    if lines[0].rstrip() != _MARK:
        return FrontMatter("", "", text)
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in _ENDS), 0)
    written = "\n".join(lines[1:end])
    if not end and not any(map(_KEY.match, lines[1:2])):
        return FrontMatter("", "", text)  # a rule, not a mark
    if not end or len(written) > MAX_CHARS:
        raise SkillError(
            f"its front matter has no closing {_MARK} within {MAX_CHARS} characters; add one"
        )
    fields, warnings = _fields(written)
    if fields is None:
        return FrontMatter("", "", text, tuple(warnings))
    name = _text(fields, "name", MAX_NAME_CHARS, warnings)
    description = _text(fields, "description", MAX_DESCRIPTION_CHARS, warnings)
    body = "\n".join(lines[end + 1 :])
    metadata = as_object(fields.get("metadata"))
    switches = (fields.get("disable-model-invocation"), metadata.get("internal"))
    is_for_models = not any(str(each).casefold() == "true" for each in switches)
    return FrontMatter(name, description, body, tuple(warnings), is_for_models)


def read_every_field(text: str) -> dict[str, Any]:
    """Returns all fields of the front matter that a text begins with, as they are written.

    None of them are returned if the text begins otherwise, or `read_front_matter` refuses it.
    """
    lines = text.split("\n")
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in _ENDS), 0)
    written = "\n".join(lines[1:end])
    if lines[0].rstrip() != _MARK or not end or len(written) > MAX_CHARS:
        return {}
    try:
        return as_object(parse(written, typed=True))
    except ValueError:
        return {}


def _without_preamble(text: str) -> str:
    """Returns a text without the blank lines and comments that tools write before the mark."""
    text = text.lstrip()
    while text.startswith("<!--"):
        end = text.find("-->", 0, _MAX_COMMENT_CHARS)
        if end < 0:
            return text
        text = text[end + 3 :].lstrip()
    return text


def _fields(written: str) -> tuple[dict[str, Any] | None, list[str]]:
    """Returns the keys in lower case, and warnings; None for text that is no mapping."""
    try:
        value: Any = parse(f"\n{written}")  # so that lines count from the mark, as in the file
    except UnsafeYamlError as error:
        raise SkillError(f"its front matter is no YAML: {error}") from None
    except ValueError as error:
        problem = f"its front matter is no YAML: {printable(str(error), _SHOWN)}"
        fields = _read_lines(written)
        if not fields or any(field.startswith("!") for field in fields.values()):
            raise SkillError(problem) from None
        return dict(fields), [f"{problem}; only name and description were read, line by line"]
    if value is None:
        return {}, []
    if not isinstance(value, dict):
        return None, ["its front matter is no mapping, and was read as text"]
    mapping = cast("dict[str, Any]", value)
    return {key.lower(): mapping[key] for key in mapping}, []


def _read_lines(written: str) -> dict[str, str]:
    """Returns name and description from lines ``key: …``, with the indented lines that follow."""
    parts: dict[str, list[str]] = {}
    key = ""
    for line in written.split("\n"):
        if not line or line[0].isspace():
            parts.get(key, []).append(line.strip())
            continue
        stated, _, rest = line.partition(":")
        key = stated.strip().lower()
        if key in {"name", "description"}:
            rest = rest.strip()
            parts[key] = [] if _BLOCK.fullmatch(rest) else [rest]
    return {key: _unquote(" ".join(filter(None, lines))) for key, lines in parts.items()}


def _unquote(text: str) -> str:
    match = _QUOTED.fullmatch(text)
    return match[2] if match else text


def _text(fields: dict[str, Any], key: str, most: int, warnings: list[str]) -> str:
    """Returns the text under a key, cut; warns if it is cut, or no text."""
    value: Any = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        warnings.append(f"its {key} is a {type(value).__name__}; expected text: it is not read")
        return ""
    shown = printable(value)
    if len(shown) > most:
        warnings.append(f"its {key} has {len(shown)} characters; {most} of them are read")
    return shown[:most]
