"""Lets a language model answer a question in two phases: find tools, then use them.

In phase 1 the model is offered only ``tool_search``, in phase 2 only the tools that it found.
The model is any endpoint that speaks OpenAI's chat completions, as Ollama and most local
servers do.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias, cast

import httpx2
import msgspec

from toolscript.errors import InputError, LlmError, ToolscriptError
from toolscript.retrieval.profiles import TOOL_SEARCH
from toolscript.text.display import printable
from toolscript.text.redaction import redact

MAX_TOOL_CALLS = 10
MAX_RESULT_CHARS = 20_000
"""The model reads at most this much of a tool's result."""
TIMEOUT_S = 300.0
_CHARS_PER_TOKEN = 4
"""A rule of thumb for English and JSON."""
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
            "max_tools": {"type": "integer", "minimum": 1, "maximum": 20, "default": TOOL_SEARCH},
        },
        "required": ["query"],
    },
)


class Toolbox(Protocol):
    """The tools that an `Executor` may use. A class of yours with these methods is one."""

    async def every(self) -> Sequence[Offer]:
        """Returns all tools."""
        ...

    async def search(self, query: str, limit: int) -> Sequence[Offer]:
        """Returns at most ``limit`` tools for ``query``, a task, the best first."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Calls the tool ``name`` with these ``arguments``; returns its result as MCP has it.

        Raises `ToolscriptError`; the model then reads its message.
        """
        ...


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, rename={"result": "said"}):
    """A tool call that the model made."""

    tool: str
    arguments: str
    """JSON, as the model wrote it."""
    result: str
    """What the model was answered."""
    failed: bool = False


class Tokens(msgspec.Struct, kw_only=True):
    """The tokens that one question took."""

    tools_sent: int = 0
    """Definitions of the tools that were offered, in all requests together; an estimate."""
    tools_all: int = 0
    """Definitions of all tools, had every request offered them; an estimate."""
    prompt: int = 0
    """Tokens that the endpoint says it read."""
    completion: int = 0
    """Tokens that the endpoint says it wrote."""
    requests: int = 0
    """Number of requests to the endpoint."""

    @property
    def saved(self) -> int:
        """How many tokens the search of tools saved; an estimate."""
        return self.tools_all - self.tools_sent


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a question was answered."""

    answer: str
    """The model's last message."""
    steps: tuple[ToolCall, ...]
    """Its tool calls, in order."""
    tokens: Tokens
    """What the question cost."""


class Llm:
    """A language model behind ``{url}/chat/completions``, to be used with ``async with``.

    Args:
        url: The endpoint's address, with or without ``/chat/completions``.
        model: The name that the endpoint knows the model by.
        key: The key that the endpoint asks for.
        timeout_s: How long one answer may take.
    """

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
        """Returns the model's next message and the endpoint's token counts; raises `LlmError`.

        ``messages`` and the results are in OpenAI's format; ``offers`` are the tools that the
        model may call.
        """
        body: _Raw = {"model": self._model, "messages": messages}
        if offers:
            body["tools"] = [_definition(offer) for offer in offers]
        try:
            response = await self._client.post(self._url, json=body)
        except httpx2.HTTPError as error:
            raise self._error(f"cannot be reached: {error or type(error).__name__}") from None
        try:
            answer: Any = response.json()
            return dict(answer["choices"][0]["message"]), dict(answer.get("usage") or {})
        except (TypeError, KeyError, IndexError, ValueError, AttributeError):
            text = printable(response.text, 300) or "nothing"
            raise self._error(f"answered HTTP {response.status_code}: {text}") from None

    def _error(self, what: str) -> LlmError:
        return LlmError(redact(f"the model at {self._url} {what}", self._secrets))


@dataclass
class Executor:
    """Answers questions with a model and a toolbox; keeps nothing between two questions."""

    llm: Llm
    """The language model, opened."""
    toolbox: Toolbox
    """The tools that it may use."""
    max_tool_calls: int = MAX_TOOL_CALLS
    """The most calls for one question."""
    on_step: Callable[[ToolCall], None] | None = None
    """Called after each call."""

    async def ask(self, question: str) -> Outcome:
        """Let the model search for tools, call them and answer ``question``.

        A failed tool call is not an error here: the model reads why it failed.

        Raises:
            LlmError: The language model does not answer.
            InputError: The question is empty.
        """
        if not question.strip():
            raise InputError("the question is empty; say what is to be done")
        tools = await self.toolbox.every()
        return await _Conversation(self, _tokens(tools)).answer(question)


