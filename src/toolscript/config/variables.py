"""Replaces variables in the strings of a configuration, in the spellings of several clients."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolscript.config.trust import read_file
from toolscript.errors import ConfigSyntaxError
from toolscript.storage.atomic_files import expanded
from toolscript.types import PROJECT, SECRET_VARIABLE

MAX_CHARS = 1_000
"""Maximum characters between the braces of one variable."""
MAX_DEPTH = 8
"""Maximum number of defaults within defaults."""
PATTERN = r"\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}"
FILE = re.compile(r"\{file:(?P<path>[^{}\n]{1,1000})\}")
"""A variable of opencode: the text in a file."""
_OPENING = re.compile(rf"\$\$\{{|\$\{{|\{{env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}}|{FILE.pattern}")
_ANY = re.compile(r"\$[{(]|\{(?:env|file):|(?<!\S)(?:\$[A-Z_][A-Z0-9_]*|%[A-Z_][A-Z0-9_]*%)(?!\S)")
"""A variable of any client, also of one that is read nowhere here."""
_BRACE = re.compile(r"[{}]")
_VARIABLE = re.compile(
    r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<sign>:-|:?[?])(?P<rest>.*))?", re.DOTALL
)
_OF_CLIENTS = re.compile(r"(?:input|config|command|file|prompt|secret|vault|op):")
"""Variables that other clients take from their users, settings or stores."""
_FIXED = {
    **dict.fromkeys(("PROJECT", "workspaceFolder", "workspaceRoot"), PROJECT),
    **dict.fromkeys(("/", "pathSeparator"), "/"),
}
"""The variables of VS Code and Cursor that have a counterpart here, beside ``userHome``, and ours:
the folder is known when a caller is."""
_SHOWABLE = re.compile(r"[\w:. /-]{1,40}")
_PUBLIC = {
    *("HOME", "PATH", "USER", "LOGNAME", "PWD", "OLDPWD", "SHELL", "LANG", "HOSTNAME"),
    *("TMPDIR", "TMP", "TEMP", "USERPROFILE", "USERNAME", "APPDATA", "LOCALAPPDATA"),
}
"""Variables of the environment that hold no secret; any other may."""


class VariableError(Exception):
    """A variable that cannot be replaced; the message says which, and the remedy."""


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables that the strings of an entry may name."""

    environ: Mapping[str, str]
    own: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those that the entry defines for its server; they count first."""
    hidden: set[str] = field(default_factory=set[str])
    """Collects the values from the environment that may be secret."""

    secrets: set[str] | None = None
    """Collects the names of stored secrets, whose variables stay; None if the text may name none.
    """
    folder: Path = Path()
    """The folder to which paths are relative."""
    may_keep: bool = False
    """Whether braces that name no variable stay, as in the text of a shell or a program. A variable
    of another client is refused all the same."""

    def expand(self, text: str, depth: int = 0) -> str:
        """Returns a text with its variables replaced.

        Args:
            text: As the file has it. ``$${`` stands for ``${``.
            depth: The number of defaults that this text is within.

        Raises:
            VariableError: A variable is not set, or is none of those that are known here.
        """
        if depth > MAX_DEPTH:
            raise VariableError("has too many defaults within defaults")
        parts: list[str] = []
        place = 0
        while opening := _OPENING.search(text, place):
            parts.append(text[place : opening.start()])
            if opening["path"]:
                value, place = self._read(opening["path"]), opening.end()
            elif opening["name"]:
                value, place = self._value(opening["name"], depth), opening.end()
            else:
                value, place = self._replace(text, opening, depth)
            parts.append(value)
        return "".join([*parts, text[place:]])

    def _replace(self, text: str, opening: re.Match[str], depth: int) -> tuple[str, int]:
        """Returns the value of the variable in braces that opens here, and the place after it."""
        place = opening.end()
        if opening[0] == "$${":
            return "${", place
        end = _find_end(text, place)
        if end >= 0 and (not self.may_keep or _is_variable(text[place:end])):
            return self._value(text[place:end], depth), end + 1
        if not self.may_keep:
            raise VariableError("has '${' without a '}'; write '$${' for a text that stays")
        if text.find("}", place) < 0:  # nothing that follows is closed
            return text[opening.start() :], len(text)
        return "${", place

    def _value(self, inner: str, depth: int) -> str:
        """Returns the value of a variable; ``inner`` is the text between its braces."""
        if inner in _FIXED:
            return _FIXED[inner]
        if inner.startswith("secret:"):
            return self._secret(inner)
        match = _VARIABLE.fullmatch(inner)
        if match is None:
            shown = f"${{{(_SHOWABLE.match(inner) or [''])[0]}}}"
            raise VariableError(
                f"has {shown}, which is no variable here; write ${{NAME}} and set NAME in the "
                "environment, ${secret:NAME} after toolscript secret set NAME, or '$${' for a text "
                "that stays"
            )
        name = "HOME" if match["name"] == "userHome" else match["name"]
        value = self._look_up(name)
        if match["sign"] == ":-" and not value:
            return self.expand(match["rest"], depth + 1)
        if value is None:
            stays = "; write '$${' for a text that stays" if self.may_keep else ""
            raise VariableError(f"needs ${{{name}}}, which is not set in the environment{stays}")
        return value

    def _read(self, path: str) -> str:
        """Returns the text in a file, which may be secret, without the blanks around it."""
        try:
            data = read_file(self.folder / expanded(path))[0]
        except ConfigSyntaxError as error:
            raise VariableError(f"has {{file:…}}, but {error}") from None
        value = data.decode("utf-8", "replace").strip()
        self.hidden.update([value] if value else [])
        return value

    def _secret(self, inner: str) -> str:
        """Returns the variable of a stored secret, and collects its name."""
        variable = SECRET_VARIABLE.fullmatch(text := f"${{{inner}}}")
        if variable is None:
            raise VariableError(
                "has ${secret:…} with a name that no secret can have; it has 1 to 64 letters, "
                "digits, '.', '-' and '_'"
            )
        if self.secrets is None:
            raise VariableError(f"has {text}, which only env, headers, args and url may have")
        self.secrets.add(variable["name"])
        return text

    def _look_up(self, name: str) -> str | None:
        """Returns the value of a name, None if it has none; collects one that may be secret."""
        if name in self.own:
            return self.own[name]
        value = self.environ.get(name)
        if value and name not in _PUBLIC:
            self.hidden.add(value)
        return value


def has_variable(text: str) -> bool:
    """Whether a text has a variable in the spelling of any client."""
    return _ANY.search(text) is not None


def _is_variable(inner: str) -> bool:
    """Whether this is a variable here or in another client."""
    return inner in _FIXED or bool(_VARIABLE.fullmatch(inner) or _OF_CLIENTS.match(inner))


def _find_end(text: str, begin: int) -> int:
    """Returns the place of the brace that closes a variable; -1 if none does."""
    level = 0
    for brace in _BRACE.finditer(text, begin, begin + MAX_CHARS):
        level += 1 if brace[0] == "{" else -1
        if level < 0:
            return brace.start()
        if level > 2 * MAX_DEPTH:
            break
    return text.find("}", begin, begin + MAX_CHARS)  # a default may have an open brace
