"""``toolscript setup``: moves the servers of MCP clients into toolscript, and back."""

import difflib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from toolscript.config import setup_plan
from toolscript.config.client_servers import ClientServer, read_servers
from toolscript.config.clients import CLIENTS, ClientFile
from toolscript.config.file_parser import parsed
from toolscript.config.imported_rules import read_rules
from toolscript.config.locations import home, home_file
from toolscript.config.secret_store import SecretStore
from toolscript.config.settings import PathSettings, load_settings
from toolscript.config.setup_plan import PlannedServer, find_secrets, merge, move_secrets
from toolscript.errors import ConfigSyntaxError, InputError
from toolscript.storage import reversible_writes
from toolscript.storage.atomic_files import check_owner, is_file, may_exist
from toolscript.storage.reversible_writes import HAS_CHANGED, FileChange, content, refusal
from toolscript.surfaces.cli.connect import record_file, running_gateway
from toolscript.surfaces.cli.gateway_command import stop_gateway
from toolscript.surfaces.cli.options import repeatable, settings_options
from toolscript.surfaces.cli.output import note, print_table
from toolscript.text.display import harmless, printable
from toolscript.text.json_values import as_object
from toolscript.text.redaction import redact
from toolscript.text.secret_detection import redactable

_SECRET = re.compile(rb"\$\{secret:([A-Za-z0-9_.-]+)\}")


@dataclass(slots=True)
class _Plan:
    """The files that setup looks at, and their servers."""

    own: Path
    contents: dict[Path, bytes | None] = field(default_factory=dict[Path, bytes | None])
    """Each file as it was read."""
    files: dict[ClientFile, Path] = field(default_factory=dict[ClientFile, Path])
    servers: list[PlannedServer] = field(default_factory=list[PlannedServer])
    secrets: tuple[str, ...] = ()
    has_refused: bool = False
    """Whether a client's file has to stay."""


@click.command()
@repeatable("--client", "names", "NAME", "A client to change; all that are found by default.")
@click.option("--yes", "-y", is_flag=True, help="Write without asking, as in scripts.")
@click.option("--dry-run", is_flag=True, help="Show the changes as diffs, and write nothing.")
@click.option("--secrets", is_flag=True, help="Move plain secrets into the secret store.")
@click.option("--hook", is_flag=True, help="Suggest tools at each prompt of Claude Code.")
@click.option("--undo", is_flag=True, help="Put every file back as it was before.")
@settings_options("config", "data_dir")
def setup(
    names: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    secrets: bool,
    hook: bool,
    undo: bool,
    **flags: Any,
) -> int:
    """Move the servers of your MCP clients into toolscript.

    Finds the servers of Claude Code, Cursor, VS Code and others, shows them, puts
    them into .toolscript.json in your home directory, and puts toolscript in their
    place in each client's file. It asks before it writes; --undo takes it back.
    """
    paths = load_settings(flags).paths
    check_owner(paths.data_dir)
    store, record = SecretStore(paths.data_dir), paths.data_dir / "setup.json"
    if undo and dry_run:
        raise InputError("--undo has no --dry-run: it leaves every file that has changed since")
    is_asked = not (yes or dry_run)
    if is_asked:
        _check_terminal(undo=undo)
    if undo:
        return _undo(paths, record, store, is_asked=is_asked)
    plan = _read(paths.config, names, store)
    _show(plan)
    chosen = [server for server in plan.servers if server.is_takable]
    chosen = _choose(chosen) if is_asked and chosen else chosen
    entries = {server.name: server.entry for server in chosen if not server.known}
    values = _name_secrets(entries, store, is_asked=not secrets) if secrets or is_asked else {}
    changes = _changes(plan, chosen, entries, is_named=paths.config is not None, hook=hook)
    for change in () if yes else changes:
        _print_diff(change.path, change.before or b"", change.after, plan.secrets)
    _advise(plan, changes)
    if is_asked:
        changes = _choose_changes(changes, plan.own)
    if not changes:
        click.echo("nothing to change")
    elif not dry_run:
        for name, value in values.items():
            store.set(name, value)
        plan.has_refused |= _write(record, changes, plan.own)
    return 1 if plan.has_refused else 0


def _check_terminal(*, undo: bool) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(
            "nobody can be asked here; take everything back with toolscript setup --undo --yes"
            if undo
            else "nobody can be asked here; look with toolscript setup --dry-run, "
            "then write with toolscript setup --yes"
        )


def _choose_changes(changes: Sequence[FileChange], needed: Path) -> list[FileChange]:
    """Returns the changes that the user wants; raises `InputError` without a ``needed`` one."""
    chosen = [each for each in changes if _confirms(f"Write {each.path}?")]
    if needed in {each.path for each in changes if each not in chosen}:
        raise InputError(f"nothing is written: the clients need the servers in {needed}")
    return chosen


