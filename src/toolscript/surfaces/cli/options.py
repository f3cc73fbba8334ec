"""Command-line options, made from the settings' table."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from toolscript.config.settings import OPTION, Settings, load_settings

_Command = TypeVar("_Command", bound=Callable[..., Any])


def settings_options(*names: str) -> Callable[[_Command], _Command]:
    """Give a command these options of the table; absent ones arrive as None."""

    def decorate(command: _Command) -> _Command:
        for name in reversed(names):
            command = _option(name)(command)
        return command

    return decorate


def _option(name: str) -> Callable[[_Command], _Command]:
    option = OPTION[name]
    text = option.help
    if option.default is not None:
        text += f"  [default: {option.default}]"
    if option.env:
        text += f"  [env: {option.env}]"
    return click.option(option.flag or f"--{name}", name, metavar=option.kind.__name__, help=text)


def settings_from(**flags: object) -> Settings:
    """The settings of this call."""
    return load_settings(flags, os.environ)


output_option = click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="A table for people, or JSON for programs.",
)
refresh_option = click.option(
    "--refresh", is_flag=True, help="Connect to every server again instead of using the snapshot."
)
