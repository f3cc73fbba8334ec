"""What the types of the HTTP routes have in common: kinds of fields, and what describes them."""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta

Json: TypeAlias = dict[str, Any]
Count = Annotated[int, Meta(ge=0)]
Ratio = Annotated[float, Meta(ge=0, le=1)]
SCHEMA_REF = "#/components/schemas/{name}"


def about(description: str) -> Meta:
    """Returns what describes a field in schemas and in the reference."""
    return Meta(description=description)
