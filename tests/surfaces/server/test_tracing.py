"""Traces: what a collector is sent, what servers are told, and what is in neither."""

import json
import re
import subprocess
import sys
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support import (
    FUZZY,
    READ_FILE,
    WRITES,
    Cli,
    Scripted,
    fetch,
    tool,
    until,
)

from toolscript import tracing
from toolscript.surfaces.server.trace_export import MAX_NAME_CHARS, SpansWithoutTexts

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SECRET = "hunter2-correct-horse"  # noqa: S105 - looked for where it must not be


class Collector:
    """Takes spans by OTLP over HTTP, as they come from the network."""

    def __init__(self) -> None:
        self.raw = b""
        self.spans: list[Any] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.raw += body
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        collector.spans.extend(scope.spans)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def named(self, name: str, trace: str = "") -> list[Any]:
        """The spans of this name, of one trace or of all."""
        return [s for s in self.spans if s.name == name and s.trace_id.hex().endswith(trace)]


@pytest.fixture
def collector() -> Generator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def traced(cli: Cli, scripted: Scripted, collector: Collector, tmp_path: Path) -> Cli:
    cli.env = FUZZY | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    error = json.dumps({"code": 7, "message": SECRET})
    fails = f'{{"jsonrpc": "2.0", "id": ID, "error": {error}}}'
    tools = READ_FILE, tool("fail", "Fail", **WRITES)
    cli.configure(files=scripted(*tools, calls=str(tmp_path / "calls"), raw={"fail": fails}))
    cli.start_gateway()
    return cli


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def parent_of(span: Any, spans: list[Any]) -> str:
    return next((each.name for each in spans if each.span_id == span.parent_span_id), "")


@pytest.mark.requirement("http:others")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.anyio
async def test_a_search_and_a_call_are_one_trace_from_client_to_server(
    traced: Cli, collector: Collector, tmp_path: Path, mode: Any
) -> None:
    """http:others: in the newest protocol and in an older one."""

    found: list[Any] = []
    async with Client(f"{traced.record()['url']}/mcp", mode=mode) as client:
        meta: Any = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
        query = {"query": f"read_file {SECRET}", "detail": True}
        answer: Any = await client.call_tool("search_tools", query, meta=meta)
        found.extend(json.loads(answer.content[0].text)["tools"])
        given = {"tool": "files:read_file", "arguments": {"path": SECRET}}
        await client.call_tool("call_destructive_tool", given, meta=meta)
        given = {"tool": "files:fail", "arguments": {"path": SECRET}}
        with pytest.raises(MCPError, match=SECRET):
            await client.call_tool("call_tool", given, meta=meta)
    until(lambda: collector.named("tools/call call_tool"), "the spans have come")
    spans = collector.spans
    [search] = collector.named("search", TRACE)
    assert parent_of(search, spans) == "tools/call search_tools"
    [served] = collector.named("tools/call search_tools", TRACE)
    assert served.kind == 2  # a server's
    assert attributes(served)["mcp.method.name"] == "tools/call"
    assert attributes(served)["gen_ai.tool.name"] == "search_tools"
    assert attributes(search)["toolscript.hits"] == len(found) > 0
    [words], [score] = collector.named("candidates.words"), collector.named("score")
    assert [parent_of(each, spans) for each in (words, score)] == ["search", "search"]
    [fused] = collector.named("fuse_signals")
    assert parent_of(fused, spans) == "score"

    [call] = collector.named("tools/call files__read_file", TRACE)
    assert parent_of(call, spans) == "tools/call call_destructive_tool"
    told = attributes(call)
    assert told["mcp.method.name"] == "tools/call"
    assert (told["gen_ai.tool.name"], told["toolscript.server"]) == ("read_file", "files")
    [sent] = collector.named("MCP send tools/call read_file", TRACE)
    assert (sent.kind, parent_of(sent, spans)) == (3, call.name)  # a client's
    first = json.loads((tmp_path / "calls").read_text("utf-8").splitlines()[0])
    assert first["_meta"]["traceparent"] == f"00-{TRACE}-{sent.span_id.hex()}-01"
    assert first["_meta"]["tracestate"] == "vendor=1"

    [failed] = collector.named("tools/call files__fail", TRACE)
    assert failed.status.code == 2
    assert attributes(failed)["error.type"] == "RefusedError"
    assert SECRET.encode() not in collector.raw
    assert b"toolscript" in collector.raw


