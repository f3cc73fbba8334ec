"""Servers as they are configured, and how they are doing."""

import re
from operator import itemgetter
from typing import Annotated, Literal
from urllib.parse import quote

import msgspec
from msgspec import Meta

from toolscript.text.secret_detection import (
    MAX_WORD,
    argument_secrets,
    is_harmless,
    named_secrets,
    redactable,
    url_secrets,
)
from toolscript.text.wire_constants import TOOL_CLASSES, ToolClass
from toolscript.types.patterns import matches, matching_values
from toolscript.types.repairs import Repair
from toolscript.types.tools import sha256_of

Transport = Literal["stdio", "http", "sse"]
Protocol = Literal["auto", "legacy"]
Start = Literal["lazy", "eager"]
Instances = Literal["each", "one"]
PROJECT = "${PROJECT}"
"""In an entry, stands for the folder that the caller works in."""
SECRET_VARIABLE = re.compile(r"\$\{secret:(?P<name>[A-Za-z0-9_.-]{1,64})\}")
"""In an entry, stands for a stored secret until the server is started."""
RESULT_LIMIT = 24_000
"""Characters of a result that models get, unless the server's entry says otherwise."""


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An OAuth client that is registered with a server by hand, not by toolscript."""

    client_id: str
    client_secret: str = ""
    scope: str = ""
    callback_port: Annotated[int, Meta(ge=0, le=65_535, description="a port, 1 to 65535")] = 0
    """The port that the browser is redirected to; 0 picks a free one."""

    def __repr__(self) -> str:
        """Without the secret."""
        return f"OAuthClient({self.client_id!r})"


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A server of a configuration, its variables expanded."""

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    oauth: OAuthClient | None = None
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    pin_tools: tuple[str, ...] = ()
    """Names or patterns of the tools that models always see."""
    classes: dict[str, ToolClass] = {}
    """The classes of tools by their names or patterns of names."""
    repairs: dict[str, Repair] = {}
    """Repairs of tools, by the server's names for them."""
    auto_approve: bool = False
    """Whether changed definitions of its tools are accepted without a person."""
    disabled: bool = False
    protocol: Protocol = "auto"
    start_timeout_s: float | None = None
    """Replaces the settings' ``connect_timeout_s``."""
    call_timeout_s: float | None = None
    """Replaces the settings' ``call_timeout_s``."""
    start: Start | None = None
    """Replaces the settings' ``start``."""
    idle_timeout_s: float | None = None
    """Replaces the settings' ``idle_timeout_s``."""
    is_shared: bool = True
    """Whether all sessions use the same instance."""
    instances: Instances = "each"
    """Whether every replica of a gateway runs it, or one replica for all."""
    max_concurrent: int = 0
    """How many requests it gets at a time; 0 for any number."""
    result_limits: dict[str, int] = {}
    """Characters of a result that models get, by names of tools and patterns of them."""
    project: str = ""
    """The folder that `PROJECT` stands for in an instance's fields; empty in the entry itself."""
    entry_launch: tuple[str, ...] = ()
    """Command, arguments and address as in the entry, before a folder replaces `PROJECT`."""
    hidden: tuple[str, ...] = ()
    """Values of variables that are part of the other fields: most of them are keys."""
    secret_versions: dict[str, str] = {}
    """The stored secrets that the other fields name, each with the version of its value; "" if
    there is none. The value takes its place when the server is started."""

    def offers(self, tool: str) -> bool:
        """Whether the configuration includes the tool of this name."""
        included = self.include_tools is None or matches(tool, self.include_tools)
        return included and not matches(tool, self.exclude_tools)

    def result_limit(self, tool: str) -> int:
        """Returns how many characters of a tool's result a model gets."""
        limits = matching_values(self.result_limits, tool)
        return max(limits, key=itemgetter(0))[1] if limits else RESULT_LIMIT

    def class_of(self, tool: str) -> ToolClass | None:
        """Returns the class that the configuration gives the tool of this name; None without one.

        The most specific pattern counts, and of equally specific ones the stricter class.
        """
        classes = matching_values(self.classes, tool)
        strictness = [(specificity, TOOL_CLASSES.index(given)) for specificity, given in classes]
        return TOOL_CLASSES[max(strictness)[1]] if strictness else None

    @property
    def launch(self) -> tuple[str, ...]:
        """How it is started or reached: the same for all projects."""
        return self.entry_launch or (self.command, *self.args, self.url)

    @property
    def is_per_project(self) -> bool:
        """Whether the entry names the caller's project."""
        stated = (self.cwd or "", self.url, *self.args, *self.env.values(), *self.headers.values())
        return any(PROJECT in text for text in stated)

    @property
    def is_single(self) -> bool:
        """Whether one instance serves all callers."""
        return self.is_shared and not self.is_per_project

    def in_project(self, folder: str) -> "ServerSpec":
        """Returns the server as it is started for a project; itself if its entry names none."""
        if not self.is_per_project:
            return self
        return msgspec.structs.replace(
            self,
            project=folder,
            entry_launch=self.launch,
            cwd=self.cwd and self.cwd.replace(PROJECT, folder),
            url=self.url.replace(PROJECT, quote(folder)),
            args=tuple(text.replace(PROJECT, folder) for text in self.args),
            env={name: text.replace(PROJECT, folder) for name, text in self.env.items()},
            headers={name: text.replace(PROJECT, folder) for name, text in self.headers.items()},
        )

    @property
    def digest(self) -> str:
        """SHA-256 over the fields: the same digest means the same server.

        Repairs do not count, since the server knows nothing of them; nor do versions of secrets,
        which gateways on several machines have of their own.
        """
        fields = msgspec.to_builtins(self)
        uncounted = {"repairs", "secret_versions"}
        return sha256_of({key: fields[key] for key in fields if key not in uncounted})

    def is_started_as(self, other: "ServerSpec") -> bool:
        """Whether an instance of the other one need not be started anew for this one."""
        return self.digest == other.digest and self.secret_versions == other.secret_versions

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in a log or an error message."""
        stated = (*self.env.items(), *self.headers.items())
        values = [part for name, text in stated for part in named_secrets(name, _plain(text))]
        values += [
            value for value in self.hidden if len(value) > MAX_WORD or not is_harmless(value)
        ]
        values += [self.oauth.client_secret] if self.oauth else []
        values += url_secrets(_plain(self.url))
        values += argument_secrets([*map(_plain, self.args)], self.command)
        return redactable(values)

    def __repr__(self) -> str:
        """Without the environment, the headers and the arguments, which may hold secrets."""
        return f"ServerSpec({self.name!r}, {self.transport!r})"


def _plain(text: str) -> str:
    """Returns the text with a letter for each stored secret: a secret's name may be shown."""
    return SECRET_VARIABLE.sub("x", text)


