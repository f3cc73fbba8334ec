"""toolscript's built-in tools: called like any other tool, but of no server and in no list.

They have the names of the seed, such as ``Vector.SearchSkills``, and an id like any tool's,
``Vector__SearchSkills``, which models accept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolscript.app.argument_checks import check_arguments
from toolscript.skills.vector_pair import VectorPair
from toolscript.types import BUILTIN, ToolSpec


@dataclass(frozen=True)
class BuiltinTool:
    """A tool that takes one text and answers with another."""

    spec: ToolSpec
    run: Callable[[str], str]
    succeeded: Callable[[str], bool]
    """Whether an answer of ``run`` is no error message."""

    def answers_to(self, name: str) -> bool:
        """Whether a name means this tool: its id, or its name after ``Vector.`` or ``Vector:``."""
        return name in {self.spec.id, *(f"{BUILTIN}{mark}{self.spec.name}" for mark in ".:")}

    def call(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the result as on the wire of MCP; raises `ArgumentsError`. Blocks."""
        name = f"{BUILTIN}.{self.spec.name}"
        [argument] = check_arguments(name, self.spec.input_schema, arguments, ours=True).values()
        text = self.run(argument)
        content = [{"type": "text", "text": text}]
        return {"content": content, "isError": not self.succeeded(text)}


def vector_tools(pair: VectorPair) -> tuple[BuiltinTool, ...]:
    """``Vector.VectorUpdate`` and ``Vector.SearchSkills``."""
    update = _spec(
        "VectorUpdate",
        "Embed a text file of the sandbox, so that Vector.SearchSkills finds it. Replaces what "
        "was known of the file. Answers OK, or what is wrong.",
        "path",
        "The file, relative to the sandbox.",
        {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
    )
    search = _spec(
        "SearchSkills",
        "Find the files that Vector.VectorUpdate was called for by what they are about. Answers "
        "with a JSON list of path and score, the nearest first; [] where none is near.",
        "query",
        "What is wanted, as a sentence.",
        {"readOnlyHint": True, "openWorldHint": False},
    )
    return (
        BuiltinTool(update, pair.VectorUpdate, lambda text: text == "OK"),
        BuiltinTool(search, pair.SearchSkills, lambda text: text.startswith("[")),
    )


def _spec(
    name: str, description: str, parameter: str, meaning: str, annotations: dict[str, bool]
) -> ToolSpec:
    return ToolSpec(
        server=BUILTIN,
        name=name,
        description=description,
        annotations=annotations,
        input_schema={
            "type": "object",
            "properties": {parameter: {"type": "string", "description": meaning}},
            "required": [parameter],
            "additionalProperties": False,
        },
    )
