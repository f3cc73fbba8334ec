"""Runs Python scripts that models write, in a sandbox that can do nothing but call tools.

The sandbox is Monty, an interpreter in a process of its own, with a fresh process for each script.
A script is first checked against the declarations of the tools that it names; then it runs in
steps: at each call it pauses while this process calls the tool through the `ScriptDoor` that
`Scripts.run` was given, so a script has exactly the rights of its caller. No step runs on the event
loop. The sandbox needs the extra ``scripts``.
"""

import os
import re
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
import msgspec
import pydantic_monty as monty
from anyio.abc import TaskGroup

from toolscript.app.base import ScriptDoor, ScriptOutcome
from toolscript.app.bytes_under_way import BytesUnderWay
from toolscript.codegen.script_stubs import ScriptTools, script_tools
from toolscript.errors import (
    ArgumentsError,
    DeniedError,
    SandboxError,
    ToolscriptError,
    UnknownNameError,
)
from toolscript.gateway.raw_results import in_thread_if_large
from toolscript.text.display import counted, first_lines, printable
from toolscript.types import ToolSpec

MAX_SCRIPT_CHARS = 50_000
MAX_PRINTED_BYTES = 1_000_000
MAX_VALUE_BYTES = 4_000_000
"""Maximum size of the arguments of a call, and of a script's value: see `_check_size`."""
MAX_OPEN_SCRIPTS, MAX_OPEN_OF_HOLDER = 16, 8
"""Number of scripts that have a process, of all and of one holder; most wait for a call or a
person. Further ones wait."""
MAX_COMPUTING_SCRIPTS, MAX_COMPUTING_OF_HOLDER = 4, 2
"""Number of these that compute at the same time."""
_MAX_DEPTH = 200
_MAX_MISTAKES, _MAX_MISTAKE = 10, 400
_PER_CALL = 8
"""Steps that each call may take in the interpreter."""
_FUNCTIONS: dict[str, Any] = {
    "_call": tuple[str, list[Any], dict[str, Any]],
    "_search": tuple[str, int],
    "_result": tuple[str, str],
}
"""Functions of this process that the beginning of a script calls, and their parameters."""
_TOLERATED = {"invalid-assignment"}
"""Rules of the checker that refuse ordinary Python without annotations."""
_MISTAKE = re.compile(r"^script:(\d+):\d+: \w+\[([\w-]+)\] (.*)$", re.MULTILINE)
_NO_ATTRIBUTE = re.compile(r"type `(\w+)` has no attribute `(\w+)`")
_LIMIT = re.compile(r"(?:MemoryError|TimeoutError): [\w ]*limit exceeded")
_THREADS = anyio.CapacityLimiter(MAX_COMPUTING_SCRIPTS)
_NO_ROOM = RuntimeError("too much is under way for you, or for all; await fewer calls at once")
_Answer: TypeAlias = dict[str, Any]
_T = TypeVar("_T")


class ScriptLimits(NamedTuple):
    """The most that one script may use."""

    calls: int = 100
    seconds: float = 30.0
    """Time to compute, and as much to sleep; each call has the time limit of every call."""
    memory_mib: int = 128


LIMITS = ScriptLimits()


class _Share:
    """The part of the sandbox, and of this process's memory, that one holder has."""

    def __init__(self, holder: str, under_way: BytesUnderWay) -> None:
        self.count = partial(under_way.add, holder)
        self.places = anyio.CapacityLimiter(MAX_OPEN_OF_HOLDER)
        self._threads = anyio.CapacityLimiter(MAX_COMPUTING_OF_HOLDER)

    async def step(self, work: Callable[[], _T]) -> _T:
        """Returns the result of ``work`` in a thread, which a cancellation abandons."""
        async with self._threads:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=_THREADS)


