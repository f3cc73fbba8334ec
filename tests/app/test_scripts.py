"""The sandbox of scripts, checked and run for a door that notes what is called."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from toolscript.app.base import ScriptDoor, ScriptOutcome
from toolscript.app.bytes_under_way import MAX_OF_HOLDER, BytesUnderWay
from toolscript.app.script_sandbox import (
    MAX_OPEN_OF_HOLDER,
    MAX_SCRIPT_CHARS,
    ScriptLimits,
    Scripts,
)
from toolscript.errors import ArgumentsError, DeniedError, SandboxError, UpstreamError
from toolscript.types import ToolSpec

READS: dict[str, Any] = {"readOnlyHint": True}


def spec(server: str, name: str, required: str = "", output: Any = None, **fields: Any) -> ToolSpec:
    """A tool that reads, with these parameters; ``required`` names some of them."""
    schema = {"type": "object", "properties": fields, "required": required.split()}
    return ToolSpec(
        server=server, name=name, input_schema=schema, output_schema=output, annotations=READS
    )


TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
ROW = {"type": "object", "properties": {"id": INTEGER, "name": TEXT}, "required": ["id", "name"]}
FILTER = {
    "type": "object",
    "properties": {"field": TEXT, "values": {"type": "array", "items": INTEGER}},
    "required": ["field"],
    "additionalProperties": False,
}
ROWS = {"type": "object", "properties": {"rows": {"type": "array", "items": ROW}}}
TOOLS = [
    spec("my-files", "read_file", "path", path=TEXT, head=INTEGER, mode={"enum": ["text", "raw"]}),
    spec("my-files", "list_files", "paths", paths={"type": "array", "items": TEXT}),
    spec("my-files", "ping"),
    spec("db", "query", "table", ROWS, table=TEXT, where=FILTER, limit=INTEGER),
    spec("db", "odd.name", "a-b", **{"a-b": TEXT, "c": INTEGER}),
    ToolSpec(server="db", name="free"),
    ToolSpec(server="db", name="drop", annotations={"destructiveHint": True}),
    spec("other", "secret"),
]
ALL = {tool.id: tool for tool in TOOLS}
GRANTED = {name: tool for name, tool in ALL.items() if tool.server != "other"}
LIMITS = ScriptLimits(calls=20, seconds=1.0, memory_mib=48)


class Door:
    """Answers each call with its arguments, and notes it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.running = self.most = 0

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        self.calls.append((tool, arguments))
        self.running += 1
        self.most = max(self.most, self.running)
        await anyio.sleep(0.01)
        self.running -= 1
        if "denied" in arguments:
            raise DeniedError("the user did not allow this call")
        if "broken" in arguments:
            raise UpstreamError("it is broken")
        rows = [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}]
        return json.dumps({"rows": rows} if tool == "db__query" else arguments), True

    async def search(self, query: str, limit: int) -> str:
        return json.dumps([{"tool": query, "confidence": limit}])

    async def result(self, handle: str, path: str) -> str:
        return json.dumps([handle, path])

    @property
    def functions(self) -> ScriptDoor:
        return ScriptDoor("owner", self.call, self.search, self.result)


@contextmanager
def sandbox(limits: ScriptLimits = LIMITS) -> Generator[Scripts]:
    scripts = Scripts(BytesUnderWay(), limits)
    try:
        yield scripts
    finally:
        scripts.close()


@pytest.fixture(scope="module")
def scripts() -> Generator[Scripts]:
    with sandbox() as made:
        yield made


def run(scripts: Scripts, script: str, door: Door | None = None) -> ScriptOutcome:
    """Runs a script that may call what `GRANTED` has."""
    functions = (door or Door()).functions
    return anyio.run(scripts.run, script, ALL, GRANTED, functions)


