"""``toolscript doctor``: checks for problems, and says what to do."""

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from toolscript.config.clients import CLIENTS
from toolscript.config.imported_rules import StatedRule, read_rules, rules_about
from toolscript.config.locations import home
from toolscript.config.permission_rules import is_in_force, key_of
from toolscript.config.servers import Config
from toolscript.config.settings import PathSettings, ServerSettings, Settings, load_settings
from toolscript.config.trust import read_file
from toolscript.errors import ConfigSyntaxError, ToolscriptError
from toolscript.storage.atomic_files import is_file
from toolscript.surfaces.cli.connect import connected, record_file, running_gateway
from toolscript.surfaces.cli.gateway_client import Client
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import print_answer
from toolscript.surfaces.server.config_sources import load
from toolscript.surfaces.server.doctor_checks import (
    Finding,
    activity_finding,
    checked,
    database_findings,
    file_findings,
    search_findings,
    server_finding,
)
from toolscript.types import SEPARATOR


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
    rows = [[each.what, each.mark, each.found, each.advice] for each in findings]
    answer = {"findings": [asdict(each) for each in findings]}
    print_answer(answer, output, ["What", "", "Found", "What to do"], rows, prose=(2, 3))
    return 0 if all(each.ok for each in findings) else 1


def _check_all(settings: Settings, flags: dict[str, Any]) -> Iterator[Finding]:
    found = [*file_findings(settings)]
    yield from found
    if found[-1].what == "data":  # the configuration cannot be used
        return
    yield from _client_rules(load(settings.paths))
    gateway = checked("gateway", lambda: _gateway(settings.paths))
    yield gateway
    health = _health(settings.paths)
    if health and "database" in health:
        yield from database_findings(health["database"])
    stopped = gateway.found == "not running"
    if stopped:
        yield checked("port", lambda: _port(settings.server))
    try:
        with connected(flags, refresh=stopped) as client:
            yield from map(server_finding, client.get("/servers")["servers"])
            yield checked("activity", lambda: activity_finding(client.get("/activity")))
            yield from _search(client)
    except ToolscriptError as error:
        yield Finding("servers", ok=False, found=str(error))


def _client_rules(config: Config) -> Iterator[Finding]:
    """The rules of clients that have toolscript about servers of ours, if they do not count."""
    user, cwd = Path(home(os.environ)), Path.cwd()
    for client in CLIENTS:
        path = client.path(user, cwd)
        try:
            if is_file(path) and b"toolscript" in read_file(path)[0]:
                stated = [*read_rules(client, user, cwd)]
                for server in config.servers:
                    yield from _idle_rules(server.name, client.name, stated, config)
        except ConfigSyntaxError as error:
            yield Finding("client rules", ok=False, found=str(error))


def _idle_rules(
    server: str, client: str, stated: Sequence[StatedRule], config: Config
) -> Iterator[Finding]:
    """The rules about a server, which may have got its client's name, too."""
    name = server.removesuffix(f"-{client}")
    settled, _ = rules_about(name, stated)
    for rule in stated:
        is_hook, decision = rule.is_lost_hook(name), rule.decision or "ask"
        found = rule.patterns(name) - {rule.name.strip("*")}  # which names no server
        for pattern in ["*"] if is_hook else sorted(found):
            key = f"{server}{SEPARATOR}{pattern}"
            is_meant = decision == settled.get(key_of(pattern)) != "allow"
            if (is_hook or is_meant) and not is_in_force(config.permissions, key, decision):
                advice = f'write "permissions": {{"{key}": "{decision}"}} into {config.sources[-1]}'
                line = f"{rule}, which does not count for {server} here"
                yield Finding("client rules", is_hook, line, advice, degraded=is_hook)


def _gateway(paths: PathSettings) -> Finding:
    running = running_gateway(paths)
    if running is None:
        starting = record_file(paths).is_locked()
        return Finding("gateway", ok=True, found="just starting" if starting else "not running")
    address = f"{running.record.url} (process {running.record.pid})"
    if running.health is None:
        advice = "end it with: toolscript gateway stop"
        return Finding("gateway", ok=False, found=f"{address} does not answer", advice=advice)
    problem = running.health.get("configurationProblem")
    if problem:
        advice = "correct the file; it is taken over by itself"
        return Finding("gateway", ok=False, found=f"{address}: {problem}", advice=advice)
    folder = running.health.get("folder") or "the folder that it was started in"
    inherited = f"your servers start in {folder}, with the variables of its start"
    return Finding("gateway", ok=True, found=f"{address}; {inherited}")


def _health(paths: PathSettings) -> dict[str, Any] | None:
    """The state of the gateway that runs; None if none answers."""
    try:
        running = running_gateway(paths)
    except (ToolscriptError, OSError):
        return None
    return running.health if running else None


def _port(server: ServerSettings) -> Finding:
    address = f"{server.host} port {server.port}"
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as attempt:
        if os.name == "posix":
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((server.host, server.port))
        except OSError as error:
            found = f"{address}: {error.strerror or error}"
            return Finding("port", ok=False, found=found, advice="choose another with --port")
    return Finding("port", ok=True, found=f"{address} is free")


def _search(client: Client) -> Iterator[Finding]:
    answer = client.get("/search", [("q", "is everything well")])
    stats = client.get("/search/stats")
    yield from search_findings(stats, "; ".join(answer["degraded"]))