class _Conversation:
    """The messages, calls and tokens of one question."""

    def __init__(self, executor: Executor, all_tokens: int) -> None:
        self._executor = executor
        self._all_tokens = all_tokens
        self._calls_left = executor.max_tool_calls
        self._offers: Sequence[Offer] = (SEARCH,)
        self._steps: list[ToolCall] = []
        self._tokens = Tokens()

    async def answer(self, question: str) -> Outcome:
        messages: list[_Raw] = [
            {"role": "system", "content": _INSTRUCTIONS},
            {"role": "user", "content": question},
        ]
        while True:
            message = await self._chat(messages)
            calls: list[_Raw] = message.get("tool_calls") or []
            if not calls or not self._offers:
                text = message.get("content") or ""
                return Outcome(answer=text, steps=tuple(self._steps), tokens=self._tokens)
            messages.append({**message, "role": "assistant"})
            messages += [await self._call(call) for call in calls]
            if self._calls_left <= 0:
                self._offers = ()
                messages.append({"role": "user", "content": _NO_MORE})

    async def _chat(self, messages: list[_Raw]) -> _Raw:
        message, usage = await self._executor.llm.chat(messages, self._offers)
        self._tokens.requests += 1
        self._tokens.tools_sent += _tokens(self._offers)
        self._tokens.tools_all += self._all_tokens
        self._tokens.prompt += usage.get("prompt_tokens") or 0
        self._tokens.completion += usage.get("completion_tokens") or 0
        return message

    async def _call(self, call: _Raw) -> _Raw:
        """Make a call that the model asks for; returns the message that answers it."""
        function: _Raw = call.get("function") or {}
        name, raw = str(function.get("name")), function.get("arguments") or "{}"
        arguments = raw if isinstance(raw, str) else json.dumps(raw)
        result, failed = await self._result(name, arguments)
        step = ToolCall(tool=name, arguments=arguments, result=result, failed=failed)
        self._steps.append(step)
        if self._executor.on_step:
            self._executor.on_step(step)
        return {"role": "tool", "tool_call_id": call.get("id", ""), "content": result}

    async def _result(self, name: str, arguments: str) -> tuple[str, bool]:
        """Returns the text for the model, and whether the call failed."""
        self._calls_left -= 1
        if self._calls_left < 0:
            return "no more tool calls are allowed", True
        try:
            decoded = json.loads(arguments)
        except ValueError as error:
            return f"the arguments are not JSON: {error}", True
        if not isinstance(decoded, dict):
            return "the arguments must be a JSON object", True
        try:
            return await self._use(name, cast("_Raw", decoded))
        except ToolscriptError as problem:
            return str(problem), True

    async def _use(self, name: str, arguments: _Raw) -> tuple[str, bool]:
        if name == SEARCH.name:
            return await self._search(arguments), False
        names = [offer.name for offer in self._offers]
        if name not in names:
            return f"there is no tool {name!r} now; there are: {', '.join(names)}", True
        result = await self._executor.toolbox.call(name, arguments)
        return _text(result), bool(result.get("isError"))

    async def _search(self, arguments: _Raw) -> str:
        limit = arguments.get("max_tools")
        if not isinstance(limit, int) or not 0 < limit <= MAX_TOOL_CALLS * 2:
            limit = TOOL_SEARCH
        offers = await self._executor.toolbox.search(str(arguments.get("query") or ""), limit)
        self._offers = offers or (SEARCH,)
        return json.dumps({"tools": [{"name": o.name, "score": round(o.score, 4)} for o in offers]})


def _definition(offer: Offer) -> _Raw:
    function = {
        "name": offer.name,
        "description": offer.description,
        "parameters": offer.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}


def _tokens(offers: Sequence[Offer]) -> int:
    return sum(len(json.dumps(_definition(offer))) for offer in offers) // _CHARS_PER_TOKEN


def _text(result: _Raw) -> str:
    """Returns a result as text for the model: a block that is no text is named by its type."""
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
