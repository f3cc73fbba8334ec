"""Renders a gateway's figures as metrics for Prometheus: the answer of ``GET /metrics``.

Importing it raises `ImportError` without the extra ``metrics``, and takes a tenth of a second.
Labels are routes, statuses, and the names and states of configured servers: there are only so
many of them, and none is text that a caller sent.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from toolscript.app.application import App
from toolscript.gateway.base import DatabaseState
from toolscript.surfaces.server.authentication import Access
from toolscript.surfaces.server.request_log import RequestCounts, RequestStats
from toolscript.types import ServerResources, ServerStatus

INTERVAL_S = 0.025
_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
disable_created_metrics()


class EventLoopLag:
    """Wakes up again and again, and measures how late: until then every request waits.

    It is made on the event loop when it is first asked for: an idle process should sleep.
    """

    def __init__(self) -> None:
        name = "toolscript_event_loop_lag"
        self.lag = _histogram(f"{name}_seconds", "How late the event loop was")
        """Whatever the reason, a busy machine included."""
        self.cpu = _histogram(f"{name}_cpu_seconds", "The part in which it computed")
        """The part in which the loop's own thread can have been computing."""
        self._sleep()

    def _sleep(self) -> None:
        self._began, self._computed = time.perf_counter(), time.thread_time()
        asyncio.get_running_loop().call_later(INTERVAL_S, self._wake)

    def _wake(self) -> None:
        late = max(0.0, time.perf_counter() - self._began - INTERVAL_S)
        self.lag.observe(late)
        self.cpu.observe(min(late, time.thread_time() - self._computed))
        self._sleep()


def _histogram(name: str, what: str) -> Histogram:
    return Histogram(name, what, buckets=_BOUNDS_S, registry=None)


class _Families(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def metrics_response(
    app: App,
    access: Access,
    stats: RequestStats,
    lag: EventLoopLag,
    resources: Mapping[str, ServerResources],
) -> Response:
    """Returns the metrics that the caller may see.

    A caller who is not granted everything sees their own requests, and nothing of the process.

    Args:
        app: The application whose servers and tools are counted.
        access: The caller's.
        stats: The requests so far.
        lag: The event loop's.
        resources: The use of memory and processor by server, as far as the caller may know it.
    """
    grant = access.grant
    families = [*_servers(app.catalogue(grant).servers(), app.health(grant).tools)]
    if grant.is_whole:
        families += [*_resources(resources), *_requests(stats.total), *_process(stats, lag)]
        families += _database(app.database)
    else:
        families += _requests(stats.by_holder[access.holder])
    return Response(generate_latest(_Families(families)), media_type=CONTENT_TYPE_LATEST)


def _servers(statuses: Sequence[ServerStatus], tools: int) -> Iterator[Metric]:
    states = GaugeMetricFamily("toolscript_servers", "Servers by state", labels=["state"])
    for state, number in sorted(Counter(status.state for status in statuses).items()):
        states.add_metric([state], number)
    up = GaugeMetricFamily("toolscript_server_up", "Whether it works", labels=["server"])
    listed = GaugeMetricFamily("toolscript_server_tools", "Tools it lists", labels=["server"])
    for status in statuses:
        up.add_metric([status.name], status.works)
        listed.add_metric([status.name], status.tools)
    yield from (states, up, listed)
    yield GaugeMetricFamily("toolscript_tools", "Tools that can be found", value=tools)


def _resources(resources: Mapping[str, ServerResources]) -> Iterator[Metric]:
    """Yields gauges, the processor time as well: it falls when an instance ends."""
    name, labels = "toolscript_server", ["server"]
    number = GaugeMetricFamily(f"{name}_processes", "Processes that run", labels=labels)
    memory = GaugeMetricFamily(f"{name}_memory_bytes", "Their resident sets", labels=labels)
    cpu = GaugeMetricFamily(f"{name}_cpu_seconds", "Processor time they used", labels=labels)
    for server, used in sorted(resources.items()):
        number.add_metric([server], used.processes)
        memory.add_metric([server], used.memory_bytes)
        cpu.add_metric([server], used.cpu_s)
    yield from (number, memory, cpu)


def _requests(counts: RequestCounts) -> Iterator[Metric]:
    labels = ["route", "status"]
    ended = CounterMetricFamily("toolscript_requests", "Requests that have ended", labels=labels)
    took = CounterMetricFamily("toolscript_request_seconds", "Time they took", labels=labels)
    for (route, status), seconds in sorted(counts.seconds.items()):
        ended.add_metric([route, str(status)], counts.number[route, status])
        took.add_metric([route, str(status)], seconds)
    yield from (ended, took)


def _database(state: DatabaseState | None) -> Iterator[Metric]:
    """Yields gauges of the database that gateways share; none if there is none."""
    if state is None:
        return
    name = "toolscript_database"
    yield GaugeMetricFamily(f"{name}_up", "Whether it answers", value=state.answers)
    lag = min(state.lag_s, sys.float_info.max)
    yield GaugeMetricFamily(f"{name}_lag_seconds", "Age of the last look for changes", value=lag)
    yield GaugeMetricFamily(f"{name}_connections", "Connections in use", value=state.connections)
    yield GaugeMetricFamily("toolscript_leases", "Servers listed for all", value=state.leases)
    yield GaugeMetricFamily("toolscript_replicas", "Gateways that there are", value=state.replicas)


def _process(stats: RequestStats, lag: EventLoopLag) -> Iterator[Metric]:
    name = "toolscript_requests_running"
    yield GaugeMetricFamily(name, "Requests under way", value=stats.running)
    for collector in (lag.lag, lag.cpu, ProcessCollector(registry=None)):
        yield from collector.collect()
