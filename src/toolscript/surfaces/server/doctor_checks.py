"""Checks for problems, each with advice: for ``toolscript doctor`` and for the page."""

import fnmatch
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from toolscript.config.servers import Config
from toolscript.config.settings import OPTIONS, Settings
from toolscript.config.trust import writable_by_others
from toolscript.errors import ToolscriptError
from toolscript.gateway.base import LAST_WORDS
from toolscript.storage.atomic_files import check_owner, make_private, writable_by_all
from toolscript.surfaces.server.config_sources import load
from toolscript.surfaces.server.gateway_file import CLOSED, OPEN, GatewayFile
from toolscript.surfaces.server.opened_stores import opened_tokens
from toolscript.text.display import counted, printable
from toolscript.text.secret_detection import program_indexes
from toolscript.types import SEPARATOR, SKILLS, PermissionRule

_ADVICE = {
    "invalid": "correct its entry in the configuration",
    "failed": "see the guide to troubleshooting",
    "connecting": "wait, or give it more time with startTimeout",
}
_SSE = "over SSE, which MCP has given up"
_SSE_ADVICE = "look in its documentation for an address of Streamable HTTP (often /mcp)"

FORMER_DATA = (
    *("questions", "scripts", "setup", "switches", "keys/session-*.key"),
    *("activity/*.damaged-*", "graph/*.damaged-*"),
)
"""Patterns of the data that former versions wrote, or that was put aside: nothing reads it."""
_FORMER = "used by no version now"
_CONTAINERS = frozenset({"docker", "podman"})
_RUNNERS = _CONTAINERS | {"npx", "bunx", "pnpx", "uvx", "pipx"}
_PINNED = re.compile(r".(?:@|==)v?\d+(?:\.\d+)+[\w.+-]*$"), re.compile("@sha256:")
"""The end of a package's name that stands for one version alone; that of an image."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check."""

    what: str
    ok: bool
    found: str
    advice: str = ""
    degraded: bool = False
    """Whether it works, but not as it was asked for."""

    @property
    def mark(self) -> str:
        """The outcome in one word."""
        return "wrong" if not self.ok else "degraded" if self.degraded else "ok"


def file_findings(settings: Settings) -> Iterator[Finding]:
    """The configuration, its permissions, the data directory and the tokens.

    If the configuration cannot be used, it and the data directory alone.
    """
    try:
        config = load(settings.paths)
    except (ToolscriptError, OSError) as error:
        yield Finding("configuration", ok=False, found=str(error))
        yield checked("data", lambda: _data(settings.paths.data_dir))
        return
    yield from _configuration(config)
    yield _permissions(config, settings.calls.changed_tools)
    yield from _packages(config)
    yield checked("data", lambda: _data(settings.paths.data_dir))
    yield from _former_data(settings.paths.data_dir)
    yield from _unknown_variables()
    yield checked("tokens", lambda: _tokens(settings, config.key))


def checked(what: str, check: Callable[[], Finding]) -> Finding:
    """Returns the finding of a check, or the error that it raises."""
    try:
        return check()
    except (ToolscriptError, OSError) as error:
        return Finding(what, ok=False, found=str(error))


def _configuration(config: Config) -> Iterator[Finding]:
    """The files, one that is not trusted, and those that other users may write."""
    paths = ", ".join(str(path) for path in config.sources)
    empty = not config.servers and not config.problems
    yield Finding("configuration", not empty, f"{paths} names no server" if empty else paths)
    if config.refused:
        yield Finding("project", ok=False, found=config.refused)
    for line in config.key_problems:
        yield Finding("configuration", ok=False, found=line)
    for path in config.sources:
        who = writable_by_others(path)
        if who:
            advice = "it starts programs with your rights: let no other user write it"
            yield Finding("configuration", ok=False, found=f"{path}: {who}", advice=advice)


