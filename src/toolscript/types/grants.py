"""The access that a caller has, and the rules about its calls."""

from typing import Literal

import msgspec

from toolscript.text.wire_constants import ToolClass
from toolscript.types.patterns import matches, specificity_of
from toolscript.types.tools import SEPARATOR

Decision = Literal["allow", "ask", "deny"]
DECISIONS: tuple[Decision, ...] = ("allow", "ask", "deny")
"""What a rule says of a call, the strictest last."""


class PermissionRule(msgspec.Struct, frozen=True):
    """What is decided about the calls of some tools."""

    pattern: str
    """The id of a tool, or a pattern (``*``, ``?``) of ids."""
    decision: Decision
    tool_class: ToolClass | None = None
    """The class of the tools that it is about; None for all."""
    origin: str = ""
    """Where it was written, such as ``permissions``."""
    servers: tuple[str, ...] | None = None
    """The servers of whose tools it decides anything; None for all."""

    def covers(self, identifier: str, tool_class: ToolClass) -> bool:
        """Whether it is about a tool."""
        return self.tool_class in {None, tool_class} and matches(identifier, (self.pattern,))

    def decides(self, identifier: str) -> bool:
        """Whether it decides anything about a tool that it covers."""
        return self.servers is None or identifier.partition(SEPARATOR)[0] in self.servers

    @property
    def specificity(self) -> tuple[bool, int, bool]:
        """Of two rules about a tool, the greater one counts: an id, a longer pattern, a class."""
        return *specificity_of(self.pattern), self.tool_class is not None


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The servers and tools that a caller may find, list and call. An empty one grants nothing."""

    servers: tuple[str, ...] = ()
    """Names or patterns (``*``, ``?``) of servers, all of whose tools are granted."""
    tools: tuple[str, ...] = ()
    """Ids or patterns of further tools."""
    anonymous: bool = False
    """Whether the caller sent neither the gateway's key nor a token."""
    permissions: tuple[PermissionRule, ...] = ()
    """Rules of its own; of all that say something about a call, the strictest counts."""
    profiles: tuple[str, ...] = ()
    """The profiles of the configuration whose rules hold as well."""
    within: tuple["Grant", ...] = ()
    """The selections of its profiles as they are now: each has to grant the same as well."""
    holder: str = "owner"
    """Whose it is: the id of a token, ``owner``, or ``anyone`` where there are no tokens."""

    @property
    def is_owner(self) -> bool:
        """Whether the caller may decide about tools, and read what servers write for people."""
        is_limited = self.anonymous or self.permissions or self.profiles
        return self.is_everything and not is_limited

    @property
    def is_whole(self) -> bool:
        """Whether the caller may know of all there is: neither its token nor a profile limits it.

        A profile of the owner's limits what may be called, and hides nothing from the owner.
        """
        is_limited = self.holder != "owner" and (self.permissions or self.profiles)
        return self.is_everything and not is_limited

    @property
    def is_everything(self) -> bool:
        """Whether every server is granted, however rules of it and of its profiles limit that."""
        return "*" in self.servers and not self.within

    def allows(self, identifier: str) -> bool:
        """Whether the caller may find and call the tool of this id."""
        server = identifier.partition(SEPARATOR)[0]
        is_own = matches(server, self.servers) or matches(identifier, self.tools)
        return is_own and all(each.allows(identifier) for each in self.within)

    def allows_server(self, server: str) -> bool:
        """Whether the caller may find and call every tool of this server, whatever its name."""
        split = (pattern.partition(SEPARATOR) for pattern in self.tools)
        every = (name for name, _, tool in split if tool == "*" or (not tool and name[-1:] == "*"))
        is_own = matches(server, self.servers) or matches(server, every)
        return is_own and all(each.allows_server(server) for each in self.within)

    def shows(self, server: str) -> bool:
        """Whether the caller may know of this server, because some of its tools may be granted."""
        partly = (pattern.partition(SEPARATOR)[0] for pattern in self.tools)
        is_own = matches(server, self.servers) or matches(server, partly)
        return is_own and all(each.shows(server) for each in self.within)


EVERYTHING = Grant(servers=("*",))
"""The grant of the user who runs toolscript."""


def owned(profile: str | None) -> Grant:
    """Returns the grant of the user who runs toolscript, as a profile narrows it."""
    if not profile:
        return EVERYTHING
    return msgspec.structs.replace(EVERYTHING, profiles=(profile,))


ANONYMOUS = Grant(servers=("*",), anonymous=True, holder="anyone")
"""The grant of other programs on this machine while no token is required."""
