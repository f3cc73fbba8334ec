"""``toolscript``: the commands, and the boundary where errors become exit codes."""

import logging
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from toolscript import __version__
from toolscript.errors import ToolscriptError
from toolscript.surfaces.cli.wire import EXIT

_COMMANDS = {
    "search": ("toolscript.surfaces.cli.search", "Find the tools that do what a sentence says."),
    "list-servers": ("toolscript.surfaces.cli.listing", "Show the configured servers' state."),
    "list-tools": ("toolscript.surfaces.cli.listing", "Show every tool, or one server's."),
    "gateway": ("toolscript.surfaces.cli.gateway", "Start, look at and stop the gateway."),
}


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
        return getattr(module, cmd_name.replace("-", "_"))

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
    _set_up_logging()
    try:
        status: Any = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("toolscript: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except ToolscriptError as problem:
        click.echo(f"toolscript: {problem}", err=True)
        sys.exit(EXIT[type(problem)])
    sys.exit(status if isinstance(status, int) else 0)


def _set_up_logging() -> None:
    logging.basicConfig(level=logging.WARNING, format="toolscript: %(message)s")
    # What a server does wrong is reported by us, in one line; the SDK's
    # tracebacks about the same would only bury it.
    for name in ("mcp", "client", "httpx2", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