class Scripts:
    """Runs scripts, some at a time.

    Args:
        under_way: Counts the bytes of the scripts' calls.
        limits: The limits of each script.
    """

    def __init__(self, under_way: BytesUnderWay, limits: ScriptLimits = LIMITS) -> None:
        self.limits = limits
        self._under_way = under_way
        self._shares: WeakValueDictionary[str, _Share] = WeakValueDictionary()
        self._places = anyio.CapacityLimiter(MAX_OPEN_SCRIPTS)
        self._pool: monty.Monty | None = None

    def close(self) -> None:
        """Ends the processes of the sandbox."""
        if self._pool is not None:
            self._pool.__exit__(None, None, None)
            self._pool = None

    async def run(
        self,
        script: str,
        tools: Mapping[str, ToolSpec],
        allowed: Mapping[str, ToolSpec],
        door: ScriptDoor,
    ) -> ScriptOutcome:
        """Runs a script to its end.

        Args:
            script: Its text, in Python; its last expression is its value.
            tools: The whole catalogue.
            allowed: The tools that it may name, by id.
            door: Fulfils its requests.

        Raises:
            ArgumentsError: The script is too long, or has mistakes; nothing was called.
            DeniedError: A rule or a person has denied one of its calls, which has ended it.
            SandboxError: It has made too many calls, which has ended it.
        """
        if len(script) > MAX_SCRIPT_CHARS:
            raise ArgumentsError(
                f"the script has {len(script):,} characters; send at most {MAX_SCRIPT_CHARS:,}"
            )
        share = self._shares.setdefault(door.holder, _Share(door.holder, self._under_way))
        async with share.places, self._places:
            code = await share.step(partial(script_tools, tools, allowed, script))
            async with self._session(code, share) as session:
                return await _Run(self.limits, code, door, allowed, share).drive(session, script)

    @asynccontextmanager
    async def _session(
        self, code: ScriptTools, share: _Share
    ) -> AsyncGenerator[monty.MontySession]:
        """A process for one script, which is killed if an error ends the block."""
        session = await share.step(partial(self._check_out, code))
        process = session.worker_pid
        try:
            yield session
        except BaseException:
            if process is not None:  # it may be computing, for a step that was abandoned
                with suppress(ProcessLookupError):
                    os.kill(process, getattr(signal, "SIGKILL", signal.SIGTERM))
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await share.step(partial(session.__exit__, None, None, None))

    def _check_out(self, code: ScriptTools) -> monty.MontySession:
        calls, seconds, memory_mib = self.limits
        if self._pool is None:
            self._pool = monty.Monty(
                min_processes=0,
                max_processes=MAX_OPEN_SCRIPTS,
                max_checkouts_per_worker=1,
                request_timeout=2 * seconds + 10,
            ).__enter__()
        return self._pool.checkout(
            script_name="script",
            limits={
                "max_feed_duration_secs": seconds,
                "max_total_sleep_secs": seconds,
                "max_memory": memory_mib << 20,
                "max_recursion_depth": _MAX_DEPTH,
                "max_suspensions": 100 + calls * _PER_CALL,
            },
            type_check=True,
            type_check_stubs=code.stubs,
            type_check_format="concise",
        ).__enter__()