def _read(config: Path | None, names: tuple[str, ...], store: SecretStore) -> _Plan:
    """Returns the plan with every server of the chosen clients; reports files that cannot be."""
    cwd, directory = Path.cwd(), Path(home(os.environ))
    by_name = {client.name: client for client in CLIENTS}
    for unknown in (name for name in names if name not in by_name):
        raise InputError(f"no client is called {unknown!r:.60}; expected {', '.join(by_name)}")
    if not home(os.environ):
        raise InputError("there is no home directory; set HOME")
    plan = _Plan((cwd / config).absolute() if config else home_file(os.environ))
    data = _read_file(plan, plan.own)
    if store.names():
        data = _SECRET.sub(lambda match: _escape(store.get(match[1].decode())), data)
    own = [*read_servers(plan.own, data, os.environ, cwd)]
    found: list[ClientServer] = []
    for client, path in _choose_files(names, directory, cwd):
        try:
            rules = [*read_rules(client, directory, cwd)]
            found += read_servers(path, _read_file(plan, path), os.environ, cwd, client, rules)
            plan.files[client] = path
        except ConfigSyntaxError as error:
            plan.has_refused = True
            note(str(error))
    plan.servers = merge(own, found)
    plan.secrets = redactable(find_secrets([*own, *found]))
    return plan


def _choose_files(
    names: tuple[str, ...], directory: Path, cwd: Path
) -> Iterator[tuple[ClientFile, Path]]:
    """Yields the files of the named clients, or those of the user that are there."""
    for client in CLIENTS:
        path = client.path(directory, cwd)
        is_there = not names and is_file(path)
        if client.name in names or (is_there and not client.is_project):
            yield client, path
        elif is_there and cwd != directory:
            note(f"{path} is the project's, so it stays; --client {client.name} changes it")


def _read_file(plan: _Plan, path: Path) -> bytes:
    """Returns and remembers a file's content; raises `ConfigSyntaxError` if it may not change."""
    reason = refusal(path)
    if not reason:
        try:
            plan.contents[path] = content(path)
            return plan.contents[path] or b""
        except OSError as error:
            reason = str(error)
    raise ConfigSyntaxError(f"{path} is not changed: {reason}")


def _escape(text: str | None) -> bytes:
    return json.dumps(text or "")[1:-1].encode()


def _show(plan: _Plan) -> None:
    rows: list[list[str]] = []
    for server in plan.servers:
        notes = dict.fromkeys(note for each in server.servers for note in each.notes)
        places = ", ".join(_place(each, server.name) for each in server.servers)
        rows.append([server.name, places, server.state, "; ".join(notes)])
    if rows:
        print_table(("Server", "From", "State", "What is odd"), rows, prose=(1, 3))
    else:
        files = plan.files or [each for each in CLIENTS if not each.is_project]
        click.echo(f"no servers in the files of {', '.join(each.title for each in files)}")


def _advise(plan: _Plan, changes: Sequence[FileChange]) -> None:
    """Says which of our tools the clients with changed files need not ask about."""
    for client, path in plan.files.items():
        keys, file, names = client.approvals
        if file and path in {change.path for change in changes}:
            tools = ", ".join(map(json.dumps, names))
            click.echo(f"{client.title} asks about each tool; {keys} in {file} may have: {tools}")


def _place(server: ClientServer, name: str) -> str:
    """Returns a server's client, its name there if that is another one, and whether it is off."""
    words = [
        *([] if server.name == name else [f"as {server.name}"]),
        *["switched off"] * server.is_off,
    ]
    title = server.client.title if server.client else ""
    return f"{title} ({', '.join(words)})" if words else title


def _choose(servers: Sequence[PlannedServer]) -> list[PlannedServer]:
    given = str(click.prompt("Which? (all, none, or names)", default="all", err=True))
    names = set(given.replace(",", " ").split())
    if wrong := names - {server.name for server in servers} - {"all", "none"}:
        raise InputError(f"no server that can be taken is called {min(wrong)!r:.60}")
    return [server for server in servers if "all" in names or server.name in names]


def _name_secrets(
    entries: dict[str, dict[str, Any]], store: SecretStore, *, is_asked: bool
) -> dict[str, str]:
    """Puts names in the place of the secrets in entries, and returns the values by name."""
    stored = {name: store.get(name) or "" for name in store.names()}
    values: dict[str, str] = {}
    for server in [*entries]:
        entry, moved = move_secrets(server, entries[server], stored | values)
        question = f"Move the secrets of {server} away ({', '.join(moved)})?"
        if moved and (not is_asked or _confirms(question)):
            entries[server] = entry
            values |= moved
    return values


def _confirms(question: str) -> bool:
    return click.confirm(printable(question), err=True)


