"""The executor: a model that finds its tools first and uses them then.

Phase 1 offers the model nothing but ``tool_search``. What that finds is all it
is offered in phase 2. The model is any endpoint that speaks OpenAI's chat
completions (Ollama and most local servers do).
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeAlias, cast

import httpx2
import msgspec

from toolscript.errors import InputError, LlmError, ToolscriptError
from toolscript.text import printable, redact

MAX_TOOL_CALLS, MAX_TOOLS = 10, 4
MAX_RESULT_CHARS = 20_000
"""Of what a tool says, the model reads this much."""
TIMEOUT_S = 300.0
_CHARS_PER_TOKEN = 4
"""A rule of thumb for English and JSON; the endpoint's own counts are kept beside it."""
_INSTRUCTIONS = (
    "You have a tool, tool_search, that finds other tools for a task. Use it first, unless you "
    "can answer without any. The tools that it finds are then yours to use."
)
_NO_MORE = "That was the last tool call that is allowed. Answer now with what you know."
_Raw: TypeAlias = dict[str, Any]


class Offer(msgspec.Struct, frozen=True):
    """A tool as it is offered to the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    score: float = 0.0


SEARCH = Offer(
    "tool_search",
    "Search for relevant tools based on your task",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Such as 'read a file'"},
            "max_tools": {"type": "integer", "minimum": 1, "maximum": 20, "default": MAX_TOOLS},
        },
        "required": ["query"],
    },
)


class Toolbox(Protocol):
    """Where tools are found and called."""

    async def every(self) -> Sequence[Offer]:
        """Every tool there is."""
        ...

    async def search(self, query: str, limit: int) -> Sequence[Offer]:
        """The ``limit`` best, best first."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A tool's result as MCP has it. Raises `ToolscriptError`."""
        ...


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of the model's, and what came of it."""

    tool: str
    arguments: str
    said: str
    failed: bool = False


class Tokens(msgspec.Struct, kw_only=True):
    """What the definitions of tools cost, by a rule of thumb, and what the endpoint counted."""

    tools_sent: int = 0
    """Of the tools that were offered, over all requests."""
    tools_all: int = 0
    """Of every tool there is, had it been offered each time."""
    prompt: int = 0
    completion: int = 0
    requests: int = 0

    @property
    def saved(self) -> int:
        """How much less was sent."""
        return self.tools_all - self.tools_sent


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, how it came about, and what it cost."""

    answer: str
    steps: tuple[Step, ...]
    tokens: Tokens


class Llm:
    """A model behind ``{url}/chat/completions``. Use it as an asynchronous context."""

    def __init__(self, url: str, model: str, key: str = "", timeout_s: float = TIMEOUT_S) -> None:
        base = url.rstrip("/").removesuffix("/chat/completions")
        self._url = f"{base}/chat/completions"
        self._model = model
        self._secrets = (key,) if key else ()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx2.AsyncClient(headers=headers, timeout=timeout_s)

    async def __aenter__(self) -> Self:
        """Open the connection."""
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Close it."""
        await self._client.aclose()

    async def chat(self, messages: list[_Raw], offers: Sequence[Offer]) -> tuple[_Raw, _Raw]:
        """The model's message and the endpoint's counts; raises `LlmError`."""
        body: _Raw = {"model": self._model, "messages": messages}
        if offers:
            body["tools"] = [_spelled(offer) for offer in offers]
        try:
            response = await self._client.post(self._url, json=body)
        except httpx2.HTTPError as error:
            why = f"cannot be reached: {error or type(error).__name__}"
            raise LlmError(self._told(why)) from None
        return self._read(response)

    def _read(self, response: httpx2.Response) -> tuple[_Raw, _Raw]:
        try:
            answer: Any = response.json()
            return dict(answer["choices"][0]["message"]), dict(answer.get("usage") or {})
        except (TypeError, KeyError, IndexError, ValueError, AttributeError):
            said = printable(response.text, 300) or "nothing"
            why = f"answered HTTP {response.status_code}: {said}"
            raise LlmError(self._told(why)) from None

    def _told(self, what: str) -> str:
        return redact(f"the model at {self._url} {what}", self._secrets)


class Executor:
    """Answers questions with a model and a toolbox. Holds nothing between questions."""

    def __init__(
        self,
        llm: Llm,
        toolbox: Toolbox,
        max_tool_calls: int = MAX_TOOL_CALLS,
        on_step: Callable[[Step], None] = lambda _: None,
    ) -> None:
        self._llm = llm
        self._toolbox = toolbox
        self._max = max_tool_calls
        self._on_step = on_step

    async def ask(self, question: str) -> Outcome:
        """Let the model search, call and answer; at most ``max_tool_calls`` calls in all.

        Raises `LlmError`. What a tool does wrong is told to the model.
        """
        if not question.strip():
            raise InputError("the question is empty; say what is to be done")
        run = _Run(self._llm, self._toolbox, self._max, self._on_step)
        return await run.answer(question, _tokens(await self._toolbox.every()))


