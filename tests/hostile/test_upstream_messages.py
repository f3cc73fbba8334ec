"""What servers say is bounded: large messages, unreadable ones, listings, calls without end."""

import gc
import json
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support import (
    FUZZY,
    Cli,
    Running,
    Scripted,
    fetch,
    post,
    running,
    tool,
    until,
    write_config,
)
from toolscript.errors import CallTimeoutError, UpstreamError
from toolscript.gateway.jsonrpc_reader import MESSAGE_BYTES, SMALL_BYTES
from toolscript.gateway.raw_results import (
    MAX_OBJECT_BYTES,
    MAX_VALUES,
    RawResult,
    UnreadableError,
    decode_moderate,
    in_thread_if_large,
)
from toolscript.gateway.upstream import tool_listing as listing

_MIB = 2**20
_ANSWER = '{"jsonrpc":"2.0","id":ID,"result":%s}'
_LATE = '{"result":%s,"jsonrpc":"2.0","id":ID}'
UNREADABLE = {
    "digits": _ANSWER % ('{"content":[],"x":' + "9" * 5000 + "}"),
    "deep": _ANSWER % ('{"content":[],"x":' + "[" * 300 + "]" * 300 + "}"),
    "deeper": _LATE % ('{"content":[],"x":' + "[" * 20_000 + "]" * 20_000 + "}"),
    "no_json": _ANSWER % '{"content":[],"x":oops}',
    "late": _LATE % '{"content":[],"x":oops}',
    "no_object": _ANSWER % "5",
    "odd_error": '{"jsonrpc":"2.0","id":ID,"error":"boom"}',
    "large_and_no_json": _LATE % ('{"content":[],"x":"' + "y" * 100_000 + '","z":oops}'),
    "large_and_no_object": _ANSWER % ("[" + "1," * 100_000 + "1]"),
}


def _call(app: Running, name: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {}
    return app.portal.call(app.app.call, f"s__{name}", nothing)


def _opened(result: dict[str, Any]) -> dict[str, Any]:
    return json.loads(result.text) if isinstance(result, RawResult) else result


def _config(scripted: Scripted, folder: Path, *tools: Any, **will: Any) -> Path:
    """A server whose script is too long for a command line."""
    fate = folder / "fate.json"
    fate.write_text(json.dumps(will), "utf-8")
    return write_config(folder / "config.json", {"s": scripted(*tools, fate=str(fate))})


def test_l2_an_answer_that_cannot_be_read_fails_its_request_at_once(
    scripted: Scripted, tmp_path: Path
) -> None:
    """The time for a call is never waited for, and the connection goes on."""
    config = _config(scripted, tmp_path, *map(tool, [*UNREADABLE, "good"]), raw=UNREADABLE)
    with running(config, {"TOOLSCRIPT_CALL_TIMEOUT": "600"}) as app:
        for kind in UNREADABLE:
            with pytest.raises(UpstreamError, match=r"^s: sent an answer|^s: .*object"):
                _call(app, kind)
        assert json.loads(_call(app, "good")["content"][0]["text"])["name"] == "good"


@pytest.mark.parametrize("longer", ["", "x" * 2 * SMALL_BYTES])
def test_l2_half_a_character_costs_only_itself(
    scripted: Scripted, tmp_path: Path, longer: str
) -> None:
    """A text that was cut within an emoji, as JavaScript writes it."""
    text = r"cut \ud83d, whole \ud83d\ude00, written \\ud83d, \udc00 and \\\ud83d"
    raw = {"cut": _ANSWER % ('{"content":[{"type":"text","text":"' + text + longer + '"}]}')}
    listed = json.dumps({"tools": [tool("cut"), tool("said")]}).replace('""', r'"\ud83d"', 1)
    raw["tools/list"] = _ANSWER % listed
    with running(_config(scripted, tmp_path, raw=raw)) as app:
        said = _opened(_call(app, "cut"))["content"][0]["text"].removesuffix(longer or " ")
        assert said == "cut \ufffd, whole \U0001f600, written \\ud83d, \ufffd and \\\ufffd"
        assert app.tool_ids("s") == ["s__cut", "s__said"]


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 300 + "]" * 300])
def test_l2_a_tool_that_cannot_be_read_costs_only_itself(
    scripted: Scripted, tmp_path: Path, value: str
) -> None:
    bad = json.dumps(tool("bad", inputSchema={"type": "object", "x": "HERE"})).replace(
        '"HERE"', value
    )
    listed = f'{{"tools":[{json.dumps(tool("good"))},{bad}]}}'
    with running(_config(scripted, tmp_path, raw={"tools/list": _ANSWER % listed})) as app:
        status = app.wait_for("s", "ready")
        assert app.tool_ids("s") == ["s__good"]
        assert status.rejected[0].startswith("bad: ")


