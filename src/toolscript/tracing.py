"""Spans of OpenTelemetry: how long each step took, in a request that goes through several programs.

Until `use` is called, tracing is off: spans are OpenTelemetry's own that record nothing. A span has
names and numbers only, never a question, arguments, a result or an error's text.
"""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

from opentelemetry import context
from opentelemetry.trace import INVALID_SPAN, Span, StatusCode, Tracer

from toolscript.types import SEPARATOR

Attribute: TypeAlias = str | int | bool

_tracer: Tracer | None = None
_OFF = nullcontext(INVALID_SPAN)


def use(tracer: Tracer | None) -> None:
    """Records spans with this tracer from now on; None turns tracing off."""
    global _tracer  # noqa: PLW0603 - of the process, as OpenTelemetry's own
    _tracer = tracer


def span(
    name: str, /, attributes: Mapping[str, Attribute] | None = None
) -> AbstractContextManager[Span]:
    """Returns a context manager that is a span within the current one.

    An error that leaves it is noted by its type.
    """
    if _tracer is None:  # a search has some ten spans, of which each would take 4 microseconds
        return _OFF
    return _record(_tracer, name, attributes)


@contextmanager
def _record(
    tracer: Tracer, name: str, attributes: Mapping[str, Attribute] | None
) -> Generator[Span]:
    with tracer.start_as_current_span(
        name,
        attributes=dict(attributes or {}),
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except Exception as error:
            fail(current, type(error).__qualname__)
            raise


def fail(span: Span, kind: str) -> None:
    """Marks the work of a span as failed; ``kind`` is the attribute ``error.type``."""
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def tool_call(server: str, tool: str) -> AbstractContextManager[Span]:
    """Returns the span of a call to a server, by the MCP conventions of OpenTelemetry."""
    attributes = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "toolscript.server": server,
    }
    return span(f"tools/call {server}{SEPARATOR}{tool}", attributes)


@contextmanager
def continued(carrier: Mapping[str, str]) -> Generator[None]:
    """Returns a context manager in which spans belong to the trace of a request's headers."""
    if _tracer is None:
        yield
        return
    from opentelemetry.propagate import extract  # noqa: PLC0415 - only while tracing is on

    token = context.attach(extract(carrier))
    try:
        yield
    finally:
        context.detach(token)