class _Run:
    """One question on its way."""

    def __init__(
        self, llm: Llm, toolbox: Toolbox, left: int, on_step: Callable[[Step], None]
    ) -> None:
        self._llm = llm
        self._toolbox = toolbox
        self._left = left
        self._on_step = on_step
        self._offers: Sequence[Offer] = (SEARCH,)
        self._steps: list[Step] = []
        self._tokens = Tokens()

    async def answer(self, question: str, everything: int) -> Outcome:
        messages: list[_Raw] = [
            {"role": "system", "content": _INSTRUCTIONS},
            {"role": "user", "content": question},
        ]
        while True:
            message = await self._chat(messages, everything)
            wanted: list[_Raw] = message.get("tool_calls") or []
            if not wanted or not self._offers:
                return Outcome(
                    answer=message.get("content") or "",
                    steps=tuple(self._steps),
                    tokens=self._tokens,
                )
            messages.append({**message, "role": "assistant"})
            messages += [await self._taken(call) for call in wanted]
            if self._left <= 0:
                self._offers = ()
                messages.append({"role": "user", "content": _NO_MORE})

    async def _chat(self, messages: list[_Raw], everything: int) -> _Raw:
        message, usage = await self._llm.chat(messages, self._offers)
        self._tokens.requests += 1
        self._tokens.tools_sent += _tokens(self._offers)
        self._tokens.tools_all += everything
        self._tokens.prompt += usage.get("prompt_tokens") or 0
        self._tokens.completion += usage.get("completion_tokens") or 0
        return message

    async def _taken(self, call: _Raw) -> _Raw:
        """One call that the model wants, as the message that answers it."""
        function: _Raw = call.get("function") or {}
        name, written = str(function.get("name")), function.get("arguments") or "{}"
        arguments = written if isinstance(written, str) else json.dumps(written)
        said, failed = await self._said(name, arguments)
        step = Step(tool=name, arguments=arguments, said=said, failed=failed)
        self._steps.append(step)
        self._on_step(step)
        return {"role": "tool", "tool_call_id": call.get("id", ""), "content": said}

    async def _said(self, name: str, written: str) -> tuple[str, bool]:
        """What the model is told about its call, and whether that went wrong."""
        self._left -= 1
        if self._left < 0:
            return "no more tool calls are allowed", True
        try:
            arguments = json.loads(written)
        except ValueError as error:
            return f"the arguments are not JSON: {error}", True
        if not isinstance(arguments, dict):
            return "the arguments must be a JSON object", True
        try:
            return await self._done(name, cast("_Raw", arguments))
        except ToolscriptError as problem:
            return str(problem), True

    async def _done(self, name: str, arguments: _Raw) -> tuple[str, bool]:
        if name == SEARCH.name:
            return await self._searched(arguments), False
        offered = [offer.name for offer in self._offers]
        if name not in offered:
            return f"there is no tool {name!r} now; there are: {', '.join(offered)}", True
        result = await self._toolbox.call(name, arguments)
        return _text(result), bool(result.get("isError"))

    async def _searched(self, arguments: _Raw) -> str:
        limit = arguments.get("max_tools")
        wanted = limit if isinstance(limit, int) and 0 < limit <= MAX_TOOL_CALLS * 2 else MAX_TOOLS
        found = await self._toolbox.search(str(arguments.get("query") or ""), wanted)
        self._offers = found or (SEARCH,)
        return json.dumps({"tools": [{"name": o.name, "score": round(o.score, 4)} for o in found]})


def _spelled(offer: Offer) -> _Raw:
    function = {
        "name": offer.name,
        "description": offer.description,
        "parameters": offer.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}


def _tokens(offers: Sequence[Offer]) -> int:
    return sum(len(json.dumps(_spelled(offer))) for offer in offers) // _CHARS_PER_TOKEN


def _text(result: _Raw) -> str:
    """A result as text for the model; of what is no text, what it is."""
    blocks: list[_Raw] = result.get("content") or []
    parts = [_block(block) for block in blocks]
    if not parts and "structuredContent" in result:
        parts = [json.dumps(result["structuredContent"], ensure_ascii=False)]
    text = "\n".join(parts)
    cut = len(text) - MAX_RESULT_CHARS
    return text if cut <= 0 else f"{text[:MAX_RESULT_CHARS]}\n[{cut} more characters]"


def _block(block: _Raw) -> str:
    inner: _Raw = block.get("resource") or block
    shown = inner.get("text")
    return str(shown) if shown is not None else f"[{block.get('type')} {inner.get('uri') or ''}]"
