"""Sends the spans of a gateway to a collector, by OTLP over HTTP: the extra ``otel``.

The variables of OpenTelemetry tell the address, the interval and the share of the traces.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from os import environ

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status

from toolscript import tracing
from toolscript.text.display import printable
from toolscript.version import __version__

MAX_NAME_CHARS = 200
"""Limit of a span's name or a text in it: a client may make up any name of a tool."""
_SHUTDOWN_MS = 3_000
"""How long the last spans may take to be sent."""


class SpansWithoutTexts(SpanExporter):
    """Exports spans without the texts of errors, in which a server may repeat arguments.

    The MCP SDK records them.

    Args:
        exporter: Gets the remaining spans.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See `SpanExporter`."""
        return self._exporter.export([_without_texts(span) for span in spans])

    def shutdown(self) -> None:
        """See `SpanExporter`."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """See `SpanExporter`."""
        return self._exporter.force_flush(timeout_millis)


def _without_texts(span: ReadableSpan) -> ReadableSpan:
    return ReadableSpan(
        name=printable(span.name, MAX_NAME_CHARS),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=span.attributes,
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def provider_for(exporter: SpanExporter) -> TracerProvider:
    """Returns a provider whose spans go to ``exporter``, without texts."""
    named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": "toolscript"}
    provider = TracerProvider(
        resource=Resource.create({"service.version": __version__, **named}),
        span_limits=SpanLimits(max_span_attribute_length=MAX_NAME_CHARS),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(SpansWithoutTexts(exporter)))
    return provider


@contextmanager
def exporting() -> Generator[None]:
    """Export the spans of this process for as long as the block lasts."""
    provider = provider_for(OTLPSpanExporter())
    trace.set_tracer_provider(provider)  # the MCP SDK's spans, too
    tracing.use(provider.get_tracer("toolscript", __version__))
    try:
        yield
    finally:
        tracing.use(None)
        provider.force_flush(_SHUTDOWN_MS)
        provider.shutdown()