def _permissions(config: Config, changed_tools: str) -> Finding:
    """What may be called without a question, and whose changes are accepted unseen."""
    rules = [*chain.from_iterable(config.permissions)]
    found = (
        counted(len(rules), "rule")
        if rules
        else "no rules: reads and writes are allowed, destructive tools asked about where possible"
    )
    if config.profiles:
        found += f", {counted(len(config.profiles), 'profile')}"
    if idle := _find_idle(config, rules):
        found += f"; no server is there for {printable(', '.join(idle), 200)}"
    unseen = [spec.name for spec in config.servers if spec.auto_approve and not spec.disabled]
    if changed_tools in {"note", "trust"}:
        found += f"; changed tools are accepted unseen (TOOLSCRIPT_CHANGED_TOOLS={changed_tools})"
    elif unseen:
        found += f"; changed tools are accepted unseen of {', '.join(unseen)} (autoApprove)"
    return Finding("permissions", ok=True, found=found)


def _find_idle(config: Config, rules: Sequence[PermissionRule]) -> list[str]:
    """Returns the patterns of rules about tools of servers that are not there."""
    servers = [*(s.name for s in config.servers), *(p.server for p in config.problems)]
    ids = {rule.pattern for rule in rules if SEPARATOR in rule.pattern}
    places = {each: each.partition(SEPARATOR)[0] for each in sorted(ids)}
    names = [*servers, SKILLS]
    return [each for each, server in places.items() if not fnmatch.filter(names, server)]


def _packages(config: Config) -> Iterator[Finding]:
    """The packages of other people that programs such as npx fetch and run."""
    found: list[str] = []
    loose = False
    for spec in config.servers:
        runner = Path(spec.command).stem
        names = [spec.args[index] for index in program_indexes(spec.command, spec.args)]
        if runner in _RUNNERS and names:
            is_pinned = _PINNED[runner in _CONTAINERS].search(names[0]) is not None
            loose |= not is_pinned
            found.append(f"{spec.name} {names[0]}{'' if is_pinned else ' (not pinned)'}")
    if found:
        advice = "name the version that you have looked at: name@1.2.3, image@sha256:…"
        shown = printable(", ".join(found), 500)
        yield Finding("packages", ok=True, found=shown, advice=advice if loose else "")


def _data(data_dir: Path) -> Finding:
    try:
        make_private(data_dir)
        with tempfile.TemporaryFile(dir=data_dir) as file:
            file.write(b"full?")
    except OSError as error:
        found = f"{data_dir} cannot be written: {error.strerror or error}"
        return Finding("data", ok=False, found=found, advice="choose another with --data-dir")
    check_owner(data_dir)
    if writable_by_all(data_dir.stat()):
        found = f"every user may rename what is in {data_dir}"
        return Finding("data", ok=False, found=found, advice=f"chmod o-w {data_dir}")
    return Finding("data", ok=True, found=str(data_dir))


def _former_data(data_dir: Path) -> Iterator[Finding]:
    """The folders and files that nothing reads any more, if there are any."""
    paths = sorted(chain.from_iterable(map(data_dir.glob, FORMER_DATA)))
    if paths:
        advice = f"delete them: {shlex.join(['rm', '-r', *map(str, paths)])}"
        yield Finding("former data", ok=True, found=_FORMER, advice=advice)


def _unknown_variables() -> Iterator[Finding]:
    """The variables that look like options, as options of former versions do, and are none."""
    known = {option.env for option in OPTIONS} | {"TOOLSCRIPT_CLASS"}  # typed clients read it
    for name in sorted(os.environ.keys() - known):
        if name.startswith("TOOLSCRIPT_"):
            found = f"{printable(name, 60)} is no option, so it changes nothing"
            advice = "unset it, unless your configuration names it"
            yield Finding("settings", ok=True, found=found, advice=advice, degraded=True)


def _tokens(settings: Settings, config_key: str) -> Finding:
    with opened_tokens(settings, config_key) as store:
        tokens, protected = store.all(), store.protected
    if tokens or protected:
        return Finding("tokens", ok=True, found=counted(len(tokens), "token"))
    file = GatewayFile(settings.paths.data_dir, config_key)
    running = file.read() if file.is_locked() else None
    return Finding("tokens", ok=True, found=OPEN if running and running.is_open else CLOSED)


