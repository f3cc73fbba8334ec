"""``toolscript doctor``: checks for problems, and says what to do."""

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import click

from toolscript.config.access_tokens import TokenStore
from toolscript.config.servers import Config
from toolscript.config.settings import Settings, load_settings
from toolscript.config.trust import writable_by_others
from toolscript.errors import ToolscriptError
from toolscript.storage.atomic_files import check_owner, make_private, writable_by_all
from toolscript.surfaces.cli.connect import connected, record_file, running_gateway
from toolscript.surfaces.cli.gateway_client import Client
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import print_answer
from toolscript.surfaces.server.config_sources import load
from toolscript.text.display import counted

_ADVICE = {
    "invalid": "correct its entry in the configuration",
    "failed": "see its log, and the guide to troubleshooting",
    "connecting": "wait, or give it more time with startTimeout",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check."""

    what: str
    ok: bool
    found: str
    advice: str = ""
    degraded: bool = False
    """Whether it works, but not as it was asked for."""


@click.command()
@output_option
@settings_options("host", "port", "model", "config", "data_dir")
def doctor(output: str, **flags: Any) -> int:
    """Check configuration, data, gateway, port, servers, model and cache.

    Connects to every server, or asks the gateway if one runs. The exit status
    is 1 if anything is wrong. Whatever works, but not as it was asked for, is
    shown as degraded, which is not wrong.
    """
    settings = load_settings(flags)
    findings = list(_check_all(settings, flags))
    rows = [[each.what, _mark(each), each.found, each.advice] for each in findings]
    answer = {"findings": [asdict(each) for each in findings]}
    print_answer(answer, output, ["What", "", "Found", "What to do"], rows)
    return 0 if all(each.ok for each in findings) else 1


def _check_all(settings: Settings, flags: dict[str, Any]) -> Iterator[Finding]:
    try:
        config = load(settings)
    except (ToolscriptError, OSError) as error:
        yield Finding("configuration", ok=False, found=str(error))
        yield _checked("data", _data, settings)
        return
    yield from _configuration(config)
    yield _permissions(config)
    yield _checked("data", _data, settings)
    yield _checked("tokens", _tokens, settings)
    gateway = _checked("gateway", _gateway, settings)
    yield gateway
    stopped = gateway.found == "not running"
    if stopped:
        yield _checked("port", _port, settings)
    try:
        with connected(flags, refresh=stopped) as client:
            yield from map(_server, client.get("/servers")["servers"])
            yield from _search(client)
    except ToolscriptError as error:
        yield Finding("servers", ok=False, found=str(error))


def _checked(what: str, check: Callable[[Settings], Finding], settings: Settings) -> Finding:
    try:
        return check(settings)
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


def _permissions(config: Config) -> Finding:
    """What may be called without a question, and whose changes are accepted unseen."""
    rules = sum(len(each) for each in config.permissions)
    found = (
        counted(rules, "rule")
        if rules
        else "no rules: reads and writes are allowed, destructive tools asked about where possible"
    )
    if config.profiles:
        found += f", {counted(len(config.profiles), 'profile')}"
    unseen = [spec.name for spec in config.servers if spec.auto_approve and not spec.disabled]
    if unseen:
        found += f"; changed tools are accepted unseen of {', '.join(unseen)} (autoApprove)"
    return Finding("permissions", ok=True, found=found)


def _data(settings: Settings) -> Finding:
    try:
        make_private(settings.data_dir)
        with tempfile.TemporaryFile(dir=settings.data_dir) as file:
            file.write(b"full?")
    except OSError as error:
        found = f"{settings.data_dir} cannot be written: {error.strerror or error}"
        return Finding("data", ok=False, found=found, advice="choose another with --data-dir")
    check_owner(settings.data_dir)
    if writable_by_all(settings.data_dir.stat()):
        found = f"every user may rename what is in {settings.data_dir}"
        return Finding("data", ok=False, found=found, advice=f"chmod o-w {settings.data_dir}")
    return Finding("data", ok=True, found=str(settings.data_dir))


def _tokens(settings: Settings) -> Finding:
    store = TokenStore(settings.data_dir, load(settings).key)
    found = counted(len(store.all()), "token")
    if not store.protected:
        found += ": every user of this machine may use the gateway"
    return Finding("tokens", ok=True, found=found)


def _gateway(settings: Settings) -> Finding:
    running = running_gateway(settings)
    if running is None:
        starting = record_file(settings).is_locked()
        return Finding("gateway", ok=True, found="just starting" if starting else "not running")
    address = f"{running.record.url} (process {running.record.pid})"
    if running.health is None:
        advice = "end it with: toolscript gateway stop"
        return Finding("gateway", ok=False, found=f"{address} does not answer", advice=advice)
    problem = running.health.get("configurationProblem")
    if problem:
        advice = "correct the file; it is taken over by itself"
        return Finding("gateway", ok=False, found=f"{address}: {problem}", advice=advice)
    return Finding("gateway", ok=True, found=address)


def _port(settings: Settings) -> Finding:
    address = f"{settings.host} port {settings.port}"
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as attempt:
        if os.name == "posix":
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((settings.host, settings.port))
        except OSError as error:
            found = f"{address}: {error.strerror or error}"
            return Finding("port", ok=False, found=found, advice="choose another with --port")
    return Finding("port", ok=True, found=f"{address} is free")


def _server(server: dict[str, Any]) -> Finding:
    what, state = f"server {server['name']}", server["state"]
    if state in {"ready", "resting", "disabled"}:
        resting = ", started when needed" if state == "resting" else ""
        found = state if state == "disabled" else counted(server["tools"], "tool") + resting
        left_out = [f"left out {line}" for line in server["rejected"]]
        held, name = server["held"], server["name"]
        left_out += [f"{counted(held, 'tool')} held"] * bool(held)
        advice = f"look at what has changed with: toolscript review {name}" if held else ""
        return Finding(what, not left_out, "; ".join([found, *left_out]), advice)
    return Finding(what, ok=False, found=server["error"] or state, advice=_ADVICE[state])


def _search(client: Client) -> Iterator[Finding]:
    answer = client.get("/search", [("q", "is everything well")])
    stats = client.get("/search/stats")
    yield _model(stats, "; ".join(answer["degraded"]))
    indexed, cached = counted(stats["toolsIndexed"], "tool"), stats["embeddingsCached"]
    yield Finding("cache", ok=True, found=f"{indexed} indexed, {cached} embedded")


def _model(stats: dict[str, Any], degraded: str) -> Finding:
    if not degraded:
        return Finding("model", ok=True, found=f"{stats['model']} on {stats['device']}")
    if "semantic" not in stats["signals"]:
        return Finding("model", ok=False, found=degraded)
    advice = f"nothing; or choose {stats['model']} for good with TOOLSCRIPT_SEARCH_MODEL=bundled"
    return Finding("model", ok=True, found=degraded, advice=advice, degraded=True)


def _mark(finding: Finding) -> str:
    return "wrong" if not finding.ok else "degraded" if finding.degraded else "ok"
