"""``toolscript``: the commands, and the boundary where errors become exit codes."""

import io
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from toolscript import __version__
from toolscript.errors import ToolscriptError
from toolscript.surfaces.server import logs as journal
from toolscript.surfaces.server.error_codes import codes_of
from toolscript.surfaces.server.signals import EndedError, raise_when_asked_to_end
from toolscript.text import printable

_BY_A_SIGNAL = 128

_COMMANDS = {
    "search": (
        "toolscript.surfaces.cli.search_command",
        "Find the tools that do what a sentence says.",
    ),
    "list-servers": (
        "toolscript.surfaces.cli.list_commands",
        "Show the configured servers' state.",
    ),
    "list-tools": ("toolscript.surfaces.cli.list_commands", "Show every tool, or one server's."),
    "skills": ("toolscript.surfaces.cli.skills_command", "Find, list and add skills."),
    "get-types": ("toolscript.surfaces.cli.types_command", "Print a typed client of the tools."),
    "call": ("toolscript.surfaces.cli.call_command", "Call a tool."),
    "ask": ("toolscript.surfaces.cli.ask_command", "Let a model answer with your tools."),
    "mcp": (
        "toolscript.surfaces.cli.mcp_command",
        "Serve an MCP client over standard input and output.",
    ),
    "auth": ("toolscript.surfaces.cli.auth_command", "Log in to a remote server."),
    "trust": ("toolscript.surfaces.cli.trust_command", "Let a project's configuration be used."),
    "token": (
        "toolscript.surfaces.cli.token_command",
        "Say who may use which tools of the gateway.",
    ),
    "doctor": ("toolscript.surfaces.cli.doctor_command", "Say what is wrong, and what to do."),
    "cache": ("toolscript.surfaces.cli.cache_command", "Show and clear what is kept."),
    "exec": (
        "toolscript.surfaces.cli.exec_command",
        "Run a script that calls tools, and only that.",
    ),
    "graph": ("toolscript.surfaces.cli.graph_command", "Show and fill what is used together."),
    "gateway": ("toolscript.surfaces.cli.gateway_command", "Start, look at and stop the gateway."),
}


_NAMED = {"exec": "execute"}
"""Commands that cannot be called so in Python."""


class _Lazy(click.Group):
    """A group that imports a command's module only when the command is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """See `click.Group.list_commands`."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """See `click.Group.get_command`."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(_COMMANDS[cmd_name][0])
        return getattr(module, _NAMED.get(cmd_name, cmd_name.replace("-", "_")))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands' summaries, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="toolscript %(version)s")
def cli() -> None:
    """Find the right MCP tool at once.

    Searches the tools of every MCP server in .toolscript.json, on this machine,
    with no key.
    """


def main() -> NoReturn:
    """Run the command line and exit."""
    journal.set_up()
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # what the terminal's alphabet lacks is a "?"
    raise_when_asked_to_end()
    try:
        status: Any = cli.main(standalone_mode=False)
    except click.exceptions.Abort as abort:
        cause = abort.__cause__
        number = cause.number if isinstance(cause, EndedError) else signal.SIGINT
        _exit(_BY_A_SIGNAL + number, "interrupted")
    except click.ClickException as problem:
        said = io.StringIO()
        problem.show(said)
        _exit(problem.exit_code, *said.getvalue().splitlines(), prefix="")
    except ToolscriptError as problem:
        _exit(codes_of(type(problem)).exit_code, str(problem))
    except OSError as problem:
        _give_up_output()
        _exit(1, _reason(problem))
    sys.exit(status if isinstance(status, int) else 0)


def _exit(code: int, *lines: str, prefix: str = "toolscript: ") -> NoReturn:
    """End with a last word, if there is still somebody to hear it."""
    with suppress(OSError):
        for line in lines:
            click.echo(printable(f"{prefix}{line}"), err=True)
    sys.exit(code)


def _reason(problem: OSError) -> str:
    reason = problem.strerror or str(problem)
    named = problem.filename
    return reason if named is None else f"{os.fsdecode(named)}: {reason}"


def _give_up_output() -> None:
    """What could not be written must not be tried, and fail, again when the interpreter ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
