"""``toolscript``: finds the commands, and turns their errors into messages and exit codes."""

import errno
import io
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from toolscript.errors import ToolscriptError
from toolscript.surfaces.server.process_memory import collect_rarely, exit_at_once
from toolscript.surfaces.server.signals import EndedError, raise_when_asked_to_end
from toolscript.text.display import harmless, printable
from toolscript.version import __version__

_SIGNAL_EXIT_CODE = 128
_ONE_THREAD = "OPENBLAS_NUM_THREADS"
"""NumPy's other threads go on using the processor for some 25 ms after each product, and a search
has many small ones. With one thread it is as fast, and takes two thirds of the processor time."""

_LOG_LEVEL = "TOOLSCRIPT_LOG_LEVEL"
GROUPS = {
    "Start": {
        "setup": "Move the servers of your MCP clients into toolscript.",
        "doctor": "Check for problems, and say what to do.",
        "search": "Find the tools for a task.",
        "describe": "Show what a tool does and takes.",
        "call": "Call a tool.",
        "ask": "Let a language model answer with your tools.",
    },
    "Servers": {
        "list-servers": "List the configured servers.",
        "add": "Add a server to your configuration.",
        "remove": "Remove a server from your configuration.",
        "enable": "Turn a server or tools on again.",
        "disable": "Turn a server or tools off.",
        "auth": "Log in to a remote server.",
        "secret": "Store the secrets that server entries name.",
    },
    "Safety": {
        "review": "Show the tools and calls that wait, and decide about them.",
        "permissions": "Show the rules about calls, and take back answers.",
        "trust": "Let a project's configuration be used.",
        "token": "Control who may use which tools of the gateway.",
    },
    "Look": {
        "list-tools": "List every tool, or one server's.",
        "skills": "Find, list and add skills.",
        "activity": "Show which tools were called, and by whom.",
        "graph": "Show and fill the graph of tools used together.",
        "models": "List the embedding models that are known.",
    },
    "Build": {
        "get-types": "Print a typed client of the tools.",
        "exec": "Run a script that can only call tools.",
        "eval": "Measure whether questions find their tools.",
        "hook": "Name the tools that fit a prompt, for Claude Code.",
    },
    "Operate": {
        "gateway": "Start, inspect and stop the gateway, and open its page.",
        "mcp": "Serve an MCP client over standard input and output.",
        "logs": "Show what a server has written in its log.",
        "restart": "Stop a server and start it anew.",
    },
}
"""The commands of each group, with their summaries."""
COMMANDS = [name for group in GROUPS.values() for name in group]
_MODULES = {
    "list-servers": "catalogue_commands",
    "list-tools": "catalogue_commands",
    "models": "catalogue_commands",
    "get-types": "types_command",
    "describe": "catalogue_commands",
    "logs": "catalogue_commands",
    "restart": "catalogue_commands",
    "remove": "add_command",
    "exec": "call_command",
    "permissions": "review_command",
    "disable": "enable_command",
}
"""The modules that are not called after their command."""
_NAMES = {"exec": "execute", "eval": "evaluate_command"}
"""The functions that are not called after their command, since Python has a function so called."""
_MEANT: dict[str, list[str]] = {
    "find": ["search"],
    "list": ["list-tools", "list-servers"],
    "run": ["call", "exec"],
    "start": ["gateway start"],
    "stop": ["gateway stop"],
    "status": ["gateway status", "doctor"],
    "page": ["gateway page"],
    "log": ["logs", "activity"],
    "login": ["auth"],
    "tools": ["list-tools"],
    "servers": ["list-servers"],
    "approve": ["review --approve"],
    "reject": ["review --reject"],
}
"""The commands that users mean by some other words."""
_ELSEWHERE = {
    "uninstall": "Undo `toolscript setup` first, see docs/guides/everyday.md.",
    "upgrade": "Your installer does that, see docs/guides/everyday.md.",
}
"""Advice about commands that other programs have."""
_ASKING = {
    *("search", "list-servers", "list-tools", "describe", "logs", "get-types", "call", "activity"),
    "hook",
}
"""Commands that have nothing to log unless no gateway runs; see `connect.connected`."""


