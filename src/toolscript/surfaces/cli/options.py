"""The options of several commands, most of them made from the table of settings."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from toolscript.config.settings import OPTION
from toolscript.errors import InputError
from toolscript.text.wire_constants import TOOL_CLASSES

COMMON_OPTIONS = ("config", "data_dir", "profile", "model")
"""The options of many commands, which stand in the help of ``toolscript`` alone."""
_Command = TypeVar("_Command", bound=Callable[..., Any])


def settings_options(*names: str) -> Callable[[_Command], _Command]:
    """Give a command these options of the settings; those not given arrive as None."""

    def decorate(command: _Command) -> _Command:
        for name in reversed(names):
            command = _option(name)(command)
        return command

    return decorate


def common_help() -> list[tuple[str, str]]:
    """Returns the help of `COMMON_OPTIONS`: the options and their meanings."""
    return [(f"{_flag(name)} {_metavar(name)}", _meaning(name)) for name in COMMON_OPTIONS]


def _option(name: str) -> Callable[[_Command], _Command]:
    flag, text = _flag(name), _meaning(name)
    if OPTION[name].kind is bool:
        return click.option(flag, name, is_flag=True, default=None, help=text)
    hidden = name in COMMON_OPTIONS
    return click.option(flag, name, metavar=_metavar(name), help=text, hidden=hidden)


def _flag(name: str) -> str:
    return OPTION[name].flag or f"--{name}"


def _metavar(name: str) -> str:
    return OPTION[name].kind.__name__.upper()


def _meaning(name: str) -> str:
    option = OPTION[name]
    default = "" if option.default is None else f"  [default: {option.default}]"
    return option.help + default + (f"  [env: {option.env}]" if option.env else "")


@contextmanager
def reading(file: Path) -> Generator[None]:
    """Raises `InputError` if the block cannot read the file, which the command line names."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not text: byte {error.start} is not UTF-8") from None


def output_choice(text: str, *forms: str) -> Callable[[_Command], _Command]:
    """Give a command ``--output`` with these forms, of which the first is the default."""
    return click.option(
        *("--output", "-o"),
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help=text,
    )


def repeatable(flag: str, name: str, metavar: str, text: str) -> Callable[[_Command], _Command]:
    """Give a command an option that arrives as a tuple of values."""
    return click.option(flag, name, multiple=True, metavar=metavar, help=f"{text} Repeatable.")


class_option = click.option(
    "--class",
    "tool_class",
    type=click.Choice(TOOL_CLASSES),
    help="Refuse tools that may do more than this.",
)
output_option = output_choice("A table for people, or JSON for programs.", "table", "json")
refresh_option = click.option(
    "--refresh", is_flag=True, help="Connect to every server again instead of using the snapshot."
)
explain_option = click.option(
    "--explain", is_flag=True, help="Show how each confidence was computed."
)