def test_l2_a_listing_that_cannot_be_read_fails_at_once(scripted: Scripted, tmp_path: Path) -> None:
    raw = {"tools/list": _ANSWER % '{"tools":oops}'}
    with running(
        _config(scripted, tmp_path, raw=raw), {"TOOLSCRIPT_CONNECT_TIMEOUT": "600"}
    ) as app:
        assert "cannot be read" in app.wait_for("s", "failed").error


def test_l2_what_cannot_be_read_is_not_kept(scripted: Scripted, tmp_path: Path) -> None:
    """Not even until the garbage collector runs, which counts objects and not their sizes."""
    text = "x" * 3 * _MIB
    raw = {
        "a line": "{" + text + "\n" + _ANSWER % '{"content":[]}',
        "an answer": _ANSWER % ('{"content":[],"x":"' + text + '","z":oops}'),
    }

    def call(app: Running, kind: str) -> None:
        with suppress(UpstreamError):
            _call(app, kind)

    with running(_config(scripted, tmp_path, *map(tool, raw), raw=raw)) as app:
        for kind in raw:
            call(app, kind)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for kind in raw:
                call(app, kind)
                until(lambda: tracemalloc.get_traced_memory()[0] < len(text), kind, 5)
        finally:
            tracemalloc.stop()
            gc.enable()


def test_l2_what_a_thread_cannot_read_is_not_kept() -> None:
    text = b'{"content":"' + b"x" * 3 * _MIB + b'","z":oops}'

    async def read() -> int:
        for _ in range(5):
            with suppress(UnreadableError):
                await in_thread_if_large(decode_moderate, bytes(bytearray(text)))
        return tracemalloc.get_traced_memory()[0]

    gc.disable()
    tracemalloc.start()
    try:
        assert anyio.run(read) < 3 * len(text), "the last one may still be in its thread"
    finally:
        tracemalloc.stop()
        gc.enable()


def test_m9_a_tool_past_a_bound_is_rejected_and_the_others_stay(
    scripted: Scripted, tmp_path: Path
) -> None:
    deep: dict[str, Any] = {}
    for _ in range(listing.MAX_DEPTH):
        deep = {"not": deep}
    past = [
        tool("n" * (listing.MAX_NAME_CHARS + 1)),
        tool("title", title="t" * (listing.MAX_TITLE_CHARS + 1)),
        tool("description", "d" * (listing.MAX_DESCRIPTION_CHARS + 1)),
        tool("schema", inputSchema={"type": "object", "x": "s" * listing.MAX_SCHEMA_BYTES}),
        tool("output", outputSchema={"type": "object", "x": "s" * listing.MAX_SCHEMA_BYTES}),
        tool("notes", annotations={"title": "a" * listing.MAX_ANNOTATIONS_BYTES}),
        tool("deep", inputSchema={"type": "object", "x": deep}),
        tool("huge", "h" * listing.MAX_TOOL_BYTES),
    ]
    at = tool("n" * listing.MAX_NAME_CHARS, "d" * listing.MAX_DESCRIPTION_CHARS)
    with running(_config(scripted, tmp_path, tools=[at, *past, tool("last")])) as app:
        status = app.wait_for("s", "ready")
        assert app.tool_ids("s") == ["s__last", f"s__{at['name']}"]
    assert len(status.rejected) == len(past)
    said = "\n".join(status.rejected)
    for name in ("nnn", "title", "description", "schema", "output", "notes", "deep", "huge"):
        assert f"{name}" in said
    assert f"at most {listing.MAX_SCHEMA_BYTES} are taken" in said


def test_m9_the_bounds_are_those_that_are_documented() -> None:
    assert listing.MAX_NAME_CHARS == 128
    assert listing.MAX_TITLE_CHARS == 1_024
    assert listing.MAX_DESCRIPTION_CHARS == 65_536
    assert listing.MAX_SCHEMA_BYTES == 262_144
    assert listing.MAX_ANNOTATIONS_BYTES == 16_384
    assert listing.MAX_DEPTH == 128
    assert listing.MAX_TOOL_BYTES == 655_360
    assert listing.MAX_SERVER_BYTES == 16 * _MIB


