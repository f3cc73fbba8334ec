"""Made-up requests through every door of a gateway.

``http`` makes requests from the OpenAPI document (schemathesis), those that fit it and those that
do not. ``page`` asks for screens and sends forms. The others send JSON-RPC in which anything may
be anything (hypothesis), over ``/mcp`` with ids of sessions that are open, sealed by another
gateway, damaged or ended. A fault is a status of 500, another one of 5xx without an error of ours
as its cause, an answer that does not fit the document, a page without its policy, a traceback, or
no answer in time. After each door a good request has to be answered, and memory and descriptors
have to be about what they were.
"""

import http.client
from pathlib import Path

import psutil
import pytest

from tests.endurance import fuzz_doors as doors
from tests.endurance.effort import Effort
from tests.endurance.fuzz_doors import Door, Target
from tests.endurance.fuzz_result import Result
from tests.gateways import configure, gateway, scripted

_TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "erase", "inputSchema": {"type": "object", "required": ["what"]}},
]
_SETTINGS = {"TOOLSCRIPT_SEARCH_MODEL": "bundled", "TOOLSCRIPT_APPROVAL_TIMEOUT": "0.1"}
_PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.mark.parametrize(
    "door", [doors.http_routes, doors.page, doors.mcp, doors.message, doors.stdio]
)
def test_made_up_requests_find_no_fault(tmp_path: Path, door: Door, effort: Effort) -> None:
    """No 5xx without a cause, no traceback, no hang, no growth; answers fit the document."""
    cases = effort.times(2_000, 60)
    configure(tmp_path, {"s": scripted(tools=_TOOLS)})
    with gateway(tmp_path, **_SETTINGS) as started:
        process = psutil.Process(started.pid)
        result = Result()
        door(Target(started.url, tmp_path, cases // 20, effort.seed + 1), result)
        result.growth_mib, result.cases = 0.0, 0
        memory, descriptors = process.memory_info().rss, process.num_fds()
        door(Target(started.url, tmp_path, cases, effort.seed), result)
        grown = (process.memory_info().rss - memory) / 2**20
        result.growth_mib = max(result.growth_mib, grown)
        result.descriptors = process.num_fds() - descriptors
        status, *_ = doors.ask(started.url, "/message", _PING, {"Content-Type": "application/json"})
        assert status == http.client.OK
    for log in tmp_path.rglob("logs/*.log"):
        assert "Traceback" not in log.read_text("utf-8", "replace")
    assert result.faults == []
    assert result.is_clean, (result.growth_mib, result.descriptors)
    assert result.cases >= cases // 2