def _changes(
    plan: _Plan,
    chosen: Sequence[PlannedServer],
    entries: dict[str, dict[str, Any]],
    *,
    is_named: bool,
    hook: bool,
) -> list[FileChange]:
    """Returns the files that change, toolscript's own first: the clients rely on it."""
    program, named = _program(), ["--config", str(plan.own)]
    after: dict[Path, bytes] = {}
    rules = [rule for server in chosen for rule in server.missing_rules]
    if entries or rules:
        after[plan.own] = setup_plan.add_servers(plan.own, plan.contents[plan.own], entries, rules)
    for client, path in plan.files.items():
        servers = [each for one in plan.servers for each in one.servers if each.client is client]
        taken = [each for one in chosen for each in one.servers if each.client is client]
        command = [program, "mcp", *(named if is_named else ())]
        has_it = any(each.is_toolscript for each in servers)
        after[path] = setup_plan.connect(
            path, plan.contents[path], taken, client, None if has_it else command
        )
    if hook:
        path = Path(home(os.environ)) / ".claude" / "settings.json"
        _read_file(plan, path)
        words = shlex.join([program, "hook", *(named if is_named else ())])
        after[path] = setup_plan.add_hook(path, plan.contents[path], words)
    changes = [FileChange(path, plan.contents[path], data) for path, data in after.items()]
    changes = [change for change in changes if change.before != change.after]
    if changes and not entries and not plan.contents[plan.own]:  # no client could start us
        empty = setup_plan.add_servers(plan.own, None, {})
        changes.insert(0, FileChange(plan.own, plan.contents[plan.own], empty))
    return changes


def _program() -> str:
    """Returns the absolute path of this program, as clients start it."""
    beside = Path(sys.executable).with_name("toolscript")
    started = Path(sys.argv[0]).absolute()
    return str(started if started.stem == "toolscript" or not is_file(beside) else beside)


def _print_diff(path: Path, before: bytes, after: bytes, secrets: Sequence[str]) -> None:
    lines = difflib.unified_diff(
        _lines(before), _lines(after), f"{path} (now)", f"{path} (then)", lineterm=""
    )
    for line in lines:
        click.echo(harmless(redact(line, secrets)))


def _lines(data: bytes) -> list[str]:
    encoding = "utf-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8"
    return data.decode(encoding, "replace").splitlines()


def _write(record: Path, changes: Sequence[FileChange], own: Path) -> bool:
    """Writes the files and says so; returns whether one was left as it is."""
    has_failed = False
    for change, reason in reversible_writes.write_all(record, changes, own):
        if reason:
            has_failed = True
            note(f"{change.path} is not changed: {reason}")
        else:
            click.echo(printable(f"written: {change.path}"))
    click.echo("Restart your clients. Take everything back with: toolscript setup --undo")
    return has_failed


def _undo(paths: PathSettings, record: Path, store: SecretStore, *, is_asked: bool) -> int:
    if is_asked and not _confirms("Put every file back as it was before?"):
        raise InputError("nothing is taken back")
    results = [*reversible_writes.restore_all(record)]
    for result in results:
        path, backup = result.path, result.backup
        if not result.reason:
            click.echo(printable(f"as before: {path}"))
            if not may_exist(path):
                _stop_gateway(paths, path)
            continue
        note(f"{path} stays: {result.reason}")
        if result.reason == HAS_CHANGED:
            now, former = content(path) or b"", (content(backup) if backup else None) or b""
            secrets = [*_secrets_in(path, now), *_secrets_in(path, former)]
            _print_diff(path, now, former, redactable(secrets))
            words = ["cp", str(backup), str(path)] if backup else ["rm", str(path)]
            note(f"take it back with: {shlex.join(words)}")
    if not results:
        click.echo("nothing to take back")
    elif store.names():
        note("the secrets stay; see toolscript secret list")
    return 1 if any(result.reason for result in results) else 0


def _secrets_in(path: Path, data: bytes) -> Iterator[str]:
    """Yields the texts in a file that may be secret, also in the servers of its projects."""
    cwd, directory = Path.cwd(), Path(home(os.environ))
    client = next((each for each in CLIENTS if each.path(directory, cwd) == path), None)
    try:
        places = as_object(parsed(path, data).get("projects")) if data.strip() else {}
        for place in ("", *places):
            servers = read_servers(path, data, os.environ, Path(place), client)
            yield from find_secrets(servers)
    except ConfigSyntaxError:
        return  # the words that look like a secret are blanked all the same


def _stop_gateway(paths: PathSettings, config: Path) -> None:
    """Stops the gateway of a configuration that is gone."""
    paths = replace(paths, config=config)
    running = running_gateway(paths)
    if running is not None:
        stop_gateway(running.record.pid, record_file(paths))
        click.echo(f"stopped its gateway (process {running.record.pid})")
