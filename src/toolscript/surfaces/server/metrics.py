"""Renders what a gateway does as metrics for Prometheus: the answer of ``GET /metrics``.

Importing it raises `ImportError` without the extra ``metrics``, and takes a tenth of a second.
Labels are routes, statuses, and the names and states of configured servers: there are only so
many of them, and none is text that a caller sent.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.responses import Response

from toolscript.app.application import App
from toolscript.surfaces.server.authentication import Access
from toolscript.surfaces.server.event_loop_lag import EventLoopLag
from toolscript.surfaces.server.request_log import RequestCounts, RequestStats
from toolscript.types import ServerStatus


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def metrics_response(app: App, access: Access, stats: RequestStats, lag: EventLoopLag) -> Response:
    """Returns the metrics of what the caller may see.

    A caller who is not granted everything sees their own requests, and nothing of the process.
    """
    grant = access.grant
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(_servers(app.catalogue(grant).servers(), app.health(grant).tools)))
    if grant.is_everything:
        registry.register(_Families([*_requests(stats.total), *_process(stats, lag)]))
        ProcessCollector(registry=registry)
    else:
        registry.register(_Families(_requests(stats.by_holder[access.holder])))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _servers(statuses: Sequence[ServerStatus], tools: int) -> Iterator[Metric]:
    states = GaugeMetricFamily("toolscript_servers", "Servers by state", labels=["state"])
    for state, number in sorted(Counter(status.state for status in statuses).items()):
        states.add_metric([state], number)
    up = GaugeMetricFamily("toolscript_server_up", "Whether it is ready", labels=["server"])
    listed = GaugeMetricFamily("toolscript_server_tools", "Tools it lists", labels=["server"])
    for status in statuses:
        up.add_metric([status.name], status.state == "ready")
        listed.add_metric([status.name], status.tools)
    yield from (states, up, listed)
    yield GaugeMetricFamily("toolscript_tools", "Tools that can be found", value=tools)


def _requests(counts: RequestCounts) -> Iterator[Metric]:
    labels = ["route", "status"]
    ended = CounterMetricFamily("toolscript_requests", "Requests that have ended", labels=labels)
    took = CounterMetricFamily("toolscript_request_seconds", "Time they took", labels=labels)
    for (route, status), seconds in sorted(counts.seconds.items()):
        ended.add_metric([route, str(status)], counts.number[route, status])
        took.add_metric([route, str(status)], seconds)
    yield from (ended, took)


def _process(stats: RequestStats, lag: EventLoopLag) -> Iterator[Metric]:
    name = "toolscript_requests_running"
    yield GaugeMetricFamily(name, "Requests under way", value=stats.running)
    for name, what, histogram in (
        ("toolscript_event_loop_lag_seconds", "How late the event loop was", lag.lag),
        ("toolscript_event_loop_lag_cpu_seconds", "The part in which it computed", lag.cpu),
    ):
        family = HistogramMetricFamily(name, what)
        family.add_metric([], histogram.buckets(), histogram.total_s)
        yield family
