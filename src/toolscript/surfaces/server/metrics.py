"""``GET /metrics``: what a gateway does, in numbers, for Prometheus.

Labels are routes, statuses, and the names and states of configured servers, so
there are only so many of them, and nothing that anybody asked or sent is one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.responses import Response

from toolscript.app.application import App
from toolscript.surfaces.server.authentication import Access
from toolscript.surfaces.server.event_loop_lag import EventLoopLag
from toolscript.surfaces.server.request_log import Ended, RequestStats
from toolscript.types import ServerStatus

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_MISSING = "metrics need one more package; install it with: pip install 'toolscript[metrics]'"


async def metrics_response(
    app: App, access: Access, traffic: RequestStats, pulse: EventLoopLag
) -> Response:
    """The answer, of what the caller may see. Raises `HTTPException` (501) without the library.

    Who is not granted everything is told of their own requests, and nothing of the process.
    """
    grant = access.grant
    pulse.want()
    statuses = app.servers(grant)
    tools = app.health(grant).tools
    try:
        # Importing the library takes a tenth of a second: not on the event loop.
        await anyio.to_thread.run_sync(_load)
    except ImportError:
        raise HTTPException(501, _MISSING) from None
    servers = _of_servers(statuses, tools)
    if not grant.is_everything:
        return _told([*servers, *_of_requests(traffic.by_holder[access.holder])])
    whole = [*servers, *_of_requests(traffic.all), _running(traffic), *_of_loop(pulse)]
    return _told(whole, process=True)


def _load() -> None:
    import prometheus_client  # noqa: F401, PLC0415  # pyright: ignore[reportUnusedImport] - for later


def _told(families: Sequence["Metric"], *, process: bool = False) -> Response:
    from prometheus_client import (  # noqa: PLC0415 - an extra
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        ProcessCollector,
        generate_latest,
    )
    from prometheus_client.registry import Collector  # noqa: PLC0415

    class Collected(Collector):
        def collect(self) -> Iterable["Metric"]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    if process:
        ProcessCollector(registry=registry)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _of_servers(statuses: Sequence[ServerStatus], tools: int) -> list["Metric"]:
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

    states = GaugeMetricFamily("toolscript_servers", "Servers by state", labels=["state"])
    for state, number in sorted(Counter(status.state for status in statuses).items()):
        states.add_metric([state], number)
    up = GaugeMetricFamily("toolscript_server_up", "Whether it is ready", labels=["server"])
    listed = GaugeMetricFamily("toolscript_server_tools", "Tools it lists", labels=["server"])
    for status in statuses:
        up.add_metric([status.name], status.state == "ready")
        listed.add_metric([status.name], status.tools)
    found = GaugeMetricFamily("toolscript_tools", "Tools that can be found", value=tools)
    return [states, up, listed, found]


def _of_requests(requests: Ended) -> list["Metric"]:
    from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415

    labels = ["route", "status"]
    ended = CounterMetricFamily("toolscript_requests", "Requests that have ended", labels=labels)
    took = CounterMetricFamily("toolscript_request_seconds", "Time they took", labels=labels)
    for (route, status), seconds in sorted(requests.seconds.items()):
        ended.add_metric([route, str(status)], requests.number[route, status])
        took.add_metric([route, str(status)], seconds)
    return [ended, took]


def _running(traffic: RequestStats) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

    name = "toolscript_requests_running"
    return GaugeMetricFamily(name, "Requests under way", value=traffic.running)


def _of_loop(pulse: EventLoopLag) -> list["Metric"]:
    from prometheus_client.core import HistogramMetricFamily  # noqa: PLC0415

    late = HistogramMetricFamily(
        "toolscript_event_loop_lag_seconds", "How late the event loop came round"
    )
    late.add_metric([], pulse.late.buckets(), pulse.late.total)
    worked = HistogramMetricFamily(
        "toolscript_event_loop_lag_cpu_seconds", "The part of it in which its thread computed"
    )
    worked.add_metric([], pulse.worked.buckets(), pulse.worked.total)
    return [late, worked]
