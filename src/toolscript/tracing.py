"""Spans of OpenTelemetry: what took how long, in a request that goes through several programs.

Until `use` is called, tracing is off: then a `span` costs nothing, and OpenTelemetry is not
imported. A span has names and numbers only, never a question, arguments, a result or an error's
text.
"""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol, TypeAlias

from toolscript.types import SEPARATOR

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer

Attribute: TypeAlias = str | int | bool


class Span(Protocol):
    """A piece of work that is under way."""

    def set_attribute(self, key: str, value: Attribute, /) -> None:
        """Says something about the work: a name or a number."""
        ...

    def fail(self, kind: str) -> None:
        """Marks the work as failed; ``kind`` is the attribute ``error.type``."""
        ...


class _NoSpan:
    """Stands for every span while tracing is off."""

    def set_attribute(self, key: str, value: Attribute, /) -> None:
        """See `Span`."""

    def fail(self, kind: str) -> None:
        """See `Span`."""


_OFF: AbstractContextManager[Span] = nullcontext(_NoSpan())
_tracer: "Tracer | None" = None


def use(tracer: "Tracer | None") -> None:
    """Records spans with this tracer from now on; None turns tracing off."""
    global _tracer  # noqa: PLW0603 - of the process, as OpenTelemetry's own
    _tracer = tracer


def span(
    name: str, /, attributes: Mapping[str, Attribute] | None = None
) -> AbstractContextManager[Span]:
    """Returns a context manager that is a span within the current one.

    An error that leaves it is noted by its type.
    """
    return _OFF if _tracer is None else _recorded(_tracer, name, attributes)


def tool_call(server: str, tool: str) -> AbstractContextManager[Span]:
    """Returns the span of a call to a server, by the MCP conventions of OpenTelemetry."""
    attributes = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "toolscript.server": server,
    }
    return span(f"tools/call {server}{SEPARATOR}{tool}", attributes)


def continued(carrier: Mapping[str, str]) -> AbstractContextManager[object]:
    """Returns a context manager in which spans belong to the trace of a request's headers."""
    return _OFF if _tracer is None else _attached(carrier)


@contextmanager
def _recorded(
    tracer: "Tracer", name: str, attributes: Mapping[str, Attribute] | None
) -> Generator[Span]:
    with tracer.start_as_current_span(
        name,
        attributes=dict(attributes or {}),
        record_exception=False,
        set_status_on_exception=False,
    ) as recorded:
        current = _Recorded(recorded)
        try:
            yield current
        except Exception as error:
            current.fail(type(error).__qualname__)
            raise


class _Recorded:
    """A span of OpenTelemetry's."""

    def __init__(self, span: "OtelSpan") -> None:
        self._span = span

    def set_attribute(self, key: str, value: Attribute, /) -> None:
        """See `Span`."""
        self._span.set_attribute(key, value)

    def fail(self, kind: str) -> None:
        """See `Span`."""
        from opentelemetry.trace import StatusCode  # noqa: PLC0415 - only where tracing is on

        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR)


@contextmanager
def _attached(carrier: Mapping[str, str]) -> Generator[None]:
    from opentelemetry import context  # noqa: PLC0415 - only where tracing is on
    from opentelemetry.propagate import extract  # noqa: PLC0415

    token = context.attach(extract(carrier))
    try:
        yield
    finally:
        context.detach(token)