def test_m9_one_server_lists_so_much_and_no_more(scripted: Scripted, tmp_path: Path) -> None:
    tools = [tool(f"t{n:03}", "x" * listing.MAX_DESCRIPTION_CHARS) for n in range(300)]
    with running(_config(scripted, tmp_path, tools=tools, page_size=50)) as app:
        status = app.wait_for("s", "ready")
        fit = listing.MAX_SERVER_BYTES // listing.MAX_DESCRIPTION_CHARS
        assert fit * 0.9 < status.tools <= fit
        assert "past the 16 MiB" in status.rejected[0]
        app.settle()
        assert "s__t000" in app.finds("t000")


def test_m18_a_result_past_the_limit_fails_and_the_connection_goes_on(
    scripted: Scripted, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    large = '{"content":[{"type":"text","text":"' + "x" * MESSAGE_BYTES + '"}]}'
    raw = {"first": _ANSWER % large, "last": _LATE % large}
    config = _config(
        scripted, tmp_path, *map(tool, ["first", "last", "good"]), raw=raw, starts=str(starts)
    )
    with running(config) as app:
        for kind in raw:
            with pytest.raises(UpstreamError, match=r"^s: .* it has 16\.0 MiB; at most 16 MiB are"):
                _call(app, kind)
        assert json.loads(_call(app, "good")["content"][0]["text"])["name"] == "good"
    assert len(starts.read_text("utf-8").split()) == 1


def test_m18_a_large_result_is_never_turned_into_objects(
    scripted: Scripted, tmp_path: Path
) -> None:
    """It is passed on over HTTP as it came; a model gets it where it has few values."""
    text = (
        '{"content":[{"type":"text","text":"'
        + "1,[{" * SMALL_BYTES
        + '"}],"isError":false,"resultType":"complete"}'
    )
    numbers = '{"content":[],"structuredContent":{"n":[' + "1, " * MAX_VALUES + "1]}}"
    long = '{"content":[{"type":"text","text":"' + "x" * (MAX_OBJECT_BYTES + 1) + '"}]}'
    results = {"text": text, "numbers": numbers, "long": long}
    raw = {kind: _ANSWER % result for kind, result in results.items()}
    config = _config(scripted, tmp_path, *map(tool, results), raw=raw)
    with running(config) as app:
        for kind, result in results.items():
            called = _call(app, kind)
            assert isinstance(called, RawResult)
            assert called.text.decode() == result
        assert _call(app, "text") == {"isError": False, "resultType": "complete"}


def test_m18_large_results_at_the_doors(scripted: Scripted, cli: Cli) -> None:
    text = '{"content":[{"type":"text","text":"' + "1,[{" * SMALL_BYTES + '"}]}'
    numbers = '{"content":[],"structuredContent":{"n":[' + "1, " * MAX_VALUES + "1]}}"
    raw = {"text": _ANSWER % text, "numbers": _ANSWER % numbers}
    config = _config(scripted, cli.home, *map(tool, raw), raw=raw)
    url = cli.start_gateway("--config", str(config), env=FUZZY)
    until(lambda: fetch(url, "/health")[1]["status"] == "ready", "it is ready")
    assert post(url, "/tools/s__text", {}) == (200, json.loads(text))
    assert post(url, "/tools/s__numbers", {}) == (200, json.loads(numbers))
    params: dict[str, Any] = {
        "name": "call_destructive_tool",
        "arguments": {"tool": "s:text", "arguments": {}},
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert post(url, "/message", request)[1]["result"] == json.loads(text)
    params["arguments"] = {"tool": "s:numbers"}
    refused = post(url, "/message", request)[1]["result"]
    assert refused["isError"]
    assert "s:numbers: an answer of 0.1 MiB is too large" in refused["content"][0]["text"]


def test_l15_progress_does_not_keep_a_call_alive_without_end(
    scripted: Scripted, tmp_path: Path
) -> None:
    """Each notice buys time, twelve times that of a silent tool at most."""
    server = scripted(tool("work"), progress=10_000, pace=0.02)
    config = write_config(tmp_path / "config.json", {"s": server})
    refused = pytest.raises(CallTimeoutError, match=r"did not answer work within 2\.4 s")
    with running(config, {"TOOLSCRIPT_CALL_TIMEOUT": "0.2"}) as app, refused:
        _call(app, "work")