ServerState = Literal["connecting", "ready", "resting", "failed", "disabled", "invalid"]
"""The state of a configured server; ``invalid`` means a mistake in its configuration.

A ``resting`` server is not connected: its tools are known, and it is started when it is needed.
"""


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a configured server, as commands and routes report it."""

    name: str
    state: Annotated[ServerState, Meta(description="How it is doing.")]
    transport: str = ""
    tools: int = 0
    error: Annotated[
        str, Meta(description="The last error; kept while the server is tried again.")
    ] = ""
    since: Annotated[str, Meta(description="When it last listed its tools or failed (UTC).")] = ""
    version: Annotated[str, Meta(description="The name and version that it reports.")] = ""
    rejected: Annotated[
        tuple[str, ...], Meta(description="One line for each tool that cannot be used.")
    ] = ()
    snapshot: Annotated[
        bool, Meta(description="Whether this comes from the snapshot: it is not connected yet.")
    ] = False
    unread: Annotated[
        tuple[str, ...], Meta(description="Keys of other clients in its entry that do nothing.")
    ] = ()
    held: Annotated[int, Meta(description="How many of its tools wait for approval.")] = 0
    retry: Annotated[str, Meta(description="When a failed server is tried again (UTC).")] = ""

    @property
    def obstacle(self) -> str:
        """Why its tools are not known, with what to do; "" if nothing is wrong."""
        if self.state == "connecting":
            return self.error or "it is connecting; search again in a moment"
        return "" if self.works else self.error or self.state

    @property
    def works(self) -> bool:
        """Whether its tools can be called: it is ready, or is started when that is done."""
        return self.state in {"ready", "resting"}


class ServerResources(msgspec.Struct, frozen=True, kw_only=True):
    """What the processes of one server use: all its instances, and every process below them."""

    instances: int
    """How many instances run."""
    processes: int
    """How many processes they are."""
    memory_bytes: int
    """The sum of the processes' resident sets: a page that several share counts for each."""
    cpu_s: float
    """The seconds of processor time that the processes have used since they began."""
