"""Scripts that the user has stored, which models call like tools: files below the data directory.

A script begins with front matter, as a skill does: ``name``, ``description``, ``parameters`` (a
JSON Schema), and ``class``, the class of tools that it may call at most. The scripts are the tools
of the server `SERVER`, so they are found, pinned and held like any other server's. The definition
of a tool includes its text: a changed text is a changed definition, and a review shows the change.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from toolscript.config.known_keys import misspelt
from toolscript.errors import InputError
from toolscript.storage.atomic_files import make_private, stamp, write_atomically
from toolscript.text.display import printable
from toolscript.text.json_values import as_object
from toolscript.text.wire_constants import TOOL_CLASSES, ToolClass
from toolscript.types import ServerSpec, ToolSpec

SERVER = "scripts"
MAX_CHARS = 50_000
_KEYS = ("name", "description", "parameters", "class")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,59}")
_PARTS = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*\n(.*)\Z", re.DOTALL)
_HINTS: dict[ToolClass, dict[str, bool]] = {
    "read": {"readOnlyHint": True},
    "write": {"destructiveHint": False},
    "destructive": {"destructiveHint": True},
}


class StoredScript(msgspec.Struct, frozen=True):
    """A script, and the tool by which it is called."""

    tool: ToolSpec
    text: str
    """Its Python, with an empty line for each line of the front matter."""


def parse_script(text: str) -> StoredScript:
    """Returns a script with its tool; raises `InputError` if its front matter cannot be used."""
    parts = _PARTS.match(text)
    if parts is None or len(text) > MAX_CHARS:
        raise InputError(
            f"a script begins with --- and its name, description and parameters, ends them with "
            f"---, and has at most {MAX_CHARS:,} characters"
        )
    yaml: Any = import_module("yaml")
    try:
        fields = as_object(yaml.safe_load(parts[1]))
    except yaml.YAMLError as error:
        raise InputError(f"its front matter is no YAML: {printable(str(error), 160)}") from None
    if mistake := misspelt(map(str, fields), _KEYS):
        raise InputError(mistake)
    name, description = fields.get("name") or "", fields.get("description")
    if "name" in fields and not isinstance(fields["name"], str | None):
        raise InputError(f"its name is {fields['name']!r} in YAML; put the name in quotes")
    if not _NAME.fullmatch(name):
        raise InputError(
            f"its name is {printable(name, 60)!r}; give it one of small letters, digits, - and _"
        )
    if not isinstance(description, str) or not description.strip():
        raise InputError("it has no description; say in a sentence what the script does")
    schema = as_object(fields.get("parameters", {"type": "object", "properties": {}}))
    if schema.get("type") != "object":
        raise InputError("its parameters are no JSON Schema of an object; begin with type: object")
    most = fields.get("class", "destructive")
    if most not in TOOL_CLASSES:
        raise InputError(f"its class is {most!r}; choose one of {', '.join(TOOL_CLASSES)}")
    tool = ToolSpec(
        server=SERVER,
        name=name,
        description=description,
        input_schema=schema,
        annotations=dict(_HINTS[most]),
        script=text,
    )
    return StoredScript(tool, "\n" * text[: parts.start(2)].count("\n") + parts[2])


class ScriptFolder:
    """The folder of the stored scripts, one file each."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / SERVER

    def read(self) -> tuple[list[StoredScript], list[str]]:
        """Returns the scripts by name, and a line for each file that is none."""
        scripts, problems = list[StoredScript](), list[str]()
        for file in sorted(self.path.glob("*.py")):
            try:
                script = parse_script(file.read_text("utf-8"))
            except (InputError, OSError, UnicodeDecodeError) as error:
                problems.append(f"{file.name}: {error}")
                continue
            if script.tool.name == file.stem:
                scripts.append(script)
            else:
                problems.append(f"{file.name}: its name is {script.tool.name!r}, not the file's")
        return scripts, problems

    def add(self, text: str) -> tuple[str, bool]:
        """Stores a script; returns its name, and whether it has replaced another of that name."""
        name = parse_script(text).tool.name
        make_private(self.path)
        file = self.path / f"{name}.py"
        is_replaced = file.exists()
        write_atomically(file, text.encode())
        return name, is_replaced

    def remove(self, name: str) -> bool:
        """Deletes a script; returns whether there was one."""
        file = self.path / f"{name}.py"
        if not _NAME.fullmatch(name) or not file.is_file():
            return False
        file.unlink()
        return True

    def server(self) -> ServerSpec | None:
        """Returns the server of the scripts; None if there are none."""
        files = sorted(self.path.glob("*.py"))
        if not files:
            return None
        return ServerSpec(name=SERVER, transport="stdio", scripts=(str(self.path), stamp(files)))