class _LazyGroup(click.Group):
    """A group that imports a command's module only when the command is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """See `click.Group.list_commands`."""
        del ctx
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """See `click.Group.get_command`."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        level = os.environ.get(_LOG_LEVEL, "").strip()
        if level or cmd_name not in _ASKING:
            from toolscript.config.settings import OPTION  # noqa: PLC0415 - takes long to import
            from toolscript.surfaces.server import logs  # noqa: PLC0415 - the same

            logs.set_up(OPTION["log_level"].parse(level or "warning", _LOG_LEVEL))
        module = _MODULES.get(cmd_name, f"{cmd_name}_command")
        name = _NAMES.get(cmd_name) or cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"toolscript.surfaces.cli.{module}"), name)
        from toolscript.surfaces.cli.options import COMMON_OPTIONS  # noqa: PLC0415 - takes long to import

        for each in (command, *getattr(command, "commands", {}).values()):
            common = [param.opts[0] for param in each.params if param.name in COMMON_OPTIONS]
            each.epilog = f"See toolscript --help for {', '.join(common)}" if common else None
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command; fails with the nearest ones for a name that is none."""
        name = args[0]
        if name not in COMMANDS:
            from difflib import get_close_matches  # noqa: PLC0415 - seldom needed

            meant = _MEANT.get(name) or get_close_matches(name, COMMANDS, n=3, cutoff=0.5)
            advice = f"Did you mean {' or '.join(meant)}?" if meant else "See toolscript --help."
            advice = _ELSEWHERE.get(name, advice)
            ctx.fail(f"No such command '{printable(name, 60)}'. {advice}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the common options, and the commands' summaries without importing these."""
        del ctx
        from toolscript.surfaces.cli.options import common_help  # noqa: PLC0415 - the same

        with formatter.section("Options of many commands"):
            formatter.write_dl(common_help())
        for name, commands in GROUPS.items():
            with formatter.section(name):
                formatter.write_dl([*commands.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="toolscript %(version)s")
def cli() -> None:
    """Find the right MCP tool at once.

    Searches the tools of every MCP server in .toolscript.json, on this machine,
    without an API key.
    """


def main() -> NoReturn:
    """Run the command line and exit."""
    collect_rarely()
    os.environ.setdefault(_ONE_THREAD, "1")  # it is read when NumPy is imported
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a character that the terminal cannot show becomes "?"
    raise_when_asked_to_end()
    try:
        status: Any = cli.main(standalone_mode=False)
    except click.exceptions.Abort as abort:
        cause = abort.__cause__
        number = cause.number if isinstance(cause, EndedError) else signal.SIGINT
        _exit(_SIGNAL_EXIT_CODE + number, "interrupted")
    except click.ClickException as problem:
        text = io.StringIO()
        problem.show(text)
        _exit(problem.exit_code, *text.getvalue().splitlines(), prefix="")
    except ToolscriptError as problem:
        from toolscript.surfaces.server.error_codes import codes_of  # noqa: PLC0415 - seldom needed

        _exit(codes_of(type(problem)).exit_code, str(problem))
    except OSError as problem:
        _discard_output()
        _exit(1, _reason(problem))
    exit_at_once(status if isinstance(status, int) else 0)


def _exit(code: int, *lines: str, prefix: str = "toolscript: ") -> NoReturn:
    """Ends the process with these lines on standard error, if that is still open.

    Without a ``prefix`` they are set in columns, which stay.
    """
    with suppress(OSError):
        for line in lines:
            click.echo(printable(f"{prefix}{line}") if prefix else harmless(line), err=True)
    exit_at_once(code)


def _reason(problem: OSError) -> str:
    reason = problem.strerror or str(problem)
    path = problem.filename
    if path is None:
        return reason
    advice = "; make room, then repeat the command" if problem.errno == errno.ENOSPC else ""
    return f"{os.fsdecode(path)}: {reason}{advice}"


def _discard_output() -> None:
    """Keep the interpreter from writing, and failing to write, the rest when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