MISTAKES = [
    ("await tools.my_files.read_file(path=3)", "Expected `str`, found `Literal[3]`"),
    ("await tools.my_files.read_file()", "required parameter `path`"),
    ("await tools.my_files.read_file(path='a', heads=3)", "`heads` does not match any known"),
    ("await tools.my_files.read_file(path='a', head='3')", "Expected `int`"),
    ("await tools.my_files.read_file(path='a', head=1.5)", "found `float"),
    ("await tools.my_files.read_file(path='a', mode='bytes')", 'Expected `Literal["text", "raw"]`'),
    ("await tools.my_files.read_file(path=None)", "Expected `str`, found `None`"),
    ("await tools.my_files.read_file(path=['a'])", "Expected `str`, found `list[str]`"),
    ("await tools.my_files.read_file('a.txt')", "read_file`; give each parameter by name"),
    ("await tools.my_files__read_file(path='a')", "`; write tools.my_files.read_file"),
    ("await tools.my_files.read_file({'path': 'a'})", "Too many positional arguments"),
    ("await tools.my_files.read_files(path='a')", "no attribute `read_files`; it has read_file"),
    ("await tools.myfiles.read_file(path='a')", "no attribute `myfiles`; it has my_files"),
    ("await tools.my_files.nothing_alike()", "it has read_file, list_files, ping"),
    ("await tools.other.secret()", "no attribute `other`; it has"),
    ("await my_files.read_file(path='a')", "Name `my_files` used when not defined"),
    ("await read_file(path='a')", "Name `read_file` used when not defined"),
    ("tools.my_files.read_file(path='a')", "is not awaited; write await before the call"),
    ("tools.my_files.read_file(path='a')['x']", "write await before the call"),
    ("await tools.my_files.list_files(paths='a')", "Expected `list[str]`"),
    ("await tools.my_files.list_files(paths=[1, 2])", "Expected `list[str]`"),
    ("await tools.db.query(table='t', where={'fields': 'a'})", "Missing required key 'field'"),
    ("await tools.db.query(table='t', where={'field': 1})", 'key "field" with declared type `str`'),
    ("await tools.db.query(table='t', where='field = 1')", "Expected `DbQueryParams_Where`"),
    ("await tools.db.query(table='t', limit=True + 'x')", "Operator `+` is not supported"),
    ("(await tools.db.query(table='t'))['row']", 'Unknown key "row"'),
    ("[r['nam'] for r in (await tools.db.query(table='t'))['rows']]", 'did you mean "name"?'),
    ("(await tools.db.query(table='t'))['rows'][0].id", "no attribute `id`"),
    ("await tools.db.odd_name({'ab': 'x'})", 'did you mean "a-b"?'),
    ("await search(3)", "Expected `str`, found `Literal[3]`"),
    ("await search()", "required parameter `query`"),
    ("await result('r1', 3)", "Expected `str`, found `Literal[3]`"),
    ("x = await tools.my_files.ping()\nreturn x", "end with the value itself"),
    ("for i in range(3) print(i)", "Expected `:`"),
    ("import requests\nawait tools.my_files.ping()", "Cannot resolve imported module `requests`"),
]


