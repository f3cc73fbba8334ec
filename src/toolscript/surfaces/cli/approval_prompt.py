"""Asks the user at a terminal about the calls that wait, while a command waits for them."""

import json
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import click

from toolscript.errors import ToolscriptError
from toolscript.surfaces.cli.gateway_client import Client
from toolscript.surfaces.cli.output import class_label
from toolscript.text.display import printable

_POLL_S = 0.3


@contextmanager
def answering(client: Client) -> Generator[None]:
    """Ask about waiting calls within the block; without a terminal nobody is asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(client, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _watch(client: Client, ended: threading.Event) -> None:
    asked: set[str] = set()
    while not ended.wait(_POLL_S):
        try:
            calls: list[dict[str, Any]] = client.get("/pending")["pending"]
            for call in calls:
                if call["id"] not in asked:
                    asked.add(call["id"])
                    answer(client, call["id"], _prompt(call))
        except (ToolscriptError, click.Abort):
            return  # a token that may not decide, or a user who has left


def _prompt(call: dict[str, Any]) -> str:
    click.echo(printable(describe(call)), err=True)
    return click.prompt("Allow it?", type=click.Choice(call["answers"]), default="no", err=True)


def describe(call: dict[str, Any]) -> str:
    """Returns a waiting call as one line."""
    return (
        f"{call['toolId']} ({class_label(call)}) is called by {call['holder']} "
        f"with {call['arguments']}; {call['why']}"
    )


def answer(client: Client, identifier: str, given: str) -> dict[str, Any]:
    """Answers a call that waits; raises `UnknownNameError` for one that does not any more."""
    body = json.dumps({"answer": given}).encode()
    return client.post(f"/pending/{quote(identifier, safe='')}", body)
