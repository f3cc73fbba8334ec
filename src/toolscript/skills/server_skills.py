"""Skills that servers serve (SEP-2640). A file is read from its server when it is asked for."""

import base64
import hashlib
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, TypeAlias

from toolscript.errors import SkillError, UnknownNameError
from toolscript.gateway.base import Caller
from toolscript.gateway.catalogue import Catalogue
from toolscript.skills.front_matter import read_every_field
from toolscript.skills.scanner import MANIFEST, Skill
from toolscript.text.display import printable
from toolscript.text.json_values import as_list, as_object
from toolscript.types import Document, SkillManifest, ToolSpec, tool_id

Request: TypeAlias = Callable[[str, str, dict[str, Any], Caller], Awaitable[dict[str, Any]]]
"""Returns a server's result: its name, the method, the parameters, and who asks."""


class ServerSkill(Skill, frozen=True, kw_only=True, array_like=True, dict=True):
    """A skill of a server, in the version that was accepted. Its path is the manifest's URI."""

    server: str
    title: str
    """The skill's name; other skills of the server may have the same."""
    manifest: SkillManifest

    @property
    def id(self) -> str:
        """``server__uri``."""
        return tool_id(self.server, self.path)

    @property
    def file(self) -> str:
        """The URI, and the server that knows it."""
        return f"{self.path} of the server {self.server}"

    @property
    def short_name(self) -> str:
        """The name in the front matter."""
        return self.title

    @cached_property
    def documents(self) -> list[Document]:
        """The name and the description: the text is unknown before somebody reads it."""
        return [_document(self)]

    async def read(self, file: str, request: Request, caller: Caller) -> bytes:
        """Returns one of its files, as it was accepted.

        Args:
            file: The file's path, as the manifest spells it.
            request: Asks the server.
            caller: Asks for the file.

        Raises:
            UnknownNameError: It has no such file.
            SkillError: The server has another file there by now.
            UpstreamError: The server does not answer, or refuses.
        """
        stated = self.manifest.files.get(file)
        if stated is None:
            known = ", ".join(self.manifest.files)
            raise UnknownNameError(
                f"{self.name} has no file {printable(file, 200)!r}; it has: {printable(known, 500)}"
            )
        uri = self.path.removesuffix(MANIFEST) + file
        data = _content(await request(self.server, "resources/read", {"uri": uri}, caller), uri)
        is_same = f"sha256:{hashlib.sha256(data).hexdigest()}" == stated.digest
        is_same = is_same and stated.size in {None, len(data)}
        if is_same and file == MANIFEST:
            text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
            is_same = read_every_field(text) == self.manifest.frontmatter
        if not is_same:
            raise SkillError(
                f"{uri} of {self.server} is not the file that its list of skills states, and is "
                f"not shown; try again in a moment, or look at: toolscript review {self.server}"
            )
        return data


def server_skills(catalogue: Catalogue) -> dict[str, ServerSkill]:
    """Returns the accepted skills of every server, by their names: ``server:uri``."""
    skills = (
        ServerSkill(
            name=f"{each.server}:{each.name}",
            title=each.title,
            description=each.description,
            root="",
            path=each.name,
            passages=(),
            server=each.server,
            manifest=each.skill,
        )
        for each in catalogue.skills.values()
        if each.skill is not None
    )
    return {skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)}


def list_held_skills(catalogue: Catalogue) -> tuple[Document, ...]:
    """Returns the held skills of every server that a person may still approve, as accepted."""
    pinned = (
        held.pinned
        for held in catalogue.held.values()
        if held.tool.skill is not None and not held.rejected
    )
    return tuple(map(_document, pinned))


def _document(skill: ServerSkill | ToolSpec) -> Document:
    return Document(
        id=skill.id,
        parent_id=skill.id,
        server=skill.server,
        name=skill.title,
        description=skill.description,
    )


def _content(result: dict[str, Any], uri: str) -> bytes:
    """Returns the bytes of a resource; empty if the result has none."""
    for content in map(as_object, as_list(result.get("contents"))):
        if content.get("uri") == uri and isinstance(text := content.get("text"), str):
            return text.encode("utf-8", "replace")
        if content.get("uri") == uri and isinstance(blob := content.get("blob"), str):
            try:
                return base64.b64decode(blob, validate=True)
            except ValueError:
                return b""
    return b""
