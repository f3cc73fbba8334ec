"""Types of fields, and descriptions, that the HTTP requests and responses share."""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta

Json: TypeAlias = dict[str, Any]
Count = Annotated[int, Meta(ge=0)]
Ratio = Annotated[float, Meta(ge=0, le=1)]
SCHEMA_REF = "#/components/schemas/{name}"


def about(description: str) -> Meta:
    """Returns what describes a field in schemas and in the reference."""
    return Meta(description=description)