class _Run:
    """One script on its way.

    Args:
        limits: Its limits.
        code: The code of its tools.
        door: Fulfils its requests.
        allowed: The tools that it may call, by id.
        share: The part of its holder.
    """

    def __init__(
        self,
        limits: ScriptLimits,
        code: ScriptTools,
        door: ScriptDoor,
        allowed: Mapping[str, ToolSpec],
        share: _Share,
    ) -> None:
        self._limits, self._code, self._door, self._allowed = limits, code, door, allowed
        self._share, self._step = share, share.step
        self._taken = 0
        """The bytes of its calls under way, and of the answers that wait for it."""
        self._turn = anyio.Lock()
        """Held by a call that changes something: such calls are made one after the other."""
        self._calls = 0
        self._answers: dict[int, tuple[_Answer, int]] = {}
        """The answers to the script's requests, and their bytes, by their numbers."""
        self._answered = anyio.Event()
        self._printed = monty.CollectString(MAX_PRINTED_BYTES)

    async def drive(self, session: monty.MontySession, script: str) -> ScriptOutcome:
        """Returns the outcome of a script in a session."""
        start = partial(session.feed_start, print_callback=self._printed)
        problem: ToolscriptError | None = None
        value, error = "", ""
        try:
            async with anyio.create_task_group() as tasks:
                await self._finish(
                    partial(start, self._code.beginning, skip_type_check=True), tasks
                )
                try:
                    value = await self._finish(partial(start, script), tasks)
                except monty.MontyTypingError as typing_error:
                    if mistakes := _describe_mistakes(typing_error.display(), self._code):
                        raise ArgumentsError(mistakes) from None
                    unchecked = partial(start, script, skip_type_check=True)
                    value = await self._finish(unchecked, tasks)
                tasks.cancel_scope.cancel()  # calls for which the script has not waited
        except* ToolscriptError as group:
            problem = _first(group)
        except* monty.MontyError as group:
            error = self._describe_end(_first(group))
        finally:
            self._take(-self._taken)
        if problem is not None:
            raise problem
        # A long output is cut at its end, and must not hide the error.
        texts = [error, self._printed.output.rstrip("\n"), value]
        return ScriptOutcome(list(filter(None, texts)), failed=bool(error))

    async def _finish(self, work: Callable[[], monty.SyncSnapshot], tasks: TaskGroup) -> str:
        """Does one piece of code to its end; returns its value as text."""
        snapshot: monty.SyncSnapshot = await self._step(work)
        while not isinstance(snapshot, monty.MontyComplete):
            match snapshot:
                case monty.NameLookupSnapshot(variable_name=name) if name in _FUNCTIONS:
                    work = partial(snapshot.resume, value=_function(name))
                case monty.NameLookupSnapshot():
                    work = snapshot.resume
                case monty.FunctionSnapshot(is_os_function=True):
                    work = snapshot.resume_not_handled
                case monty.FunctionSnapshot(function_name=name) if name not in _FUNCTIONS:
                    unknown = NameError(f"name {name!r} is not defined")
                    work = partial(snapshot.resume, monty.ExternalException(exception=unknown))
                case monty.FunctionSnapshot(call_id=number):
                    given = await self._step(lambda s=snapshot: _encode(s.args))
                    if self._take(len(given)):
                        tasks.start_soon(self._answer, number, snapshot.function_name, given)
                    else:
                        self._put(number, {"exception": _NO_ROOM}, len(given))
                    work = partial(snapshot.resume, {"future": ...})
                case _:
                    answers = await self._wait(snapshot.pending_call_ids)
                    work = partial(snapshot.resume, answers)
            snapshot = await self._step(work)
        return await self._step(partial(_write, snapshot))

    def _take(self, size: int) -> bool:
        """Counts bytes of this process's memory; returns whether there is room for them."""
        self._taken += size
        return self._share.count(size)

    async def _wait(self, numbers: list[int]) -> dict[int, Any]:
        """Returns the answers that there are to these requests, of which there is at least one."""
        while not (ready := [number for number in numbers if number in self._answers]):
            self._answered = anyio.Event()
            await self._answered.wait()
        taken = {number: self._answers.pop(number) for number in ready}
        self._take(-sum(size for _, size in taken.values()))
        return {number: answer for number, (answer, _) in taken.items()}

    async def _answer(self, number: int, function: str, given: bytes) -> None:
        """Fulfils a request of the script, and keeps the answer, or the error, for it."""
        size = len(given)
        try:
            decode = partial(msgspec.json.decode, type=_FUNCTIONS[function])
            arguments: tuple[Any, ...] = await in_thread_if_large(decode, given)
            del given
            value = await self._fulfil(function, arguments)
            more = len(value if isinstance(value, str) else value[0])
            size += more
            has_room = self._take(more)
            answer: _Answer = {"return_value": value} if has_room else {"exception": _NO_ROOM}
        except (DeniedError, SandboxError):
            raise
        except (ToolscriptError, msgspec.ValidationError) as error:
            answer = {"exception": RuntimeError(str(error))}
        self._put(number, answer, size)

    def _put(self, number: int, answer: _Answer, size: int) -> None:
        """Keeps an answer for the script; ``size`` is of the bytes that are taken until then."""
        self._answers[number] = answer, size
        self._answered.set()

    async def _fulfil(self, function: str, given: tuple[Any, ...]) -> str | tuple[str, bool]:
        if function == "_search":
            return await self._door.search(*given)
        if function == "_result":
            return await self._door.result(*given)
        self._calls += 1
        if self._calls > self._limits.calls:
            raise SandboxError(
                f"the script has made {self._limits.calls} calls, which is all that it may, and "
                "was stopped; do the rest in another one, or let a tool do more at once"
            )
        tool, positional, arguments = given
        if len(positional) > 1 or not all(isinstance(each, dict) for each in positional):
            raise ArgumentsError(f"{tool}: give the parameters by name, such as path='a.txt'")
        for each in cast("list[dict[str, Any]]", positional):
            arguments = each | arguments
        if tool not in self._allowed:  # it is none that the beginning has
            raise UnknownNameError(f"no tool is called {printable(tool, 100)!r}")
        if self._allowed[tool].tool_class == "read":
            return await self._door.call(tool, arguments)
        async with self._turn:
            return await self._door.call(tool, arguments)

    def _describe_end(self, error: monty.MontyError) -> str:
        """Returns the error that has ended the script, and its line."""
        line, made = "", f"after {counted(self._calls, 'call')}" if self._calls else ""
        if isinstance(error, monty.MontyRuntimeError | monty.MontySyntaxError):
            frames = [f for f in error.traceback() if f.filename != "<python-input-0>"]
            line = f"line {frames[-1].line}" if frames else ""
            text = error.display("type-msg")
            is_limit = _LIMIT.match(text) is not None
        else:
            text = f"the script was stopped: {str(error).partition(': child panicked')[0]}"
            is_limit = "limit" in text
        calls, seconds, memory = self._limits
        limits = (
            f"a script may make {calls} calls, compute for {seconds:g} s, take {memory} MiB and "
            f"print {MAX_PRINTED_BYTES:,} bytes"
        )
        where = ", ".join(filter(None, (line, made)))
        text = f"{where}: {text}" if where else text
        return f"{text}; {limits}" if is_limit else text


