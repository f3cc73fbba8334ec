"""The tools that are toolscript's own: called like any other, and of no server.

They go by the names of the seed, ``Vector.SearchSkills``, and by an id like any
tool's, ``Vector__SearchSkills``, which models accept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolscript.app.argument_checks import check_arguments
from toolscript.skills.vector_pair import VectorPair
from toolscript.types import BUILTIN, ToolSpec


@dataclass(frozen=True)
class BuiltinTool:
    """One tool: how it is described, what it does, and which of its answers is none."""

    spec: ToolSpec
    run: Callable[[str], str]
    succeeded: Callable[[str], bool]

    def answers_to(self, name: str) -> bool:
        """Whether it is meant: by its id, or its name after ``Vector.`` or ``Vector:``."""
        return name in {self.spec.id, *(f"{BUILTIN}{mark}{self.spec.name}" for mark in ".:")}

    def call(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result as on the wire of MCP; raises `ArgumentsError`. Blocks while it works."""
        check_arguments(f"{BUILTIN}.{self.spec.name}", self.spec.input_schema, arguments)
        [given] = arguments.values()
        said = self.run(given)
        content = [{"type": "text", "text": said}]
        return {"content": content, "isError": not self.succeeded(said)}


def vector_tools(index: VectorPair) -> tuple[BuiltinTool, ...]:
    """``Vector.VectorUpdate`` and ``Vector.SearchSkills``."""
    update = _spec(
        "VectorUpdate",
        "Embed a text file of the sandbox, so that Vector.SearchSkills finds it. Replaces what "
        "was known of the file. Answers OK, or what is wrong.",
        "path",
        "The file, relative to the sandbox.",
    )
    search = _spec(
        "SearchSkills",
        "Find the files that Vector.VectorUpdate was called for by what they are about. Answers "
        "with a JSON list of path and score, the nearest first; [] where none is near.",
        "query",
        "What is wanted, as a sentence.",
    )
    return (
        BuiltinTool(update, index.VectorUpdate, lambda said: said == "OK"),
        BuiltinTool(search, index.SearchSkills, lambda said: said.startswith("[")),
    )


def _spec(name: str, description: str, parameter: str, meaning: str) -> ToolSpec:
    return ToolSpec(
        server=BUILTIN,
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": {parameter: {"type": "string", "description": meaning}},
            "required": [parameter],
            "additionalProperties": False,
        },
    )
