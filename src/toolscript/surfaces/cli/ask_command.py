"""``toolscript ask``."""

import json
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import click
import msgspec

from toolscript.agent.two_phase import Executor, Llm, Offer, Outcome, ToolCall
from toolscript.config.settings import LlmSettings, load_settings
from toolscript.errors import InputError
from toolscript.gateway.catalogue import exposed_names
from toolscript.surfaces.cli.approval_prompt import answering
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.gateway_client import Client, target
from toolscript.surfaces.cli.options import class_option, output_choice, settings_options
from toolscript.surfaces.cli.output import note, print_json, print_result
from toolscript.text.display import counted

_MAX_SHOWN_CHARS = 200


@click.command()
@click.argument("question")
@settings_options("llm_url", "llm_model")
@output_choice(
    "The answer, or JSON with the answer, the transcript and the tokens.", "text", "json"
)
@class_option
@settings_options("profile", "config", "data_dir")
def ask(question: str, output: str, tool_class: str | None, **flags: Any) -> None:
    """Let a language model answer QUESTION with your tools.

    The model searches for tools first, and is then offered only those it found.
    Its calls and their cost are printed on standard error. Where nobody is at a
    terminal to be asked, it may not call destructive tools unless --class says so.
    """
    settings = load_settings(flags)
    for name in ("llm_url", "llm_model"):
        if not getattr(settings.llm, name.removeprefix("llm_")):
            flag, variable = f"--{name.replace('_', '-')}", f"TOOLSCRIPT_{name.upper()}"
            raise InputError(f"no model to ask; give {flag}, or set {variable}")
    is_watched = sys.stdin.isatty() and sys.stderr.isatty()
    most = tool_class or ("destructive" if is_watched else "write")
    with connected(flags) as client, answering(client):
        outcome = anyio.run(_run, settings.llm, ClientToolbox(client, most), question, output)
    if output == "json":
        steps = msgspec.to_builtins(outcome.steps)
        tokens = {**msgspec.to_builtins(outcome.tokens), "saved": outcome.tokens.saved}
        print_json({"answer": outcome.answer, "steps": steps, "tokens": tokens})
        return
    _note_tokens(outcome)
    print_result(outcome.answer)


class ClientToolbox:
    """The application as a `Toolbox`, through the client of a command."""

    def __init__(self, client: Client, tool_class: str) -> None:
        self._client = client
        self._class = tool_class
        self._tools: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}

    async def every(self) -> Sequence[Offer]:
        """See `Toolbox`."""
        listed = await anyio.to_thread.run_sync(self._client.get, "/tools")
        self._tools = {tool["toolId"]: tool for tool in listed["tools"]}
        self._names = exposed_names(self._tools)
        return [self._offer(identifier, 0.0) for identifier in self._tools]

    async def search(self, query: str, limit: int) -> Sequence[Offer]:
        """See `Toolbox`."""
        parameters = [("q", query), ("limit", limit), ("threshold", 0)]
        answer = await anyio.to_thread.run_sync(self._client.get, "/search", parameters)
        hits = [(hit["toolId"], hit["confidence"]) for hit in answer["results"]]
        return [self._offer(name, score) for name, score in hits if name in self._tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `Toolbox`."""
        path = target(f"/tools/{quote(name, safe='')}", [("class", self._class)])
        body = json.dumps(arguments).encode()
        return await anyio.to_thread.run_sync(self._client.post, path, body)

    def _offer(self, identifier: str, score: float) -> Offer:
        tool = self._tools[identifier]
        schema: dict[str, Any] = tool["inputSchema"]
        return Offer(self._names[identifier], tool["description"], schema, score)


async def _run(model: LlmSettings, toolbox: ClientToolbox, question: str, output: str) -> Outcome:
    on_step = _note_step if output == "text" else None
    async with Llm(model.url or "", model.model or "", model.key or "") as llm:
        return await Executor(llm, toolbox, on_step=on_step).ask(question)


def _note_step(step: ToolCall) -> None:
    outcome = "failed: " if step.failed else ""
    result = step.result[:_MAX_SHOWN_CHARS]
    note(f"{step.tool} {step.arguments[:_MAX_SHOWN_CHARS]} → {outcome}{result}")


def _note_tokens(outcome: Outcome) -> None:
    tokens = outcome.tokens
    requests = counted(tokens.requests, "request")
    if tokens.prompt:
        note(f"{requests}: {tokens.prompt} tokens read, {tokens.completion} written")
    note(
        f"tools took about {tokens.tools_sent} tokens in {requests}; "
        f"all of them would have taken {tokens.tools_all}"
    )