def _function(name: str) -> Callable[[], None]:
    """Returns a stand-in for a function of this process, which is known by its name."""

    def function() -> None: ...

    function.__name__ = name
    return function


def _first(error: Any) -> Any:
    """Returns the first error of a group that is none."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("Any", error).exceptions[0]
    return error


def _write(end: monty.MontyComplete) -> str:
    """Returns the value of a script as text: JSON, unless it is a text."""
    value = end.output
    if value is None:
        return ""
    return value if isinstance(value, str) else _encode(value).decode()


def _encode(value: Any) -> bytes:
    """Returns a script's value as JSON; raises `SandboxError` if it is too large."""
    _check_size(value)
    try:
        return msgspec.json.encode(value, enc_hook=repr)
    except (msgspec.MsgspecError, RecursionError, OverflowError, ValueError, TypeError) as error:
        raise SandboxError(
            f"the script passes a value that cannot be written as JSON ({error}); pass texts, "
            "numbers, lists and dictionaries"
        ) from None


def _check_size(value: Any) -> None:
    """Raises `SandboxError` for a value whose JSON would be too large, however it is shared."""
    room, rest = MAX_VALUE_BYTES, [value]
    while rest:
        part = rest.pop()
        room -= 16 + (len(part) if isinstance(part, str | bytes) else 0)
        if room < 0:
            raise SandboxError(
                f"the script passes a value of more than {MAX_VALUE_BYTES:,} bytes; pass less"
            )
        if isinstance(part, dict):
            rest += (*cast("dict[Any, Any]", part), *cast("dict[Any, Any]", part).values())
        elif isinstance(part, list | tuple | set | frozenset):
            rest += cast("list[Any]", part)


def _describe_mistakes(display: str, code: ScriptTools) -> str:
    """Returns the mistakes that the checker has found, for a model; "" if none matters."""
    rows = _MISTAKE.findall(display)
    told = [
        _describe_mistake(line, text, code) for line, rule, text in rows if rule not in _TOLERATED
    ]
    if rows and not told:
        return ""
    told = list(dict.fromkeys(told)) or [printable(display, _MAX_MISTAKE)]
    lines = first_lines(told, _MAX_MISTAKES, "{} more")
    head = f"nothing was called: the script has {counted(len(told), 'mistake')}. Send it corrected."
    return "\n".join([head, *lines])


def _describe_mistake(line: str, text: str, code: ScriptTools) -> str:
    advice = ""
    if missing := _NO_ATTRIBUTE.search(text):
        _, known = code.classes.get(missing[1], ("", ()))
        near = get_close_matches(missing[2], known, 3, 0.5) or known[:_MAX_MISTAKES]
        advice = f"; it has {', '.join(near)}" if near else ""
        server, _, method = missing[2].partition("__")
        if method and server in known:
            advice = f"; write tools.{server}.{method}"
    elif "Too many positional" in text:
        text, advice = text.partition(": expected")[0], "; give each parameter by name"
    elif "CoroutineType" in text:
        advice = "; write await before the call"
    elif "`return` statement outside" in text:
        advice = "; end with the value itself"
    for name, (expression, _) in code.classes.items():
        text = re.sub(rf"\b{name}\b", expression, text)
    return printable(f"line {line}: {text}{advice}", _MAX_MISTAKE)