def test_requests_over_http_continue_their_callers_trace(traced: Cli, collector: Collector) -> None:
    url = traced.record()["url"]
    headers = {"traceparent": TRACEPARENT, "Content-Type": "application/json"}
    assert fetch(url, "/search", {"q": f"read_file {SECRET}"}, headers=headers)[0] == 200
    body = json.dumps({"path": SECRET}).encode()
    called = fetch(url, "/tools/files__read_file", method="POST", headers=headers, body=body)
    assert called[0] == 200
    until(lambda: collector.named("tools/call files__read_file"), "the spans have come")
    for name in ("search", "tools/call files__read_file"):
        [span] = collector.named(name, TRACE)
        assert span.parent_span_id.hex() == PARENT
    assert SECRET.encode() not in collector.raw


def test_what_is_left_is_sent_when_the_gateway_ends(traced: Cli, collector: Collector) -> None:
    """Also where nobody takes it: that costs the gateway's end a few seconds at most."""
    assert traced("gateway", "stop").returncode == 0
    traced.env["OTEL_BSP_SCHEDULE_DELAY"] = "600000"
    url = traced.start_gateway()
    assert fetch(url, "/search", {"q": "read_file"})[0] == 200
    assert not collector.named("search")
    assert traced("gateway", "stop").returncode == 0
    assert collector.named("search")
    traced.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    url = traced.start_gateway()
    assert fetch(url, "/search", {"q": "read_file"})[0] == 200
    assert traced("gateway", "stop").returncode == 0


@pytest.mark.parametrize("more", [{}, {"OTEL_SDK_DISABLED": "true"}])
@pytest.mark.anyio
async def test_without_an_endpoint_a_clients_trace_is_passed_on_as_it_is(
    cli: Cli, scripted: Scripted, collector: Collector, tmp_path: Path, more: dict[str, str]
) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url} if more else {}
    cli.env = FUZZY | endpoint | more
    cli.configure(files=scripted(READ_FILE, calls=str(tmp_path / "calls")))
    url = cli.start_gateway()
    async with Client(f"{url}/mcp") as client:
        meta: Any = {"traceparent": TRACEPARENT}
        given: dict[str, Any] = {"tool": "files:read_file", "arguments": {}}
        await client.call_tool("call_destructive_tool", given, meta=meta)
    assert (
        json.loads((tmp_path / "calls").read_text("utf-8"))["_meta"]["traceparent"] == TRACEPARENT
    )
    assert cli("gateway", "stop").returncode == 0
    assert not collector.spans


def test_no_exporter_is_imported_while_it_is_off() -> None:
    """Nor by a start that is asked for traces without the extra: that says what to install."""
    script = (
        "import sys, toolscript.surfaces.http.gateway_process as process, toolscript.bootstrap\n"
        "process._exporting({})\n"
        "parts = ('opentelemetry.sdk', 'opentelemetry.exporter')\n"
        "print([name for name in sys.modules if name.startswith(parts)])\n"
        "sys.modules['opentelemetry.sdk'] = None\n"
        "process._exporting({'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://127.0.0.1:9'})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
    assert " -m pip install 'opentelemetry-sdk" in done.stderr


@pytest.fixture
def recorded() -> Generator[InMemorySpanExporter]:
    """The spans of this process, on their way out."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(SpansWithoutTexts(memory)))
    tracing.use(provider.get_tracer("toolscript"))
    yield memory
    tracing.use(None)
    provider.shutdown()


def test_texts_of_errors_and_long_names_do_not_leave(recorded: InMemorySpanExporter) -> None:
    def failing() -> None:
        with tracing.span("x" * 1000):
            raise ValueError(SECRET)

    with pytest.raises(ValueError, match=SECRET):
        failing()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(SpansWithoutTexts(recorded)))

    def failing_like_the_sdk() -> None:
        with provider.get_tracer("mcp-python-sdk").start_as_current_span("\x1b[31m"):
            raise ValueError(SECRET)

    with pytest.raises(ValueError, match=SECRET):
        failing_like_the_sdk()
    ours, theirs = recorded.get_finished_spans()
    assert len(ours.name) <= MAX_NAME_CHARS
    assert dict(ours.attributes or {}) == {"error.type": "ValueError"}
    assert "\x1b" not in theirs.name
    assert not re.search(SECRET, ours.to_json() + theirs.to_json())