def server_finding(server: dict[str, Any]) -> Finding:
    """Returns how a server is doing; ``server`` is an entry of ``/servers``."""
    what, state = f"server {server['name']}", server["state"]
    if state == "disabled":
        lines = ["disabled", *_list_left_out(server)]
        return Finding(what, ok=True, found="; ".join(lines))
    if state in {"ready", "resting"}:
        return _working_server_finding(what, server)
    advice = _ADVICE[state]
    if LAST_WORDS in (server["error"] or ""):
        advice = f"see its log: toolscript logs {shlex.quote(server['name'])}"
    return Finding(what, ok=False, found=server["error"] or state, advice=advice)


def _working_server_finding(what: str, server: dict[str, Any]) -> Finding:
    found = counted(server["tools"], "tool")
    found += f" of {server['version']}" if server.get("version") else ""
    found += ", started when needed" if server["state"] == "resting" else ""
    is_old, left_out = server["transport"] == "sse", _list_left_out(server)
    lines = [found, *[_SSE] * is_old, *left_out]
    advice = _SSE_ADVICE if is_old else ""
    if server["held"]:
        advice = f"look at what has changed with: toolscript review {server['name']}"
    return Finding(what, not left_out, "; ".join(lines), advice, degraded=is_old)


def _list_left_out(server: dict[str, Any]) -> list[str]:
    """Returns a line for all that a server has and nobody can use."""
    held = [f"{counted(server['held'], 'tool')} held"] * bool(server["held"])
    return [*server["unread"], *(f"left out {line}" for line in server["rejected"]), *held]


def activity_finding(activity: dict[str, Any]) -> Finding:
    """Returns whether calls are recorded; ``activity`` is an answer of ``/activity``."""
    if lost := activity.get("dropped"):
        found = f"{counted(lost, 'call')} could not be recorded"
        return Finding("activity", ok=False, found=found, advice="see the gateway's log")
    return Finding("activity", ok=True, found="calls are recorded")


def database_findings(database: dict[str, Any]) -> Iterator[Finding]:
    """How the shared database is doing; ``database`` is that of ``/health``."""
    advice = "" if database["answers"] else "what is known is used until it answers again"
    yield Finding("database", not database["problem"], database_line(database), advice)
    if database["formerData"]:
        advice = f"remove it with SQL: {database['formerData']}"
        yield Finding("former data", ok=True, found=_FORMER, advice=advice)


def database_line(database: dict[str, Any]) -> str:
    """Returns one line that says how the shared database is doing."""
    if database["problem"]:
        since = "" if database["lagS"] is None else f" for {database['lagS']:.0f} s"
        return f"{database['problem']} (not heard of{since})"
    leases, replicas = (
        counted(database["leases"], "server"),
        counted(database["replicas"], "gateway"),
    )
    return (
        f"answers, {replicas}; this one lists {leases} and has {database['connections']} of "
        f"{counted(database['maxConnections'], 'connection')} in use; "
        f"changes of others: {database['lagS']:.1f} s ago at most"
    )


def search_findings(stats: dict[str, Any], degraded: str) -> Iterator[Finding]:
    """The model and the cache.

    Args:
        stats: The answer of ``/search/stats``.
        degraded: Why a search that was tried did without a signal; empty if it did not.
    """
    yield _model(stats, degraded)
    indexed, cached = counted(stats["toolsIndexed"], "tool"), stats["embeddingsCached"]
    yield Finding("cache", ok=True, found=f"{indexed} indexed, {cached} embedded")


def _model(stats: dict[str, Any], degraded: str) -> Finding:
    if not degraded:
        return Finding("model", ok=True, found=f"{stats['model']} on {stats['device']}")
    if "semantic" not in stats["signals"]:
        return Finding("model", ok=False, found=degraded)
    advice = f"nothing; or choose {stats['model']} for good with TOOLSCRIPT_SEARCH_MODEL=bundled"
    return Finding("model", ok=True, found=degraded, advice=advice, degraded=True)