@pytest.mark.parametrize(("mistake", "words"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_found_before_anything_is_called(
    scripts: Scripts, mistake: str, words: str
) -> None:
    door = Door()
    first = "await tools.my_files.ping()"
    with pytest.raises(ArgumentsError) as caught:
        run(scripts, f"{first}\n{mistake}", door)
    head, *rows = str(caught.value).splitlines()
    assert head.startswith("nothing was called: the script has")
    assert any(words.casefold() in row.casefold() for row in rows), rows
    assert all(row.startswith(("line 2: ", "line 3: ")) for row in rows)
    assert not door.calls


WORKS: list[tuple[str, list[str]]] = [
    ("await tools.my_files.read_file(path='a', head=3)", ['{"path":"a","head":3}']),
    ("(await tools.db.query(table='t'))['rows'][1]['name']", ["two"]),
    ("await tools.db.odd_name({'a-b': 'x'})", ['{"a-b":"x"}']),
    ("await tools.db.free(a=(1, 2), b={'c': None})", ['{"a":[1,2],"b":{"c":null}}']),
    ("await tools.db.free({'a': 1}, b=2)", ['{"a":1,"b":2}']),
    ("t = tools.my_files\nawait t.ping()", ["{}"]),
    (
        "await search('mail'), await search('mail', 2)",
        ['[[{"tool":"mail","confidence":5}],[{"tool":"mail","confidence":2}]]'],
    ),
    ("await result('r1'), await result('r1', '[0].id')", ['[["r1",""],["r1","[0].id"]]']),
    ("print('a', 1)\nprint('b')\n[1]", ["a 1\nb", "[1]"]),
    ("x = 1", []),
    ("d = {'a': 1}\nd['b'] = 'text'\nd", ['{"a":1,"b":"text"}']),
    ("import json, re, math, datetime\nmath.floor(2.5)", ["2"]),
    ("10**30, float('nan'), {1}, None", ["[1000000000000000000000000000000,null,[1],null]"]),
]


@pytest.mark.parametrize(("script", "texts"), WORKS, ids=[row[0] for row in WORKS])
def test_a_script_returns_its_output_and_its_last_expression(
    scripts: Scripts, script: str, texts: list[str]
) -> None:
    assert run(scripts, script) == ScriptOutcome(texts, failed=False)


def test_reads_run_side_by_side_and_other_calls_one_by_one(scripts: Scripts) -> None:
    gather = "import asyncio\nawait asyncio.gather(*[tools.{}() for i in range(8)])\n'done'"
    for name, is_read in (("my_files.ping", True), ("db.drop", False)):
        door = Door()
        assert run(scripts, gather.format(name), door).texts == ["done"]
        assert len(door.calls) == 8
        assert (door.most > 1) == is_read


def test_an_error_of_a_tool_may_be_caught_and_a_denial_not(scripts: Scripts) -> None:
    caught = "try:\n    await tools.db.free({}=1)\nexcept BaseException as error:\n    print(error)"
    after = "\nawait tools.my_files.ping()"
    door = Door()
    assert run(scripts, caught.format("broken") + after, door).texts[0] == "it is broken"
    assert len(door.calls) == 2
    door = Door()
    with pytest.raises(DeniedError, match="did not allow this call"):
        run(scripts, caught.format("denied") + after, door)
    assert len(door.calls) == 1


def test_more_calls_than_allowed_end_a_script(scripts: Scripts) -> None:
    door = Door()
    ping = "try:\n        await tools.my_files.ping()\n    except BaseException:\n        pass"
    with pytest.raises(SandboxError, match="has made 20 calls, which is all that it may"):
        run(scripts, f"while True:\n    {ping}", door)
    assert len(door.calls) == 20


def test_a_long_script_is_refused(scripts: Scripts) -> None:
    with pytest.raises(ArgumentsError, match="has 50,001 characters; send at most 50,000"):
        run(scripts, "#" * (MAX_SCRIPT_CHARS + 1))


def test_an_error_says_its_line_and_what_was_called(scripts: Scripts) -> None:
    outcome = run(scripts, "await tools.my_files.ping()\nprint('so far')\n1 / 0")
    assert outcome == ScriptOutcome(
        ["line 3, after 1 call: ZeroDivisionError: division by zero", "so far"], failed=True
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("locals()", "the script was stopped: monty worker crashed"),
        ("await eval('_call')()", "line 1: RuntimeError: Expected `array` of length 3"),
        ("await eval('_call')('a', 1, {})", "Expected `array`, got `int`"),
        ("await eval('_search')(['a'], 1)", "Expected `str`, got `array`"),
        ("await eval('_result')('a', 'b', 'c')", "Expected `array` of length 2"),
    ],
)
def test_what_goes_wrong_inside_is_told_in_a_line(
    scripts: Scripts, script: str, words: str
) -> None:
    outcome = run(scripts, script)
    assert outcome.failed
    [line] = outcome.texts
    assert words in line
    assert "\n" not in line


def test_only_a_limit_of_the_sandbox_names_its_limits(scripts: Scripts) -> None:
    own = run(scripts, "raise ValueError('rate limit exceeded')").texts
    assert own == ["line 1: ValueError: rate limit exceeded"]
    error, printed = run(scripts, "print('b' * 2_000_000)").texts
    assert error.startswith("MemoryError: memory limit exceeded")
    assert error.endswith("take 48 MiB and print 1,000,000 bytes")
    assert set(printed) == {"b"}


@pytest.mark.parametrize(
    ("scripts_of", "holder"), [(MAX_OPEN_OF_HOLDER - 1, "owner"), (MAX_OPEN_OF_HOLDER + 9, "other")]
)
def test_b9_scripts_that_wait_hold_up_no_other(scripts_of: int, holder: str) -> None:
    """Not those of their holder, until it has its places; those of another holder at no time."""

    async def work(scripts: Scripts) -> None:
        answered, asked = anyio.Event(), anyio.Semaphore(0)

        async def ask(tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
            del tool, arguments
            asked.release()
            await answered.wait()
            return "yes", False

        waiting = Door().functions._replace(call=ask, holder=holder)
        async with anyio.create_task_group() as tasks:
            for _ in range(scripts_of):
                tasks.start_soon(scripts.run, "await tools.db.drop()", ALL, GRANTED, waiting)
            for _ in range(min(scripts_of, MAX_OPEN_OF_HOLDER)):
                await asked.acquire()
            with anyio.fail_after(60):
                outcome = await scripts.run("1 + 1", ALL, GRANTED, Door().functions)
            assert outcome.texts == ["2"]
            answered.set()

    with sandbox() as scripts:
        anyio.run(work, scripts)


@pytest.mark.parametrize("size", [(3_000_000, 0), (0, 3_000_000)])
def test_b3_the_calls_of_a_script_share_the_room_of_their_holder(size: tuple[int, int]) -> None:
    """What does not fit is an error for the script, which goes on; the rest arrives whole."""
    most = arrived = 0
    complete = anyio.Event()
    under_way = BytesUnderWay()

    async def call(tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        nonlocal most, arrived
        del tool
        most, arrived = max(most, under_way.total), arrived + 1
        if arrived == 18 or size[0]:
            complete.set()
        await complete.wait()  # so that all answers come at once
        return "x" * size[1] or str(len(arguments["path"])), False

    script = (
        f"import asyncio\nbig = 'x' * {size[0]}\n"
        "async def once() -> str:\n"
        "    try:\n        await tools.my_files.read_file(path=big)\n        return 'done'\n"
        "    except Exception as e:\n        return str(e)\n"
        "got = await asyncio.gather(*[once() for i in range(18)])\n"
        "failed = [x for x in got if x != 'done']\n"
        "[len(got), len(failed) > 2, 'fewer calls' in failed[0], "
        "len(await tools.my_files.read_file(path='a')) > 0]"
    )
    scripts = Scripts(under_way, ScriptLimits(calls=40, seconds=5, memory_mib=128))
    door = Door().functions._replace(call=call)
    try:
        outcome = anyio.run(scripts.run, script, ALL, GRANTED, door)
    finally:
        scripts.close()
    assert outcome.texts == ["[18,true,true,true]"]
    assert most < MAX_OF_HOLDER + 4_000_000
    assert under_way.total == 0


@pytest.mark.anyio
async def test_a_script_that_is_cancelled_ends_at_once(scripts: Scripts) -> None:
    """Though it computes: a minute of patience would not do otherwise."""
    with sandbox(ScriptLimits(1, 600, 48)) as slow:
        with anyio.move_on_after(0.5):
            await slow.run("while True: pass", ALL, GRANTED, Door().functions)
        assert (await slow.run("1 + 1", ALL, GRANTED, Door().functions)).texts == ["2"]
